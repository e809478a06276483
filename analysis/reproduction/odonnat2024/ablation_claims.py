"""VC figures 6 and 7: test accuracy along four hyperparameters, of single runs and of
the mean; where it is largest."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    samples,
)
from analysis.statistics import jackknife_runs
from analysis.statistics.intervals import (
    NO_INTERVAL,
    Interval,
    clustered_binomial_interval,
)
from analysis.transitions.ablations import (
    ABLATION_PANELS,
    merge_ablation_sweeps,
    plan_ablation,
    run_ablation,
)
from dynamics.randomness import random_stream
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.sweeps.design import SweepDesign
from dynamics.trajectory.reader import open_trajectory

LABELS = {name: label.split(":")[0] for name, label in ABLATION_PANELS.items()}

SAME_START = ("batch", "lr", "mlp_lr_discount")
"""Panels along which networks have the same size, and so can have the same initial
weights."""

LEAST_SUCCESS = 0.05
"""Fraction of successful runs at a value from which on the value counts as useful: where
all runs fail, accuracy cannot vary."""

RECIPE = {name: float(getattr(SparseSettings(), name)) for name in ABLATION_PANELS}
"""VC's default recipe."""


# --------------------------------------------------------------------------- experiment


def _designs(params: Params, device: str = "auto") -> dict[str, SweepDesign]:
    """The sweeps of `analysis.ablation`, whose runs are used here too."""
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
    """Final test accuracy, NaN for runs that have diverged, and initial loss, of each
    panel: (value, run)."""
    designs = _designs(params, runner.device)
    accuracies, _ = run_ablation(designs, runner.scheduler)
    data = {}
    for name, design in designs.items():
        accuracy = (
            accuracies[f"accuracy_{name}"]
            .sel(split="test")
            .transpose(name, "run")
            .values
        )
        losses = []
        for point in design.points:
            with open_trajectory(point.path) as trajectory:
                losses.append(trajectory["loss"].isel(step=0).sel(split="train").values)
        about = dimensionless("training loss of the initial weights")
        data[f"test_{name}"] = (
            (name, "run"),
            accuracy,
            dimensionless("test accuracy at the end"),
        )
        data[f"first_loss_{name}"] = ((name, "run"), np.stack(losses), about)
    return xr.Dataset(data, {name: accuracies[name].values for name in designs})


ABLATION = declare_experiment("vc.ablation", measure, ensembles)


# ---------------------------------------------------------------------------- estimates


def _accuracies(evidence: xr.Dataset, panel: str) -> tuple[np.ndarray, np.ndarray]:
    """Values of a panel and final test accuracies, (value, run); NaN for runs that have
    diverged."""
    accuracies = (
        evidence[f"test_{panel}"].transpose(panel, "run").values.astype(np.float64)
    )
    return evidence[panel].values.astype(np.float64), accuracies


def accuracy_jumps(evidence: xr.Dataset, panel: str) -> Estimate:
    """Percentage of steps from one value to the next at which the accuracy of a single
    run changes by more than .1, where at one of both values at least `LEAST_SUCCESS` of
    all runs are successful.

    The steps of one run are not independent; the interval is over runs.
    """
    values, accuracies = _accuracies(evidence, panel)
    useful = (accuracies > SUCCESS_ACCURACY).mean(axis=1) >= LEAST_SUCCESS
    change = np.abs(np.diff(accuracies, axis=0))[useful[1:] | useful[:-1]]
    totals, hits = np.isfinite(change).sum(axis=0), (change > 0.1).sum(axis=0)
    jumps = as_percentage(clustered_binomial_interval(hits, totals))
    of = f"steps between values, of {len(totals)} runs"
    if not totals.any():
        return Estimate(jumps, 0, of, note="at no value enough runs are successful")
    note = (
        f"{len(change)} of {len(values) - 1} steps from {values.min():g} to"
        f" {values.max():g}; {hits[0]} of {totals[0]} in the first run"
    )
    return Estimate(jumps, int(totals.sum()), of, note=note)


