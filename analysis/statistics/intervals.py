"""95% confidence intervals."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE_LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate between two bounds; bounds are NaN where the data give none, the estimate where there are none."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the width, for symmetric intervals."""
        return (self.high - self.low) / 2


def binomial_interval(count: int, total: int) -> Interval:
    """Share of successes with its exact (Clopper-Pearson) interval."""
    if total == 0:
        return Interval(np.nan, np.nan, np.nan)
    found = stats.binomtest(count, total).proportion_ci(CONFIDENCE_LEVEL, method="exact")
    return Interval(count / total, float(found.low), float(found.high))


def clustered_binomial_interval(counts: np.ndarray, totals: np.ndarray) -> Interval:
    """Share of all that count, of counts by run, both (run,): what is of one run is not independent.

    Korn and Graubard's interval (Survey Methodology 24 (1998), 193): the exact binomial one, of as many as would be
    worth these if they were independent.
    """
    count = int(totals.sum())
    if not count:
        return Interval(np.nan, np.nan, np.nan)
    share = float(counts.sum() / count)
    effect, runs = 1.0, int((totals > 0).sum())
    if 0 < share < 1 and runs > 1:
        variance = runs / (runs - 1) * ((counts - share * totals) ** 2).sum() / count**2
        freedom = stats.t.ppf(
            (1 + CONFIDENCE_LEVEL) / 2, [count - 1, runs - 1]
        )  # few runs tell the variance itself badly
        effect = max(1.0, float(variance / (share * (1 - share) / (count - 1)) * (freedom[1] / freedom[0]) ** 2))
    elif runs:  # none or all, which says nothing of how alike those of a run are: no more worth than the runs
        effect = count / runs
    worth = count / effect
    hits, tail = share * worth, (1 - CONFIDENCE_LEVEL) / 2
    low = float(stats.beta.ppf(tail, hits, worth - hits + 1)) if share > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, hits + 1, worth - hits)) if share < 1 else 1.0
    return Interval(share, low, high)


def mean_interval(values: np.ndarray, discrete: bool = False) -> Interval:
    """Mean with its t interval; bounds are NaN for fewer than two values.

    discrete: they are counts or shares, of which some may be all the same by chance. No spread is then no certainty,
    and bounds are NaN.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        return Interval(np.nan, np.nan, np.nan)
    mean = float(values.mean())
    if values.size == 1 or (discrete and np.ptp(values) == 0):
        return Interval(mean, np.nan, np.nan)
    half = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return Interval(mean, mean - half, mean + half)


def median_interval(values: np.ndarray) -> Interval:
    """Median with its exact interval between order statistics; bounds are NaN for fewer than six values."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if ordered.size == 0:
        return Interval(np.nan, np.nan, np.nan)
    rank = int(stats.binom.ppf((1 - CONFIDENCE_LEVEL) / 2, ordered.size, 0.5))
    bounds = (float(ordered[rank - 1]), float(ordered[-rank])) if rank >= 1 else (np.nan, np.nan)
    return Interval(float(np.median(ordered)), *bounds)


def difference_interval(first: np.ndarray, second: np.ndarray, discrete: bool = False) -> Interval:
    """Difference of two means, first - second, of independent samples, with Welch's t interval.

    Bounds are NaN for fewer than two values of either, the estimate for none. discrete: as for `mean_interval`.
    """
    samples = [np.asarray(values, dtype=np.float64) for values in (first, second)]
    if min(values.size for values in samples) == 0:
        return Interval(np.nan, np.nan, np.nan)
    difference = float(samples[0].mean() - samples[1].mean())
    if min(values.size for values in samples) == 1:
        return Interval(difference, np.nan, np.nan)
    if max(np.ptp(values) for values in samples) == 0:  # both without spread
        return Interval(difference, *([np.nan] * 2 if discrete else [difference] * 2))
    found = stats.ttest_ind(*samples, equal_var=False).confidence_interval(CONFIDENCE_LEVEL)
    return Interval(difference, float(found.low), float(found.high))


def difference_of_estimates(first: Interval, second: Interval) -> Interval:
    """Difference of two independent estimates, first - second, from their intervals, which may be skewed.

    Newcombe's combination for shares (Statistics in Medicine 17 (1998), 873), for any two estimates Zou and Donner's
    (Statistics in Medicine 27 (2008), 1693).
    """
    difference = first.value - second.value
    low = difference - math.hypot(first.value - first.low, second.high - second.value)
    return Interval(difference, low, difference + math.hypot(first.high - first.value, second.value - second.low))


def correlation_interval(first: np.ndarray, second: np.ndarray) -> Interval:
    """Pearson's correlation of two samples (sample,) with its Fisher-z interval.

    NaN throughout for a sample that does not vary, the interval alone for less than four.
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Interval(np.nan, np.nan, np.nan)
    found = stats.pearsonr(first, second)
    if len(first) < 4:
        return Interval(float(found.statistic), np.nan, np.nan)
    low, high = found.confidence_interval(CONFIDENCE_LEVEL)
    return Interval(float(found.statistic), float(low), float(high))


def mean_distance_within(distances: np.ndarray) -> Interval:
    """Mean of the distances within a sample, (one, other) symmetric, diagonal left out.

    Distances that share a run are not independent, so the t interval is over runs by the jackknife: what the mean
    would be without each of them.
    """
    count = len(distances)
    if count < 2:
        return Interval(np.nan, np.nan, np.nan)
    apart = np.where(np.eye(count, dtype=bool), 0.0, distances)
    total, by_run = apart.sum(), apart.sum(axis=1)
    mean = float(total / (count * (count - 1)))
    if count < 3:
        return Interval(mean, np.nan, np.nan)
    without = (total - 2 * by_run) / ((count - 1) * (count - 2))
    error = np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    return t_interval(mean, float(error), count - 1)


def mean_distance_between(distances: np.ndarray, paired: bool = False) -> Interval:
    """Mean of the distances between two samples, (one, other), with a t interval over the runs of both.

    paired: run k of one belongs to run k of the other, and their distance is left out.
    """
    if not distances.size:
        return Interval(np.nan, np.nan, np.nan)
    kept = np.where(np.eye(*distances.shape, dtype=np.bool_), np.nan, distances) if paired else distances
    if not np.isfinite(kept).any():
        return Interval(np.nan, np.nan, np.nan)
    mean = float(np.nanmean(kept))
    if min(distances.shape) < 2:
        return Interval(mean, np.nan, np.nan)
    spread = [np.nanmean(kept, axis=axis).var(ddof=1) / distances.shape[1 - axis] for axis in (0, 1)]
    return t_interval(mean, float(np.sqrt(sum(spread))), min(distances.shape) - 1)


def t_interval(mean: float, error: float, freedom: int) -> Interval:
    """The t interval of a mean whose standard error has so many degrees of freedom."""
    half = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom)) * error
    return Interval(mean, mean - half, mean + half)
