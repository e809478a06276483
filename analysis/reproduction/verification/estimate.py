"""Estimates from our runs, and numbers reported by the papers."""

import math
import re
from typing import NamedTuple

from analysis.statistics.intervals import Interval, binomial_interval


class ReportedNumber(NamedTuple):
    """A number as a paper prints it, in the claim's unit."""

    interval: Interval
    """Bounds are NaN if the paper prints none; the rules then use the width that ours
    would have for as many runs"""
    runs: int
    printed: str


def reported_count(count: int, runs: int = 100) -> ReportedNumber:
    """A count of the paper's runs, as a percentage with its exact binomial interval."""
    share = binomial_interval(count, runs)
    return ReportedNumber(
        Interval(*(100 * item for item in share)), runs, f"{count} of {runs}"
    )


def reported_number(text: str, runs: int = 100) -> ReportedNumber:
    """A number as printed, such as "18.2", "31.6 ± 4.0" or "-0.90 [-0.93, -0.85]";
    intervals are 95%."""
    value, *bounds = (float(match) for match in re.findall(r"-?[\d.]+", text))
    if "±" in text:
        bounds = [value - bounds[0], value + bounds[0]]
    return ReportedNumber(Interval(value, *(bounds or [math.nan] * 2)), runs, text)


class Estimate(NamedTuple):
    """An estimate from our runs, in the claim's unit."""

    interval: Interval
    """95% interval; bounds are NaN if there are too few cases, all is NaN if there is
    nothing to measure"""
    count: int  # type: ignore[assignment]  # not the method of tuples
    """Number of cases (runs, spikes or what `of` names)"""
    of: str = "runs"
    effect: float = math.nan
    """Effect size, of the measure `effect_name`"""
    effect_name: str = ""
    note: str = ""
    """A remark for the reader"""
    skipped: bool = False
    """True if it was not measured at this size; the note gives the reason"""

    @property
    def value(self) -> float:
        """The number itself; NaN if there is nothing to measure."""
        return self.interval.value


def as_percentage(share: Interval) -> Interval:
    """A fraction with its interval, as a percentage."""
    return Interval(*(100 * item for item in share))


def percentage(hits: int, total: int, of: str = "runs", note: str = "") -> Estimate:
    """`hits` of `total` cases as a percentage, with its exact binomial interval."""
    return Estimate(as_percentage(binomial_interval(hits, total)), total, of, note=note)
