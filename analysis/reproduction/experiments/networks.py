"""CA table 1: how networks trained at four weight decays end."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from analysis.reproduction.ca_tables import end_accuracy
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs, frame_values
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import (
    estimate_mean,
    finite_values,
    independent_difference,
    mean_by_seed,
    paired_difference,
    percentage_difference,
    percentage_or_none,
    stratified_difference,
)
from analysis.statistics.intervals import Interval, correlation_interval
from analysis.statistics.resampling import jackknife_groups
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics.randomness import random_stream
from dynamics.settings import ModularSettings
from dynamics.trajectory.diverged import not_diverged

DECAYS = (0.0, 0.3, 0.6, 1.0)
"""Weight decays of the table."""
SHUFFLES = 20
"""Renamings of the tokens that tell what as many points in the same places would be by chance."""
DIMS = ("weight_decay", "run")


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each row."""
    settings = [ModularSettings(weight_decay=each) for each in DECAYS]
    return [RequiredRuns(each, params["runs"], params.get("epochs"), params.get("every")) for each in settings]


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
    return estimate_mean(row["accuracy"].values[row["circle"].values == of_circles], _kind(of_circles))


def network_imperfections(evidence: xr.Dataset, decay: float) -> Estimate:
    """Mean imperfections of the networks that are not circles."""
    row = evidence.sel(weight_decay=decay)
    return estimate_mean(row["imperfections"].values[row["circle"].values == 0], _kind(False))


def imperfection_correlation(evidence: xr.Dataset, decay: float) -> Estimate:
    """Pearson's r of imperfections and validation accuracy over the networks that are not circles."""
    row = evidence.sel(weight_decay=decay)
    others = row["circle"].values == 0
    found = correlation_interval(row["imperfections"].values[others], row["accuracy"].values[others])
    note = "" if math.isfinite(found.value) else "imperfections or accuracies do not vary"
    return Estimate(found, int(others.sum()), _kind(False), found.value, "Pearson's r", note)


def network_circle_change(evidence: xr.Dataset) -> Estimate:
    """Percentage of circles at weight decay 1 less that without, in points."""
    strong, none = (finite_values(evidence["circle"].sel(weight_decay=each)) for each in (1.0, 0.0))
    return percentage_difference((int(strong.sum()), int(none.sum())), (len(strong), len(none)), "networks")


def weight_decay_trend(evidence: xr.Dataset, name: str, of_circles: bool | None = None) -> Estimate:
    """Spearman's correlation of a quantity with weight decay, over all networks or one kind, seeds left out in turn."""
    values = evidence[name].transpose(*DIMS).values
    kept = np.isfinite(values)
    if of_circles is not None:
        kept &= evidence["circle"].transpose(*DIMS).values == of_circles
    decay, run = np.broadcast_arrays(evidence["weight_decay"].values[:, None], evidence["run"].values)
    decay, run, values = decay[kept], run[kept], values[kept]
    found = jackknife_groups(lambda those: _spearman(decay[those], values[those]), run)
    found = Interval(*(float(np.clip(each, -1, 1)) for each in found))
    note = "" if math.isfinite(found.value) else "it does not vary"
    return Estimate(found, len(values), "networks", found.value, "Spearman's rho", note)


def _spearman(first: np.ndarray, second: np.ndarray) -> float:
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def network_imperfection_change(evidence: xr.Dataset) -> Estimate:
    """Mean imperfections of the others at weight decay 1 less that without."""
    others = evidence["imperfections"].where(evidence["circle"] == 0)
    return independent_difference(
        others.sel(weight_decay=1.0), others.sel(weight_decay=0.0), "networks that are not circles"
    )


def network_accuracy_change(evidence: xr.Dataset) -> Estimate:
    """Validation accuracy at weight decay 1 less that without, in points."""
    return paired_difference(
        evidence["accuracy"].sel(weight_decay=1.0), evidence["accuracy"].sel(weight_decay=0.0), "seeds"
    )


def clustered_sums(evidence: xr.Dataset, decay: float, of_circles: bool = False) -> Estimate:
    """Percentage of pair sums whose nearest other has the same modular sum, a mean over networks."""
    row = evidence.sel(weight_decay=decay)
    return estimate_mean(_same(row["imperfections"].values)[row["circle"].values == of_circles], _kind(of_circles))


def clustered_excess(evidence: xr.Dataset, decay: float, other: str) -> Estimate:
    """The same less what it was at the start, or would be with tokens renamed, in points."""
    row = evidence.sel(weight_decay=decay)
    others = row["circle"].values == 0
    return paired_difference(_same(row["imperfections"].values)[others], _same(row[other].values)[others], _kind(False))


def clustered_by_kind(evidence: xr.Dataset) -> Estimate:
    """The percentage in circles less that in the others, within weight decays, in points."""
    return circles_minus_others(evidence.assign(same=_same(evidence["imperfections"])), "same")


def _same(imperfect):
    """Percentage of the 153 pair sums of 17 tokens that are not imperfect."""
    return 100 - 100 * imperfect / ModularSettings().pairs


def overfitting_gap(evidence: xr.Dataset, decay: float) -> Estimate:
    """Training less validation accuracy, in points, at a weight decay."""
    row = evidence.sel(weight_decay=decay)
    return paired_difference(row["train_accuracy"], row["accuracy"], "networks")


def overfitting_gap_change(evidence: xr.Dataset) -> Estimate:
    """The gap of training and validation accuracy without weight decay less that at weight decay 1, in points."""
    gap = evidence["train_accuracy"] - evidence["accuracy"]
    return paired_difference(gap.sel(weight_decay=0.0), gap.sel(weight_decay=1.0), "seeds")


def flatten_over_decays(evidence: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, whether circles, and seeds of the networks of all weight decays, each (network,)."""
    values, circle = (evidence[each].transpose(*DIMS).values for each in (name, "circle"))
    return values.ravel(), circle.ravel(), np.broadcast_to(evidence["run"].values, circle.shape).ravel()


def mean_in_circles(evidence: xr.Dataset, name: str, unit: float = 1.0) -> Estimate:
    """Mean of a quantity over the circles of all weight decays, those of one seed counting as one."""
    values, circle, run = flatten_over_decays(evidence, name)
    return mean_by_seed(unit * values, circle == 1, run, "circles")


def circles_minus_others(evidence: xr.Dataset, name: str, unit: float = 1.0) -> Estimate:
    """Mean of a quantity over circles less that over the others, within weight decays, seeds left out in turn."""
    values, circle, run = flatten_over_decays(evidence, name)
    decay = np.repeat(evidence["weight_decay"].values, evidence.sizes["run"])
    return stratified_difference(unit * values, circle == 1, circle == 0, run, decay, "networks")


def _kind(of_circles: bool) -> str:
    return "circles" if of_circles else "networks that are not circles"
