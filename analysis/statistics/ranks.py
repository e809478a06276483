"""Statistics of ranks: how far one sample lies above another, and whether two quantities rise together.

The rank-biserial correlation of two samples is 2 theta - 1, where theta is the chance that a value of the first exceeds
one of the second, ties counting half: 1 where every value of the first is larger, -1 where every one is smaller. Its
test is Mann and Whitney's; its interval solves |theta' - theta| = z sd(theta) for theta, with Hanley and McNeil's
variance at theta and not at the estimate theta' (Newcombe, Statistics in Medicine 25 (2006), 559, method 5), so that it
keeps its width where the samples do not overlap.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from analysis.statistics.intervals import CONFIDENCE_LEVEL, Interval

PROFILE_PERMUTATIONS = 10_000

Z = float(stats.norm.ppf((1 + CONFIDENCE_LEVEL) / 2))


def rank_biserial(first: np.ndarray, second: np.ndarray) -> Interval:
    """The rank-biserial correlation of two samples (sample,), -1..1, with its 95% interval; NaN where one is empty."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not (first.size and second.size):
        return Interval(np.nan, np.nan, np.nan)
    ranks = stats.rankdata(np.concatenate([first, second]))[: first.size]
    theta = float((ranks.sum() - first.size * (first.size + 1) / 2) / (first.size * second.size))
    low, high = 1 - _upper_end(1 - theta, first.size, second.size), _upper_end(theta, first.size, second.size)
    return Interval(2 * theta - 1, 2 * low - 1, 2 * high - 1)


def _upper_end(theta: float, first: int, second: int) -> float:
    """The largest chance, below 1, from which the estimate theta is not further than the interval's level allows."""
    others = (first + second) / 2 - 1

    def excess(end: float) -> float:
        spread = 1 + others * (1 - end) / (2 - end) + others * end / (1 + end)
        return end - theta - Z * float(np.sqrt(end * (1 - end) * spread / (first * second)))

    return 1.0 if theta == 1 else float(brentq(excess, max(theta, 1e-12), 1.0))  # 0 solves it for theta = 0 as well


def mann_whitney_p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Mann and Whitney's two-sided p-value of two samples (sample,); NaN where one is empty."""
    if not (len(first) and len(second)):
        return float("nan")
    return float(stats.mannwhitneyu(first, second).pvalue)


def rank_correlation(first: np.ndarray, second: np.ndarray) -> Interval:
    """Spearman's correlation of two quantities (sample,), with a Fisher-z interval by Bonett and Wright's variance.

    (Psychometrika 65 (2000), 23.) NaN throughout where one does not vary, the interval alone for less than four.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Interval(np.nan, np.nan, np.nan)
    rho = float(np.clip(np.corrcoef(stats.rankdata(first), stats.rankdata(second))[0, 1], -1, 1))
    if len(first) < 4:
        return Interval(rho, np.nan, np.nan)
    if abs(rho) > 1 - 1e-12:
        return Interval(rho, rho, rho)
    half = Z * np.sqrt((1 + rho * rho / 2) / (len(first) - 3))
    low, high = np.tanh(np.arctanh(rho) + np.array([-half, half]))
    return Interval(rho, float(low), float(high))


class EffectProfile(NamedTuple):
    """The rank-biserial correlation at each of many places, and its p-value for all of them at once."""

    effect: np.ndarray  # (place,)
    p_value: np.ndarray  # (place,)


def rank_biserial_profile(values: np.ndarray, first: np.ndarray, generator: np.random.Generator) -> EffectProfile:
    """Of values (run, place), the runs that are `first` (run,) against the others, at every place.

    p_value is that of the largest effect anywhere when the runs' labels are permuted (Westfall and Young's maximum,
    two-sided): the chance that one place or another would show so much if there were no difference. NaN where either
    sample is empty.
    """
    values, first = np.asarray(values, np.float64), np.asarray(first, bool)
    one, other = int(first.sum()), int((~first).sum())
    if not (one and other):
        return EffectProfile(np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan))
    ranks = stats.rankdata(values, axis=0) - (len(values) + 1) / 2  # centred: rounding does not favour a side
    effect = first @ ranks * 2 / (one * other)
    labels = generator.permuted(np.tile(first, (PROFILE_PERMUTATIONS, 1)), axis=1)
    largest = np.abs(labels @ ranks).max(axis=1) * 2 / (one * other)
    reached = (largest[:, None] >= np.abs(effect) - 1e-9).sum(axis=0)
    return EffectProfile(effect, (1 + reached) / (1 + PROFILE_PERMUTATIONS))
