"""Estimates from samples of runs: means, percentages, differences, ratios, and
differences between kinds of runs.

Networks of one seed have the same initial weights and the same training pairs at every
weight decay. If networks of several weight decays are pooled, the jackknife therefore
leaves out all networks of a seed together."""

import math

import numpy as np
import xarray as xr

from analysis.reproduction.verification.estimate import (
    Estimate,
    as_percentage,
    percentage,
)
from analysis.statistics import intervals
from analysis.statistics.ranks import rank_correlation
from analysis.statistics.resampling import jackknife_groups

Values = np.ndarray | xr.DataArray


def finite_values(values: Values) -> np.ndarray:
    """The finite ones of some values, flattened: (value,) float64."""
    flat = np.asarray(values, np.float64).ravel()
    return flat[np.isfinite(flat)]


def estimate_mean(
    values: Values,
    of: str = "runs",
    note: str = "",
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Mean over runs, those without a value left out. limits: the range of possible
    values."""
    kept = finite_values(values)
    mean_interval = intervals.mean_interval(kept, discrete=True, limits=limits)
    return Estimate(
        mean_interval, len(kept), of, note=note or _no_interval_note(kept, of)
    )


def estimate_median(values: Values, of: str = "runs", note: str = "") -> Estimate:
    """Median over runs, those without a value left out."""
    kept = finite_values(values)
    return Estimate(
        intervals.median_interval(kept),
        len(kept),
        of,
        note=note if len(kept) else f"there are no {of}",
    )


def _no_interval_note(values: np.ndarray, of: str) -> str:
    """Why values have no interval: that there are none, or that they are all the
    same."""
    if not len(values):
        return f"there are no {of}"
    return (
        "all the same, which gives no interval"
        if len(values) > 1 and np.ptp(values) == 0
        else ""
    )


def percentage_or_none(hits: int, total: int, of: str, note: str = "") -> Estimate:
    """Percentage of cases that are hits, with its exact binomial interval; without
    cases, the note says so."""
    return percentage(hits, total, of, note if total else f"there are no {of}")


def percentage_of_ones(values: Values, of: str, note: str = "") -> Estimate:
    """Percentage of values 0 and 1 that are 1, those without a value left out."""
    kept = finite_values(values)
    return percentage_or_none(int(kept.sum()), len(kept), of, note)


def difference_of_ones(first: Values, second: Values, of: str = "runs") -> Estimate:
    """Difference of the percentages of values 0 and 1 that are 1, first - second, in
    points."""
    one, other = finite_values(first), finite_values(second)
    return percentage_difference(
        (int(one.sum()), int(other.sum())), (len(one), len(other)), of
    )


def independent_difference(first: Values, second: Values, of: str = "runs") -> Estimate:
    """Difference of the means of independent runs, first - second, with Cohen's d."""
    one, other = finite_values(first), finite_values(second)
    note = "" if len(one) and len(other) else f"one of the two has no {of}"
    difference_interval = intervals.difference_interval(one, other, discrete=True)
    return Estimate(
        difference_interval,
        len(one) + len(other),
        of,
        cohens_d(one, other),
        "Cohen's d",
        note,
    )


def cohens_d(one: np.ndarray, other: np.ndarray) -> float:
    """Difference of two means in units of the pooled standard deviation; NaN where
    there is none."""
    if min(len(one), len(other)) < 2:
        return math.nan
    freedom = len(one) + len(other) - 2
    pooled = (
        (len(one) - 1) * one.var(ddof=1) + (len(other) - 1) * other.var(ddof=1)
    ) / freedom
    return (
        float((one.mean() - other.mean()) / np.sqrt(pooled)) if pooled > 0 else math.nan
    )


def paired_difference(first: Values, second: Values, of: str = "runs") -> Estimate:
    """Mean difference of runs of equal seeds, first - second, both (run,), with the
    effect d_z."""
    apart = finite_values(
        np.asarray(first, np.float64) - np.asarray(second, np.float64)
    )
    spread = apart.std(ddof=1) if len(apart) > 1 else 0.0
    effect = float(apart.mean() / spread) if spread > 0 else math.nan
    mean = intervals.mean_interval(apart, discrete=True)
    return Estimate(mean, len(apart), of, effect, "d_z", _no_interval_note(apart, of))


def paired_ratio(first: Values, second: Values, of: str = "runs") -> Estimate:
    """Geometric mean of the ratios of positive values of equal seeds, first / second,
    both (run,)."""
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    kept = (one > 0) & (other > 0)
    mean_interval = intervals.mean_interval(np.log(one[kept] / other[kept]))
    ratio = intervals.Interval(*(math.exp(item) for item in mean_interval))
    return Estimate(
        ratio,
        int(kept.sum()),
        of,
        ratio.value,
        "ratio",
        "" if kept.any() else f"there are no {of}",
    )


def percentage_difference(
    hits: tuple[int, int], totals: tuple[int, int], of: str = "runs"
) -> Estimate:
    """Difference of two percentages, first - second, in points, from two exact
    intervals, with Cohen's h."""
    if min(totals) == 0:
        return Estimate(
            intervals.NO_INTERVAL, sum(totals), of, note=f"one of the two has no {of}"
        )
    one, other = (
        intervals.binomial_interval(*hit) for hit in zip(hits, totals, strict=True)
    )
    angles = [2 * math.asin(math.sqrt(item.value)) for item in (one, other)]
    difference = as_percentage(intervals.difference_of_estimates(one, other))
    return Estimate(difference, sum(totals), of, angles[0] - angles[1], "Cohen's h")


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
    kind. Cohen's d is relative to the standard deviation within kinds and strata."""
    used = (first | second) & np.isfinite(values)
    values, kind, groups = values[used], first[used], groups[used]
    cells = 2 * np.unique(strata[used], return_inverse=True)[1] + ~kind
    size = 2 * (int(cells.max(initial=-1)) // 2 + 1)

    def means(kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts and means, both (stratum, kind)."""
        counts = np.bincount(cells[kept], minlength=size)
        totals = np.bincount(cells[kept], values[kept], minlength=size)
        return counts.reshape(-1, 2), (totals / np.maximum(counts, 1)).reshape(-1, 2)

    def apart(kept: np.ndarray) -> float:
        counts, mean = means(kept)
        weight = counts.min(axis=1)
        return (
            float((weight * (mean[:, 0] - mean[:, 1])).sum() / weight.sum())
            if weight.any()
            else math.nan
        )

    result = jackknife_groups(apart, groups)
    if math.isnan(result.value):
        return Estimate(
            intervals.NO_INTERVAL,
            len(values),
            of,
            note=f"nowhere are there {of} of both kinds",
        )
    counts, mean = means(np.ones(len(values), bool))
    both = np.repeat(counts.min(axis=1) > 0, 2)[cells]
    rest, freedom = (
        (values - mean.ravel()[cells])[both],
        int(both.sum() - 2 * (counts.min(axis=1) > 0).sum()),
    )
    spread = math.sqrt((rest**2).sum() / freedom) if freedom > 0 else 0.0
    effect = result.value / spread if spread > 0 else math.nan
    return Estimate(result, int(both.sum()), of, effect, "Cohen's d")


def setting_trend(values: xr.DataArray, of: str = "networks") -> Estimate:
    """Spearman's correlation of values (setting, run) with the setting, seeds left out
    in turn; NaN are no values."""
    known = values.to_series().dropna()
    setting, run = (known.index.get_level_values(dim).values for dim in values.dims)
    numbers = known.values
    groups = jackknife_groups(
        lambda those: rank_correlation(setting[those], numbers[those]).value, run
    )
    groups = intervals.Interval(*(float(np.clip(item, -1, 1)) for item in groups))
    note = "" if math.isfinite(groups.value) else "it does not vary"
    return Estimate(groups, len(numbers), of, groups.value, "Spearman's rho", note)


def mean_by_seed(
    values: np.ndarray, chosen: np.ndarray, seeds: np.ndarray, of: str
) -> Estimate:
    """Mean over seeds that have chosen cases, those of one seed counting as one:
    values, chosen, seeds (case,)."""
    kept = chosen & np.isfinite(values)
    means = np.array(
        [values[kept & (seeds == name)].mean() for name in np.unique(seeds[kept])]
    )
    return estimate_mean(means, f"seeds that have {of}")


def own_and_others(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A measure of runs with themselves, and its mean with other runs: (run, other_run)
    -> two of (run,)."""
    known = np.isfinite(matrix) & ~np.eye(len(matrix), dtype=bool)
    count = known.sum(axis=1)
    return np.diagonal(matrix), np.where(known, matrix, 0).sum(axis=1) / np.where(
        count > 0, count, np.nan
    )


def percentage_among(
    hits: np.ndarray, among: np.ndarray, of: str, note: str = ""
) -> Estimate:
    """Percentage of the cases in `among` that are hits too, with its exact binomial
    interval; both (case,) bool."""
    return percentage(int((hits & among).sum()), int(among.sum()), of, note)
