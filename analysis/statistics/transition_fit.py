"""Transitions of a fraction of runs: logistic fits, and powers with which their
parameters depend on a size.

With p the probability of an event at a value x > 0 of a setting,

    p(x) = 1 / (1 + (x / m)^(-k)),   width w = 2 ln(9) / k:

p is 1/2 at the midpoint m, and ln x increases by w between p = 0.1 and p = 0.9.
Parameters have the largest binomial likelihood; their intervals are those of the
profile likelihood (Venzon and Moolgavkar, Applied Statistics 37 (1988), 87), also if p
increases in a single step, when w = 0 is the best fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

from analysis.statistics.intervals import (
    CONFIDENCE_LEVEL,
    NO_INTERVAL,
    Interval,
    t_interval,
)

_WIDTHS = (1e-3, 1e2)
"""Widths outside of this range are not distinguished from 0 and infinity."""

_FEWEST_RUNS = 25
"""With fewer runs the parameters have no bounds, since their coverage would be below
92%."""

_MARGIN = math.log(30)
"""The midpoint is searched up to a factor of 30 outside of the values at which there
are runs."""


class TransitionFit(NamedTuple):
    """The midpoint and the width of a transition. A bound that the data do not
    determine is 0 or infinite."""

    midpoint: Interval
    width: Interval


NO_TRANSITION = TransitionFit(NO_INTERVAL, NO_INTERVAL)


def logistic_fraction(x: np.ndarray, midpoint: float, width: float) -> np.ndarray:
    """The probability p(x) of the module's formula.

    Parameters
    ----------
    x : array, shape (point,)
        Positive values.
    midpoint, width : float

    Returns
    -------
    array, shape (point,)

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import logistic_fraction
    >>> logistic_fraction(np.array([1.0, 3.0]), midpoint=1.0, width=2 * np.log(3)).round(3)
    array([0.5, 0.9])
    """
    return 1 / (1 + np.exp(-_log_odds(np.log(x), math.log(midpoint), math.log(width))))


def fit_transition(
    x: np.ndarray, counts: np.ndarray, totals: np.ndarray
) -> TransitionFit:
    """Midpoint and width of a transition, with their 95% intervals.

    Parameters
    ----------
    x : array, shape (point,)
        Positive values of a setting.
    counts, totals : array of int, shape (point,)
        Number of runs with the event, and of all runs, at each value.

    Returns
    -------
    TransitionFit
        All NaN if the event happens in none or in all of the runs, or at a single
        value; the bounds are NaN for fewer than 25 runs.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import fit_transition
    >>> fit = fit_transition(np.array([1.0, 2.0, 4.0]), np.array([5, 25, 45]), np.array([50, 50, 50]))
    >>> round(fit.midpoint.value, 3), fit.midpoint.low < 2 < fit.midpoint.high
    (2.0, True)
    """
    x, counts, totals = (
        np.asarray(values, np.float64) for values in (x, counts, totals)
    )
    if len(np.unique(x[totals > 0])) < 2 or not 0 < counts.sum() < totals.sum():
        return NO_TRANSITION
    place = np.log(x)
    middles = (place[totals > 0].min() - _MARGIN, place[totals > 0].max() + _MARGIN)
    widths = (math.log(_WIDTHS[0]), math.log(_WIDTHS[1]))

    def loss(middle: float, width: float) -> float:
        odds = _log_odds(place, middle, width)
        return float((totals * np.logaddexp(0, odds) - counts * odds).sum())

    def loss_of_middle(middle: float) -> tuple[float, float]:
        return _minimum(lambda width: loss(middle, width), *widths)

    def loss_of_width(width: float) -> tuple[float, float]:
        return _minimum(lambda middle: loss(middle, width), *middles)

    middle, _ = _minimum(lambda middle: loss_of_middle(middle)[1], *middles)
    width, least = loss_of_middle(middle)
    runs = float(totals.sum())
    quantile = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, max(runs - 2, 1)))
    limit = least + quantile**2 / 2  # of chi-squared, in the limit of many runs
    midpoint = _profile_interval(
        lambda at: loss_of_middle(at)[1] - limit, middle, *middles
    )
    interval = _profile_interval(
        lambda at: loss_of_width(at)[1] - limit, width, *widths
    )
    if loss_of_width(widths[0])[1] - least < 1e-6:
        interval = interval._replace(value=0.0)
    if runs < _FEWEST_RUNS:
        unknown = {"low": math.nan, "high": math.nan}
        midpoint = midpoint._replace(**unknown)
        interval = interval._replace(**unknown)
    return TransitionFit(midpoint, interval)


def _log_odds(place: np.ndarray, middle: float, width: float) -> np.ndarray:
    """Logarithm of p / (1 - p); place, middle and width are the logarithms of x, m and
    w."""
    return np.clip(2 * math.log(9) * (place - middle) * math.exp(-width), -700, 700)


def _minimum(
    function: Callable[[float], float], low: float, high: float
) -> tuple[float, float]:
    """Where a function of few minima between two limits is smallest, and its value
    there."""
    values = np.linspace(low, high, 41)
    at = int(np.argmin([function(value) for value in values]))
    bounds = (values[max(at - 1, 0)], values[min(at + 1, 40)])
    minimum = optimize.minimize_scalar(
        function, bounds=bounds, method="bounded", options={"xatol": 1e-6}
    )
    return float(minimum.x), float(minimum.fun)


def _profile_interval(
    excess: Callable[[float], float], value: float, low: float, high: float
) -> Interval:
    """An estimate with its interval, where the excess of the loss is negative;
    arguments are logarithms."""
    bounds = [
        (
            math.copysign(math.inf, end - value)
            if excess(end) <= 0
            else optimize.brentq(excess, value, end, xtol=1e-4)
        )
        for end in (low, high)
    ]
    return Interval(*(math.exp(bound) for bound in (value, *bounds)))


def fit_power(size: np.ndarray, estimates: list[Interval]) -> Interval:
    """The exponent b in estimate = a size^b, by weighted least squares of logarithms,
    with its t interval.

    Parameters
    ----------
    size : array, shape (point,)
    estimates : list of Interval
        Estimates at each size; those that are not positive or lack a bound are left
        out. Weights are inverse squares of their widths on the logarithmic scale. The
        scatter about the line determines the interval.

    Returns
    -------
    Interval
        All NaN for fewer than three sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import Interval, fit_power
    >>> size = np.array([1.0, 2.0, 4.0])
    >>> round(fit_power(size, [Interval(3 * n**2, 2 * n**2, 4.5 * n**2) for n in size]).value, 6)
    2.0
    """
    resolved = [
        estimate.low > 0 and math.isfinite(estimate.high) for estimate in estimates
    ]
    x = np.log(np.asarray(size, np.float64)[resolved])
    if len(np.unique(x)) < 3:
        return NO_INTERVAL
    y, low, high = np.log(
        [
            estimate
            for estimate, is_resolved in zip(estimates, resolved, strict=True)
            if is_resolved
        ]
    ).T
    weights = (high - low) ** -2.0
    x = x - np.average(x, weights=weights)
    spread = (weights * x * x).sum()
    slope = float((weights * x * y).sum() / spread)
    rest = y - np.average(y, weights=weights) - slope * x
    scatter = float((weights * rest * rest).sum() / (len(x) - 2))
    expected = (2 * stats.norm.ppf((1 + CONFIDENCE_LEVEL) / 2)) ** -2
    return t_interval(slope, math.sqrt(max(scatter, expected) / spread), len(x) - 2)
