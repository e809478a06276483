"""CA sections 4 and 6, figures 1, 2 and 5, appendix A: structures in which networks and
particles end.

Kinds of end states, by the distances of `analysis.structures.nearest_structures`. Near
means nearer than 99% of random embeddings:

    circle           circle by CA algorithm 1
    grid             no circle; near a grid that respects addition and has no holes
    imperfect grid   no circle; near such a grid only if it may have holes
    neither          none of these
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.musat2024 import networks, particle_claims
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    frame_values,
    measure_ensembles,
    samples,
    selected_values,
)
from analysis.structures import nearest_structures
from analysis.structures.structure_tables import end_accuracy
from dynamics.randomness import normal_samples

RANDOM_EMBEDDINGS, RARE = 1000, 0.01
RARE_ATTRS = {"long_name": "quantile of random embeddings at 1%", "units": "1"}
SYSTEMS = {"network": "weight_decay", "particle": "fa"}
"""The two systems with the setting of their ensembles."""
CASES = {"network": "networks", "particle": "simulations of 17 particles"}

QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "imperfections": "grid imperfections",
    "circle_distance": "distance from the nearest perfect circle",
    "grid_distance": "distance from the nearest grid, with or without holes",
    "perfect_distance": "distance from the nearest grid without holes",
}


Measures = Callable[[np.ndarray], Mapping[str, np.ndarray]]


def rare_values(
    measures: Measures, params: Params, shape: tuple[int, int]
) -> dict[str, float]:
    """The quantile at 1% of each measure of random embeddings of a shape (token,
    axis)."""
    x = normal_samples(
        np.arange(params.get("random", RANDOM_EMBEDDINGS)), "formation/chance", shape
    )
    return {
        name: float(np.quantile(values, RARE)) for name, values in measures(x).items()
    }


def ensembles_of(params: Params, system: str) -> Sequence[RequiredRuns]:
    """Networks of table 1, or particles of table 2."""
    module = networks if system == "network" else particle_claims
    return module.ensembles({**params, "runs": params[f"{system}s"]})


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Both."""
    return [need for system in SYSTEMS for need in ensembles_of(params, system)]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Distances of end states from perfect circles and grids, (weight_decay, network)
    and (fa, particle)."""
    systems, n = [], ensembles(params)[0].settings.n  # type: ignore[attr-defined]
    for system, setting in SYSTEMS.items():
        quantities = QUANTITIES | (
            {"accuracy": "validation accuracy, %"} if system == "network" else {}
        )
        rows = measure_ensembles(
            runner,
            ensembles_of(params, system),
            quantities,
            _measure_runs,
            (setting, system),
        )
        systems.append(rows.rename({name: f"{system}_{name}" for name in quantities}))
    rare = rare_values(structure_distances, params, (n, 2)).items()
    chance = {f"chance_{name}": ((), value, RARE_ATTRS) for name, value in rare}
    return (
        xr.merge(systems)
        .assign(chance)
        .assign_coords(weight_decay=list(networks.DECAYS), fa=list(particle_claims.FAS))
    )


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (run,)."""
    quantities = particle_claims.end_structures(trajectory)
    quantities |= structure_distances(frame_values(trajectory, "embedding", -1))
    if "accuracy" in trajectory:
        seeds = trajectory["seed"].values
        quantities["accuracy"] = 100 * end_accuracy(trajectory, seeds)
    return quantities


def structure_distances(x: np.ndarray) -> dict[str, np.ndarray]:
    """Distances of embeddings (run, token, axis) from perfect structures, each
    (run,)."""
    return {
        "circle_distance": nearest_structures.nearest_circle(x).distance,
        "grid_distance": nearest_structures.nearest_grid(x).distance,
        "perfect_distance": nearest_structures.nearest_perfect_grid(x).distance,
    }


STRUCTURES = declare_experiment(
    "ca.structures",
    measure,
    ensembles,
    depends={
        "random": RANDOM_EMBEDDINGS,
        "rare": RARE,
        "starts": nearest_structures.GRID_SEARCH_STARTS,
    },
)


def end_states_by_kind(evidence: xr.Dataset, system: str) -> dict[str, np.ndarray]:
    """Which end states are of each kind: by name (setting, run) bool, all false for a
    run that diverged."""
    circle = evidence[f"{system}_circle"].values
    near, perfect = (
        evidence[f"{system}_{name}_distance"].values
        < float(evidence["chance_grid_distance"])
        for name in ("grid", "perfect")
    )
    return {
        "circle": circle == 1,
        "grid": (circle == 0) & perfect,
        "imperfect grid": (circle == 0) & near & ~perfect,
        "neither": (circle == 0) & ~near & ~perfect,
    }


def percentage_of_kinds(
    evidence: xr.Dataset, system: str, at: float, kinds: Sequence[str]
) -> Estimate:
    """Percentage of end states of some kinds, at a weight decay or alignment
    constant."""
    by_kind = end_states_by_kind(evidence.sel({SYSTEMS[system]: at}), system)
    counts = {kind: int(states.sum()) for kind, states in by_kind.items()}
    hits = sum(counts[kind] for kind in kinds)
    return samples.percentage_or_none(hits, sum(counts.values()), CASES[system])


def overlap_with_algorithm(
    evidence: xr.Dataset, system: str, of_circles: bool
) -> Estimate:
    """Percentage of the circles of algorithm 1 that are regular polygons, or of these
    that algorithm 1 finds.

    A regular polygon is nearer to a perfect circle than to any grid, and than 99% of
    random embeddings."""
    distance = evidence[f"{system}_circle_distance"].values
    circle = evidence[f"{system}_circle"].values == 1
    near = distance < float(evidence["chance_circle_distance"])
    polygon = near & (distance < evidence[f"{system}_grid_distance"].values)
    total, of = (circle, "circles") if of_circles else (polygon, "regular polygons")
    hits = int((polygon & circle).sum())
    return samples.percentage_or_none(hits, int(total.sum()), of)


def accuracy_by_kind(
    evidence: xr.Dataset, first: Sequence[str], second: Sequence[str]
) -> Estimate:
    """Validation accuracy of networks of some kinds minus that of others, within weight
    decays, in points."""
    by_kind = end_states_by_kind(evidence, "network")
    sides = (np.any([by_kind[kind] for kind in side], 0) for side in (first, second))
    return networks.difference_within_decays(
        evidence["network_accuracy"].values, *sides
    )


def imperfection_difference(evidence: xr.Dataset) -> Estimate:
    """Mean imperfections of particles with f_a = 1 that are not circles minus those of
    networks with weight decay 1."""
    network, particle = (
        selected_values(
            evidence,
            f"{name}_imperfections",
            where={f"{name}_circle": 0},
            fa=1.0,
            weight_decay=1.0,
        )
        for name in SYSTEMS
    )
    return samples.independent_difference(
        particle, network, "networks and simulations that are not circles"
    )
