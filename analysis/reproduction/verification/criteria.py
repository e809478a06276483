"""The criteria that judge estimates. All intervals are 95%.

A claim that states a number agrees with ours if the difference is small and may be due
to chance:
    reproduced       the interval of the difference contains 0, and the difference is within the margin
    partly           it is within the margin, but larger than by chance
    undecided        it may be due to chance, but is larger than the margin
    not reproduced   it is larger than the margin and larger than by chance
The interval of the difference is that of Zou and Donner (Statistics in Medicine 27
(2008), 1693), which combines any two intervals, asymmetric ones too. A claim of more,
less, or a range is judged by the interval of our number:
    reproduced       the whole interval is beyond the bound, and the number by the minimum effect at least
    partly           the whole interval is beyond the bound and contains the minimum effect, but the number is smaller
    undecided        the interval contains the bound and the minimum effect
    not reproduced   the interval excludes the minimum effect, be it beyond the bound or not
Where the bound is our choice and not the paper's, "not reproduced" becomes "undecided
(outside our threshold)". A claim about all cases:
    reproduced       there is no exception among at least 20 cases
    undecided        there is no exception among fewer
    not reproduced   there is an exception
A claim about all cases that allows rare exceptions:
    partly           there are exceptions, but possibly no more than one in ten
    not reproduced   more than one in ten cases are exceptions
A claim that something exists is not reproduced only if one case in twenty is excluded.
An estimate from so few cases that it has no interval is undecided. A claim of several
parts is reproduced if all parts are, not reproduced if none is, partly reproduced if
some part is reproduced or partly so, and undecided otherwise. Parts without any case
are left out; a claim with parts that were not tested at this size is reproduced partly
at best."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from analysis.reproduction.verification.estimate import Estimate, ReportedNumber
from analysis.statistics.intervals import NO_INTERVAL, Interval, difference_of_estimates

ENOUGH = 20
"""Cases without exception that are enough for a claim about all cases."""
OUTSIDE = "outside our threshold (the paper states no number)"
"""The reason of "undecided" where the interval excludes a bound that we chose."""


class Verdict(StrEnum):
    """The result of a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not reproduced"
    UNDECIDED = "undecided"
    UNTESTABLE = "not testable"
    SKIPPED = "not tested at this size"


class Judgement(NamedTuple):
    """A verdict and its reason."""

    verdict: Verdict
    reason: str = ""
    """Empty if the definition of the verdict says it"""
    difference: Interval = NO_INTERVAL
    """Our number less the paper's, or less the bound, in the claim's unit"""


@dataclass(frozen=True)
class Agrees:
    """Our number agrees with the one that the paper reports."""

    reported: ReportedNumber
    margin: float
    """The largest difference that would not matter, in the claim's unit"""

    def judge(self, estimate: Estimate) -> Judgement:
        """Compare an estimate with the number."""
        difference = difference_from_reported(estimate, self.reported)
        close = abs(difference.value) <= self.margin
        if math.isnan(difference.low):
            return _too_few(difference)
        chance = difference.low <= 0 <= difference.high
        if chance and close:
            return Judgement(Verdict.REPRODUCED, "", difference)
        if chance:
            return Judgement(
                Verdict.UNDECIDED,
                "may be due to chance, but larger than the margin",
                difference,
            )
        if close:
            return Judgement(
                Verdict.PARTLY, "not due to chance, but within the margin", difference
            )
        return Judgement(
            Verdict.NOT, "not due to chance, and larger than the margin", difference
        )


@dataclass(frozen=True)
class _Bound:
    """Our number is beyond a bound."""

    bound: float
    minimum: float = 0.0
    """The smallest distance from the bound that the claim could mean, in its unit: the
    minimum effect"""
    ours: bool = False
    """Whether we chose the bound, so that a number on the other side does not
    contradict the paper"""
    direction: ClassVar[float]
    """1 if numbers above the bound fulfil the criterion, -1 if those below do"""
    WORDS: ClassVar[tuple[str, str]]

    def judge(self, estimate: Estimate) -> Judgement:
        """Compare an estimate with the bound."""
        difference = Interval(*(item - self.bound for item in estimate.interval))
        if math.isnan(difference.low):
            return _too_few(difference)
        low, value, high = sorted(self.direction * item for item in difference)
        if high < self.minimum:
            return _contradicted(self.ours, difference)
        if low <= 0:
            return Judgement(Verdict.UNDECIDED, "", difference)
        return Judgement(
            Verdict.REPRODUCED if value >= self.minimum else Verdict.PARTLY,
            "",
            difference,
        )


class Above(_Bound):
    """Our number is above a bound."""

    direction, WORDS = 1.0, ("above", "least")


class Below(_Bound):
    """Our number is below a bound."""

    direction, WORDS = -1.0, ("below", "most")


@dataclass(frozen=True)
class Within:
    """Our number is in a range."""

    low: float
    high: float
    ours: bool = False
    """Whether we chose the range, so that a number outside does not contradict the
    paper"""

    def words(self) -> str:
        """The criterion in words."""
        return f"interval from {self.low:g} to {self.high:g}"

    def judge(self, estimate: Estimate) -> Judgement:
        """Compare the interval of an estimate with the range."""
        _, low, high = estimate.interval
        middle = (self.low + self.high) / 2
        difference = Interval(*(item - middle for item in estimate.interval))
        if math.isnan(low):
            return _too_few(difference)
        if self.low <= low and high <= self.high:
            return Judgement(Verdict.REPRODUCED, "", difference)
        if high < self.low or low > self.high:
            return _contradicted(self.ours, difference)
        return Judgement(
            Verdict.UNDECIDED, "the interval is partly in the range", difference
        )


