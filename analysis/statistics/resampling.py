"""Jackknife intervals of statistics that are not means of independent values (Tukey).

With theta the statistic of all n cases and theta_i that without case i, the squared
standard error of theta is (n - 1) / n times the sum of (theta_i - mean theta_i)²."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from analysis.statistics.intervals import NO_INTERVAL, Interval, t_interval

FEWEST_FOR_JACKKNIFE = 3
"""Smallest number of cases for which an interval is computed."""

_ROUNDING = 1e-12
"""A standard error below this fraction of the value counts as rounding error."""


def jackknife_runs(statistic: Callable[[np.ndarray], float], runs: int) -> Interval:
    """A statistic of runs with its jackknife interval.

    Parameters
    ----------
    statistic : callable
        Takes run indices, shape (run,), and returns a number.
    runs : int
        Number of runs.

    Returns
    -------
    Interval
        The bounds are NaN for fewer than three runs, and if leaving out a run makes no
        difference or leaves the statistic undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import jackknife_runs
    >>> values = np.array([1.0, 2.0, 3.0, 6.0])
    >>> jackknife_runs(lambda runs: float(values[runs].mean()), 4).value
    3.0
    """
    every = np.arange(runs)
    left_out = every if runs >= FEWEST_FOR_JACKKNIFE else every[:0]
    return leave_one_out_interval(
        statistic(every),
        [np.array([statistic(np.delete(every, run)) for run in left_out])],
    )


def jackknife_groups(
    statistic: Callable[[np.ndarray], float], groups: np.ndarray
) -> Interval:
    """A statistic of cases with its jackknife interval; cases of one group are left out
    together.

    Parameters
    ----------
    statistic : callable
        Takes a mask of the cases that are kept, shape (case,), and returns a number.
    groups : array, shape (case,)
        Group of each case; cases of one group are not independent of each other.

    Returns
    -------
    Interval
        The bounds are NaN under the conditions of `jackknife_runs`.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import jackknife_groups
    >>> values = np.array([1.0, 1.0, 2.0, 2.0, 6.0, 6.0])
    >>> jackknife_groups(lambda kept: values[kept].mean(), np.array([0, 0, 1, 1, 2, 2])).value
    3.0
    """
    groups = np.asarray(groups)
    names = np.unique(groups)
    value = float(statistic(np.ones(len(groups), bool))) if len(groups) else math.nan
    left_out = names if len(names) >= FEWEST_FOR_JACKKNIFE else names[:0]
    return leave_one_out_interval(
        value, [np.array([statistic(groups != name) for name in left_out])]
    )


def leave_one_out_interval(value: float, without: Sequence[np.ndarray]) -> Interval:
    """Jackknife interval of a statistic of one or several independent samples.

    without: for each sample, the values of the statistic without each case, (case,).
    The bounds are NaN if a sample has fewer than three cases, if a value is not finite,
    and if the value is the same without any case, which means that there are too few
    cases, not that the value is certain."""
    fewest = min(map(len, without))
    finite = math.isfinite(value) and all(np.isfinite(item).all() for item in without)
    if fewest < FEWEST_FOR_JACKKNIFE or not finite:
        return Interval(value, math.nan, math.nan)
    parts = [
        (len(item) - 1) / len(item) * float(((item - item.mean()) ** 2).sum())
        for item in without
    ]
    error = math.sqrt(sum(parts))
    if error <= _ROUNDING * max(1.0, abs(value)):
        return Interval(value, math.nan, math.nan)
    return t_interval(value, error, fewest - 1)


# ------------------------------------------------------ distances between pairs of runs


def mean_distance_within(distances: np.ndarray) -> Interval:
    """Mean distance between the runs of one sample.

    Distances that have a run in common are not independent, so the interval is a
    jackknife interval over runs.

    Parameters
    ----------
    distances : array, shape (run, run)
        Symmetric; the diagonal is left out, and so are runs without distances (NaN).

    Returns
    -------
    Interval
        All NaN for fewer than two runs; the bounds are NaN for two.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import mean_distance_within
    >>> x = np.array([0.0, 1.0, 2.0, 5.0])
    >>> mean_distance_within(abs(x[:, None] - x)).value
    2.666
    """
    own = np.eye(len(distances)) > 0
    apart = _with_distances(np.where(own, np.nan, distances))
    count = len(apart)
    if count < 2:
        return NO_INTERVAL
    apart = np.where(np.eye(count) > 0, 0.0, apart)
    total = apart.sum()
    by_run = apart.sum(axis=1)
    without = (
        (total - 2 * by_run) / ((count - 1) * (count - 2)) if count > 2 else by_run
    )
    return leave_one_out_interval(float(total / (count * (count - 1))), [without])


def mean_between_runs(distances: np.ndarray, paired: bool = False) -> Interval:
    """Mean of a measure, such as a distance, between the runs of two samples, with a t
    interval over the runs of both.

    Parameters
    ----------
    distances : array, shape (run, other_run)
        Distances, or values of another measure of two runs; NaN for runs that are left out.
    paired : bool
        Run k of one sample belongs to run k of the other; their distance is left out.

    Returns
    -------
    Interval
        The bounds are NaN if a sample has fewer than two runs, or if all distances are
        equal, which says that there are too few; all fields are NaN if there are no
        distances.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import mean_between_runs
    >>> mean_between_runs(np.array([[1.0, 2.0], [3.0, 6.0]])).value
    3.0
    """
    partners = np.eye(*distances.shape) > 0
    # before runs are left out, after which the diagonal is no longer that of partners
    selected = np.where(partners, np.nan, distances) if paired else distances
    selected = _with_distances(selected)
    if not selected.size:
        return NO_INTERVAL
    mean = float(np.nanmean(selected))
    if min(selected.shape) < 2:
        return Interval(mean, math.nan, math.nan)
    variances = [
        np.nanmean(selected, axis=axis).var(ddof=1) / selected.shape[1 - axis]
        for axis in (0, 1)
    ]
    error = float(np.sqrt(sum(variances)))
    if error <= _ROUNDING * max(1.0, abs(mean)):
        return Interval(mean, math.nan, math.nan)
    return t_interval(mean, error, min(selected.shape) - 1)


def _with_distances(distances: np.ndarray) -> np.ndarray:
    """The rows and columns of the runs that have any distance."""
    some = np.isfinite(distances)
    return distances[some.any(axis=1)][:, some.any(axis=0)]
