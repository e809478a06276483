"""Survival analysis of times until an event; runs without the event are censored, not
left out.

The fraction of runs that are still waiting for the event is the Kaplan-Meier estimate,
with a log-log interval from Greenwood's variance; before the first event, and when no run
is waiting any more, with the exact binomial bound. Two samples are compared by the
log-rank test. Times are in any unit."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from analysis.statistics.intervals import CONFIDENCE_LEVEL, Interval

_FEWEST_EVENTS = 6
"""With fewer events the median has no bounds, since their coverage would be below
95%."""


class SurvivalCurve(NamedTuple):
    """The fraction of runs that are still waiting, after each time of an event or of
    censoring."""

    runs: int
    events: int
    median: Interval
    """The time at which half of the runs have had the event; inf, for the estimate or a
    bound, if not reached."""
    time: np.ndarray
    """(time,): 0, and the times of events and of censoring, in order."""
    fraction: np.ndarray
    """(time,), still waiting just after each time."""
    low: np.ndarray
    """(time,), the lower bound of the fraction."""
    high: np.ndarray
    """(time,), the upper bound of the fraction."""


def kaplan_meier(times: np.ndarray, observed: np.ndarray) -> SurvivalCurve:
    """Kaplan-Meier estimate of the fraction of runs that are still waiting.

    Parameters
    ----------
    times : array, shape (run,)
        Time of the event, or, for a run without the event, the time until which it was
        observed.
    observed : array of bool, shape (run,)
        Whether the event has happened.

    Returns
    -------
    SurvivalCurve

    Raises
    ------
    ValueError
        If the arrays do not have the same shape (run,), if they are empty, or if a time
        is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import kaplan_meier
    >>> curve = kaplan_meier(np.array([1, 2, 3, 4]), np.array([True, True, False, True]))
    >>> curve.fraction
    array([1.  , 0.75, 0.5 , 0.5 , 0.  ])
    >>> curve.median.value
    2.0
    """
    times, observed = _check_times(times, observed)
    events = int(observed.sum())
    estimate = stats.ecdf(_censored_data(times, observed)).sf
    fraction = estimate.probabilities
    time = np.concatenate([[0.0], estimate.quantiles])
    low, high = (np.concatenate([[1.0], part]) for part in _bounds(estimate, events))
    fraction = np.concatenate([[1.0], fraction])
    waiting = np.maximum((times > time[:, None]).sum(axis=1), 1)
    tail = (1 - CONFIDENCE_LEVEL) / 2
    low[fraction == 1] = (tail ** (1 / waiting))[fraction == 1]
    high[fraction == 0] = 1 - tail ** (1 / max(events, 1))
    median = Interval(_median_time(times, observed), math.nan, math.nan)
    if events >= _FEWEST_EVENTS:
        median = median._replace(
            low=_first_at_half(time, low), high=_first_at_half(time, high)
        )
    return SurvivalCurve(len(times), events, median, time, fraction, low, high)


def _bounds(estimate: Any, events: int) -> tuple[np.ndarray, np.ndarray]:
    """The log-log interval of each fraction. It is undefined for fractions of 0 and 1,
    which are their own bounds; `kaplan_meier` replaces the open side by the bound of a
    binomial fraction."""
    if not events:
        return estimate.probabilities.copy(), estimate.probabilities.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        bounds = estimate.confidence_interval(CONFIDENCE_LEVEL, method="log-log")
    low, high = bounds.low.probabilities.copy(), bounds.high.probabilities.copy()
    for bound in (low, high):
        undefined = ~np.isfinite(bound) | (estimate.probabilities == 1)
        bound[undefined] = estimate.probabilities[undefined]
    return low, high


def logrank_p_value(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> float:
    """P-value of the log-rank test that two samples have the same waiting times.

    Parameters
    ----------
    first, second : (array, array), shapes (run,)
        Times and whether the event was observed, as for `kaplan_meier`.

    Returns
    -------
    float
        NaN without any event that happens while runs of both samples wait.

    Raises
    ------
    ValueError
        As `kaplan_meier`.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import logrank_p_value
    >>> observed = np.array([True, True, True])
    >>> round(logrank_p_value((np.array([1, 2, 3]), observed), (np.array([7, 8, 9]), observed)), 3)
    0.025
    """
    samples = [_check_times(*item) for item in (first, second)]
    if not any(observed.any() for _, observed in samples):
        return math.nan
    with np.errstate(
        invalid="ignore"
    ):  # if all events are at one time, there is nothing to compare
        return float(
            stats.logrank(*(_censored_data(*sample) for sample in samples)).pvalue
        )


def _censored_data(times: np.ndarray, observed: np.ndarray) -> stats.CensoredData:
    return stats.CensoredData(uncensored=times[observed], right=times[~observed])


def _median_time(times: np.ndarray, observed: np.ndarray) -> float:
    """The first time at which at most half of the runs are still waiting; inf if there
    is none. The fraction is a quotient of integers, because a rounded product may lie
    above one half where the fraction is one half."""
    ends = np.unique(times[observed])
    at_risk = len(times) - np.searchsorted(np.sort(times), ends)
    ordered = np.sort(times[observed])
    events = np.searchsorted(ordered, ends, side="right") - np.searchsorted(
        ordered, ends
    )
    waiting = 1
    total = 1
    for time, runs, count in zip(
        ends.tolist(), at_risk.tolist(), events.tolist(), strict=True
    ):
        waiting *= runs - count
        total *= runs
        if 2 * waiting <= total:
            return time
    return math.inf


def _first_at_half(time: np.ndarray, fraction: np.ndarray) -> float:
    """The first time at which a bound of the fraction is at most one half."""
    reached = fraction <= 0.5
    return float(time[reached.argmax()]) if reached.any() else math.inf


def _check_times(
    times: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    times = np.asarray(times, np.float64)
    observed = np.asarray(observed, bool)
    if times.ndim != 1 or times.shape != observed.shape or not len(times):
        raise ValueError(
            f"times: found shapes {times.shape} and {observed.shape}, expected (run,)"
            " for both"
        )
    if not np.isfinite(times).all() or (times < 0).any():
        raise ValueError(
            "times: found a value that is negative or not finite, expected finite"
            " values of at least 0"
        )
    return times, observed
