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
    partly           the whole interval is beyond the bound, but the number by less than the minimum effect
    undecided        the interval contains the bound and the minimum effect
    not reproduced   the interval excludes the minimum effect, and is not beyond the bound
The minimum effect is our choice, so a smaller effect of the stated sign is "partly".
Where the bound is our choice, too, "not reproduced" becomes "undecided (outside our
threshold)", unless the whole interval is nearer to the number that contradicts the
claim, such as that of unrelated weights. A claim about all cases:
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
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from analysis.output.tables import format_interval
from analysis.reproduction.verification.samples import (
    Estimate,
    ReportedNumber,
    reported_number,
)
from analysis.statistics.intervals import NO_INTERVAL, Interval, difference_of_estimates

ENOUGH = 20
"""Cases without exception that are enough for a claim about all cases."""
OUTSIDE = "outside our threshold (the paper states no number)"
"""The reason of "undecided" where the interval excludes a bound that we chose."""
DECIDABLE = 100
"""An undecided claim that needs more times its runs than this is too close to its
bound."""
SYMBOLS = {"%": "%", "times": "×"}
POSSIBLE = {"%": (0.0, 100.0), "points": (-100.0, 100.0)}
"""The least and the largest possible number, by unit."""


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
class Criterion:
    """What a paper says of a number."""

    @property
    def paper(self) -> Interval:
        """The paper's number; NaN if it prints none."""
        return NO_INTERVAL

    @property
    def accepted(self) -> tuple[float, float]:
        """The range of numbers that agree with the claim."""
        return -math.inf, math.inf

    def judge(self, estimate: Estimate) -> Judgement:
        """The verdict on an estimate that has a value."""
        raise NotImplementedError

    def words(self, unit: str, digits: int) -> str:
        """The criterion in words."""
        raise NotImplementedError

    def cases_to_decide(self, estimate: Estimate) -> str:
        """What would decide, if the estimate stays; empty if it cannot be said."""
        return ""


@dataclass(frozen=True)
class Agrees(Criterion):
    """Our number agrees with the one that the paper reports."""

    reported: ReportedNumber
    margin: float
    """The largest difference that would not matter, in the claim's unit"""

    @property
    def paper(self) -> Interval:
        """The paper's number."""
        return self.reported.interval

    @property
    def accepted(self) -> tuple[float, float]:
        """The numbers within the margin."""
        return self.paper.value - self.margin, self.paper.value + self.margin

    def judge(self, estimate: Estimate) -> Judgement:
        """Compare an estimate with the number."""
        difference = difference_from_reported(estimate, self.reported)
        close = abs(difference.value) <= self.margin
        if math.isnan(difference.low):
            return _too_few(difference)
        if difference.low <= 0 <= difference.high:
            verdict, reason = Verdict.REPRODUCED, ""
            if not close:
                verdict = Verdict.UNDECIDED
                reason = "may be due to chance, but larger than the margin"
        elif close:
            verdict, reason = Verdict.PARTLY, "not due to chance, but within the margin"
        else:
            verdict = Verdict.NOT
            reason = "not due to chance, and larger than the margin"
        return Judgement(verdict, reason, difference)

    def words(self, unit: str, digits: int) -> str:
        """The paper's number as it prints it, and the margin."""
        value, printed = self.paper.value, self.reported.printed
        number = re.fullmatch(r"(-?[\d.]+)( [±\[].*)?", printed)
        if number and abs(float(number[1]) - value) < 0.5 * 10**-digits:
            number_words = insert_unit(printed, unit)
        else:
            only_value = Interval(value, math.nan, math.nan)
            number_words = f"{format_number(only_value, unit, digits)} ({printed})"
        unit = "points" if unit == "%" else unit  # a difference of percentages
        unit = unit.removesuffix("s") if self.margin == 1 else unit
        return f"paper: {number_words}, margin {insert_unit(f'{self.margin:g}', unit)}"


