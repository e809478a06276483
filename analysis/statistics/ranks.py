"""Rank statistics: how far one sample lies above another, and whether two quantities
increase together."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from analysis.statistics.intervals import CONFIDENCE_LEVEL, NO_INTERVAL, Interval

PROFILE_PERMUTATIONS = 10_000

_Z = float(stats.norm.ppf((1 + CONFIDENCE_LEVEL) / 2))


def rank_biserial(first: np.ndarray, second: np.ndarray) -> Interval:
    """Rank-biserial correlation of two samples with its 95% interval.

    It is 2 theta - 1, where theta is the probability that a value of the first sample
    exceeds one of the second, ties counting half: 1 if every value of the first is
    larger, -1 if every one is smaller. The interval solves abs(estimate - theta) = z
    sd(theta) for theta, with Hanley and McNeil's variance at theta and not at the
    estimate (Newcombe, Statistics in Medicine 25 (2006), 559, method 5), so that its
    width is positive even if the samples do not overlap. z is the quantile of the t
    distribution with as many degrees of freedom as Welch's test has for equal variances.

    Parameters
    ----------
    first, second : array, shape (sample,)
        NaN is left out.

    Returns
    -------
    Interval
        From -1 to 1; NaN for an empty sample.

    Examples
    --------
    >>> from analysis.statistics import rank_biserial
    >>> rank_biserial([3, 4, 6], [1, 2, 5]).value
    0.555...
    """
    first, second = _without_nan(first), _without_nan(second)
    if not (first.size and second.size):
        return NO_INTERVAL
    ranks = stats.rankdata(np.concatenate([first, second]))[: first.size]
    theta = float(
        (ranks.sum() - first.size * (first.size + 1) / 2) / (first.size * second.size)
    )
    low = 1 - _upper_bound(1 - theta, first.size, second.size)
    high = _upper_bound(theta, first.size, second.size)
    return Interval(2 * theta - 1, 2 * low - 1, 2 * high - 1)


def _without_nan(values: np.ndarray) -> np.ndarray:
    """The values that are not NaN, float64."""
    values = np.asarray(values, np.float64)
    return values[~np.isnan(values)]


def _upper_bound(theta: float, first: int, second: int) -> float:
    """Upper bound, at most 1, of the interval of theta estimated from samples of these
    sizes."""
    others = (first + second) / 2 - 1
    freedom = max(first + second - 2, 1)
    quantile = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom))

    def excess(bound: float) -> float:
        spread = 1 + others * (1 - bound) / (2 - bound) + others * bound / (1 + bound)
        return (
            bound
            - theta
            - quantile * float(np.sqrt(bound * (1 - bound) * spread / (first * second)))
        )

    return (
        1.0 if theta == 1 else float(brentq(excess, max(theta, 1e-12), 1.0))
    )  # theta = 0 has the solution 0 as well


def mann_whitney_p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p-value of the Mann-Whitney test of two samples (sample,), without NaN;
    NaN for an empty one.

    Examples
    --------
    >>> from analysis.statistics import mann_whitney_p_value
    >>> mann_whitney_p_value([3, 4, 5], [1, 2])
    0.2
    """
    first, second = _without_nan(first), _without_nan(second)
    if not (len(first) and len(second)):
        return math.nan
    return float(stats.mannwhitneyu(first, second).pvalue)


def rank_correlation(first: np.ndarray, second: np.ndarray) -> Interval:
    """Spearman's rank correlation of two quantities with its 95% interval.

    The interval is Fisher's z with Bonett and Wright's variance (Psychometrika 65
    (2000), 23). A correlation of 1 or -1, whose z is infinite, counts as half of the way
    to the next smaller one that n samples without ties can have.

    Parameters
    ----------
    first, second : array, shape (sample,)
        Pairs with NaN are left out.

    Returns
    -------
    Interval
        All NaN if a quantity does not vary; the bounds are NaN for fewer than four
        samples.

    Examples
    --------
    >>> from analysis.statistics import rank_correlation
    >>> rank_correlation([1, 2, 3, 4, 5], [1, 3, 2, 4, 5]).value
    0.9
    """
    pairs = np.array([first, second], np.float64)
    first, second = pairs[:, ~np.isnan(pairs).any(axis=0)]
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return NO_INTERVAL
    rho = float(
        np.clip(np.corrcoef(stats.rankdata(first), stats.rankdata(second))[0, 1], -1, 1)
    )
    if len(first) < 4:
        return Interval(rho, math.nan, math.nan)
    count = len(first)
    # the next correlation to 1 is that of ranks of which two neighbours are exchanged
    largest = 1 - 6 / (count * (count**2 - 1))
    inner = float(np.clip(rho, -largest, largest))
    half = _Z * np.sqrt((1 + inner * inner / 2) / (count - 3))
    low, high = np.tanh(np.arctanh(inner) + np.array([-half, half])).tolist()
    perfect = abs(rho) > 1 - 1e-12
    if perfect and rho > 0:
        high = 1.0
    elif perfect:
        low = -1.0
    return Interval(rho, low, high)


class EffectProfile(NamedTuple):
    """Rank-biserial correlations at each of many positions, with p-values for all of
    them together."""

    effect: np.ndarray  # (position,)
    p_value: np.ndarray  # (position,)


def rank_biserial_profile(
    values: np.ndarray, first: np.ndarray, generator: np.random.Generator
) -> EffectProfile:
    """Rank-biserial correlation of two groups of runs at each position of a curve.

    Parameters
    ----------
    values : array, shape (run, position)
    first : array of bool, shape (run,)
        The runs of the first group; the others are the second.
    generator : numpy.random.Generator
        Draws the permutations of the group labels.

    Returns
    -------
    EffectProfile
        The two-sided p-values are adjusted for the number of positions (Westfall and
        Young): each is the probability, under random permutations of the labels, that
        the largest effect at any position is at least as large. NaN for an empty group,
        and at positions with NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.statistics import rank_biserial_profile
    >>> values = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 1.0], [4.0, 2.0]])
    >>> rank_biserial_profile(values, np.array([1, 1, 0, 0]), np.random.default_rng(0)).effect
    array([-1.,  1.])
    """
    values = np.asarray(values, np.float64)
    first = np.asarray(first, bool)
    one, other = int(first.sum()), int((~first).sum())
    if not (one and other):
        return EffectProfile(
            np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
        )
    ranks = (
        stats.rankdata(values, axis=0) - (len(values) + 1) / 2
    )  # centred, so that rounding favours neither sign
    effect = first @ ranks * 2 / (one * other)
    labels = generator.permuted(np.tile(first, (PROFILE_PERMUTATIONS, 1)), axis=1)
    known = ~np.isnan(effect)
    sizes = np.abs(labels @ ranks[:, known])
    largest = sizes.max(axis=1, initial=0) * 2 / (one * other)
    reached = (largest[:, None] >= np.abs(effect) - 1e-9).sum(axis=0)
    p_value = (1 + reached) / (1 + PROFILE_PERMUTATIONS)
    return EffectProfile(effect, np.where(known, p_value, np.nan))
