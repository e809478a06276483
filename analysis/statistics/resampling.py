"""The jackknife: the interval of a number that is no mean of independent values (Tukey's)."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from analysis.statistics.intervals import Interval, t_interval

FEWEST_FOR_JACKKNIFE = 3
"""Cases from which there is an interval."""
NOISE = 1e-12
"""Share of a value below which an error is rounding."""


def jackknife_runs(statistic: Callable[[np.ndarray], float], runs: int) -> Interval:
    """A statistic of places of runs (run,), with a t interval from what it is without each of them.

    Bounds are as those of `leaving_out`.
    """
    every = np.arange(runs)
    left = every if runs >= FEWEST_FOR_JACKKNIFE else every[:0]
    return leave_one_out_interval(statistic(every), [np.array([statistic(np.delete(every, run)) for run in left])])


def jackknife_groups(statistic: Callable[[np.ndarray], float], groups: np.ndarray) -> Interval:
    """A statistic of cases, (case,) bool of those that are kept -> number, by leaving out each group in turn.

    groups (case,): what is not independent of one another. Bounds are as those of `leaving_out`.
    """
    groups = np.asarray(groups)
    names = np.unique(groups)
    value = float(statistic(np.ones(len(groups), bool))) if len(groups) else math.nan
    left = names if len(names) >= FEWEST_FOR_JACKKNIFE else names[:0]
    return leave_one_out_interval(value, [np.array([statistic(groups != name) for name in left])])


def leave_one_out_interval(value: float, without: Sequence[np.ndarray]) -> Interval:
    """The interval of a value from what it is without each case of a sample, or of several independent ones (case,).

    Bounds are NaN for too few cases of one, where it has no value without one of them, and where no case
    changes anything: that is no certainty, but too little to tell by.
    """
    fewest = min(map(len, without))
    if (
        fewest < FEWEST_FOR_JACKKNIFE
        or not math.isfinite(value)
        or not all(np.isfinite(each).all() for each in without)
    ):
        return Interval(value, math.nan, math.nan)
    parts = [(len(each) - 1) / len(each) * float(((each - each.mean()) ** 2).sum()) for each in without]
    error = math.sqrt(sum(parts))
    if error <= NOISE * max(1.0, abs(value)):
        return Interval(value, math.nan, math.nan)
    return t_interval(value, error, fewest - 1)
