"""By which rule a finding is judged. All intervals are 95%.

A claim of a number agrees when the two differ by no more than chance would have them differ, and by little:
    reproduced       the interval of the difference holds 0, and the difference is within the margin
    partly           it is within the margin, but more than by chance
    undecided        it may be by chance, but also be larger than the margin
    not reproduced   it is neither
The difference's interval is Zou and Donner's (Statistics in Medicine 27 (2008), 1693), which takes any two intervals,
skewed ones as well. A claim of more, less, or a range asks for an interval that lies wholly there:
    reproduced       it does
    not reproduced   it lies wholly outside, or leaves no room for a difference as large as the margin
    undecided        it holds the bound
A claim of all, only, or if and only if:
    reproduced       there is no exception among no fewer than 20
    not reproduced   there is one
    undecided        there is none, among fewer
A claim that a reader would still call true with a rare exception is reproduced without any, too, but
    not reproduced   if more than one in ten are exceptions, for certain
    partly           if there are any, but they may be as few
Undecided means that these runs cannot tell; so it is with a finding of so few that it has no interval. A claim in parts
is reproduced where all parts are, not reproduced where all are not, partly where some part is reproduced, or partly so,
and undecided otherwise; parts of which there is no case are left out, and with parts that were not tested at this size
it is partly at best.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from analysis.reproduction.verification.estimate import Estimate, ReportedNumber
from analysis.statistics.intervals import NO_INTERVAL, Interval, difference_of_estimates

ENOUGH = 20
"""Cases without exception that are enough for a claim of all."""


class Verdict(StrEnum):
    """What becomes of a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not reproduced"
    OPEN = "undecided"
    UNTESTABLE = "not testable"
    LEFT = "not tested at this size"


class Judgement(NamedTuple):
    """A verdict and its reason."""

    verdict: Verdict
    why: str
    difference: Interval = NO_INTERVAL
    """Here less the paper's, or less the bound, in the claim's unit"""


@dataclass(frozen=True)
class Agrees:
    """It is the number that the paper reports."""

    reported: ReportedNumber
    margin: float
    """The largest difference that would not matter, in the claim's unit"""

    def words(self) -> str:
        """What the rule asks for."""
        return f"agrees with {self.reported.printed}, a difference of up to {self.margin:g} aside"

    def judged(self, finding: Estimate) -> Judgement:
        """The finding against the number."""
        difference = difference_from_reported(finding, self.reported)
        close = abs(difference.value) <= self.margin
        if math.isnan(difference.low):
            return _too_few(difference)
        chance = difference.low <= 0 <= difference.high
        why = ("no more apart than by chance" if chance else "further apart than by chance") + (
            ", and close" if close and chance else ", but close" if close else
            ", but so uncertain that it may be far" if chance else ", and far"
        )  # fmt: skip
        if chance:
            verdict = Verdict.REPRODUCED if close else Verdict.OPEN
        else:
            verdict = Verdict.PARTLY if close else Verdict.NOT
        return Judgement(verdict, why, difference)


@dataclass(frozen=True)
class Above:
    """It is more than a bound."""

    bound: float
    margin: float = 0.0
    """The smallest excess that the claim could mean, in its unit"""

    def words(self) -> str:
        """What the rule asks for."""
        return f"above {self.bound:g}"

    def judged(self, finding: Estimate) -> Judgement:
        """The finding against the bound."""
        return _beyond(finding, self.bound, self.margin, 1.0)


@dataclass(frozen=True)
class Below:
    """It is less than a bound."""

    bound: float
    margin: float = 0.0

    def words(self) -> str:
        """What the rule asks for."""
        return f"below {self.bound:g}"

    def judged(self, finding: Estimate) -> Judgement:
        """The finding against the bound."""
        return _beyond(finding, self.bound, self.margin, -1.0)


@dataclass(frozen=True)
class Within:
    """It is in a range."""

    low: float
    high: float

    def words(self) -> str:
        """What the rule asks for."""
        return f"from {self.low:g} to {self.high:g}"

    def judged(self, finding: Estimate) -> Judgement:
        """The finding's interval against the range."""
        value, low, high = finding.interval
        middle = (self.low + self.high) / 2
        difference = Interval(value - middle, low - middle, high - middle)
        if math.isnan(low):
            return _too_few(difference)
        if self.low <= low and high <= self.high:
            return Judgement(Verdict.REPRODUCED, "the interval lies in the range", difference)
        if high < self.low or low > self.high:
            return Judgement(Verdict.NOT, "the interval lies outside the range", difference)
        return Judgement(Verdict.OPEN, "the interval lies partly in the range", difference)


