"""VC appendices A.2 and A.3: sparsity of hidden activations of successful and of failed runs."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.clustering_heads.activation_sparsity import SPARSITY_RANGE, SPARSITY_THRESHOLDS, SUCCESSFUL_ACCURACY
from analysis.clustering_heads.activation_sparsity import compare_successes as compare
from analysis.clustering_heads.activation_sparsity import measure_sparsity as sparsity_of
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from analysis.statistics.ranks import PROFILE_PERMUTATIONS, rank_biserial, rank_correlation
from dynamics.settings import SparseSettings

PAPER_RUNS = 20
"""Runs that the paper's figures show."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Default networks, and those of other dimensions, of which the first and last frames are enough."""
    epochs, dims = params.get("epochs"), params["dims"]
    usual = RequiredRuns(SparseSettings(), params["runs"], epochs=epochs)
    return [usual, *(_of_dim(dim, params["others"], epochs) for dim in dims)]


def _of_dim(dim: int, runs: int, epochs: int | None) -> RequiredRuns:
    """As `analysis.paper` has them, which shows every epoch of d = 3."""
    return RequiredRuns(SparseSettings(dim=dim), runs, epochs=epochs, every=None if dim == 3 else 0)


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Sparsity on the test data by threshold, (dim, run, eps), and test accuracy, (dim, run)."""
    found = []
    for need in ensembles(params):
        one = compare(sparsity_of(runner.ensemble(need))).sel(split="test", drop=True)
        found.append(one[["sparsity", "mean_sparsity", "test_accuracy", "effect", "p_value"]])
    dims = [2, *params["dims"]]
    found = [each.drop_vars("step", errors="ignore") for each in found]
    whole = xr.concat(found, xr.Variable("dim", dims), join="outer", coords="different", compat="equals",
                      combine_attrs="override")  # fmt: skip
    return whole.assign(sparsity=whole["sparsity"].astype(np.float32)).drop_vars("seed", errors="ignore")


SPARSITY = Experiment(
    "vc.sparsity",
    "sparsity of hidden activations against the threshold, in successful and failed runs",
    sizes={
        Size.QUICK: {"runs": 32, "dims": [], "others": 20},
        Size.DEFAULT: {"runs": 100, "dims": [3, 4, 8, 16, 32], "others": 20},
        Size.FULL: {"runs": 100, "dims": [3, 4, 8, 16, 32], "others": 100},
    },
    seconds={Size.QUICK: 1, Size.DEFAULT: 5, Size.FULL: 20},
    measure=measure,
    reduced={Size.QUICK: "d = 2 alone"},
    ensembles=ensembles,
    depends={
        "range": SPARSITY_RANGE,
        "thresholds": [*SPARSITY_THRESHOLDS[[0, -1]].tolist(), len(SPARSITY_THRESHOLDS)],
        "shuffles": PROFILE_PERMUTATIONS,
        "success": SUCCESSFUL_ACCURACY,
    },
    command="python -m analysis.sparsity RUN.nc",
)


# ------------------------------------------------------------------------------------------------- findings

HELD = 0.9
"""Test accuracy above which a run succeeds (VC appendix A.2)."""


def _one(evidence: xr.Dataset, dim: int, runs: int | None = None) -> xr.Dataset | None:
    """The runs of a dimension that have values, the first so many; None where that was not run."""
    if dim not in evidence["dim"].values:
        return None
    one = evidence.sel(dim=dim).isel(run=slice(runs))
    return one.isel(run=np.flatnonzero(np.isfinite(one["test_accuracy"].values)))


def _missing(dim: int) -> Estimate:
    return Estimate(NO_INTERVAL, 0, skipped=True, note=f"d = {dim} is not run at this size")


def success_sparsity(evidence: xr.Dataset, dim: int = 2, runs: int | None = None) -> Estimate:
    """Rank-biserial correlation of success with sparsity, in the mean over log eps in the paper's range."""
    one = _one(evidence, dim, runs)
    if one is None:
        return _missing(dim)
    success = one["test_accuracy"].values > HELD
    found = rank_biserial(one["mean_sparsity"].values[success], one["mean_sparsity"].values[~success])
    note = f"{success.sum()} successes, {(~success).sum()} failures"
    return Estimate(found, len(success), effect=found.value, effect_name="rank-biserial", note=note)


def less_sparse_thresholds(evidence: xr.Dataset, dim: int = 2) -> Estimate:
    """Percentage of the thresholds of the paper's range at which successes are less sparse, p < .05 for all at once.

    Thresholds are no sample: its bounds are those at which they are shown to be, and those at which the contrary is
    not shown, by tests that hold for all thresholds together in 95 of 100 samples of runs.
    """
    one = evidence.sel(dim=dim)
    eps = one["eps"].values
    inside = (eps >= SPARSITY_RANGE[0] * (1 - 1e-9)) & (eps <= SPARSITY_RANGE[1] * (1 + 1e-9))
    shown, effect = one["p_value"].values < 0.05, one["effect"].values
    less, more = shown & (effect < 0) & inside, shown & (effect > 0) & inside
    if not np.isfinite(one["p_value"].values).all():
        return Estimate(NO_INTERVAL, 0, "thresholds", note="all runs succeed, or none")
    count, where = int(inside.sum()), eps[less]
    found = 100 * float(less.sum()) / count
    ends = f"at eps from {where.min():.2g} to {where.max():.2g}" if len(where) else "at none"
    note = f"{ends}; the bounds are where it is shown, and where the contrary is not"
    return Estimate(Interval(found, found, 100 - 100 * float(more.sum()) / count), count, "thresholds", note=note)


def accuracy_sparsity(evidence: xr.Dataset, dim: int = 2, runs: int | None = None) -> Estimate:
    """Spearman's correlation of sparsity with test accuracy over runs."""
    one = _one(evidence, dim, runs)
    if one is None:
        return _missing(dim)
    found = rank_correlation(one["mean_sparsity"].values, one["test_accuracy"].values)
    return Estimate(found, one.sizes["run"], effect=found.value, effect_name="Spearman's rho")


def sparsity_at_threshold(evidence: xr.Dataset, place: int) -> Estimate:
    """Percentage of activations below the least (0) or the largest (-1) threshold: mean over default runs."""
    one = _one(evidence, 2)
    assert one is not None
    values = 100 * one["sparsity"].isel(eps=place).values
    return Estimate(Interval(*np.clip(mean_interval(values), 0, 100).tolist()), len(values))


def active_units(evidence: xr.Dataset, eps: float = 0.1) -> Estimate:
    """Percentage of activations of successful runs that are above a threshold in absolute value: mean over runs."""
    one = _one(evidence, 2)
    assert one is not None
    success = one["test_accuracy"].values > HELD
    values = 100 * (1 - one["sparsity"].sel(eps=eps, method="nearest").values[success])
    others = 100 * (1 - one["sparsity"].sel(eps=eps, method="nearest").values[~success])
    note = f"of failed runs {others.mean():.0f}%" if len(others) else ""
    found = Interval(*np.clip(mean_interval(values), 0, 100).tolist())
    return Estimate(found, len(values), "successful runs", note=note)
