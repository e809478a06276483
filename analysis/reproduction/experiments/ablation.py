"""VC figures 6 and 7: test accuracy along four settings, of single runs and of many."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification.estimate import Estimate, as_percentage, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import NO_INTERVAL, Interval, clustered_binomial_interval
from analysis.statistics.resampling import jackknife_runs
from analysis.transitions.ablations import ABLATION_PANELS, merge_ablation_sweeps, plan_ablation, run_ablation
from dynamics.settings import SparseSettings
from dynamics.sweeps.design import SweepDesign
from dynamics.trajectory.reader import open_trajectory

PANELS = tuple(ABLATION_PANELS)

SAME_START = ("batch", "lr", "mlp_lr_discount")
"""Panels along which networks are of one size, so that all of their first weights can be the same."""

JUMP = 0.1
"""Change of accuracy between neighbouring values that is large."""


def _designs(params: Params, device: str = "auto") -> dict[str, SweepDesign]:
    """The sweeps of `analysis.ablation`, whose runs are used here too."""
    return plan_ablation(
        SparseSettings(**params.get("settings", {})),
        points=params["points"],
        max_hidden=params["max_hidden"],
        runs=params["runs"],
        epochs=params.get("epochs", 1000),
        device=device,
    )


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Every value of every panel, the cheapest first: of each the first and the last frame, without weights."""
    points = merge_ablation_sweeps(_designs(params).values()).points
    epochs = params.get("epochs", 1000)
    return [RequiredRuns(each.settings, params["runs"], epochs, every=0, record="metrics") for each in points]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Of each panel final test accuracy, NaN where a run has diverged, and the loss before training: (value, run)."""
    designs = _designs(params, runner.device)
    found, _ = run_ablation(designs, runner.scheduler)
    variables = {}
    for name, design in designs.items():
        about = {"long_name": "test accuracy at the end", "units": "1"}
        accuracy = found[f"accuracy_{name}"].sel(split="test").transpose(name, "run").values
        variables[f"test_{name}"] = ((name, "run"), accuracy, about)
        first = []
        for point in design.points:
            with open_trajectory(point.path) as trajectory:
                first.append(trajectory["loss"].isel(step=0).sel(split="train").values)
        about = {"long_name": "training loss of the first weights", "units": "1"}
        variables[f"first_loss_{name}"] = ((name, "run"), np.stack(first), about)
    return xr.Dataset(variables, {name: found[name].values for name in designs})


ABLATION = Experiment(
    "vc.ablation",
    "test accuracy after 1000 epochs along batch size, width, learning rate and that of the MLP",
    sizes={
        Size.DEFAULT: {"runs": 32, "points": 13, "max_hidden": 1000},
        Size.FULL: {"runs": 100, "points": 20, "max_hidden": 10_000},
    },
    seconds={Size.DEFAULT: 5, Size.FULL: 15},
    measure=measure,
    reduced={
        Size.DEFAULT: "32 runs a value in place of 100; 13 learning rates and discounts in place of 20, 9 widths up to "
        "1000 in place of 20 up to 10,000, all 12 batch sizes. So values are a factor of 1.7 to 2.2 apart in place of "
        "1.4 to 1.6, which makes jumps between them likelier"
    },
    ensembles=ensembles,
    command="python -m analysis.ablation --runs 32 --points 13 --max-hidden 1000",
)


# ----------------------------------------------------------------------------------------------- what was found


def _accuracy_changes(evidence: xr.Dataset, panel: str) -> np.ndarray:
    """Change of test accuracy from each value of a panel to the next, (value, run); NaN beside one that diverged."""
    return np.abs(np.diff(evidence[f"test_{panel}"].transpose(panel, "run").values.astype(np.float64), axis=0))


def accuracy_jumps(evidence: xr.Dataset, panel: str) -> Estimate:
    """Percentage of steps from one value to the next at which the accuracy of a single run changes by more than JUMP.

    The runs' own steps are not independent; the interval is by runs.
    """
    moved, values = _accuracy_changes(evidence, panel), evidence[panel].values.astype(np.float64)
    totals, hits = np.isfinite(moved).sum(axis=0), (moved > JUMP).sum(axis=0)
    of = f"steps between values, of {moved.shape[1]} runs"
    if not totals.any():
        return Estimate(NO_INTERVAL, 0, of, note="no two values at which runs have not diverged")
    factors = values[1:] / values[:-1]
    note = f"in the first run, as in figure 6, {hits[0]} of {totals[0]}; a step is by a factor of {factors.min():.3g}"
    note += f" to {factors.max():.3g}" if factors.max() > 1.01 * factors.min() else ""
    return Estimate(as_percentage(clustered_binomial_interval(hits, totals)), int(totals.sum()), of, note=note)


def panel_regularity(evidence: xr.Dataset, panel: str) -> Estimate:
    """Correlation along a panel of the mean over one half of the runs with that over the other, as over all ways to
    halve them. Where the values do nothing it is about 0, however smooth a mean of many runs is.

    Values at which half of the runs diverge are left out, and then runs that diverge at others. Interval by runs.
    """
    values = evidence[f"test_{panel}"].transpose(panel, "run").values.astype(np.float64)
    values = values[np.isfinite(values).sum(axis=1) > values.shape[1] / 2]
    values = values[:, np.isfinite(values).all(axis=0)]
    of = "runs at all values"
    if len(values) < 3 or values.shape[1] < 4:
        return Estimate(NO_INTERVAL, values.shape[1], of, note="too few values at which enough runs have not diverged")
    single = jackknife_runs(lambda runs: _alike(values[:, runs]), values.shape[1])
    if not np.isfinite(single.value):
        return Estimate(NO_INTERVAL, values.shape[1], of, note="accuracy is the same at all values")
    found = Interval(*(_of_means(each, values.shape[1] // 2) for each in single))
    return Estimate(found, values.shape[1], of, found.value, "Pearson's r", f"of two single runs {single.value:.2f}")


def _alike(values: np.ndarray) -> float:
    """Correlation of the curves of two runs: covariance over all pairs by the mean variance. values: (value, run).

    NaN where no run varies.
    """
    count = values.shape[1]
    apart = values - values.mean(axis=0)
    own = (apart**2).sum() / count
    shared = ((apart.sum(axis=1) ** 2).sum() - count * own) / (count * (count - 1))
    return float(shared / own) if own > 0 else float("nan")


def _of_means(single: float, many: int) -> float:
    """Correlation of the mean curves of so many runs and of as many others, from that of two runs (Spearman and
    Brown)."""
    if np.isnan(single):
        return single
    whole = 1 + (many - 1) * single
    return min(1.0, max(-1.0, many * single / whole)) if whole > 0 else -1.0


def same_initial_loss(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs whose loss before training is the same at all values of `SAME_START` panels."""
    same = [evidence[f"first_loss_{panel}"].transpose(panel, "run").values for panel in SAME_START]
    alike = np.all([(each == each[:1]).all(axis=0) for each in same], axis=0)
    return percentage(int(alike.sum()), len(alike))
