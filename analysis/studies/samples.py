"""Findings from samples of runs: means, differences, correlations, and the jackknife where there is no formula.

What the networks of several weight decays have in common is their seeds, which give them the same first weights and
the same training pairs. Where such runs are pooled, those of one seed are left out together.
"""

import math
from collections.abc import Callable

import numpy as np
import xarray as xr

from analysis.intervals import Interval, about, binomial_interval, difference_interval, mean_interval
from analysis.verification.finding import NONE, Finding, share


def finite(values: np.ndarray | xr.DataArray) -> np.ndarray:
    """What is finite of some values, in one row: (value,) float64."""
    flat = np.asarray(values, np.float64).ravel()
    return flat[np.isfinite(flat)]


def mean(values: np.ndarray | xr.DataArray, of: str = "runs", note: str = "") -> Finding:
    """Mean over runs, those without a value left out."""
    kept = finite(values)
    return Finding(mean_interval(kept), len(kept), of, note=note if len(kept) else f"there are no {of}")


def share_of(hits: int, total: int, of: str) -> Finding:
    """So many of all, as a percentage with its exact binomial interval; of none, that there are none."""
    return share(hits, total, of, "" if total else f"there are no {of}")


def difference(first: np.ndarray | xr.DataArray, second: np.ndarray | xr.DataArray, of: str = "runs") -> Finding:
    """Difference of the means of independent runs, first - second, with Cohen's d."""
    one, other = finite(first), finite(second)
    note = "" if len(one) and len(other) else f"one of the two has no {of}"
    found = difference_interval(one, other)
    return Finding(found, len(one) + len(other), of, cohens_d(one, other), "Cohen's d", note)


def cohens_d(one: np.ndarray, other: np.ndarray) -> float:
    """Difference of two means in units of the pooled standard deviation; NaN where there is none."""
    if min(len(one), len(other)) < 2:
        return math.nan
    freedom = len(one) + len(other) - 2
    pooled = ((len(one) - 1) * one.var(ddof=1) + (len(other) - 1) * other.var(ddof=1)) / freedom
    return float((one.mean() - other.mean()) / np.sqrt(pooled)) if pooled > 0 else math.nan


def paired(first: np.ndarray | xr.DataArray, second: np.ndarray | xr.DataArray, of: str = "runs") -> Finding:
    """Mean difference of runs of equal seeds, first - second, both (run,), with the effect d_z."""
    apart = finite(np.asarray(first, np.float64) - np.asarray(second, np.float64))
    spread = apart.std(ddof=1) if len(apart) > 1 else 0.0
    effect = float(apart.mean() / spread) if spread > 0 else math.nan
    return Finding(mean_interval(apart), len(apart), of, effect, "d_z", "" if len(apart) else f"there are no {of}")


def paired_ratio(first: np.ndarray | xr.DataArray, second: np.ndarray | xr.DataArray, of: str = "runs") -> Finding:
    """Geometric mean of the ratios of positive values of equal seeds, first / second, both (run,)."""
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    kept = (one > 0) & (other > 0)
    found = mean_interval(np.log(one[kept] / other[kept]))
    ratio = Interval(*(math.exp(each) for each in found))
    return Finding(ratio, int(kept.sum()), of, ratio.value, "ratio", "" if kept.any() else f"there are no {of}")


def shares_apart(hits: tuple[int, int], totals: tuple[int, int], of: str = "runs") -> Finding:
    """Difference of two percentages, first - second, in points, with Cohen's h.

    Newcombe's combination of two exact intervals (Statistics in Medicine 17 (1998), 873).
    """
    if min(totals) == 0:
        return Finding(NONE, sum(totals), of, note=f"one of the two has no {of}")
    one, other = (binomial_interval(*each) for each in zip(hits, totals, strict=True))
    apart = one.value - other.value
    low = apart - math.hypot(one.value - one.low, other.high - other.value)
    high = apart + math.hypot(one.high - one.value, other.value - other.low)
    angles = [2 * math.asin(math.sqrt(each.value)) for each in (one, other)]
    return Finding(
        Interval(100 * apart, 100 * low, 100 * high), sum(totals), of, angles[0] - angles[1], "Cohen's h"
    )  # fmt: skip


def jackknifed(statistic: Callable[[np.ndarray], float], groups: np.ndarray) -> Interval:
    """A statistic of cases, (case,) bool of those that are kept -> number, by leaving out each group in turn.

    groups (case,): what is not independent of one another. Bounds are NaN where a group's absence leaves no value, or
    for fewer than three groups.
    """
    groups = np.asarray(groups)
    names = np.unique(groups)
    value = float(statistic(np.ones(len(groups), bool))) if len(groups) else math.nan
    if len(names) < 3 or not math.isfinite(value):
        return Interval(value, math.nan, math.nan)
    without = np.array([statistic(groups != name) for name in names])
    if not np.isfinite(without).all():
        return Interval(value, math.nan, math.nan)
    error = np.sqrt((len(names) - 1) / len(names) * ((without - without.mean()) ** 2).sum())
    return about(value, float(error), len(names) - 1)


def kinds_apart(values: np.ndarray, first: np.ndarray, second: np.ndarray, groups: np.ndarray, of: str) -> Finding:
    """Difference of the means of two kinds of cases, first - second, leaving out groups in turn; with Cohen's d.

    values (case,), first and second (case,) bool, groups (case,).
    """
    first, second = first & np.isfinite(values), second & np.isfinite(values)
    if not first.any() or not second.any():
        return Finding(NONE, int(first.sum() + second.sum()), of, note=f"one of the two kinds has no {of}")

    def apart(kept: np.ndarray) -> float:
        one, other = values[first & kept], values[second & kept]
        return float(one.mean() - other.mean()) if len(one) and len(other) else math.nan

    used = first | second
    place = np.flatnonzero(used)

    def of_used(kept: np.ndarray) -> float:
        whole = np.zeros(len(values), bool)
        whole[place[kept]] = True
        return apart(whole)

    effect = cohens_d(values[first], values[second])
    return Finding(jackknifed(of_used, groups[used]), int(used.sum()), of, effect, "Cohen's d")


def mean_by_seed(values: np.ndarray, chosen: np.ndarray, seeds: np.ndarray, of: str) -> Finding:
    """Mean over the chosen cases, those of one seed counting as one: values, chosen, seeds (case,)."""
    kept = chosen & np.isfinite(values)
    names = np.unique(seeds[kept])
    means = np.array([values[kept & (seeds == name)].mean() for name in names])
    note = "" if len(means) else f"there are no {of}"
    return Finding(mean_interval(means), int(kept.sum()), of, note=note)
