"""Claims, and the rule that judges them.

A number *agrees* with a printed one if the 95% interval of their difference contains
zero; otherwise it *differs*. A direction *holds* if the whole 95% interval of a
difference has the stated sign, and is *contradicted* if the whole interval has the
other sign; otherwise it is *open*, as is everything without an interval.

The interval of a difference is that of Zou and Donner (Statistics in Medicine 27
(2008), 1693), which combines any two intervals, asymmetric ones too. A printed number
without an interval is taken to be as uncertain as ours would be with as many runs."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

import xarray as xr

from analysis.reproduction.estimates import Estimate, as_percentage
from analysis.statistics.intervals import (
    NO_INTERVAL,
    Interval,
    binomial_interval,
    difference_of_estimates,
)


class Verdict(StrEnum):
    """The result of a claim or of one of its numbers."""

    AGREES = "agrees"
    HOLDS = "holds"
    DIFFERS = "differs"
    CONTRADICTED = "contradicted"
    OPEN = "open"
    SKIPPED = "not tested at this size"


class Sign(IntEnum):
    """The direction that a paper states for a difference."""

    POSITIVE = 1
    NEGATIVE = -1


class PrintedNumber(NamedTuple):
    """A number as a paper prints it, in the unit of its claim."""

    interval: Interval
    """Bounds are NaN if the paper prints none, and the number itself if it is exact"""
    runs: int
    """Of how many runs of the paper"""
    text: str


def printed_count(count: int, runs: int = 100) -> PrintedNumber:
    """A count of the paper's runs, as a percentage with its exact binomial interval.

    >>> printed_count(12).interval.value
    12.0
    """
    interval = as_percentage(binomial_interval(count, runs))
    return PrintedNumber(interval, runs, f"{count} of {runs}")


def printed_number(text: str, runs: int = 100) -> PrintedNumber:
    """A number as printed, such as "18.2", "31.6 ± 4.0" or "-0.90 [-0.93, -0.85]";
    intervals are 95%."""
    value, *bounds = (float(match) for match in re.findall(r"-?[\d.]+", text))
    if "±" in text:
        bounds = [value - bounds[0], value + bounds[0]]
    return PrintedNumber(Interval(value, *(bounds or [math.nan] * 2)), runs, text)


def exact_number(value: float, text: str = "") -> PrintedNumber:
    """A number that is exact, such as the power of a law, or 100 if a paper says
    "all"."""
    return PrintedNumber(Interval(value, value, value), 0, text or f"{value:g}")


class Number(NamedTuple):
    """A number of a claim: how it is estimated from the evidence of its experiment, and
    what the paper says of it."""

    estimate: Callable[[xr.Dataset], Estimate]
    expected: PrintedNumber | Sign
    """The printed number, or the sign of a difference"""
    label: str
    """What the number is"""
    unit: str = ""
    """Such as %, points or epochs; empty for a dimensionless number"""
    digits: int = 1
    """Decimal places when it is printed"""


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, or one of our own, with the numbers that test it."""

    name: str
    """Name on the command line, such as CA.table2.fa2: paper, place, subject"""
    place: str
    """Where the paper states it, such as "section 5.1"; empty for our own claims"""
    passage: str
    """At most twelve words of the paper; empty for our own claims"""
    statement: str
    """The statement in our words"""
    numbers: tuple[Number, ...]
    """The first is the one that the statement is about: its verdict is that of the
    claim"""
    comment: str = ""
    """How large the effect is and whether it matters; how the test departs from the
    paper's setting"""
    summary: str = ""
    """The statement as a clause of the summary of its paper; empty for details"""
    figure: str = ""
    """The figure of `analysis.paper` that shows it, such as ca5"""

    @property
    def paper(self) -> str:
        """The abbreviation of the paper: CA, VC, CH, ZL, NA or OWN."""
        return self.name.split(".")[0]


class JudgedNumber(NamedTuple):
    """A number of a claim with its estimate and its verdict."""

    number: Number
    estimate: Estimate
    verdict: Verdict
    difference: Interval
    """Our number less the printed one; NaN for a direction"""


def judge_number(number: Number, evidence: xr.Dataset) -> JudgedNumber:
    """Estimate a number and judge it by the rule of this module."""
    estimate = number.estimate(evidence)
    if isinstance(number.expected, Sign):
        verdict = judge_direction(estimate.interval, number.expected)
        return JudgedNumber(number, estimate, verdict, NO_INTERVAL)
    difference = difference_from_printed(estimate, number.expected)
    return JudgedNumber(number, estimate, judge_difference(difference), difference)


def judge_difference(difference: Interval) -> Verdict:
    """The verdict on a printed number, from the difference of ours.

    >>> judge_difference(Interval(3.0, 1.0, 5.0))
    <Verdict.DIFFERS: 'differs'>
    """
    if math.isnan(difference.low) or math.isnan(difference.high):
        return Verdict.OPEN
    agrees = difference.low <= 0 <= difference.high
    return Verdict.AGREES if agrees else Verdict.DIFFERS


def judge_direction(interval: Interval, sign: Sign) -> Verdict:
    """The verdict on a stated sign of a difference.

    >>> judge_direction(Interval(3.0, 1.0, 5.0), Sign.POSITIVE)
    <Verdict.HOLDS: 'holds'>
    """
    if min(sign * interval.low, sign * interval.high) > 0:
        return Verdict.HOLDS
    opposite = max(sign * interval.low, sign * interval.high) < 0
    return Verdict.CONTRADICTED if opposite else Verdict.OPEN


def difference_from_printed(estimate: Estimate, printed: PrintedNumber) -> Interval:
    """Our number less the printed one, with the 95% interval of the difference."""
    ours, theirs = estimate.interval, printed.interval
    if math.isnan(theirs.low):
        scale = math.sqrt(estimate.count / printed.runs)
        down, up = scale * (ours.value - ours.low), scale * (ours.high - ours.value)
        theirs = Interval(theirs.value, theirs.value - down, theirs.value + up)
    return difference_of_estimates(ours, theirs)
