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
    effect, runs = 1.0, int((totals > 0).sum())
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
    effective = count / effect
    hits, tail = fraction * effective, (1 - CONFIDENCE_LEVEL) / 2
    low = (
        float(stats.beta.ppf(tail, hits, effective - hits + 1)) if fraction > 0 else 0.0
    )
    high = (
        float(stats.beta.ppf(1 - tail, hits + 1, effective - hits))
        if fraction < 1
        else 1.0
    )
    return Interval(fraction, low, high)


def mean_interval(
    values: np.ndarray,
    discrete: bool = False,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """Mean with its t interval.

    Parameters
    ----------
    values : array, shape (sample,)
    discrete : bool
        Whether the values are counts or fractions, which may be equal by chance: if all
        are equal, the bounds are NaN.
    limits : (float, float)
        The range of possible values, such as (0, 1) for accuracies. The bounds are
        clipped to it.

    Returns
    -------
    Interval
        The bounds are NaN for fewer than two values; all fields are NaN for an empty
        sample.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import mean_interval
    >>> mean_interval(np.array([1.0, 2.0, 4.0])).value
    2.333...
    >>> mean_interval(np.array([0.6, 0.9]), limits=(0, 1))
    Interval(value=0.75, low=0.0, high=1.0)
    """
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        return NO_INTERVAL
    mean = float(values.mean())
    if values.size == 1 or (discrete and np.ptp(values) == 0):
        return Interval(mean, math.nan, math.nan)
    half = float(
        stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, values.size - 1)
        * values.std(ddof=1)
        / np.sqrt(values.size)
    )
    return Interval(
        mean, float(max(mean - half, limits[0])), float(min(mean + half, limits[1]))
    )


def median_interval(values: np.ndarray) -> Interval:
    """Median with its exact interval between order statistics.

    Parameters
    ----------
    values : array, shape (sample,)

    Returns
    -------
    Interval
        The bounds are NaN for fewer than six values; all fields are NaN for an empty
        sample.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import median_interval
    >>> median_interval(np.arange(11.0))
    Interval(value=5.0, low=1.0, high=9.0)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if ordered.size == 0:
        return NO_INTERVAL
    rank = int(stats.binom.ppf((1 - CONFIDENCE_LEVEL) / 2, ordered.size, 0.5))
    bounds = (
        (float(ordered[rank - 1]), float(ordered[-rank]))
        if rank >= 1
        else (math.nan, math.nan)
    )
    return Interval(float(np.median(ordered)), *bounds)


def difference_interval(
    first: np.ndarray, second: np.ndarray, discrete: bool = False
) -> Interval:
    """Difference of the means of two independent samples, first - second, with Welch's
    t interval.

    Parameters
    ----------
    first, second : array, shape (sample,)
    discrete : bool
        As in `mean_interval`: if neither sample varies, the bounds are NaN.

    Returns
    -------
    Interval
        The bounds are NaN if a sample has fewer than two values; all fields are NaN if
        one is empty.

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
    difference = float(samples[0].mean() - samples[1].mean())
    if min(values.size for values in samples) == 1:
        return Interval(difference, math.nan, math.nan)
    if max(np.ptp(values) for values in samples) == 0:  # both without spread
        return Interval(difference, *([math.nan] * 2 if discrete else [difference] * 2))
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
        All NaN if a sample does not vary; the bounds are NaN for fewer than four pairs.

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
    if len(first) < 4:
        return Interval(float(result.statistic), math.nan, math.nan)
    low, high = result.confidence_interval(CONFIDENCE_LEVEL)
    return Interval(float(result.statistic), float(low), float(high))


def t_interval(mean: float, error: float, freedom: int) -> Interval:
    """The t interval of an estimate from its standard error and the degrees of freedom
    of that error."""
    half = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom)) * error
    return Interval(mean, mean - half, mean + half)