@dataclass(frozen=True)
class Exists:
    """There is at least one case; the estimate is the percentage of cases."""

    rare: float = 5.0
    """Percentage of cases below which we do not expect to find one"""

    def words(self) -> str:
        """The criterion in words."""
        return "at least one case expected"

    def judge(self, estimate: Estimate) -> Judgement:
        """Whether there is a case."""
        value, low, high = estimate.interval
        if value > 0:
            return Judgement(Verdict.REPRODUCED, "", estimate.interval)
        if math.isnan(low):
            return _too_few(estimate.interval)
        if high < self.rare:
            return Judgement(
                Verdict.NOT,
                f"there is none, and {self.rare:g}% is excluded",
                estimate.interval,
            )
        return Judgement(
            Verdict.UNDECIDED,
            f"there is none, but {self.rare:g}% is not excluded",
            estimate.interval,
        )


@dataclass(frozen=True)
class Every:
    """It holds in all cases; the estimate is the percentage in which it holds."""

    def words(self) -> str:
        """The criterion in words."""
        return "no exception expected"

    def judge(self, estimate: Estimate) -> Judgement:
        """Whether there is an exception."""
        if estimate.interval.value >= 100:
            return _no_exception(estimate)
        return Judgement(Verdict.NOT, "", _difference_from_all(estimate))


@dataclass(frozen=True)
class Nearly:
    """It holds in all cases, apart from rare exceptions; the estimate is the percentage
    in which it holds."""

    rare: float = 10.0
    """Percentage of exceptions above which no reader would say "all" """

    def words(self) -> str:
        """The criterion in words."""
        return f"no exception expected (partly: at most {self.rare:g}% exceptions)"

    def judge(self, estimate: Estimate) -> Judgement:
        """Whether exceptions are rare."""
        difference = _difference_from_all(estimate)
        if estimate.interval.value >= 100:
            return _no_exception(estimate)
        if math.isnan(estimate.interval.high):
            return _too_few(difference)
        if estimate.interval.high < 100 - self.rare:
            return Judgement(Verdict.NOT, "", difference)
        return Judgement(Verdict.PARTLY, "", difference)


Criterion = Agrees | Above | Below | Within | Exists | Every | Nearly


def judge_estimate(criterion: Criterion, estimate: Estimate) -> Judgement:
    """The verdict on an estimate; if it is NaN, there was no case to measure."""
    if estimate.skipped:
        return Judgement(Verdict.SKIPPED, estimate.note)
    if math.isnan(estimate.interval.value):
        return Judgement(
            Verdict.UNTESTABLE,
            estimate.note or "there is no such case among these runs",
        )
    return criterion.judge(estimate)


def combine_verdicts(verdicts: list[Verdict]) -> Verdict:
    """The verdict on a claim, from those on its parts."""
    tested = set(verdicts) - {Verdict.UNTESTABLE, Verdict.SKIPPED}
    if not tested:
        return verdicts[0] if verdicts else Verdict.UNTESTABLE
    if tested == {Verdict.REPRODUCED} and Verdict.SKIPPED in verdicts:
        return Verdict.PARTLY
    if len(tested) == 1:
        return tested.pop()
    return (
        Verdict.PARTLY
        if tested & {Verdict.REPRODUCED, Verdict.PARTLY}
        else Verdict.UNDECIDED
    )


def _contradicted(ours: bool, difference: Interval) -> Judgement:
    """The judgement on a number beyond a limit, which does not contradict the paper if
    the limit is ours."""
    return (
        Judgement(Verdict.UNDECIDED, OUTSIDE, difference)
        if ours
        else Judgement(Verdict.NOT, "", difference)
    )


def _too_few(difference: Interval) -> Judgement:
    return Judgement(Verdict.UNDECIDED, "too few cases for an interval", difference)


def _difference_from_all(estimate: Estimate) -> Interval:
    return Interval(*(item - 100 for item in estimate.interval))


def _no_exception(estimate: Estimate) -> Judgement:
    """The judgement on a claim about all cases to which there is no exception."""
    reason, difference = (
        f"no exception among {estimate.count}",
        _difference_from_all(estimate),
    )
    if estimate.count >= ENOUGH:
        return Judgement(Verdict.REPRODUCED, reason, difference)
    return Judgement(
        Verdict.UNDECIDED, f"{reason}; at least {ENOUGH} are needed", difference
    )


def difference_from_reported(estimate: Estimate, reported: ReportedNumber) -> Interval:
    """Our number less the paper's, with the interval of the difference.

    A paper's number without an interval is taken to be as uncertain as ours would be
    with as many runs."""
    ours, theirs = estimate.interval, reported.interval
    if math.isnan(theirs.low):
        scale = math.sqrt(estimate.count / reported.runs)
        down, up = scale * (ours.value - ours.low), scale * (ours.high - ours.value)
        theirs = Interval(theirs.value, theirs.value - down, theirs.value + up)
    return difference_of_estimates(ours, theirs)
