"""Which structures embeddings and particles end in (CA 4, 6, appendices A, F), and in which order circles form.

Kinds, by the distances of `analysis.ideals`, each told from chance as one random embedding in a hundred is:

    circle           CA algorithm 1
    grid             no circle, and near a lattice that respects addition and has no holes
    imperfect grid   no circle, near such a lattice, but near none without holes
    neither          none of these
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import xarray as xr
from scipy.stats import rankdata
from tqdm import tqdm

from analysis.ideals import nearest_circle, nearest_grid, nearest_perfect_grid
from analysis.intervals import about
from analysis.onsets import measured, onsets
from analysis.plates.plate import Ensemble
from analysis.structures import imperfections, is_circle
from analysis.studies import networks, particles
from analysis.studies.ends import alive, frame, whole
from analysis.studies.samples import difference, finite, kinds_apart, mean, share_of, shares_apart
from analysis.table1 import end_accuracy
from analysis.verification.finding import NONE, Finding
from analysis.verification.study import Lab, Params, Size, Study
from dynamics.randomness import normal, stream
from dynamics.settings import ModularSettings, ParticleSettings

RANDOM_EMBEDDINGS, RARE = 1000, 0.01
KINDS = ("circle", "grid", "imperfect grid", "neither")
SYSTEMS = {"network": "weight_decay", "particle": "fa"}


def network_runs(params: Params) -> Sequence[Ensemble]:
    """Networks of table 1."""
    return networks.ensembles({**params, "runs": params["networks"]})


def particle_runs(params: Params) -> Sequence[Ensemble]:
    """Particles of table 2."""
    return particles.ensembles({"runs": params["particles"]})


def ensembles(params: Params) -> Sequence[Ensemble]:
    """Both."""
    return [*network_runs(params), *particle_runs(params)]


def measure(lab: Lab, params: Params) -> xr.Dataset:
    """Distances of end states from perfect circles and grids, (weight_decay, network) and (fa, particle)."""
    data: dict[str, tuple] = {}
    for system, needs in zip(SYSTEMS, (network_runs(params), particle_runs(params)), strict=True):
        rows = []
        for need in tqdm(needs, desc=f"structures of {system}s", unit="ensemble", disable=None, leave=False):
            rows.append(_ends(lab.ensemble(need)))
        dims = (SYSTEMS[system], system)
        for name, words in QUANTITIES.items():
            if name in rows[0]:
                values = np.stack([row[name] for row in rows])
                data[f"{system}_{name}"] = (dims, values, {"long_name": words, "units": "1"})
    coords = {"weight_decay": list(networks.DECAYS), "fa": list(particles.FAS)}
    found = xr.Dataset(data, coords)
    x = normal(np.arange(params.get("random", RANDOM_EMBEDDINGS)), "formation/chance", (ModularSettings.n, 2))
    for name, values in _distances(x).items():
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
    kept = alive(trajectory)
    x = frame(trajectory, "embedding", -1)[kept]
    found = {"circle": is_circle(x), **_distances(x)}
    if "accuracy" in trajectory:
        found["accuracy"] = 100 * end_accuracy(trajectory, trajectory["seed"].values[kept])
    return {name: whole(values, kept) for name, values in found.items()}


def _distances(x: np.ndarray) -> dict[str, np.ndarray]:
    """Of embeddings (run, token, axis), each (run,)."""
    return {
        "imperfections": imperfections(x),
        "circle_distance": nearest_circle(x).distance,
        "grid_distance": nearest_grid(x).distance,
        "perfect_distance": nearest_perfect_grid(x).distance,
    }


STRUCTURES = Study(
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
    command="python -m analysis.formation",
)


# --------------------------------------------------------------------------------------------------- findings


def of_kind(evidence: xr.Dataset, system: str) -> dict[str, np.ndarray]:
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


def kind_share(evidence: xr.Dataset, system: str, at: float, kinds: Sequence[str]) -> Finding:
    """Percentage of end states of some kinds, at a weight decay or alignment constant."""
    row = evidence.sel({SYSTEMS[system]: [at]})
    found = of_kind(row, system)
    known = sum(int(each.sum()) for each in found.values())
    return share_of(sum(int(found[kind].sum()) for kind in kinds), known, f"{system}s")


def regular(evidence: xr.Dataset, system: str) -> np.ndarray:
    """Which end states are nearer to a regular polygon than to any lattice, and nearer than by chance: bool."""
    distance = evidence[f"{system}_circle_distance"].values
    return (distance < float(evidence["chance_circle_distance"])) & (
        distance < evidence[f"{system}_grid_distance"].values
    )


def circles_that_are_regular(evidence: xr.Dataset, system: str) -> Finding:
    """Of the circles by algorithm 1, the percentage that are regular polygons in the order of a frequency."""
    circle = evidence[f"{system}_circle"].values == 1
    return share_of(int((regular(evidence, system) & circle).sum()), int(circle.sum()), "circles")


def regular_that_are_circles(evidence: xr.Dataset, system: str) -> Finding:
    """Of the regular polygons, the percentage that algorithm 1 finds."""
    polygon = regular(evidence, system)
    circle = evidence[f"{system}_circle"].values == 1
    return share_of(int((polygon & circle).sum()), int(polygon.sum()), "regular polygons")


def accuracy_by_kind(evidence: xr.Dataset, first: Sequence[str], second: Sequence[str]) -> Finding:
    """Validation accuracy of networks of some kinds less that of others, at all weight decays, in points.

    Seeds, which the weight decays share, are left out in turn.
    """
    found = of_kind(evidence, "network")
    one, other = (np.any([found[kind] for kind in kinds], axis=0).ravel() for kinds in (first, second))
    accuracy = evidence["network_accuracy"].values
    seeds = np.broadcast_to(np.arange(accuracy.shape[1]), accuracy.shape)
    return kinds_apart(accuracy.ravel(), one, other, seeds.ravel(), "networks")


def circles_apart(evidence: xr.Dataset, fa: float, decay: float) -> Finding:
    """Percentage of circles among particles less that among networks, in points."""
    rows = [finite(evidence["particle_circle"].sel(fa=fa)), finite(evidence["network_circle"].sel(weight_decay=decay))]
    return shares_apart((int(rows[0].sum()), int(rows[1].sum())), (len(rows[0]), len(rows[1])), "runs of both")


def imperfections_apart(evidence: xr.Dataset, fa: float, decay: float) -> Finding:
    """Mean imperfections of the particles that are no circles less those of such networks."""
    one, other = evidence.sel(fa=fa), evidence.sel(weight_decay=decay)
    particle, network = (each[f"{name}_imperfections"].where(each[f"{name}_circle"] == 0)
                         for each, name in ((one, "particle"), (other, "network")))  # fmt: skip
    return difference(particle, network, "runs of both that are not circles")


def more_circles(evidence: xr.Dataset, high: float, low: float) -> Finding:
    """Percentage of circles at one alignment constant less that at another, in points."""
    rows = [finite(evidence["particle_circle"].sel(fa=each)) for each in (high, low)]
    return shares_apart((int(rows[0].sum()), int(rows[1].sum())), (len(rows[0]), len(rows[1])), "simulations")


# ----------------------------------------------------------------------------------- more than two dimensions

HIGHER = (3, 4)
SHUFFLES = 20


def higher_ensembles(params: Params) -> Sequence[Ensemble]:
    """Networks with embeddings of three and four axes, with weight decay 1."""
    settings = [ModularSettings(weight_decay=1.0, dim=dim) for dim in HIGHER]
    return [Ensemble(each, params["runs"], params.get("epochs"), every=0) for each in settings]


def measure_higher(lab: Lab, params: Params) -> xr.Dataset:
    """Imperfections, and distances of projections from circles and grids, (dim, run); and by chance, (dim,)."""
    rows, chance = [], []
    for dim, need in zip(HIGHER, higher_ensembles(params), strict=True):
        trajectory = lab.ensemble(need)
        kept = alive(trajectory)
        x = frame(trajectory, "embedding", -1)[kept]
        generator, n = stream(0, "verify/tokens"), x.shape[-2]
        shuffled = np.mean([imperfections(x[:, generator.permutation(n)]) for _ in range(SHUFFLES)], axis=0)
        random = normal(np.arange(params.get("random", RANDOM_EMBEDDINGS)), "formation/chance", (n, dim))
        found = {"imperfections": imperfections(x), "chance_imperfections": shuffled, **_projected(x)}
        rows.append({name: whole(values, kept) for name, values in found.items()})
        by_chance = {"imperfections": imperfections(random), **_projected(random)}
        chance.append({name: np.quantile(values, RARE) for name, values in by_chance.items()})
    result = xr.Dataset(coords={"dim": list(HIGHER)})
    for name, words in HIGHER_QUANTITIES.items():
        result[name] = (("dim", "run"), np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
        if name in chance[0]:
            attrs = {"long_name": "below which one random embedding in a hundred is", "units": "1"}
            result[f"rare_{name}"] = (("dim",), np.array([row[name] for row in chance]), attrs)
    return result


HIGHER_QUANTITIES = {
    "imperfections": "grid imperfections",
    "chance_imperfections": "mean grid imperfections with tokens renamed at random",
    "circle_distance": "least distance of a projection on two axes from a perfect circle",
    "grid_distance": "least distance of a projection on two axes from a grid",
}


def _projected(x: np.ndarray) -> dict[str, np.ndarray]:
    """The least distances over the projections on pairs of axes, which appendix F shows: (run, token, axis) -> (run,).

    Along the axes as they are and along the principal ones, since the paper's axes are no different from any others.
    """
    centred = x - x.mean(axis=-2, keepdims=True)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].mT
    planes = [each[..., list(axes)] for each in (x, turned) for axes in combinations(range(x.shape[-1]), 2)]
    return {
        "circle_distance": np.min([nearest_circle(plane).distance for plane in planes], axis=0),
        "grid_distance": np.min([nearest_grid(plane).distance for plane in planes], axis=0),
    }


APPENDIX_F = Study(
    "ca.appF",
    "structures of networks with embeddings of three and four axes",
    sizes={
        Size.QUICK: {"runs": 40, "random": 300},
        Size.DEFAULT: {"runs": 100},
        Size.FULL: {"runs": 100},
    },
    seconds={Size.QUICK: 8, Size.DEFAULT: 25, Size.FULL: 25},
    measure=measure_higher,
    ensembles=higher_ensembles,
    command="python -m analysis.paper ca-f",
)


def few_imperfections(evidence: xr.Dataset, dim: int) -> Finding:
    """Percentage of networks with fewer imperfections than one random embedding in a hundred has."""
    row = evidence.sel(dim=dim)
    values = finite(row["imperfections"])
    return share_of(int((values < float(row["rare_imperfections"])).sum()), len(values), "networks")


def imperfections_against_chance(evidence: xr.Dataset, dim: int) -> Finding:
    """Imperfections as a percentage of those that the same places have with tokens renamed."""
    row = evidence.sel(dim=dim)
    return mean(100 * row["imperfections"] / row["chance_imperfections"], "networks")


def with_a_structure(evidence: xr.Dataset, dim: int) -> Finding:
    """Percentage of networks a projection of which is nearer to a circle or grid than by chance."""
    row = evidence.sel(dim=dim).dropna("run", subset=["imperfections"])
    near = [row[name].values < float(row[f"rare_{name}"]) for name in ("circle_distance", "grid_distance")]
    return share_of(int((near[0] | near[1]).sum()), row.sizes["run"], "networks")


# ------------------------------------------------------------------------------------------ order of events

EVENTS = ("polygon", "circle", "imperfections", "frequency")
"""Of `analysis.onsets`, those that a circle has."""
PAIRS = tuple(each for each in combinations(range(len(EVENTS)), 2) if each != (0, 1))
"""Which two are compared. A circle by algorithm 1 can hardly be there before the way to the polygon is half gone."""


def sequence_ensembles(params: Params) -> Sequence[Ensemble]:
    """Networks with weight decay 1, and particles with f_a = 2, of which most circles form."""
    network = Ensemble(ModularSettings(weight_decay=1.0), params["networks"], params.get("epochs"))
    return [network, Ensemble(ParticleSettings(fa=2.0), params["particles"])]


def measure_sequence(lab: Lab, params: Params) -> xr.Dataset:
    """When each event has happened in each run that ends as a circle, (event, network) and (event, particle).

    In normalised time; inf where it has not.
    """
    found = xr.Dataset(coords={"event": list(EVENTS)})
    for system, need in zip(SYSTEMS, sequence_ensembles(params), strict=True):
        trajectory = lab.ensemble(need)
        circles = np.flatnonzero(alive(trajectory) & is_circle(frame(trajectory, "embedding", -1)))
        when = np.empty((len(EVENTS), 0))
        if len(circles):
            seen = onsets(measured(trajectory.isel(run=circles))).sel(event=list(EVENTS))
            when = seen["onset"].where(seen["formed"] == 1, np.inf).transpose("event", "run").values
        words = {"long_name": "normalised time at which it has formed, inf where it has not", "units": "1"}
        found[f"{system}_onset"] = (("event", system), when, words)
        found[f"{system}_seed"] = (system, trajectory["seed"].values[circles], {"long_name": "seed", "units": "1"})
    return found


SEQUENCE = Study(
    "own.sequence",
    "in which order the events of a circle's formation happen, in networks and in particles",
    sizes={
        Size.QUICK: {"networks": 100, "particles": 100},
        Size.DEFAULT: {"networks": 100, "particles": 100},
        Size.FULL: {"networks": 100, "particles": 100},
    },
    seconds={Size.QUICK: 12, Size.DEFAULT: 12, Size.FULL: 12},
    measure=measure_sequence,
    ensembles=sequence_ensembles,
    command="python -m analysis.formation",
)


def orders(evidence: xr.Dataset, system: str) -> np.ndarray:
    """Which event of each two comes first in each circle: (circle, pair of events), 1 the first, 0 the second, else ½.

    What has not happened comes last.
    """
    when = evidence[f"{system}_onset"].transpose(system, "event").values
    order = [np.where(when[:, a] < when[:, b], 1.0, np.where(when[:, a] > when[:, b], 0.0, 0.5)) for a, b in PAIRS]
    return np.array(order).T.reshape(len(when), len(PAIRS))


def agreement(first: np.ndarray, second: np.ndarray) -> float:
    """How often one of the first and one of the second, (circle, pair), have two events in the same order: 0..1."""
    p, q = first.mean(axis=0), second.mean(axis=0)
    return float((p * q + (1 - p) * (1 - q)).mean())


def agreement_within(order: np.ndarray) -> float:
    """The same of two different ones of (circle, pair)."""
    count = len(order)
    if count < 2:
        return math.nan
    total = order.sum(axis=0)
    both = total**2 - (order**2).sum(axis=0)
    neither = (count - total) ** 2 - ((1 - order) ** 2).sum(axis=0)
    return float(((both + neither) / (count * (count - 1))).mean())


def same_order(evidence: xr.Dataset) -> Finding:
    """Percentage of pairs of events in the same order in a network's circle and a particles' circle."""
    return _of_both(evidence, lambda one, other: 100 * agreement(one, other))


def same_order_as_within(evidence: xr.Dataset) -> Finding:
    """The same less the mean of what it is within networks and within particles, in points."""
    return _of_both(
        evidence,
        lambda one, other: 100 * (agreement(one, other) - (agreement_within(one) + agreement_within(other)) / 2),
    )


def _of_both(evidence: xr.Dataset, statistic: Callable[[np.ndarray, np.ndarray], float]) -> Finding:
    """A statistic of the orders of both systems, with the jackknife over the circles of each."""
    sides = [orders(evidence, system) for system in SYSTEMS]
    count = sum(map(len, sides))
    if min(map(len, sides)) < 3:
        return Finding(NONE, count, "circles", note="fewer than three circles of networks or of particles")
    value, variance = statistic(sides[0], sides[1]), 0.0
    for place, side in enumerate(sides):
        left = []
        for run in range(len(side)):
            both = list(sides)
            both[place] = np.delete(side, run, axis=0)
            left.append(statistic(both[0], both[1]))
        variance += (len(side) - 1) / len(side) * float(((np.array(left) - np.mean(left)) ** 2).sum())
    interval = about(value, math.sqrt(variance), min(map(len, sides)) - 1)
    return Finding(interval, count, "circles", note=order_in_words(evidence))


def order_in_words(evidence: xr.Dataset) -> str:
    """The events by their mean ranks in the circles of each system."""
    told = []
    for system in SYSTEMS:
        when = evidence[f"{system}_onset"].transpose(system, "event").values
        names, ranks = evidence["event"].values, rankdata(when, axis=1).mean(axis=0)
        told.append(f"{system}s: " + ", ".join(str(names[place]) for place in np.argsort(ranks, kind="stable")))
    return "; ".join(told)
