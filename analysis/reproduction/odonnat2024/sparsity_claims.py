"""VC appendices A.2 and A.3, figures 17 and 20: success and sparsity of activations, by
dimension of the embeddings.

Sparsity is the fraction of hidden activations below eps in absolute value. A run
succeeds in these appendices if its test accuracy at the end is above .9 (elsewhere:
above .98). The texts say "above .9" for it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

from analysis.clustering_heads import compare_successes, measure_sparsity
from analysis.clustering_heads.activation_sparsity import (
    SPARSITY_RANGE,
    SPARSITY_THRESHOLDS,
    SUCCESSFUL_ACCURACY,
)
from analysis.output.results import dimensionless
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    percentage,
    samples,
)
from analysis.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from analysis.statistics.ranks import (
    PROFILE_PERMUTATIONS,
    rank_biserial,
    rank_correlation,
)
from dynamics.settings import SparseSettings

ENOUGH = 8
"""Dimension from which on every run of the paper succeeds."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each dimension; those above 3 are recorded at start and end only."""
    runs = {2: params["usual"], **dict.fromkeys(params["dims"], params["others"])}
    if ENOUGH in runs:
        runs[ENOUGH] = params["enough"]
    settings = SparseSettings(**params.get("settings", {}))
    return [
        RequiredRuns(
            replace(settings, dim=dim),
            count,
            epochs=params.get("epochs"),
            every=None if dim <= 3 else 0,
        )
        for dim, count in runs.items()
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Final accuracies, (dim, run), and sparsity on test sequences by threshold, (dim,
    run, eps); NaN for no run."""
    rows = []
    for need in ensembles(params):
        trajectory = runner.ensemble(need)
        one = compare_successes(measure_sparsity(trajectory)).sel(
            split="test", drop=True
        )
        one = one.drop_vars(["step", "seed", "success"])
        final = (
            trajectory["accuracy"]
            .isel(step=-1)
            .astype(np.float64)
            .where(np.isfinite(one["test_accuracy"]))
        )
        for split in ("train", "unseen"):
            values = final.sel(split=split).values
            one[f"{split}_accuracy"] = (
                "run",
                values,
                dimensionless(f"final accuracy on {split} sequences"),
            )
        rows.append(one.assign(sparsity=one["sparsity"].astype(np.float32)))
    dims = xr.Variable("dim", [2, *params["dims"]])
    return xr.concat(
        rows,
        dims,
        join="outer",
        coords="different",
        compat="equals",
        combine_attrs="override",
    )


SPARSITY = declare_experiment(
    "vc.sparsity",
    measure,
    ensembles,
    depends={
        "range": SPARSITY_RANGE,
        "thresholds": [
            *SPARSITY_THRESHOLDS[[0, -1]].tolist(),
            len(SPARSITY_THRESHOLDS),
        ],
        "shuffles": PROFILE_PERMUTATIONS,
        "success": SUCCESSFUL_ACCURACY,
    },
)


# ---------------------------------------------------------------------------- estimates


def runs_of_dim(evidence: xr.Dataset, dim: int, runs: int | None = None) -> xr.Dataset:
    """The first runs of a dimension that have a final accuracy; none if that dimension
    was not run."""
    one = evidence.reindex(dim=[dim]).isel(dim=0)
    return one.isel(run=np.flatnonzero(np.isfinite(one["test_accuracy"].values))[:runs])


def _successes(
    evidence: xr.Dataset, dim: int = 2, runs: int | None = None
) -> np.ndarray:
    """Which of these runs succeed, (run,) bool."""
    return (
        runs_of_dim(evidence, dim, runs)["test_accuracy"].values > SUCCESSFUL_ACCURACY
    )


def _missing_dim(evidence: xr.Dataset, dim: int) -> Estimate | None:
    """The estimate for a dimension that was not run; None if it was."""
    note = f"d = {dim} is not run at this size"
    return (
        None
        if dim in evidence["dim"].values
        else Estimate(NO_INTERVAL, 0, note=note, skipped=True)
    )


def success_at_dim(evidence: xr.Dataset, dim: int) -> Estimate:
    """Percentage of runs of a dimension that succeed."""
    success = _successes(evidence, dim)
    note = "" if success.size else "all runs diverged"
    return _missing_dim(evidence, dim) or percentage(
        int(success.sum()), success.size, note=note
    )


def dimension_correlation(evidence: xr.Dataset) -> Estimate:
    """Spearman's correlation of success with the dimension, over as many runs of each
    dimension."""
    dims = evidence["dim"].values
    runs = min(_successes(evidence, dim).size for dim in dims)
    success = [_successes(evidence, dim, runs) for dim in dims]
    interval = rank_correlation(
        np.repeat(dims, runs), np.concatenate(success).astype(float)
    )
    note = "above .9: " + ", ".join(
        f"{some.sum()} of {runs} at d = {dim}"
        for dim, some in zip(dims, success, strict=True)
    )
    return Estimate(
        interval,
        runs * len(dims),
        effect=interval.value,
        effect_name="Spearman's rho",
        note=note,
    )


def success_gain(evidence: xr.Dataset) -> Estimate:
    """Percentage of successful runs from d = 8 on minus that at d = 2, in points."""
    dims = evidence["dim"].values
    low, *others = (_successes(evidence, dim) for dim in (2, *dims[dims >= ENOUGH]))
    return samples.difference_of_ones(np.concatenate([np.zeros(0, bool), *others]), low)


def generalisation_gap(evidence: xr.Dataset) -> Estimate:
    """Accuracy on training sequences minus that on unseen ones at d = 2, in points."""
    one = evidence.sel(dim=2)
    return samples.paired_difference(
        100 * one["train_accuracy"], 100 * one["unseen_accuracy"]
    )


def success_sparsity(
    evidence: xr.Dataset, dim: int = 2, runs: int | None = None
) -> Estimate:
    """Rank-biserial correlation of success with the mean sparsity over log eps in the
    paper's range."""
    success = _successes(evidence, dim, runs)
    mean = runs_of_dim(evidence, dim, runs)["mean_sparsity"].values
    interval = rank_biserial(mean[success], mean[~success])
    note = f"above .9: {success.sum()} of {success.size} runs"
    estimate = Estimate(
        interval,
        success.size,
        effect=interval.value,
        effect_name="rank-biserial",
        note=note,
    )
    return _missing_dim(evidence, dim) or estimate


def accuracy_sparsity(evidence: xr.Dataset, runs: int | None = None) -> Estimate:
    """Spearman's correlation of mean sparsity with test accuracy over default runs."""
    one = runs_of_dim(evidence, 2, runs)
    interval = rank_correlation(
        one["mean_sparsity"].values, one["test_accuracy"].values
    )
    return Estimate(
        interval, one.sizes["run"], effect=interval.value, effect_name="Spearman's rho"
    )


def less_sparse_thresholds(evidence: xr.Dataset) -> Estimate:
    """Percentage of the thresholds of the paper's range at which successes are
    significantly less sparse.

    Thresholds are no sample: the bounds are the percentage at which successes are shown
    to be less sparse, and that at which the opposite is not shown, at p < .05 for all
    thresholds together."""
    one, (low, high) = evidence.sel(dim=2), SPARSITY_RANGE
    if not np.isfinite(one["p_value"].values).all():
        return Estimate(NO_INTERVAL, 0, "thresholds", note="all runs succeed, or none")
    inside = one.sel(eps=slice(low * (1 - 1e-9), high * (1 + 1e-9)))
    significant, effect = inside["p_value"].values < 0.05, inside["effect"].values
    less, more = significant & (effect < 0), significant & (effect > 0)
    where, percentage = inside["eps"].values[less], 100 * float(less.mean())
    note = (
        f"less sparse at eps from {where.min():.2g} to {where.max():.2g}"
        if len(where)
        else "less sparse at no eps"
    )
    return Estimate(
        Interval(percentage, percentage, 100 - 100 * float(more.mean())),
        less.size,
        "thresholds",
        note=note,
    )


def sparsity_at_threshold(evidence: xr.Dataset, place: int) -> Estimate:
    """Percentage of activations below the smallest (0) or the largest (-1) threshold:
    mean over default runs."""
    values = 100 * runs_of_dim(evidence, 2)["sparsity"].isel(eps=place).values
    return Estimate(mean_interval(values, limits=(0, 100)), len(values))


def _active_percentages(evidence: xr.Dataset, eps: float) -> np.ndarray:
    """Percentage of activations of each run of d = 2 that are above a threshold in
    absolute value: (run,)."""
    sparsity = runs_of_dim(evidence, 2)["sparsity"].sel(eps=eps, method="nearest")
    return 100 * (1 - sparsity.values)


def active_units_gain(evidence: xr.Dataset, eps: float = 0.1) -> Estimate:
    """The same of successful runs minus that of the others, in points."""
    success, values = _successes(evidence), _active_percentages(evidence, eps)
    return samples.independent_difference(values[success], values[~success])


def active_units(evidence: xr.Dataset, eps: float = 0.1) -> Estimate:
    """Percentage of activations of successful runs that are above a threshold in
    absolute value: mean over runs."""
    success, values = _successes(evidence), _active_percentages(evidence, eps)
    note = f"{values[~success].mean():.0f}% in other runs" if not success.all() else ""
    return Estimate(
        mean_interval(values[success], limits=(0, 100)),
        int(success.sum()),
        "runs above .9",
        note=note,
    )
