"""95% confidence intervals."""

from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.95


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
    found = stats.binomtest(count, total).proportion_ci(LEVEL, method="exact")
    return Interval(count / total, float(found.low), float(found.high))


def mean_interval(values: np.ndarray) -> Interval:
    """Mean with its t interval; bounds are NaN for fewer than two values."""
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        return Interval(np.nan, np.nan, np.nan)
    mean = float(values.mean())
    if values.size == 1:
        return Interval(mean, np.nan, np.nan)
    half = float(stats.t.ppf((1 + LEVEL) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return Interval(mean, mean - half, mean + half)


def correlation_interval(first: np.ndarray, second: np.ndarray, level: float = 0.95) -> Interval:
    """Pearson's correlation of two samples (sample,) with its Fisher-z interval.

    NaN throughout for a sample that does not vary, the interval alone for less than four.
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Interval(np.nan, np.nan, np.nan)
    found = stats.pearsonr(first, second)
    if len(first) < 4:
        return Interval(float(found.statistic), np.nan, np.nan)
    low, high = found.confidence_interval(level)
    return Interval(float(found.statistic), float(low), float(high))
