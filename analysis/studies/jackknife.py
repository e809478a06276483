"""The jackknife over runs: the interval of a number that is no mean of independent values."""

from collections.abc import Callable

import numpy as np

from analysis.intervals import Interval, about


def jackknife(statistic: Callable[[np.ndarray], float], runs: int) -> Interval:
    """A statistic of places of runs (run,), with a t interval from what it is without each of them (Tukey's).

    Bounds are NaN for fewer than three runs, or where it has no value without one of them.
    """
    every = np.arange(runs)
    value = statistic(every)
    without = np.array([statistic(np.delete(every, run)) for run in every]) if runs > 2 else np.array([np.nan])
    if not np.isfinite(without).all():
        return Interval(value, np.nan, np.nan)
    error = np.sqrt((runs - 1) / runs * ((without - without.mean()) ** 2).sum())
    return about(value, float(error), runs - 1)
