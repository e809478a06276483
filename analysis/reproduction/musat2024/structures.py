"""Which structures embeddings and particles end in (CA 4, 6, appendix A).

Kinds, by the distances of `analysis.structures.nearest_structures`, each told from chance as one random embedding in
a hundred is:

    circle           CA algorithm 1
    grid             no circle, and near a lattice that respects addition and has no holes
    imperfect grid   no circle, near such a lattice, but near none without holes
    neither          none of these
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.reproduction.ca_tables import end_accuracy
from analysis.reproduction.musat2024 import networks, particles
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs, frame_values
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import (
    finite_values,
    independent_difference,
    percentage_difference,
    percentage_or_none,
    stratified_difference,
)
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from analysis.structures.nearest_structures import (
    GRID_SEARCH_STARTS,
    nearest_circle,
    nearest_grid,
    nearest_perfect_grid,
)
from dynamics.randomness import normal_samples
from dynamics.settings import ModularSettings
from dynamics.trajectory.diverged import not_diverged

RANDOM_EMBEDDINGS, RARE = 1000, 0.01
KINDS = ("circle", "grid", "imperfect grid", "neither")
SYSTEMS = {"network": "weight_decay", "particle": "fa"}


def _network_runs(params: Params) -> Sequence[RequiredRuns]:
    """Networks of table 1."""
    return networks.ensembles({**params, "runs": params["networks"]})


def _particle_runs(params: Params) -> Sequence[RequiredRuns]:
    """Particles of table 2."""
    return particles.ensembles({"runs": params["particles"]})


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Both."""
    return [*_network_runs(params), *_particle_runs(params)]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Distances of end states from perfect circles and grids, (weight_decay, network) and (fa, particle)."""
    data: dict[str, tuple] = {}
    for system, needs in zip(SYSTEMS, (_network_runs(params), _particle_runs(params)), strict=True):
        rows = []
        for need in tqdm(needs, desc=f"structures of {system}s", unit="ensemble", disable=None, leave=False):
            rows.append(_ends(runner.ensemble(need)))
        dims = (SYSTEMS[system], system)
        for name, words in QUANTITIES.items():
            if name in rows[0]:
                values = np.stack([row[name] for row in rows])
                data[f"{system}_{name}"] = (dims, values, {"long_name": words, "units": "1"})
    coords = {"weight_decay": list(networks.DECAYS), "fa": list(particles.FAS)}
    found = xr.Dataset(data, coords)
    x = normal_samples(np.arange(params.get("random", RANDOM_EMBEDDINGS)), "formation/chance", (ModularSettings.n, 2))
    for name, values in structure_distances(x).items():
        attrs = {"long_name": "beyond which one random embedding in a hundred is", "units": "1"}
        found[f"chance_{name}"] = ((), float(np.quantile(values, RARE)), attrs)
    return found


QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "imperfections": "grid imperfections",
    "circle_distance": "distance from the nearest perfect circle",
    "grid_distance": "distance from the nearest grid, with holes or without",
    "perfect_distance": "distance from the nearest grid without holes",
    "accuracy": "validation accuracy, %",
}


def _ends(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """Of an ensemble, each (run,)."""
    kept = not_diverged(trajectory)
    x = frame_values(trajectory, "embedding", -1)[kept]
    found = {"circle": is_circle(x), **structure_distances(x)}
    if "accuracy" in trajectory:
        found["accuracy"] = 100 * end_accuracy(trajectory, trajectory["seed"].values[kept])
    return {name: expand_to_runs(values, kept) for name, values in found.items()}


def structure_distances(x: np.ndarray) -> dict[str, np.ndarray]:
    """Of embeddings (run, token, axis), each (run,)."""
    return {
        "imperfections": count_imperfections(x),
        "circle_distance": nearest_circle(x).distance,
        "grid_distance": nearest_grid(x).distance,
        "perfect_distance": nearest_perfect_grid(x).distance,
    }


STRUCTURES = Experiment(
    "ca.structures",
    "how near to perfect circles and grids networks and particles end",
    sizes={
        Size.QUICK: {"networks": 100, "particles": 100},
        Size.DEFAULT: {"networks": 1000, "particles": 1000, "every": 0},
        Size.FULL: {"networks": 1000, "particles": 1000, "every": 0},
    },
    seconds={Size.QUICK: 5, Size.DEFAULT: 20, Size.FULL: 20},
    measure=measure,
    ensembles=ensembles,
    depends={"random": RANDOM_EMBEDDINGS, "rare": RARE, "starts": GRID_SEARCH_STARTS},
    command="python -m analysis.formation",
)


# --------------------------------------------------------------------------------------------------- findings


def end_states_by_kind(evidence: xr.Dataset, system: str) -> dict[str, np.ndarray]:
    """Which end states are of each of the `KINDS`: by name (setting, run) bool, all false for one that diverged."""
    known = np.isfinite(evidence[f"{system}_circle"].values)
    circle = evidence[f"{system}_circle"].values == 1
    level = float(evidence["chance_grid_distance"])
    near = evidence[f"{system}_grid_distance"].values < level
    perfect = evidence[f"{system}_perfect_distance"].values < level
    return {
        "circle": circle,
        "grid": known & ~circle & perfect,
        "imperfect grid": known & ~circle & near & ~perfect,
        "neither": known & ~circle & ~near & ~perfect,
    }


def end_state_kinds(evidence: xr.Dataset, system: str, at: float, kinds: Sequence[str]) -> Estimate:
    """Percentage of end states of some kinds, at a weight decay or alignment constant."""
    row = evidence.sel({SYSTEMS[system]: [at]})
    found = end_states_by_kind(row, system)
    known = sum(int(each.sum()) for each in found.values())
    return percentage_or_none(sum(int(found[kind].sum()) for kind in kinds), known, f"{system}s")


def regular_polygon_mask(evidence: xr.Dataset, system: str) -> np.ndarray:
    """Which end states are nearer to a regular polygon than to any lattice, and nearer than by chance: bool."""
    distance = evidence[f"{system}_circle_distance"].values
    return (distance < float(evidence["chance_circle_distance"])) & (
        distance < evidence[f"{system}_grid_distance"].values
    )


def regular_circles(evidence: xr.Dataset, system: str) -> Estimate:
    """Of the circles by algorithm 1, the percentage that are regular polygons in the order of a frequency."""
    circle = evidence[f"{system}_circle"].values == 1
    return percentage_or_none(
        int((regular_polygon_mask(evidence, system) & circle).sum()), int(circle.sum()), "circles"
    )


def circular_polygons(evidence: xr.Dataset, system: str) -> Estimate:
    """Of the regular polygons, the percentage that algorithm 1 finds."""
    polygon = regular_polygon_mask(evidence, system)
    circle = evidence[f"{system}_circle"].values == 1
    return percentage_or_none(int((polygon & circle).sum()), int(polygon.sum()), "regular polygons")


def accuracy_by_kind(evidence: xr.Dataset, first: Sequence[str], second: Sequence[str]) -> Estimate:
    """Validation accuracy of networks of some kinds less that of others, within weight decays, in points.

    Seeds, which the weight decays share, are left out in turn.
    """
    found = end_states_by_kind(evidence, "network")
    one, other = (np.any([found[kind] for kind in kinds], axis=0).ravel() for kinds in (first, second))
    accuracy = evidence["network_accuracy"].values
    decays, seeds = (each.ravel() for each in np.indices(accuracy.shape))
    return stratified_difference(accuracy.ravel(), one, other, seeds, decays, "networks")


def circle_accuracy_gain(evidence: xr.Dataset, decay: float) -> Estimate:
    """Validation accuracy of circles less that of the other networks at a weight decay, in points."""
    row = evidence.sel(weight_decay=decay)
    circle, values = row["network_circle"].values, row["network_accuracy"].values
    found = independent_difference(values[circle == 1], values[circle == 0], "networks")
    told = f"{int((circle == 1).sum())} circles"
    return found._replace(note=told if np.isfinite(found.interval.value) else "there are no circles")


def circle_difference(evidence: xr.Dataset, fa: float, decay: float) -> Estimate:
    """Percentage of circles among particles less that among networks, in points."""
    rows = [
        finite_values(evidence["particle_circle"].sel(fa=fa)),
        finite_values(evidence["network_circle"].sel(weight_decay=decay)),
    ]
    return percentage_difference((int(rows[0].sum()), int(rows[1].sum())), (len(rows[0]), len(rows[1])), "runs of both")


def imperfection_difference(evidence: xr.Dataset, fa: float, decay: float) -> Estimate:
    """Mean imperfections of the particles that are no circles less those of such networks."""
    one, other = evidence.sel(fa=fa), evidence.sel(weight_decay=decay)
    particle, network = (each[f"{name}_imperfections"].where(each[f"{name}_circle"] == 0)
                         for each, name in ((one, "particle"), (other, "network")))  # fmt: skip
    return independent_difference(particle, network, "runs of both that are not circles")


def particle_circle_change(evidence: xr.Dataset, high: float, low: float) -> Estimate:
    """Percentage of circles at one alignment constant less that at another, in points."""
    rows = [finite_values(evidence["particle_circle"].sel(fa=each)) for each in (high, low)]
    return percentage_difference((int(rows[0].sum()), int(rows[1].sum())), (len(rows[0]), len(rows[1])), "simulations")
