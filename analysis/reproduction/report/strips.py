"""Small drawings of a number with its interval beside the printed number, or beside
zero where a paper states a direction."""

import math
from typing import NamedTuple

from analysis.reproduction.claim import JudgedNumber, Sign
from analysis.statistics.intervals import NO_INTERVAL, Interval

FREE = 0.1
"""Fraction of the numbers' range that is left free at each end."""


class Strip(NamedTuple):
    """Positions from 0 to 100."""

    ours: Interval
    printed: Interval
    """NaN for a direction"""
    zero: float
    """NaN for a printed number"""
    ends: tuple[str, str]
    """The numbers at positions 0 and 100"""


def number_strip(judged: JudgedNumber) -> Strip | None:
    """Positions of an estimate and of the printed number or zero; None without an
    estimate."""
    ours, expected = judged.estimate.interval, judged.number.expected
    if math.isnan(ours.value):
        return None
    printed = NO_INTERVAL
    zero = 0.0
    if not isinstance(expected, Sign):
        printed = expected.interval
        zero = math.nan
    numbers = [item for item in (*ours, *printed, zero) if math.isfinite(item)]
    room = FREE * ((max(numbers) - min(numbers)) or 1)
    start, end = min(numbers) - room, max(numbers) + room

    def position(number: float) -> float:
        return round(100 * (number - start) / (end - start), 1)

    return Strip(
        Interval(*map(position, ours)),
        Interval(*map(position, printed)),
        position(zero),
        (f"{start:.3g}", f"{end:.3g}"),
    )