@dataclass(frozen=True)
class _Bound(Criterion):
    """Our number is beyond a bound."""

    bound: float
    minimum: float = 0.0
    """The smallest distance from the bound that the claim could mean, in its unit: the
    minimum effect"""
    ours: bool = False
    """Whether we chose the bound, so that a number on the other side does not
    contradict the paper"""
    contrary: float = math.nan
    """The number that contradicts the claim, if we chose the bound; NaN if there is
    none"""
    direction: ClassVar[float]
    """1 if numbers above the bound fulfil the criterion, -1 if those below do"""
    WORDS: ClassVar[tuple[str, str]]

    @property
    def accepted(self) -> tuple[float, float]:
        """The numbers beyond the bound by the minimum effect."""
        ends = (self.bound + self.direction * self.minimum, self.direction * math.inf)
        return min(ends), max(ends)

    def judge(self, estimate: Estimate) -> Judgement:
        """Compare an estimate with the bound."""
        difference = _minus(estimate.interval, self.bound)
        if math.isnan(difference.low):
            return _too_few(difference)
        low, value, high = sorted(self.direction * item for item in difference)
        if low > 0:
            return Judgement(self._effect(value), "", difference)
        if high >= self.minimum:
            return Judgement(Verdict.UNDECIDED, "", difference)
        contrary = self.direction * (self.contrary - self.bound)
        return _contradicted(self.ours and not high < contrary / 2, difference)

    def _effect(self, value: float) -> Verdict:
        """The verdict on a distance that is larger than by chance."""
        return Verdict.REPRODUCED if value >= self.minimum else Verdict.PARTLY

    def words(self, unit: str, digits: int) -> str:
        """The bound, and the smallest number that counts."""
        beyond, least = self.WORDS
        unit = unit if unit in SYMBOLS else ""
        words = f"interval {beyond} {insert_unit(f'{self.bound:g}', unit)}"
        if not self.minimum:
            return words
        end = self.bound + self.direction * self.minimum
        return f"{words}, estimate at {least} {insert_unit(f'{end:.6g}', unit)}"

    def cases_to_decide(self, estimate: Estimate) -> str:
        """How many cases would decide and with which verdict, if the estimate stays.
        The interval narrows with the square root of their number."""
        difference = _minus(estimate.interval, self.bound)
        if math.isnan(difference.low):
            return ""
        low, value, high = sorted(self.direction * item for item in difference)
        factors: dict[float, str] = {}
        if value > 0:
            factors[((value - low) / value) ** 2] = self._effect(value)
        if value <= 0 < self.minimum:
            beyond = "outside our threshold" if self.ours else Verdict.NOT
            factors[((high - value) / (self.minimum - value)) ** 2] = beyond
        factor = min(factors, default=math.inf)
        of = estimate.of
        if factor > DECIDABLE:
            return f"the estimate is too close to the bound for more {of} to decide"
        cases = factor * estimate.count
        digits = 10 ** max(0, math.floor(math.log10(cases)) - 1)
        rounded = math.ceil(cases / digits) * digits
        return f"about {rounded:,} {of} in all: {factors[factor]}"


class Above(_Bound):
    """Our number is above a bound."""

    direction, WORDS = 1.0, ("above", "least")


class Below(_Bound):
    """Our number is below a bound."""

    direction, WORDS = -1.0, ("below", "most")


@dataclass(frozen=True)
class Within(Criterion):
    """Our number is in a range."""

    low: float
    high: float
    ours: bool = False
    """Whether we chose the range, so that a number outside does not contradict the
    paper"""

    @property
    def accepted(self) -> tuple[float, float]:
        """The range."""
        return self.low, self.high

    def words(self, unit: str, digits: int) -> str:
        """The range."""
        return insert_unit(f"interval from {self.low:g} to {self.high:g}", unit)

    def judge(self, estimate: Estimate) -> Judgement:
        """Compare the interval of an estimate with the range."""
        _, low, high = estimate.interval
        difference = _minus(estimate.interval, (self.low + self.high) / 2)
        if math.isnan(low):
            return _too_few(difference)
        if self.low <= low and high <= self.high:
            return Judgement(Verdict.REPRODUCED, "", difference)
        if high < self.low or low > self.high:
            return _contradicted(self.ours, difference)
        reason = "the interval is partly in the range"
        return Judgement(Verdict.UNDECIDED, reason, difference)


@dataclass(frozen=True)
class Exists(Criterion):
    """There is at least one case; the estimate is the percentage of cases."""

    rare: float = 5.0
    """Percentage of cases below which we do not expect to find one"""

    @property
    def accepted(self) -> tuple[float, float]:
        """Any number of cases."""
        return 0.0, math.inf

    def words(self, unit: str, digits: int) -> str:
        """That there is a case."""
        return "at least one case expected"

    def judge(self, estimate: Estimate) -> Judgement:
        """Whether there is a case."""
        value, low, high = interval = estimate.interval
        if value > 0:
            return Judgement(Verdict.REPRODUCED, "", interval)
        if math.isnan(low):
            return _too_few(interval)
        if high < self.rare:
            reason = f"there is none, and {self.rare:g}% is excluded"
            return Judgement(Verdict.NOT, reason, interval)
        reason = f"there is none, but {self.rare:g}% is not excluded"
        return Judgement(Verdict.UNDECIDED, reason, interval)