def panel_regularity(evidence: xr.Dataset, panel: str) -> Estimate:
    """Correlation along a panel of the mean over one half of the runs with that over
    the other, as over all ways to halve them. If the values have no effect it is about
    0, however smooth a mean of many runs is.

    It follows from the correlation of two single runs (Spearman and Brown). Values at
    which half of the runs diverge are left out, and then runs that diverge at others.
    Interval over runs."""
    _, accuracies = _accuracies(evidence, panel)
    accuracies = accuracies[np.isfinite(accuracies).mean(axis=1) > 0.5]
    accuracies = accuracies[:, np.isfinite(accuracies).all(axis=0)]
    count, of = accuracies.shape[1], "runs at all values"
    if len(accuracies) < 3 or count < 4:
        return Estimate(
            NO_INTERVAL,
            count,
            of,
            note="too few values at which enough runs have not diverged",
        )
    single = jackknife_runs(
        lambda runs: _correlation_of_runs(accuracies[:, runs]), count
    )
    half = count // 2
    if not np.isfinite(single.value):
        return Estimate(
            NO_INTERVAL, count, of, note="accuracy is the same at all values"
        )
    halves = Interval(
        *(
            float(np.clip(half * r / max(1 + (half - 1) * r, 1e-300), -1, 1))
            for r in single
        )
    )
    return Estimate(
        halves,
        count,
        of,
        halves.value,
        "Pearson's r",
        f"{single.value:.2f} between two single runs",
    )


def _correlation_of_runs(values: np.ndarray) -> float:
    """Correlation of the curves of two runs: covariance over all pairs by the mean
    variance. values: (value, run).

    NaN if no run varies.
    """
    count = values.shape[1]
    apart = values - values.mean(axis=0)
    own = (apart**2).sum() / count
    shared = ((apart.sum(axis=1) ** 2).sum() - count * own) / (count * (count - 1))
    return float(shared / own) if own > 0 else float("nan")


def same_initial_loss(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs whose loss before training is the same at all values of the
    `SAME_START` panels."""
    losses = [
        evidence[f"first_loss_{panel}"].transpose(panel, "run").values
        for panel in SAME_START
    ]
    same = np.all([(loss == loss[:1]).all(axis=0) for loss in losses], axis=0)
    return samples.percentage_of_ones(same, "runs")


def best_value(evidence: xr.Dataset, panel: str) -> Estimate:
    """The value of a panel with the highest mean accuracy; its interval is a percentile
    bootstrap over runs.

    Runs that have diverged are left out of the means, and values at which half of the
    runs have."""
    values, accuracy = _accuracies(evidence, panel)
    runs, usable = accuracy.shape[1], np.isfinite(accuracy).mean(axis=1) > 0.5
    if runs < 2 or not usable.any():
        return Estimate(NO_INTERVAL, runs, note="too few runs have not diverged")
    values, accuracy = values[usable], accuracy[usable]
    drawn = random_stream(0, f"ablation/{panel}").multinomial(
        runs, np.full(runs, 1 / runs), 2000
    )
    counts = np.vstack([np.ones(runs), drawn]).T
    means = (
        np.nan_to_num(accuracy) @ counts / np.maximum(np.isfinite(accuracy) @ counts, 1)
    )
    best = values[means.argmax(axis=0)]
    low, high = np.quantile(best[1:], [0.025, 0.975], method="inverted_cdf")
    at_recipe = means[np.abs(np.log(values / RECIPE[panel])).argmin(), 0]
    note = (
        f"mean accuracy {100 * means[:, 0].max():.1f}% there, {100 * at_recipe:.1f}%"
        " next to the recipe's value"
    )
    note += (
        "; at the end of the range" if best[0] in (values.min(), values.max()) else ""
    )
    return Estimate(
        Interval(*map(float, (best[0], min(low, best[0]), max(high, best[0])))),
        runs,
        note=note,
    )
