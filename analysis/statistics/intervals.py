"""95% confidence intervals of fractions, means, medians, differences and
correlations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE_LEVEL = 0.95


def drop_non_finite(values: np.ndarray) -> np.ndarray:
    """The values that are neither NaN nor infinite, (value,)."""
    return values[np.isfinite(values)]


class Interval(NamedTuple):
    """An estimate with the bounds of its 95% interval.

    The bounds are NaN if the data are too few for an interval; the value is NaN if
    there are no data."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the width."""
        return (self.high - self.low) / 2


NO_INTERVAL = Interval(math.nan, math.nan, math.nan)
"""The interval of an empty sample."""


def binomial_interval(count: int, total: int) -> Interval:
    """Fraction of successes with its exact (Clopper-Pearson) interval.

    Parameters
    ----------
    count, total : int
        Number of successes and of trials.

    Returns
    -------
    Interval
        All NaN for no trials.

    Examples
    --------
    >>> from analysis.statistics import binomial_interval
    >>> binomial_interval(17, 100).low
    0.10226...
    """
    if total == 0:
        return NO_INTERVAL
    bounds = stats.binomtest(count, total).proportion_ci(
        CONFIDENCE_LEVEL, method="exact"
    )
    return Interval(count / total, float(bounds.low), float(bounds.high))


def clustered_binomial_interval(counts: np.ndarray, totals: np.ndarray) -> Interval:
    """Fraction of successes among cases that are not independent within a run.

    The interval is that of Korn and Graubard (Survey Methodology 24 (1998), 193): the
    exact binomial interval for the effective number of independent cases.

    Parameters
    ----------
    counts, totals : array, shape (run,)
        Successes and cases of each run.

    Returns
    -------
    Interval
        All NaN for no cases.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import clustered_binomial_interval
    >>> clustered_binomial_interval(np.array([9, 1, 8]), np.array([10, 10, 10])).value
    0.6
    """
    count = int(totals.sum())
    if not count:
        return NO_INTERVAL
    fraction = float(counts.sum() / count)
    effect = 1.0
    runs = int((totals > 0).sum())
    if 0 < fraction < 1 and runs > 1:
        variance = (
            runs / (runs - 1) * ((counts - fraction * totals) ** 2).sum() / count**2
        )
        freedom = stats.t.ppf(
            (1 + CONFIDENCE_LEVEL) / 2, [count - 1, runs - 1]
        )  # the variance of few runs is uncertain
        independent = fraction * (1 - fraction) / (count - 1)
        effect = max(
            1.0, float(variance / independent * (freedom[1] / freedom[0]) ** 2)
        )
    elif runs:  # with none or all successes the variance within runs is unknown: count each run once
        effect = count / runs
    return Interval(fraction, *_beta_bounds(fraction, count / effect))


UNBOUNDED = (-math.inf, math.inf)
"""The range of values that are not limited."""

_EQUAL = 1e-12
"""Values that differ by less than this fraction of the largest one count as equal."""


def mean_interval(
    values: np.ndarray,
    discrete: bool = False,
    limits: tuple[float, float] = UNBOUNDED,
) -> Interval:
    """Mean with its interval.

    Values between two limits, such as accuracies, have the interval of a fraction: that
    of Clopper and Pearson for m of n successes, where m is not an integer. The variance
    of n such values is at most that of n values that are 0 or 1, so their interval is
    valid; if the variance of the values is smaller, n is replaced by the number of zeros
    and ones whose mean would have the same variance, times (z / t)², since the variance
    of few values is uncertain (as by Korn and Graubard, see
    `clustered_binomial_interval`). Its width is never 0.

    Other values have the t interval. If they are equal, their spread is unknown and the
    bounds are NaN; that of counts is at least that of rounding to integers, 1 / 12.

    Parameters
    ----------
    values : array, shape (sample,)
    discrete : bool
        Whether the values are counts, which may be equal by chance.
    limits : (float, float)
        The range of possible values, such as (0, 1) for accuracies.

    Returns
    -------
    Interval
        Within the limits. The bounds are NaN for fewer than two values; all fields are
        NaN for an empty sample.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import mean_interval
    >>> mean_interval(np.array([1.0, 2.0, 4.0])).value
    2.333...
    >>> round(mean_interval(np.array([1.0, 1.0, 1.0]), limits=(0, 1)).low, 3)
    0.292
    """
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        return NO_INTERVAL
    mean = float(values.mean())
    if values.size == 1:
        return Interval(mean, math.nan, math.nan)
    if all(map(math.isfinite, limits)):
        low, high = _bounded_mean_bounds(values, limits)
        return Interval(mean, min(low, mean), max(high, mean))
    variance = float(values.var(ddof=1))
    if discrete:
        variance = max(variance, 1 / 12)
    elif _are_equal(values):
        return Interval(mean, math.nan, math.nan)
    half = _t_quantile(values.size - 1) * math.sqrt(variance / values.size)
    return Interval(mean, max(mean - half, limits[0]), min(mean + half, limits[1]))


def _are_equal(values: np.ndarray) -> bool:
    return bool(np.ptp(values) <= _EQUAL * np.abs(values).max())


def _t_quantile(freedom: float) -> float:
    return float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom))