@dataclass(frozen=True)
class Every(Criterion):
    """It holds in all cases; the estimate is the percentage in which it holds."""

    rare: float = 0.0
    """Percentage of exceptions above which no reader would say "all"; 0: none is
    allowed"""

    @property
    def accepted(self) -> tuple[float, float]:
        """All cases but the rare exceptions."""
        return 100.0 - self.rare, 100.0

    def words(self, unit: str, digits: int) -> str:
        """That there is no exception, or that exceptions are rare."""
        rare = f" (partly: at most {self.rare:g}% exceptions)" if self.rare else ""
        return f"no exception expected{rare}"

    def judge(self, estimate: Estimate) -> Judgement:
        """Whether there is an exception, and whether exceptions are rare."""
        difference = _minus(estimate.interval, 100)
        if difference.value >= 0:
            reason = f"no exception among {estimate.count}"
            if estimate.count >= ENOUGH:
                return Judgement(Verdict.REPRODUCED, reason, difference)
            reason += f"; at least {ENOUGH} are needed"
            return Judgement(Verdict.UNDECIDED, reason, difference)
        if self.rare and math.isnan(difference.high):
            return _too_few(difference)
        allowed = self.rare and difference.high >= -self.rare
        return Judgement(Verdict.PARTLY if allowed else Verdict.NOT, "", difference)


@dataclass(frozen=True)
class Nearly(Every):
    """It holds in all cases, apart from rare exceptions."""

    rare: float = 10.0


def read_criterion(row: Any) -> Criterion:
    """The criterion that a claim states in its file: "every", "nearly" or "exists", or
    a table of the fields of another one, of which the first is the bound `above` or
    `below`, the range `within`, or the printed number with which ours `agrees`."""
    if isinstance(row, str):
        return {"every": Every, "nearly": Nearly, "exists": Exists}[row]()
    (kind, value), *others = row.items()
    fields = dict(others)
    match kind:
        case "above":
            return Above(value, **fields)
        case "below":
            return Below(value, **fields)
        case "within":
            return Within(*value, **fields)
        case "agrees":
            return Agrees(reported_number(value, fields["runs"]), fields["margin"])
    raise ValueError(f"criterion {kind}: expected above, below, within or agrees")


def judge_estimate(criterion: Criterion, estimate: Estimate) -> Judgement:
    """The verdict on an estimate; if it is NaN, there was no case to measure."""
    if estimate.skipped:
        return Judgement(Verdict.SKIPPED, estimate.note)
    if math.isnan(estimate.interval.value):
        reason = estimate.note or "there is no such case among these runs"
        return Judgement(Verdict.UNTESTABLE, reason)
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
    holds = tested & {Verdict.REPRODUCED, Verdict.PARTLY}
    return Verdict.PARTLY if holds else Verdict.UNDECIDED


def _contradicted(ours: bool, difference: Interval) -> Judgement:
    """The judgement on a number beyond a limit, which does not contradict the paper if
    the limit is ours."""
    if ours:
        return Judgement(Verdict.UNDECIDED, OUTSIDE, difference)
    return Judgement(Verdict.NOT, "", difference)


def _too_few(difference: Interval) -> Judgement:
    return Judgement(Verdict.UNDECIDED, "too few cases for an interval", difference)


def _minus(interval: Interval, number: float) -> Interval:
    return Interval(*(item - number for item in interval))


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


def format_number(interval: Interval, unit: str, digits: int) -> str:
    """A number with its interval in brackets, with the digits and the unit of a
    part."""
    if math.isnan(interval.value):
        return "no value"
    least, most = POSSIBLE.get(unit, (-math.inf, math.inf))
    if least <= interval.value <= most:
        # a normal approximation may go beyond what is possible
        low, high = max(interval.low, least), min(interval.high, most)
        interval = Interval(interval.value, low, high)
    return insert_unit(format_interval(interval, digits), unit)


def insert_unit(number: str, unit: str) -> str:
    """A number with its unit, before the interval if one follows."""
    value, space, bounds = number.partition(" [")
    return f"{value}{SYMBOLS.get(unit, f' {unit}' if unit else '')}{space}{bounds}"
