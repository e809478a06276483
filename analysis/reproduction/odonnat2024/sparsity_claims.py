"""VC appendices A.2 and A.3, figures 17 and 20: success and sparsity of activations, by
dimension of the embeddings.

Sparsity is the fraction of hidden activations below eps in absolute value, here its
mean over log eps from .001 to 10. A run succeeds in these appendices if its test
accuracy at the end is above .9 (elsewhere: above .98)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

from analysis.clustering_heads import measure_sparsity
from analysis.clustering_heads.activation_sparsity import (
    SPARSITY_RANGE,
    SPARSITY_THRESHOLDS,
    SUCCESSFUL_ACCURACY,
)
from analysis.reproduction import estimates
from analysis.reproduction.claim import Claim, Number, Sign, exact_number
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
)
from analysis.statistics.ranks import rank_biserial, rank_correlation
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
    """Final test accuracy and mean sparsity on test sequences, (dim, run); NaN for no
    run."""
    rows = []
    for need in ensembles(params):
        one = measure_sparsity(runner.ensemble(need)).sel(split="test", drop=True)
        rows.append(one[["mean_sparsity", "test_accuracy"]].drop_vars(["step", "seed"]))
    dims = xr.Variable("dim", [2, *params["dims"]])
    return xr.concat(rows, dims, join="outer", combine_attrs="override")


# ------------------------------------------------------------------------------- claims


def runs_of_dim(evidence: xr.Dataset, dim: int) -> xr.Dataset:
    """The runs of a dimension that have a final accuracy; none if it was not run."""
    one = evidence.reindex(dim=[dim]).isel(dim=0)
    return one.isel(run=np.isfinite(one["test_accuracy"].values))


def successes(evidence: xr.Dataset, dim: int) -> np.ndarray:
    """Which of these runs succeed, (run,) bool."""
    return runs_of_dim(evidence, dim)["test_accuracy"].values > SUCCESSFUL_ACCURACY


def success_sparsity(evidence: xr.Dataset, dim: int) -> Estimate:
    """Rank-biserial correlation of success with sparsity."""
    success = successes(evidence, dim)
    sparsity = runs_of_dim(evidence, dim)["mean_sparsity"].values
    interval = rank_biserial(sparsity[success], sparsity[~success])
    return Estimate(interval, success.size, note=f"{success.sum()} succeed")


def accuracy_sparsity(evidence: xr.Dataset) -> Estimate:
    """Spearman's correlation of sparsity with test accuracy over default runs."""
    one = runs_of_dim(evidence, 2)
    accuracy = one["test_accuracy"].values
    sparsity = one["mean_sparsity"].values
    return Estimate(rank_correlation(sparsity, accuracy), accuracy.size)


def success_number(dim: int) -> Number:
    """The correlation of success with sparsity at a dimension."""
    return Number(
        lambda evidence: success_sparsity(evidence, dim),
        Sign.NEGATIVE,
        f"rank-biserial correlation of success with sparsity, d = {dim}",
        digits=2,
    )


LESS_SPARSE = Claim(
    "VC.figure17.sparsity",
    "appendix A.2, figure 17",
    "successful models tend to have less sparse activation than failed ones",
    "Networks that succeed have less sparse activations than those that fail.",
    (
        success_number(2),
        Number(
            accuracy_sparsity,
            Sign.NEGATIVE,
            "Spearman's correlation of test accuracy with sparsity",
            digits=2,
        ),
    ),
    "At -1 every success is less sparse than every failure. The paper concludes that the"
    " task needs many neurons; that runs which fail stay on a plateau explains it as"
    " well.",
    summary="successful networks have less sparse activations",
    figure="vc17",
)
LESS_SPARSE_ABOVE_2 = Claim(
    "VC.figure20.sparsity",
    "appendix A.3, figure 20",
    "with successful models having more dense activations",
    "With more than two dimensions, too, successful networks have less sparse"
    " activations.",
    tuple(map(success_number, (3, 4, 8))),
    "With 16 and 32 dimensions too few runs fail for a comparison.",
    figure="vc20",
)


def dimension_correlation(evidence: xr.Dataset) -> Estimate:
    """Spearman's correlation of success with the dimension, over as many runs of each
    dimension."""
    dims = evidence["dim"].values.tolist()
    runs = min(successes(evidence, dim).size for dim in dims)
    success = [successes(evidence, dim)[:runs] for dim in dims]
    interval = rank_correlation(
        np.repeat(dims, runs), np.concatenate(success).astype(float)
    )
    counts = ", ".join(
        f"{some.sum()} at d = {dim}" for dim, some in zip(dims, success, strict=True)
    )
    return Estimate(interval, runs * len(dims), note=f"of {runs} each: {counts}")


def success_from_8(evidence: xr.Dataset) -> Estimate:
    """Percentage of the runs of at least eight dimensions that succeed."""
    accuracy = evidence["test_accuracy"].sel(dim=slice(ENOUGH, None))
    success = estimates.finite_values(accuracy) > SUCCESSFUL_ACCURACY
    return estimates.percentage_or_none(int(success.sum()), success.size, "runs")


DIMENSION = Claim(
    "VC.appA.3.dimension",
    "appendix A.3",
    "the higher the embedding size, the more the model succeeds",
    "The more dimensions the embeddings have, the more networks succeed.",
    (
        Number(
            dimension_correlation,
            Sign.POSITIVE,
            "Spearman's correlation of the dimension with success",
            digits=2,
        ),
        Number(
            success_from_8,
            exact_number(100),
            "runs with at least eight dimensions that succeed",
            "%",
        ),
    ),
    "The paper says that all succeed from eight dimensions on: here nearly all do. The"
    " hidden width is 32 at every dimension. The rise ends at eight dimensions.",
    summary="more dimensions, up to eight, make more networks succeed",
    figure="vc20",
)

SPARSITY = Experiment(
    "vc.sparsity",
    "success and sparsity of hidden activations for d = 2 to 32",
    measure,
    quick=Sizing(
        2,
        {"usual": 32, "dims": [8], "others": 20, "enough": 20},
        "only d = 8 besides d = 2",
    ),
    default=Sizing(
        8, {"usual": 100, "dims": [3, 4, 8, 16, 32], "others": 20, "enough": 100}
    ),
    full=Sizing(
        20, {"usual": 100, "dims": [3, 4, 8, 16, 32], "others": 100, "enough": 100}
    ),
    ensembles=ensembles,
    depends={
        "range": SPARSITY_RANGE,
        "thresholds": [
            *SPARSITY_THRESHOLDS[[0, -1]].tolist(),
            len(SPARSITY_THRESHOLDS),
        ],
    },
    version=3,
    command="python -m analysis.sparsity RUN.nc MORE.nc",
    claims=(LESS_SPARSE, LESS_SPARSE_ABOVE_2, DIMENSION),
)