@dataclass(frozen=True)
class Every:
    """It holds of all; the finding is the percentage of which it does."""

    def words(self) -> str:
        """What the rule asks for."""
        return "all, without exception"

    def judged(self, finding: Estimate) -> Judgement:
        """The finding's share against all."""
        difference = _difference_from_all(finding)
        if finding.interval.value >= 100:
            return _no_exception(finding, difference)
        return Judgement(Verdict.NOT, "there are exceptions", difference)


@dataclass(frozen=True)
class Nearly:
    """It holds of all, rare exceptions aside; the finding is the percentage of which it does."""

    rare: float = 10.0
    """Percentage of exceptions above which no reader would say "all" any more"""

    def words(self) -> str:
        """What the rule asks for."""
        return "all, rare exceptions aside"

    def judged(self, finding: Estimate) -> Judgement:
        """The finding's share against all."""
        difference = _difference_from_all(finding)
        if finding.interval.value >= 100:
            return _no_exception(finding, difference)
        if math.isnan(finding.interval.high):
            return _too_few(difference)
        if finding.interval.high < 100 - self.rare:
            return Judgement(Verdict.NOT, f"more than {self.rare:g}% are exceptions, for certain", difference)
        return Judgement(Verdict.PARTLY, f"not all, but exceptions may be no more than {self.rare:g}%", difference)


Rule = Agrees | Above | Below | Within | Every | Nearly

SOME = Above(0, 5)
"""There is at least one; the finding is a percentage. None is not reproduced only where one in twenty is excluded."""


def judge_estimate(rule: Rule, finding: Estimate) -> Judgement:
    """The verdict on a finding; one that is NaN was nothing to be measured."""
    if finding.left:
        return Judgement(Verdict.LEFT, finding.note)
    if math.isnan(finding.interval.value):
        return Judgement(Verdict.UNTESTABLE, finding.note or "no such case among these runs")
    return rule.judged(finding)


def combine_verdicts(verdicts: list[Verdict]) -> Verdict:
    """Of a claim in parts."""
    tested = {each for each in verdicts if each not in (Verdict.UNTESTABLE, Verdict.LEFT)}
    if not tested:
        return verdicts[0] if verdicts else Verdict.UNTESTABLE
    if tested == {Verdict.REPRODUCED} and Verdict.LEFT in verdicts:
        return Verdict.PARTLY
    if len(tested) == 1:
        return tested.pop()
    return Verdict.PARTLY if tested & {Verdict.REPRODUCED, Verdict.PARTLY} else Verdict.OPEN


def _too_few(difference: Interval) -> Judgement:
    """Of what has no interval."""
    return Judgement(Verdict.OPEN, "too few for an interval", difference)


def _difference_from_all(finding: Estimate) -> Interval:
    """How far a percentage is from all."""
    return Interval(*(each - 100 for each in finding.interval))


def _no_exception(finding: Estimate, difference: Interval) -> Judgement:
    """Of a claim of all to which there is no exception."""
    enough = finding.count >= ENOUGH
    why = f"no exception among {finding.count}" + ("" if enough else f", of which {ENOUGH} would be enough")
    return Judgement(Verdict.REPRODUCED if enough else Verdict.OPEN, why, difference)


def difference_from_reported(finding: Estimate, reported: ReportedNumber) -> Interval:
    """Difference, ours less the paper's, with its interval from the two intervals.

    A paper's number without an interval counts as exact as ours would be of as many runs.
    """
    ours, theirs = finding.interval, reported.interval
    if math.isnan(theirs.low):
        wider = math.sqrt(finding.count / reported.runs)
        down, up = wider * (ours.value - ours.low), wider * (ours.high - ours.value)
        theirs = Interval(theirs.value, theirs.value - down, theirs.value + up)
    return difference_of_estimates(ours, theirs)


def _beyond(finding: Estimate, bound: float, margin: float, sign: float) -> Judgement:
    """Whether the finding is beyond a bound, upward or downward."""
    value, low, high = finding.interval
    difference = Interval(value - bound, low - bound, high - bound)
    if math.isnan(low):
        return _too_few(difference)
    nearest, furthest = (difference.low, difference.high) if sign > 0 else (-difference.high, -difference.low)
    if nearest > 0:
        return Judgement(Verdict.REPRODUCED, "the interval lies wholly beyond the bound", difference)
    if furthest < 0 or furthest < margin:
        why = "the interval lies on the other side" if furthest < 0 else "an effect of this size is excluded"
        return Judgement(Verdict.NOT, why, difference)
    why = "the interval holds the bound" + ("" if sign * difference.value > 0 else ", and the estimate is against it")
    return Judgement(Verdict.OPEN, why, difference)
