"""NA: without weight decay networks do not generalise within the run."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis import progress_measures
from analysis.output.results import dimensionless
from analysis.reproduction.nanda2023.grokking_claims import THRESHOLDS
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    samples,
)
from dynamics.settings import TRANSFORMER_PRESETS
from dynamics.trajectory.diverged import not_diverged


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of a preset without weight decay."""
    settings = dataclasses.replace(
        TRANSFORMER_PRESETS[params["preset"]],
        weight_decay=0.0,
        **params.get("settings", {}),
    )
    return [
        RequiredRuns(
            settings,
            params["runs"],
            params["epochs"],
            params["every"],
            weights=False,
            record="metrics",
        )
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """When each network that has not diverged has memorised and generalised, and its
    last test accuracy, (run,)."""
    (need,) = ensembles(params)
    trajectory = runner.ensemble(need)
    trajectory = trajectory.isel(run=not_diverged(trajectory))
    times = progress_measures.grokking_times(trajectory)[
        ["memorised", "generalised"]
    ] / (need.settings.epoch_steps or 1)
    last = trajectory["accuracy"].sel(split="test").isel(step=-1).values
    evidence = times.assign(test_accuracy=("run", 100 * last))
    words = {
        "memorised": "first epoch with a training accuracy above .99",
        "generalised": "with a test accuracy above .9",
    }
    for name, about in {
        **words,
        "test_accuracy": "accuracy of the test pairs at the end, %",
    }.items():
        evidence[name].attrs = dimensionless(about)
    return evidence


DECAY, MAIN = (
    declare_experiment(name, measure, ensembles, depends=THRESHOLDS)
    for name in ("na.weight-decay", "na.weight-decay-main")
)


def percentage_that_has(
    evidence: xr.Dataset, name: str, never: bool = False
) -> Estimate:
    """Percentage of runs that have memorised, or generalised; with `never`, of those
    that have not."""
    has = np.isfinite(evidence[name].values)
    accuracy = evidence["test_accuracy"].values
    note = (
        f"test accuracies at the end: {accuracy.min():.1f}% to {accuracy.max():.1f}%"
        if accuracy.size
        else ""
    )
    return samples.percentage_of_ones(
        ~has if never else has, "runs", note if never else ""
    )
