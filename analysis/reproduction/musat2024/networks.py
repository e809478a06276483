"""Networks trained at the four weight decays of CA table 1: what the claims of several sections measure on them."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from analysis.reproduction.verification.claim import Measurement, part
from analysis.reproduction.verification.criteria import Criterion
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Params
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import (
    estimate_mean,
    mean_by_seed,
    paired_difference,
    stratified_difference,
)
from analysis.statistics.intervals import Interval
from analysis.statistics.resampling import jackknife_groups
from dynamics.settings import ModularSettings

DECAYS = (0.0, 0.3, 0.6, 1.0)
"""Weight decays of the table."""
DIMS = ("weight_decay", "run")


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each row."""
    settings = [ModularSettings(weight_decay=each) for each in DECAYS]
    return [RequiredRuns(each, params["runs"], params.get("epochs"), params.get("every")) for each in settings]


def clustered_sums(evidence: xr.Dataset, decay: float, of_circles: bool = False) -> Estimate:
    """Percentage of pair sums whose nearest other has the same modular sum, a mean over networks."""
    row = evidence.sel(weight_decay=decay)
    return estimate_mean(
        _same(row["imperfections"].values)[row["circle"].values == of_circles], network_kind(of_circles)
    )


def clustered_excess(evidence: xr.Dataset, decay: float, other: str) -> Estimate:
    """The same less what it was at the start, or would be with tokens renamed, in points."""
    row = evidence.sel(weight_decay=decay)
    others = row["circle"].values == 0
    return paired_difference(
        _same(row["imperfections"].values)[others], _same(row[other].values)[others], network_kind(False)
    )


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


def network_accuracy_change(evidence: xr.Dataset) -> Estimate:
    """Validation accuracy at weight decay 1 less that without, in points."""
    return paired_difference(
        evidence["accuracy"].sel(weight_decay=1.0), evidence["accuracy"].sel(weight_decay=0.0), "seeds"
    )


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


def network_kind(of_circles: bool) -> str:
    return "circles" if of_circles else "networks that are not circles"


def trend_part(rule: Criterion, name: str, **more) -> Measurement:
    """A quantity rises or falls with weight decay."""
    return part(weight_decay_trend, rule, "rank correlation with weight decay", digits=2, name=name, **more)
