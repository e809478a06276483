"""Times until something happens, of runs in some of which it has not happened yet: those are censored, not dropped.

The share of runs still waiting is Kaplan and Meier's estimate, with a log-log interval by Greenwood's variance; two
samples are compared by the log-rank test. Times are in any unit.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from analysis.statistics.intervals import CONFIDENCE_LEVEL, Interval

FEWEST_EVENTS = 6
"""Below it the median has no bounds: they would not hold it as often as they say."""


class SurvivalCurve(NamedTuple):
    """How many runs are still waiting after each time at which something happened or watching ended."""

    runs: int
    events: int
    median: Interval
    """When half of the runs have ended their wait; inf, for the estimate or a bound, where that was not seen."""
    time: np.ndarray  # (moment,), ascending, from 0 on
    share: np.ndarray  # (moment,) still waiting just after it
    low: np.ndarray
    high: np.ndarray


def kaplan_meier(times: np.ndarray, observed: np.ndarray) -> SurvivalCurve:
    """The estimate from times (run,), which where not `observed` (run,) are those until which a run was watched.

    Raises ValueError.
    """
    times, observed = _checked(times, observed)
    events = int(observed.sum())
    estimate = stats.ecdf(_censored(times, observed)).sf
    share = estimate.probabilities
    low, high = (share, share) if not events else _bounds(estimate)
    time, share, low, high = (
        np.concatenate([[start], values])
        for start, values in ((0.0, estimate.quantiles), (1.0, share), (1.0, low), (1.0, high))
    )
    middle, *ends = (_first_at_half(time, values) for values in (share, low, high))
    median = Interval(middle, *ends) if events >= FEWEST_EVENTS else Interval(middle, np.nan, np.nan)
    return SurvivalCurve(len(times), events, median, time, share, low, high)


def _bounds(estimate: Any) -> tuple[np.ndarray, np.ndarray]:
    """The log-log interval of each share. It has no value before the first event, where both ends are 1, nor where
    nobody waits any more, where the upper end stays what it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        bounds = estimate.confidence_interval(CONFIDENCE_LEVEL, method="log-log")
    low, high = bounds.low.probabilities.copy(), bounds.high.probabilities.copy()
    share, before = estimate.probabilities, 1.0
    for at in range(len(share)):
        if share[at] == 1:
            low[at] = high[at] = 1.0
        elif not np.isfinite(high[at]):
            low[at], high[at] = 0.0, before
        before = high[at]
    return low, high


def logrank_p_value(first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> float:
    """The p-value of the log-rank test that two samples of (times, observed) wait alike; NaN without any event.

    Raises ValueError.
    """
    samples = [_checked(*each) for each in (first, second)]
    if not any(observed.any() for _, observed in samples):
        return float("nan")
    with np.errstate(invalid="ignore"):  # where all happens in one moment there is nothing to compare
        return float(stats.logrank(*(_censored(*each) for each in samples)).pvalue)


def _censored(times: np.ndarray, observed: np.ndarray) -> stats.CensoredData:
    return stats.CensoredData(uncensored=times[observed], right=times[~observed])


def _first_at_half(time: np.ndarray, share: np.ndarray) -> float:
    reached = share <= 0.5
    return float(time[reached.argmax()]) if reached.any() else float("inf")


def _checked(times: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    times, observed = np.asarray(times, np.float64), np.asarray(observed, bool)
    if times.ndim != 1 or times.shape != observed.shape or not len(times):
        raise ValueError(f"times: found shapes {times.shape} and {observed.shape}, expected (run,) for both")
    if not np.isfinite(times).all() or (times < 0).any():
        raise ValueError("times: found one that is negative or not finite, expected times from 0")
    return times, observed
