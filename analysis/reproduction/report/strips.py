"""Small drawings of a number with its interval beside the printed number, or beside
zero where a paper states a direction."""

import math
from typing import NamedTuple

from analysis.reproduction.claim import JudgedNumber, Sign
from analysis.statistics.intervals import NO_INTERVAL, Interval

STEPS = 10
"""Least number of round steps between the ends of a scale."""


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
    start, end, step = round_scale(min(numbers), max(numbers))

    def position(number: float) -> float:
        return round(100 * (number - start) / (end - start), 1)

    return Strip(
        Interval(*map(position, ours)),
        Interval(*map(position, printed)),
        position(zero),
        (format_end(start, step), format_end(end, step)),
    )


def round_scale(low: float, high: float) -> tuple[float, float, float]:
    """The ends of a scale over numbers from low to high at multiples of a power of ten,
    as near to them as there are, and this power."""
    size = (high - low) or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(size / STEPS) + 1e-9)
    start = step * math.floor(low / step + 1e-9)
    end = step * math.ceil(high / step - 1e-9)
    return start, end if end > start else start + step, step


def format_end(number: float, step: float) -> str:
    """An end of a scale with as many decimals as its steps need."""
    exponent = round(math.log10(step))
    if -5 < exponent < 5:
        text = f"{number:.{max(0, -exponent)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{number:.2g}".replace("e-0", "e-").replace("e+0", "e")
    return text.replace("-", "\N{MINUS SIGN}") if float(text) else "0"
