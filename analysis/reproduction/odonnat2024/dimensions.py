"""VC appendix A.3: how often runs succeed with embeddings of more dimensions."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification.estimate import Estimate, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import paired_difference, percentage_difference
from analysis.statistics.intervals import NO_INTERVAL
from analysis.statistics.ranks import rank_correlation
from dynamics.settings import SparseSettings
from dynamics.trajectory.diverged import not_diverged

HELD = 0.9
"""Test accuracy above which a run succeeds (VC appendix A.2)."""
ENOUGH = 8
"""Dimension from which on every run of the paper succeeds."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each dimension, as `analysis.paper` has them, and more of the first from which all succeed."""
    epochs = params.get("epochs")
    usual = RequiredRuns(SparseSettings(), params["usual"], epochs=epochs)
    runs = {dim: params["more"] if dim == ENOUGH else params["runs"] for dim in params["dims"]}
    others = [RequiredRuns(SparseSettings(dim=dim), runs[dim], epochs=epochs, every=None if dim == 3 else 0)
              for dim in params["dims"]]  # fmt: skip
    return [usual, *others]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Accuracies at the end, (dim, run); NaN for runs that have diverged."""
    dims = [2, *params["dims"]]
    needs = ensembles(params)
    shape = (len(dims), max(need.runs for need in needs))
    found = {split: np.full(shape, np.nan) for split in ("train", "test", "unseen")}
    for place, need in enumerate(needs):
        trajectory = runner.ensemble(need)
        alive = not_diverged(trajectory)
        for split, values in found.items():
            last = trajectory["accuracy"].isel(step=-1).sel(split=split).values
            values[place, : need.runs] = np.where(alive, last, np.nan)
    about = "final accuracy on the {} split"
    data = {
        f"{split}_accuracy": (("dim", "run"), values, {"long_name": about.format(split), "units": "1"})
        for split, values in found.items()
    }
    return xr.Dataset(data, {"dim": dims})


DIMENSIONS = Experiment(
    "vc.dimensions",
    "how often runs succeed with embeddings of d = 2 to 32 dimensions",
    sizes={
        Size.QUICK: {"usual": 32, "dims": [8], "runs": 20, "more": 20},
        Size.DEFAULT: {"usual": 100, "dims": [3, 4, 8, 16, 32], "runs": 20, "more": 100},
        Size.FULL: {"usual": 100, "dims": [3, 4, 8, 16, 32], "runs": 100, "more": 100},
    },
    seconds={Size.QUICK: 1, Size.DEFAULT: 1, Size.FULL: 1},
    measure=measure,
    reduced={Size.QUICK: "of the dimensions above 2 only 8"},
    ensembles=ensembles,
    command="python -m analysis.sparsity RUN.nc MORE.nc",
)


# ------------------------------------------------------------------------------------------------- findings


def _successes(evidence: xr.Dataset, dim: int, runs: int | None = None) -> np.ndarray:
    """Which runs of a dimension are above .9, (run,) bool; empty where it was not run."""
    if dim not in evidence["dim"].values:
        return np.zeros(0, bool)
    values = evidence["test_accuracy"].sel(dim=dim).values
    return values[np.isfinite(values)][:runs] > HELD


def success_at_dim(evidence: xr.Dataset, dim: int) -> Estimate:
    """Percentage of runs of a dimension that succeed."""
    if dim not in evidence["dim"].values:
        return Estimate(NO_INTERVAL, 0, skipped=True, note=f"d = {dim} is not run at this size")
    found = _successes(evidence, dim)
    return percentage(int(found.sum()), len(found), note="" if len(found) else "all runs diverged")


def dimension_correlation(evidence: xr.Dataset) -> Estimate:
    """Spearman's correlation of success with the dimension over the first runs of each, as many of each."""
    dims = evidence["dim"].values
    runs = min(len(_successes(evidence, int(dim))) for dim in dims)
    each = [_successes(evidence, int(dim), runs) for dim in dims]
    found = rank_correlation(np.repeat(dims, runs), np.concatenate(each).astype(float))
    told = ", ".join(f"{some.sum()} of {runs} at d = {dim}" for dim, some in zip(dims, each, strict=True))
    return Estimate(found, runs * len(dims), effect=found.value, effect_name="Spearman's rho", note=told)


def success_gain(evidence: xr.Dataset, least: int = ENOUGH) -> Estimate:
    """How many points more of the runs succeed from a dimension on than with d = 2."""
    each = [_successes(evidence, int(dim)) for dim in evidence["dim"].values if dim >= least]
    high = np.concatenate([np.zeros(0, bool), *each])
    low = _successes(evidence, 2)
    return percentage_difference((int(high.sum()), int(low.sum())), (len(high), len(low)))


def generalisation_gap(evidence: xr.Dataset, dim: int = 2) -> Estimate:
    """How much higher the accuracy is on training sequences than on unseen ones, in points."""
    one = evidence.sel(dim=dim)
    return paired_difference(100 * one["train_accuracy"], 100 * one["unseen_accuracy"])
