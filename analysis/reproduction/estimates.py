"""Estimates from samples of runs, each with its 95% interval: means, percentages,
differences, ratios, and differences between kinds of runs.

Networks of one seed have the same initial weights and the same training pairs at every
weight decay. If networks of several weight decays are pooled, the jackknife therefore
leaves out all networks of a seed together.

`of` says what a case is, such as "runs". Values that are NaN are left out."""

import math
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.statistics import intervals
from analysis.statistics.intervals import Interval, binomial_interval
from analysis.statistics.ranks import rank_correlation
from analysis.statistics.resampling import jackknife_groups

Values = np.ndarray | xr.DataArray


class Estimate(NamedTuple):
    """An estimate from our runs, in the claim's unit."""

    interval: Interval
    """95% interval; bounds are NaN if there are too few cases, all is NaN if there is
    nothing to measure"""
    count: int  # type: ignore[assignment]  # not the method of tuples
    """Number of cases (runs, spikes or what `of` names)"""
    of: str = "runs"
    note: str = ""
    """A remark for the reader"""

    @property
    def value(self) -> float:
        """The number itself; NaN if there is nothing to measure."""
        return self.interval.value


def as_percentage(share: Interval) -> Interval:
    """A fraction with its interval, as a percentage."""
    return Interval(*(100 * item for item in share))


def percentage(hits: int, total: int, of: str = "runs", note: str = "") -> Estimate:
    """`hits` of `total` cases as a percentage, with its exact binomial interval."""
    return Estimate(as_percentage(binomial_interval(hits, total)), total, of, note=note)


def finite_values(values: Values) -> np.ndarray:
    """The finite ones of some values, flattened: (value,) float64."""
    return intervals.drop_non_finite(np.asarray(values, np.float64).ravel())


