"""The order of the events in which circles form, in networks and in particles."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from analysis.reproduction.musat2024.structures import SYSTEMS
from analysis.reproduction.verification.claim import Claim, claims_of, part
from analysis.reproduction.verification.criteria import Above, Within
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import frame_values
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import NO_INTERVAL
from analysis.statistics.resampling import FEWEST_FOR_JACKKNIFE, leave_one_out_interval
from analysis.structures import formation_times as onset_times
from analysis.structures.circles_and_grids import is_circle
from analysis.structures.formation_times import find_formation_times, structure_measures
from dynamics.settings import ModularSettings, ParticleSettings
from dynamics.trajectory.diverged import not_diverged

EVENTS = ("polygon", "circle", "imperfections", "frequency")
"""Of `analysis.structures.formation_times`, those that a circle has."""
PAIRS = tuple(each for each in combinations(range(len(EVENTS)), 2) if each != (0, 1))
"""Which two are compared. A circle by algorithm 1 can hardly form before half of the way to the polygon."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay 1 and particles with f_a = 2, which form most circles."""
    network = RequiredRuns(ModularSettings(weight_decay=1.0), params["networks"], params.get("epochs"))
    return [network, RequiredRuns(ParticleSettings(fa=2.0), params["particles"])]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Normalised time of each event in each run that ends as a circle, (event, network) and (event, particle)."""
    found = xr.Dataset(coords={"event": list(EVENTS)})
    for system, need in zip(SYSTEMS, ensembles(params), strict=True):
        trajectory = runner.ensemble(need)
        circles = np.flatnonzero(not_diverged(trajectory) & is_circle(frame_values(trajectory, "embedding", -1)))
        when = np.empty((len(EVENTS), 0))
        if len(circles):
            seen = find_formation_times(structure_measures(trajectory.isel(run=circles))).sel(event=list(EVENTS))
            when = seen["onset"].where(seen["formed"] == 1, np.inf).transpose("event", "run").values
        words = {"long_name": "normalised time at which it has formed, inf where it has not", "units": "1"}
        found[f"{system}_onset"] = (("event", system), when, words)
        found[f"{system}_seed"] = (system, trajectory["seed"].values[circles], {"long_name": "seed", "units": "1"})
    return found


SEQUENCE = Experiment(
    "own.sequence",
    "the order of the events in which circles form, in networks and in particles",
    sizes={size: {"networks": 100, "particles": 100} for size in Size},
    seconds=dict.fromkeys(Size, 12),
    measure=measure,
    ensembles=ensembles,
    depends={"events": EVENTS, "random": onset_times.RANDOM_EMBEDDINGS, "rare": onset_times.RARE},
    command="python -m analysis.formation",
)


def _event_orders(evidence: xr.Dataset, system: str) -> np.ndarray:
    """Which event of each two comes first in each circle: (circle, pair of events), 1 the first, 0 the second, else ½.

    What has not happened comes last.
    """
    when = evidence[f"{system}_onset"].transpose(system, "event").values
    order = [np.where(when[:, a] < when[:, b], 1.0, np.where(when[:, a] > when[:, b], 0.0, 0.5)) for a, b in PAIRS]
    return np.array(order).T.reshape(len(when), len(PAIRS))


def order_agreement_between(first: np.ndarray, second: np.ndarray) -> float:
    """Percentage of equal orders of one of the first and one of the second, both (circle, pair)."""
    p, q = first.mean(axis=0), second.mean(axis=0)
    return 100 * float((p * q + (1 - p) * (1 - q)).mean())


def order_agreement_within(order: np.ndarray) -> float:
    """Percentage of equal orders of two different ones of (circle, pair)."""
    count = len(order)
    if count < 2:
        return math.nan
    equal = sum(side.sum(axis=0) ** 2 - (side**2).sum(axis=0) for side in (order, 1 - order))
    return 100 * float((equal / (count * (count - 1))).mean())


def excess_agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Agreement between the first and the second less the mean of that within each, in points."""
    within = (order_agreement_within(first) + order_agreement_within(second)) / 2
    return order_agreement_between(first, second) - within


def order_agreement(evidence: xr.Dataset, statistic: Callable[[np.ndarray, np.ndarray], float]) -> Estimate:
    """A statistic of the orders in networks and in particles, with a jackknife interval over the circles of each."""
    one, other = (_event_orders(evidence, system) for system in SYSTEMS)
    count = len(one) + len(other)
    if min(len(one), len(other)) < FEWEST_FOR_JACKKNIFE:
        return Estimate(NO_INTERVAL, count, "circles", note="fewer than three circles of networks or of particles")
    without = [
        np.array([statistic(np.delete(one, run, axis=0), other) for run in range(len(one))]),
        np.array([statistic(one, np.delete(other, run, axis=0)) for run in range(len(other))]),
    ]
    interval = leave_one_out_interval(statistic(one, other), without)
    return Estimate(interval, count, "circles", note=_format_event_order(evidence))


def _format_event_order(evidence: xr.Dataset) -> str:
    """The events by their mean ranks in the circles of each system."""
    orders = []
    for system in SYSTEMS:
        ranks = rankdata(evidence[f"{system}_onset"].transpose(system, "event"), axis=1).mean(axis=0)
        names = evidence["event"].values[np.argsort(ranks, kind="stable")]
        orders.append(f"{system}s: {', '.join(map(str, names))}")
    return "; ".join(orders)


CLAIMS = claims_of(
    SEQUENCE,
    Claim(
        "OWN.sequence",
        "Circles form by the same order of events in networks and in particles.",
        "which of two events comes first: half-way to a regular polygon, circle by algorithm 1, half-way to few "
        "imperfections, one dominant frequency (the order of the first two is not counted, as it is nearly fixed). "
        "Percentage of equal orders in a network (weight decay 1) and a particle run (f_a = 2), and that less the "
        "percentage within a system",
        (
            part(order_agreement, Above(50, 10), "between systems", "%", statistic=order_agreement_between),
            part(order_agreement, Within(-10, 10), "less within systems", "points", statistic=excess_agreement),
        ),
        importance=2,
        meaning="networks and particles would reach the same structure in different ways",
    ),
)
