"""Small drawings of a number with its interval beside the paper's number and the range
that agrees with the claim."""

import math
from typing import NamedTuple

from analysis.reproduction.results import PartResult
from analysis.statistics.intervals import Interval

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


def number_strip(result: PartResult) -> Strip | None:
    """Positions of an estimate, the paper's number and the range that agrees with the
    claim; None without an estimate."""
    ours, criterion = result.estimate.interval, result.part.criterion
    if math.isnan(ours.value):
        return None
    numbers = [*ours, *criterion.paper, *criterion.accepted]
    numbers = [number for number in numbers if math.isfinite(number)]
    room = MARGIN * ((max(numbers) - min(numbers)) or 1)
    start, end = min(numbers) - room, max(numbers) + room
    if result.part.unit == "%" and 0 <= ours.value <= 100:
        start, end = max(start, 0.0), min(end, 100.0)

    def position(number: float) -> float:
        return round(min(max(100 * (number - start) / (end - start), 0.0), 100.0), 1)

    low, high = map(position, criterion.accepted)
    theirs = Interval(*map(position, criterion.paper))
    ends = (f"{start:.3g}", f"{end:.3g}")
    return Strip(Interval(*map(position, ours)), theirs, low, high, ends)
