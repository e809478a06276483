"""Numbers: what was found for a claim, and what a paper reports."""

import math
import re
from typing import NamedTuple

from analysis.statistics.intervals import Interval, binomial_interval


class ReportedNumber(NamedTuple):
    """A number as a paper prints it, in the claim's unit."""

    interval: Interval
    """Bounds are NaN where the paper prints none; they are then taken to be as wide as ours of as many runs"""
    runs: int
    printed: str


def reported_count(count: int, runs: int = 100) -> ReportedNumber:
    """So many of the paper's runs, as a percentage with its exact binomial interval."""
    share = binomial_interval(count, runs)
    return ReportedNumber(Interval(*(100 * each for each in share)), runs, f"{count} of {runs}")


def reported_number(text: str, runs: int = 100) -> ReportedNumber:
    """A number as it is printed, such as "18.2", "31.6 ± 4.0" or "-0.90 [-0.93, -0.85]"; intervals are 95%."""
    value, *bounds = (float(each) for each in re.findall(r"-?[\d.]+", text))
    if "±" in text:
        bounds = [value - bounds[0], value + bounds[0]]
    return ReportedNumber(Interval(value, *(bounds or [math.nan] * 2)), runs, text)


class Estimate(NamedTuple):
    """What was measured here, in the claim's unit."""

    interval: Interval
    """95%; NaN bounds where so few give none, NaN throughout where there is nothing to measure"""
    count: int  # type: ignore[assignment]  # not the method of tuples
    """Of how many runs, spikes or whatever `of` says"""
    of: str = "runs"
    effect: float = math.nan
    """Size of the effect where it has a usual measure, by name"""
    effect_name: str = ""
    note: str = ""
    """What a reader should know beside the number"""
    left: bool = False
    """Whether it is not measured at this size, for the reason that the note gives"""


def as_percentage(share: Interval) -> Interval:
    """A share as a percentage."""
    return Interval(*(100 * each for each in share))


def percentage(hits: int, total: int, of: str = "runs", note: str = "") -> Estimate:
    """So many of all, as a percentage with its exact binomial interval."""
    return Estimate(as_percentage(binomial_interval(hits, total)), total, of, note=note)