def estimate_mean(
    values: Values,
    of: str = "runs",
    note: str = "",
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Mean over runs, those without a value left out. limits: the range of possible
    values."""
    finite = finite_values(values)
    mean = intervals.mean_interval(finite, limits=limits)
    return Estimate(mean, len(finite), of, note=note or _no_interval_note(finite, of))


def estimate_median(values: Values, of: str = "runs", note: str = "") -> Estimate:
    """Median over runs, those without a value left out."""
    finite = finite_values(values)
    note = note if len(finite) else f"there are no {of}"
    return Estimate(intervals.median_interval(finite), len(finite), of, note=note)


def _no_interval_note(values: np.ndarray, of: str) -> str:
    """Why values have no interval: that there are none, or that they are all the
    same."""
    if not len(values):
        return f"there are no {of}"
    same = len(values) > 1 and np.ptp(values) == 0
    return "all the same, which gives no interval" if same else ""


def percentage_or_none(hits: int, total: int, of: str, note: str = "") -> Estimate:
    """Percentage of cases that are hits, with its exact binomial interval; without
    cases, the note says so."""
    return percentage(hits, total, of, note if total else f"there are no {of}")


def percentage_of_ones(values: Values, of: str, note: str = "") -> Estimate:
    """Percentage of values 0 and 1 that are 1, those without a value left out."""
    ones = finite_values(values)
    return percentage_or_none(int(ones.sum()), len(ones), of, note)


def percentage_among(
    hits: np.ndarray, among: np.ndarray, of: str, note: str = ""
) -> Estimate:
    """Percentage of the cases in `among` that are hits too, with its exact binomial
    interval; both (case,) bool."""
    return percentage(int((hits & among).sum()), int(among.sum()), of, note)


def difference_of_ones(first: Values, second: Values, of: str = "runs") -> Estimate:
    """Difference of the percentages of values 0 and 1 that are 1, first - second, in
    points, from two exact intervals."""
    samples = finite_values(first), finite_values(second)
    count = len(samples[0]) + len(samples[1])
    if not (len(samples[0]) and len(samples[1])):
        note = f"one of the two has no {of}"
        return Estimate(intervals.NO_INTERVAL, count, of, note=note)
    one, other = (binomial_interval(int(ones.sum()), len(ones)) for ones in samples)
    difference = as_percentage(intervals.difference_of_estimates(one, other))
    return Estimate(difference, count, of)


def independent_difference(first: Values, second: Values, of: str = "runs") -> Estimate:
    """Difference of the means of independent runs, first - second."""
    one, other = finite_values(first), finite_values(second)
    note = "" if len(one) and len(other) else f"one of the two has no {of}"
    interval = intervals.difference_interval(one, other)
    return Estimate(interval, len(one) + len(other), of, note)


def paired_difference(first: Values, second: Values, of: str = "runs") -> Estimate:
    """Mean difference of runs of equal seeds, first - second, both (run,)."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    change = finite_values(first - second)
    mean = intervals.mean_interval(change)
    return Estimate(mean, len(change), of, _no_interval_note(change, of))


def paired_ratio(first: Values, second: Values, of: str = "runs") -> Estimate:
    """Geometric mean of the ratios of positive values of equal seeds, first / second,
    both (run,)."""
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    positive = (one > 0) & (other > 0)
    logarithm = intervals.mean_interval(np.log(one[positive] / other[positive]))
    ratio = Interval(*map(math.exp, logarithm))
    note = "" if positive.any() else f"there are no {of}"
    return Estimate(ratio, int(positive.sum()), of, note)


def note_means(
    difference: Estimate, first: Values, second: Values, unit: str = "", digits: int = 1
) -> Estimate:
    """A difference with the two means as a remark, if there are any."""
    if not math.isfinite(difference.value):
        return difference
    means = [f"{np.nanmean(values):.{digits}f}{unit}" for values in (first, second)]
    return difference._replace(note=" against ".join(means))


def percent_change(ratio: Estimate) -> Estimate:
    """A ratio as a change in percent: 0 where the ratio is 1."""
    change = Interval(*(100 * (item - 1) for item in ratio.interval))
    return ratio._replace(interval=change)


def less_half(percentage: Estimate) -> Estimate:
    """A percentage minus 50, in points."""
    difference = Interval(*(item - 50 for item in percentage.interval))
    return percentage._replace(interval=difference)


def stratified_difference(
    values: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    groups: np.ndarray,
    strata: np.ndarray,
    of: str,
) -> Estimate:
    """Difference of the means of two kinds of cases, first - second, within strata;
    leaving out groups in turn.

    values (case,), first and second (case,) bool, groups and strata (case,). Kinds are
    compared within strata only, because both their frequencies and the values may
    depend on the stratum. The weight of a stratum is its number of cases of the rarer
    kind."""
    used = (first | second) & np.isfinite(values)
    values, kind, groups = values[used], first[used], groups[used]
    cells = 2 * np.unique(strata[used], return_inverse=True)[1] + ~kind
    size = 2 * (int(cells.max(initial=-1)) // 2 + 1)

    def means(cases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (stratum,) and means (stratum, kind)."""
        counts = np.bincount(cells[cases], minlength=size)
        totals = np.bincount(cells[cases], values[cases], minlength=size)
        mean = (totals / np.maximum(counts, 1)).reshape(-1, 2)
        return counts.reshape(-1, 2).min(axis=1), mean

    def difference(cases: np.ndarray) -> float:
        weight, mean = means(cases)
        if not weight.any():
            return math.nan
        return float((weight * (mean[:, 0] - mean[:, 1])).sum() / weight.sum())

    result = jackknife_groups(difference, groups)
    if math.isnan(result.value):
        note = f"nowhere are there {of} of both kinds"
        return Estimate(intervals.NO_INTERVAL, len(values), of, note=note)
    weight, _ = means(np.ones(len(values), bool))
    both = np.repeat(weight > 0, 2)[cells]
    return Estimate(result, int(both.sum()), of)


def setting_trend(values: xr.DataArray, of: str = "networks") -> Estimate:
    """Spearman's correlation of values (setting, run) with the setting, seeds left out
    in turn; NaN are no values."""
    series = values.to_series().dropna()
    setting, run = (series.index.get_level_values(dim).values for dim in values.dims)
    numbers = series.values
    trend = jackknife_groups(
        lambda cases: rank_correlation(setting[cases], numbers[cases]).value, run
    )
    trend = Interval(*(float(np.clip(item, -1, 1)) for item in trend))
    note = "" if math.isfinite(trend.value) else "it does not vary"
    return Estimate(trend, len(numbers), of, note)


def mean_by_seed(
    values: np.ndarray, chosen: np.ndarray, seeds: np.ndarray, of: str
) -> Estimate:
    """Mean over seeds that have chosen cases, those of one seed counting as one:
    values, chosen, seeds (case,)."""
    used = chosen & np.isfinite(values)
    means = [values[used & (seeds == seed)].mean() for seed in np.unique(seeds[used])]
    return estimate_mean(np.array(means), f"seeds that have {of}")


def own_and_others(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A measure of runs with themselves, and its mean with other runs: (run, other_run)
    -> two of (run,)."""
    others = np.isfinite(matrix) & ~np.eye(len(matrix), dtype=bool)
    count = others.sum(axis=1)
    total = np.where(others, matrix, 0).sum(axis=1)
    return np.diagonal(matrix), total / np.where(count > 0, count, np.nan)
