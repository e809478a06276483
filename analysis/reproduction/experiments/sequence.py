"""In which order the events of a circle's formation happen, in networks and in particles."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from analysis.reproduction.musat2024.structures import SYSTEMS
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
"""Which two are compared. A circle by algorithm 1 can hardly be there before the way to the polygon is half gone."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay 1, and particles with f_a = 2, of which most circles form."""
    network = RequiredRuns(ModularSettings(weight_decay=1.0), params["networks"], params.get("epochs"))
    return [network, RequiredRuns(ParticleSettings(fa=2.0), params["particles"])]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """When each event has happened in each run that ends as a circle, (event, network) and (event, particle).

    In normalised time; inf where it has not.
    """
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
    "in which order the events of a circle's formation happen, in networks and in particles",
    sizes={
        Size.QUICK: {"networks": 100, "particles": 100},
        Size.DEFAULT: {"networks": 100, "particles": 100},
        Size.FULL: {"networks": 100, "particles": 100},
    },
    seconds={Size.QUICK: 12, Size.DEFAULT: 12, Size.FULL: 12},
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
    """How often one of the first and one of the second, (circle, pair), have two events in the same order: 0..1."""
    p, q = first.mean(axis=0), second.mean(axis=0)
    return float((p * q + (1 - p) * (1 - q)).mean())


def order_agreement_within(order: np.ndarray) -> float:
    """The same of two different ones of (circle, pair)."""
    count = len(order)
    if count < 2:
        return math.nan
    total = order.sum(axis=0)
    both = total**2 - (order**2).sum(axis=0)
    neither = (count - total) ** 2 - ((1 - order) ** 2).sum(axis=0)
    return float(((both + neither) / (count * (count - 1))).mean())


def same_order(evidence: xr.Dataset) -> Estimate:
    """Percentage of pairs of events in the same order in a network's circle and a particles' circle."""
    return _of_both(evidence, lambda one, other: 100 * order_agreement_between(one, other))


def excess_same_order(evidence: xr.Dataset) -> Estimate:
    """The same less the mean of what it is within networks and within particles, in points."""
    return _of_both(
        evidence,
        lambda one, other: (
            100
            * (order_agreement_between(one, other) - (order_agreement_within(one) + order_agreement_within(other)) / 2)
        ),
    )


def _of_both(evidence: xr.Dataset, statistic: Callable[[np.ndarray, np.ndarray], float]) -> Estimate:
    """A statistic of the orders of both systems, with the jackknife over the circles of each."""
    sides = [_event_orders(evidence, system) for system in SYSTEMS]
    count = sum(map(len, sides))
    if min(map(len, sides)) < FEWEST_FOR_JACKKNIFE:
        return Estimate(NO_INTERVAL, count, "circles", note="fewer than three circles of networks or of particles")
    one, other = sides
    without = [
        np.array([statistic(np.delete(one, run, axis=0), other) for run in range(len(one))]),
        np.array([statistic(one, np.delete(other, run, axis=0)) for run in range(len(other))]),
    ]
    interval = leave_one_out_interval(statistic(one, other), without)
    return Estimate(interval, count, "circles", note=_format_event_order(evidence))


def _format_event_order(evidence: xr.Dataset) -> str:
    """The events by their mean ranks in the circles of each system."""
    told = []
    for system in SYSTEMS:
        when = evidence[f"{system}_onset"].transpose(system, "event").values
        names, ranks = evidence["event"].values, rankdata(when, axis=1).mean(axis=0)
        told.append(f"{system}s: " + ", ".join(str(names[place]) for place in np.argsort(ranks, kind="stable")))
    return "; ".join(told)
