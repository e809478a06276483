"""CA table 1: how networks trained at four weight decays end."""

import math

import numpy as np
import xarray as xr

from analysis.reproduction.ca_tables import end_accuracy
from analysis.reproduction.musat2024.networks import DECAYS, DIMS, ensembles, network_kind
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs, frame_values
from analysis.reproduction.verification.samples import (
    estimate_mean,
    finite_values,
    independent_difference,
    percentage_difference,
    percentage_or_none,
)
from analysis.statistics.intervals import correlation_interval
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics.randomness import random_stream
from dynamics.trajectory.diverged import not_diverged

SHUFFLES = 20
"""Renamings of the tokens that tell what as many points in the same places would be by chance."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """How each network begins and ends, (weight_decay, run); one that diverged has no values."""
    rows = [_row(runner.ensemble(need)) for need in ensembles(params)]
    data = {name: (DIMS, np.stack([row[name] for row in rows]), {"long_name": words, "units": unit})
            for name, (words, unit) in QUANTITIES.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(DECAYS), "run": np.arange(params["runs"])})


QUANTITIES = {
    "circle": ("whether it is a circle by CA algorithm 1", "1"),
    "imperfections": ("grid imperfections at the end", "1"),
    "start_imperfections": ("grid imperfections at the start", "1"),
    "chance_imperfections": ("mean grid imperfections with tokens renamed at random", "1"),
    "accuracy": ("validation accuracy at the end", "%"),
    "train_accuracy": ("training accuracy at the end", "%"),
}


def _row(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """Of one weight decay, each (run,)."""
    kept = not_diverged(trajectory)
    start, ends = (frame_values(trajectory, "embedding", at)[kept] for at in (0, -1))
    generator, n = random_stream(0, "verify/tokens"), ends.shape[-2]
    shuffled = [count_imperfections(ends[:, generator.permutation(n)]) for _ in range(SHUFFLES)]
    seeds = trajectory["seed"].values[kept]
    train = trajectory["accuracy"].sel(split="train").isel(step=-1).values[kept]
    found = {
        "circle": is_circle(ends),
        "imperfections": count_imperfections(ends),
        "start_imperfections": count_imperfections(start),
        "chance_imperfections": np.mean(shuffled, axis=0),
        "accuracy": 100 * end_accuracy(trajectory, seeds),
        "train_accuracy": 100 * train,
    }
    return {name: expand_to_runs(values, kept) for name, values in found.items()}


TABLE_1 = Experiment(
    "ca.table1",
    "what networks have become after 2000 epochs at weight decay 0, 0.3, 0.6 and 1",
    sizes={Size.QUICK: {"runs": 100}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 1000, "every": 0}},
    seconds={Size.QUICK: 3, Size.DEFAULT: 3, Size.FULL: 25},
    measure=measure,
    ensembles=ensembles,
    depends={"shuffles": SHUFFLES},
    command="python -m analysis.table1",
)


# --------------------------------------------------------------------------------------------------- findings


def network_circles(evidence: xr.Dataset, decay: float) -> Estimate:
    """Percentage of circles at a weight decay."""
    circle = finite_values(evidence["circle"].sel(weight_decay=decay))
    return percentage_or_none(int(circle.sum()), len(circle), "networks")


def network_accuracy(evidence: xr.Dataset, decay: float, of_circles: bool) -> Estimate:
    """Mean validation accuracy, in percent, of the circles or of the others."""
    row = evidence.sel(weight_decay=decay)
    return estimate_mean(row["accuracy"].values[row["circle"].values == of_circles], network_kind(of_circles))


def network_imperfections(evidence: xr.Dataset, decay: float) -> Estimate:
    """Mean imperfections of the networks that are not circles."""
    row = evidence.sel(weight_decay=decay)
    return estimate_mean(row["imperfections"].values[row["circle"].values == 0], network_kind(False))


def imperfection_correlation(evidence: xr.Dataset, decay: float) -> Estimate:
    """Pearson's r of imperfections and validation accuracy over the networks that are not circles."""
    row = evidence.sel(weight_decay=decay)
    others = row["circle"].values == 0
    found = correlation_interval(row["imperfections"].values[others], row["accuracy"].values[others])
    note = "" if math.isfinite(found.value) else "imperfections or accuracies do not vary"
    return Estimate(found, int(others.sum()), network_kind(False), found.value, "Pearson's r", note)


def network_circle_change(evidence: xr.Dataset) -> Estimate:
    """Percentage of circles at weight decay 1 less that without, in points."""
    strong, none = (finite_values(evidence["circle"].sel(weight_decay=each)) for each in (1.0, 0.0))
    return percentage_difference((int(strong.sum()), int(none.sum())), (len(strong), len(none)), "networks")


def network_imperfection_change(evidence: xr.Dataset) -> Estimate:
    """Mean imperfections of the others at weight decay 1 less that without."""
    others = evidence["imperfections"].where(evidence["circle"] == 0)
    return independent_difference(
        others.sel(weight_decay=1.0), others.sel(weight_decay=0.0), "networks that are not circles"
    )
