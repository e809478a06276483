"""The order of the events in which circles form, in networks and in particles."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from analysis.reproduction.musat2024.structure_claims import SYSTEMS
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    described,
    frame_values,
)
from analysis.statistics.intervals import NO_INTERVAL
from analysis.statistics.resampling import FEWEST_FOR_JACKKNIFE, leave_one_out_interval
from analysis.structures import formation_times as onset_times
from analysis.structures.circles_and_grids import is_circle
from analysis.structures.formation_times import find_formation_times, structure_measures
from dynamics.settings import ModularSettings, ParticleSettings
from dynamics.trajectory.diverged import not_diverged

EVENTS = ("polygon", "circle", "imperfections", "frequency")
"""Of `analysis.structures.formation_times`, those that a circle has."""
PAIRS = tuple(pair for pair in combinations(range(len(EVENTS)), 2) if pair != (0, 1))
"""Which two are compared. A circle by algorithm 1 can hardly form before half of the
way to the polygon."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay 1 and particles with f_a = 2, which form most
    circles."""
    settings = params.get("settings", {})
    network = RequiredRuns(
        ModularSettings(weight_decay=1.0, **settings),
        params["networks"],
        params.get("epochs"),
    )
    return [
        network,
        RequiredRuns(ParticleSettings(fa=2.0, **settings), params["particles"]),
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Normalised time of each event in each run that ends as a circle, (event, network)
    and (event, particle)."""
    evidence = xr.Dataset(coords={"event": list(EVENTS)})
    for system, need in zip(SYSTEMS, ensembles(params), strict=True):
        trajectory = runner.ensemble(need)
        circles = np.flatnonzero(
            not_diverged(trajectory)
            & is_circle(frame_values(trajectory, "embedding", -1))
        )
        when = np.empty((len(EVENTS), 0))
        if len(circles):
            seen = find_formation_times(
                structure_measures(trajectory.isel(run=circles))
            ).sel(event=list(EVENTS))
            when = (
                seen["onset"]
                .where(seen["formed"] == 1, np.inf)
                .transpose("event", "run")
                .values
            )
        words = "normalised time at which it has formed, inf where it has not"
        evidence = evidence.merge(
            described(("event", system), {f"{system}_onset": (when, words)})
        ).merge(
            described(
                system,
                {f"{system}_seed": (trajectory["seed"].values[circles], "seed")},
            )
        )
    return evidence


SEQUENCE = declare_experiment(
    "own.sequence",
    measure,
    ensembles,
    depends={
        "events": EVENTS,
        "renamings": onset_times.RENAMINGS,
    },
)


def _event_orders(evidence: xr.Dataset, system: str) -> np.ndarray:
    """Whether the first event of each pair comes first in each circle: (circle, pair of
    events), ½ if undecided.

    What has not happened comes last.
    """
    when = evidence[f"{system}_onset"].transpose(system, "event").values
    first, second = (when[:, list(events)] for events in zip(*PAIRS, strict=True))
    return np.where(first == second, 0.5, first < second)


def order_agreement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Percentage of pairs of events in the same order, of orders (circle, pair): (first
    circle, second circle)."""
    return 100 * (first @ second.T + (1 - first) @ (1 - second).T) / first.shape[1]


def mean_agreement(
    first: np.ndarray, second: np.ndarray, within: int | None = None
) -> float:
    """Mean agreement of one of the first and one of the second; with `within`, less
    that of different circles within the first (0) or the second (1)."""
    agreement = order_agreement(first, second).mean()
    if within is not None:
        side = (first, second)[within]
        different = ~np.eye(len(side), dtype=bool)
        agreement -= order_agreement(side, side)[different].mean()
    return float(agreement)


def agreement_of_systems(evidence: xr.Dataset, within: int | None = None) -> Estimate:
    """Mean agreement of the orders in networks and in particles, with a jackknife
    interval over the circles of both; less that within one system if it is given."""
    one, other = (_event_orders(evidence, system) for system in SYSTEMS)
    count = len(one) + len(other)
    if min(len(one), len(other)) < FEWEST_FOR_JACKKNIFE:
        note = "fewer than three circles of networks or of particles"
        return Estimate(NO_INTERVAL, count, "circles", note=note)
    without = [
        np.array(
            [
                mean_agreement(np.delete(one, run, 0), other, within)
                for run in range(len(one))
            ]
        ),
        np.array(
            [
                mean_agreement(one, np.delete(other, run, 0), within)
                for run in range(len(other))
            ]
        ),
    ]
    interval = leave_one_out_interval(mean_agreement(one, other, within), without)
    note = "; ".join(_format_mean_order(evidence, system) for system in SYSTEMS)
    return Estimate(interval, count, "circles", note=note)


def _format_mean_order(evidence: xr.Dataset, system: str) -> str:
    """The events by their mean ranks in the circles of a system."""
    ranks = rankdata(
        evidence[f"{system}_onset"].transpose(system, "event"), axis=1
    ).mean(axis=0)
    return (
        f"{system}s:"
        f" {', '.join(evidence['event'].values[np.argsort(ranks, kind='stable')])}"
    )