def _bounded_mean_bounds(
    values: np.ndarray, limits: tuple[float, float]
) -> tuple[float, float]:
    """Bounds of the mean of values between two limits (`mean_interval`)."""
    least = limits[0]
    span = limits[1] - limits[0]
    fractions = np.clip((values - least) / span, 0, 1)
    mean = float(fractions.mean())
    number = float(len(fractions))
    if not _are_equal(values):
        z = float(stats.norm.ppf((1 + CONFIDENCE_LEVEL) / 2))
        certainty = (z / _t_quantile(number - 1)) ** 2
        variance = float(fractions.var(ddof=1)) / number
        number = max(number, certainty * mean * (1 - mean) / variance)
    low, high = _beta_bounds(mean, number)
    return least + span * low, least + span * high


def _beta_bounds(fraction: float, number: float) -> tuple[float, float]:
    """Clopper and Pearson's bounds for a fraction of a number of cases, both real."""
    hits = fraction * number
    tail = (1 - CONFIDENCE_LEVEL) / 2
    low = high = fraction
    if fraction > 0:
        low = float(stats.beta.ppf(tail, hits, number - hits + 1))
    if fraction < 1:
        high = float(stats.beta.ppf(1 - tail, hits + 1, number - hits))
    return low, high


def median_interval(values: np.ndarray) -> Interval:
    """Median with its exact interval between order statistics.

    Parameters
    ----------
    values : array, shape (sample,)

    Returns
    -------
    Interval
        The bounds are NaN for fewer than six values; all fields are NaN for an empty
        sample, and for one with NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import median_interval
    >>> median_interval(np.arange(11.0))
    Interval(value=5.0, low=1.0, high=9.0)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if ordered.size == 0 or np.isnan(ordered[-1]):  # NaN comes last
        return NO_INTERVAL
    rank = int(stats.binom.ppf((1 - CONFIDENCE_LEVEL) / 2, ordered.size, 0.5))
    bounds = (
        (float(ordered[rank - 1]), float(ordered[-rank]))
        if rank >= 1
        else (math.nan, math.nan)
    )
    return Interval(float(np.median(ordered)), *bounds)


def difference_interval(
    first: np.ndarray, second: np.ndarray, limits: tuple[float, float] = UNBOUNDED
) -> Interval:
    """Difference of the means of two independent samples, first - second: with Welch's
    t interval, or, of values between two limits, by `difference_of_estimates`.

    Parameters
    ----------
    first, second : array, shape (sample,)
    limits : (float, float)
        The range of possible values, as in `mean_interval`.

    Returns
    -------
    Interval
        The bounds are NaN if a sample has fewer than two values, or if neither sample
        varies and values are not limited; all fields are NaN if one is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import difference_interval
    >>> difference_interval(np.array([3.0, 5.0]), np.array([1.0, 2.0])).value
    2.5
    """
    samples = [np.asarray(values, dtype=np.float64) for values in (first, second)]
    if min(values.size for values in samples) == 0:
        return NO_INTERVAL
    if all(map(math.isfinite, limits)):
        means = [mean_interval(values, limits=limits) for values in samples]
        return difference_of_estimates(*means)
    difference = float(samples[0].mean() - samples[1].mean())
    if min(values.size for values in samples) == 1 or all(map(_are_equal, samples)):
        return Interval(difference, math.nan, math.nan)
    bounds = stats.ttest_ind(*samples, equal_var=False).confidence_interval(
        CONFIDENCE_LEVEL
    )
    return Interval(difference, float(bounds.low), float(bounds.high))


def difference_of_estimates(first: Interval, second: Interval) -> Interval:
    """Difference of two independent estimates, first - second, from their intervals,
    which may be asymmetric.

    For fractions this is Newcombe's method (Statistics in Medicine 17 (1998), 873), for
    other estimates that of Zou and Donner (Statistics in Medicine 27 (2008), 1693).

    Parameters
    ----------
    first, second : Interval

    Returns
    -------
    Interval

    Examples
    --------
    >>> from analysis.statistics import binomial_interval, difference_of_estimates
    >>> difference_of_estimates(binomial_interval(17, 100), binomial_interval(56, 100)).value
    -0.39...
    """
    difference = first.value - second.value
    low = difference - math.hypot(first.value - first.low, second.high - second.value)
    return Interval(
        difference,
        low,
        difference + math.hypot(first.high - first.value, second.value - second.low),
    )


def correlation_interval(first: np.ndarray, second: np.ndarray) -> Interval:
    """Pearson's correlation of two samples with its Fisher-z interval.

    Parameters
    ----------
    first, second : array, shape (sample,)

    Returns
    -------
    Interval
        All NaN if a sample does not vary; the bounds are NaN for fewer than four pairs,
        and for a correlation of 1 or -1, whose error is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import correlation_interval
    >>> correlation_interval(np.arange(4), np.array([0, 1, 2, 4])).value
    0.98...
    """
    first = np.asarray(first, dtype=np.float64)
    second = np.asarray(second, dtype=np.float64)
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return NO_INTERVAL
    result = stats.pearsonr(first, second)
    if len(first) < 4 or abs(result.statistic) > 1 - _EQUAL:
        return Interval(float(result.statistic), math.nan, math.nan)
    low, high = result.confidence_interval(CONFIDENCE_LEVEL)
    return Interval(float(result.statistic), float(low), float(high))


def t_interval(mean: float, error: float, freedom: int) -> Interval:
    """The t interval of an estimate from its standard error and the degrees of freedom
    of that error."""
    half = _t_quantile(freedom) * error
    return Interval(mean, mean - half, mean + half)
