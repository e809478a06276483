"""VC figures 6 and 7: test accuracy along four hyperparameters, of single runs and of
the mean."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.reproduction.claim import Claim, Number, Sign
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
)
from analysis.statistics import Interval, jackknife_runs
from analysis.transitions.ablations import (
    ABLATION_PANELS,
    merge_ablation_sweeps,
    plan_ablation,
    run_ablation,
)
from dynamics.settings import SparseSettings
from dynamics.sweeps.design import SweepDesign


def _designs(params: Params, device: str = "auto") -> dict[str, SweepDesign]:
    """The sweeps of the experiment ablation, whose runs are used here too."""
    settings = SparseSettings(**params.get("settings", {}))
    sizes = {name: params[name] for name in ("points", "max_hidden", "runs")}
    return plan_ablation(
        settings, epochs=params.get("epochs", 1000), device=device, **sizes
    )


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """All values of all panels, the fastest first: the first and the last frame of
    each, without weights."""
    points = merge_ablation_sweeps(_designs(params).values()).points
    epochs = params.get("epochs", 1000)
    return [
        RequiredRuns(point.settings, params["runs"], epochs, every=0, record="metrics")
        for point in points
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Final test accuracy, NaN for runs that have diverged, of each panel: (value,
    run)."""
    designs = _designs(params, runner.device)
    accuracies, _ = run_ablation(designs, runner.scheduler)
    about = dimensionless("test accuracy at the end")
    data = {}
    for name in designs:
        accuracy = accuracies[f"accuracy_{name}"].sel(split="test")
        data[f"test_{name}"] = (
            (name, "run"),
            accuracy.transpose(name, "run").values,
            about,
        )
    return xr.Dataset(data, {name: accuracies[name].values for name in designs})


# ------------------------------------------------------------------------------- claims


def curve_correlation(values: np.ndarray) -> float:
    """Correlation of the curves of two runs: covariance over all pairs by the mean
    variance. values: (value, run).

    NaN if no run varies."""
    count = values.shape[1]
    apart = values - values.mean(axis=0)
    own = (apart**2).sum() / count
    shared = ((apart.sum(axis=1) ** 2).sum() - count * own) / (count * (count - 1))
    return float(shared / own) if own > 0 else float("nan")


def panel_accuracies(evidence: xr.Dataset) -> list[np.ndarray]:
    """Final test accuracies of each panel, (value, run), without values at which any
    run has diverged."""
    panels = (
        evidence[f"test_{panel}"].transpose(panel, "run").values.astype(np.float64)
        for panel in ABLATION_PANELS
    )
    return [panel[np.isfinite(panel).all(axis=1)] for panel in panels]


def mean_over_panels(
    evidence: xr.Dataset, statistic: Callable[[float], float]
) -> Estimate:
    """Mean over panels of a function of the correlation of the curves of two runs; runs
    are left out in turn."""
    panels = panel_accuracies(evidence)
    runs = evidence.sizes["run"]

    def mean(chosen: np.ndarray) -> float:
        correlations = [curve_correlation(panel[:, chosen]) for panel in panels]
        return float(np.mean([statistic(one) for one in correlations]))

    interval = jackknife_runs(mean, runs)
    note = "" if math.isfinite(interval.value) else "accuracy does not vary"
    return Estimate(interval, runs, "runs at all values", note)


def regularity_of_means(evidence: xr.Dataset) -> Estimate:
    """Correlation along a hyperparameter of the mean over one half of the runs with that
    over the other, as over all ways to halve them (Spearman and Brown). It is about 0
    if the values have no effect, however smooth a mean of many runs is."""
    half = evidence.sizes["run"] // 2
    estimate = mean_over_panels(evidence, lambda r: half * r / (1 + (half - 1) * r))
    interval = Interval(*(min(item, 1.0) for item in estimate.interval))
    return estimate._replace(interval=interval)


def irregularity_of_runs(evidence: xr.Dataset) -> Estimate:
    """Percentage of the variance of a single run along a hyperparameter that other runs
    do not share, minus 50."""
    return mean_over_panels(evidence, lambda r: 100 * (1 - r) - 50)


REGULARITY = Claim(
    "VC.figure7.regularity",
    "section 4.1, figures 6 and 7",
    "Figure 7 shows more regularity when averaging over the runs",
    "The accuracy of a single run varies irregularly with a hyperparameter; that of the"
    " mean of many runs varies regularly.",
    (
        Number(
            regularity_of_means,
            Sign.POSITIVE,
            "correlation along a hyperparameter of the means of two halves of the runs",
            digits=2,
        ),
        Number(
            irregularity_of_runs,
            Sign.POSITIVE,
            "variance of a single run along it that other runs do not share, minus half",
            "points",
        ),
    ),
    "Means over four hyperparameters: batch size, width, learning rate and that of the"
    " MLP.",
    summary="the mean accuracy of many runs depends regularly on hyperparameters",
    figure="vc7",
)

ABLATION = Experiment(
    "vc.ablation",
    "test accuracy after 1000 epochs along batch size, hidden width, learning rate and"
    " that of the MLP",
    measure,
    default=Sizing(
        15,
        {"runs": 100, "points": 20, "max_hidden": 1000},
        "13 hidden widths from 10 to 784, not 20 up to 10,000",
    ),
    full=Sizing(15, {"runs": 100, "points": 20, "max_hidden": 10000}),
    ensembles=ensembles,
    version=2,
    command="python -m analysis.paper ablation --max-hidden 1000",
    claims=(REGULARITY,),
)
