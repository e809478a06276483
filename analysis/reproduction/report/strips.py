"""Small drawings of a number with its interval beside the paper's number and the range
that agrees with the claim."""

import math
from typing import NamedTuple

from analysis.reproduction.verification.claim import Measurement
from analysis.reproduction.verification.criteria import (
    Above,
    Agrees,
    Below,
    Criterion,
    Every,
    Nearly,
    Within,
)
from analysis.reproduction.verification.estimate import Estimate
from analysis.statistics.intervals import NO_INTERVAL, Interval

MARGIN = 0.1
"""Fraction of the numbers' range that is left free at each end."""


class Strip(NamedTuple):
    """Positions from 0 to 100."""

    ours: Interval
    paper: Interval
    """NaN where the paper prints none"""
    low: float
    """Lower end of the range that agrees with the claim"""
    high: float
    ends: tuple[str, str]
    """The numbers at positions 0 and 100"""


def number_strip(part: Measurement, estimate: Estimate) -> Strip | None:
    """Positions of an estimate, the paper's number and the range that agrees with the
    claim; None without an estimate.

    >>> from analysis.reproduction.verification.claim import part
    >>> strip = number_strip(part(len, Within(0, 10)), Estimate(Interval(5, 2, 8), 100))
    >>> [round(each) for each in (*strip.ours, strip.low, strip.high)], strip.ends
    ([50, 25, 75, 8, 92], ('-1', '11'))
    """
    if math.isnan(estimate.interval.value):
        return None
    accepted = _accepted_range(part.criterion)
    paper = (
        part.criterion.reported.interval
        if isinstance(part.criterion, Agrees)
        else NO_INTERVAL
    )
    numbers = [
        item for item in (*estimate.interval, *paper, *accepted) if math.isfinite(item)
    ]
    room = MARGIN * ((max(numbers) - min(numbers)) or 1)
    start, end = min(numbers) - room, max(numbers) + room
    if part.unit == "%" and 0 <= estimate.interval.value <= 100:
        start, end = max(start, 0.0), min(end, 100.0)

    def position(number: float) -> float:
        return round(min(max(100 * (number - start) / (end - start), 0.0), 100.0), 1)

    ours, theirs = (
        Interval(*map(position, item)) for item in (estimate.interval, paper)
    )
    low, high = map(position, accepted)
    return Strip(ours, theirs, low, high, (f"{start:.3g}", f"{end:.3g}"))


def _accepted_range(criterion: Criterion) -> tuple[float, float]:
    """The numbers that agree with a claim."""
    if isinstance(criterion, Agrees):
        value = criterion.reported.interval.value
        return value - criterion.margin, value + criterion.margin
    if isinstance(criterion, Above):
        return criterion.bound + criterion.minimum, math.inf
    if isinstance(criterion, Below):
        return -math.inf, criterion.bound - criterion.minimum
    if isinstance(criterion, Within):
        return criterion.low, criterion.high
    if isinstance(criterion, Every | Nearly):
        return 100 - getattr(criterion, "rare", 0.0), 100.0
    return 0.0, math.inf
