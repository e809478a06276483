"""Texts of numbers, criteria, durations and dates for readers."""

import math
import re
from datetime import datetime

from analysis.output.tables import format_interval
from analysis.reproduction.verification.claim import Measurement
from analysis.reproduction.verification.criteria import Above, Agrees, Below, Within
from analysis.statistics.intervals import Interval

NO_VALUE = "no value"
SYMBOLS = {"%": "%", "times": "×"}
POSSIBLE = {"%": (0.0, 100.0), "points": (-100.0, 100.0)}
"""The least and the largest possible number, by unit."""


def format_estimate(interval: Interval, part: Measurement) -> str:
    """An estimate with its interval in brackets, with the digits and the unit of a
    part."""
    if math.isnan(interval.value):
        return NO_VALUE
    low, high = POSSIBLE.get(part.unit, (-math.inf, math.inf))
    if (
        low <= interval.value <= high
    ):  # a normal approximation may go beyond what is possible
        interval = Interval(
            interval.value, max(interval.low, low), min(interval.high, high)
        )
    return _insert_unit(format_interval(interval, part.digits), part.unit)


def _insert_unit(number: str, unit: str) -> str:
    """A number with its unit, before the interval if one follows."""
    value, space, bounds = number.partition(" [")
    return f"{value}{SYMBOLS.get(unit, f' {unit}' if unit else '')}{space}{bounds}"


def format_criterion(part: Measurement) -> str:
    """The paper's number with the margin, or what the claim asks for."""
    criterion = part.criterion
    if isinstance(criterion, Agrees):
        return (
            f"paper: {_format_reported(criterion, part)}, margin"
            f" {_format_difference(criterion.margin, part.unit)}"
        )
    if isinstance(criterion, Above | Below):
        (beyond, least), unit = (
            criterion.WORDS,
            part.unit if part.unit in SYMBOLS else "",
        )
        words = f"interval {beyond} {_insert_unit(f'{criterion.bound:g}', unit)}"
        end = criterion.bound + criterion.direction * criterion.minimum
        return (
            f"{words}, estimate at {least} {_insert_unit(f'{end:.6g}', unit)}"
            if criterion.minimum
            else words
        )
    return (
        _insert_unit(criterion.words(), part.unit)
        if isinstance(criterion, Within)
        else criterion.words()
    )


def _format_reported(criterion: Agrees, part: Measurement) -> str:
    """The paper's number as it prints it."""
    reported = criterion.reported
    number = re.fullmatch(r"(-?[\d.]+)( [±\[].*)?", reported.printed)
    if (
        number
        and abs(float(number[1]) - reported.interval.value) < 0.5 * 10**-part.digits
    ):
        return _insert_unit(reported.printed, part.unit)
    value = Interval(reported.interval.value, math.nan, math.nan)
    return f"{format_estimate(value, part)} ({reported.printed})"


def _format_difference(size: float, unit: str) -> str:
    """A difference with its unit; differences of percentages are in points."""
    unit = "points" if unit == "%" else unit
    return _insert_unit(f"{size:g}", unit.removesuffix("s") if size == 1 else unit)


def as_sentence(text: str) -> str:
    """Text with a capital letter, unless it begins with a symbol such as f_a, and a
    full stop."""
    text = " ".join(text.split())
    if not text:
        return ""
    word = text.split(" ", 1)[0].rstrip(",;:")
    if word.isalpha() and word.islower() and (len(word) > 1 or word == "a"):
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text + "."


def format_duration(seconds: float) -> str:
    """A duration in seconds, or in hours and minutes."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def format_date(text: str) -> str:
    """A date in ISO 8601; a date with a time is shortened to the minute."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (
        text if len(text) <= len("2026-11-21") else f"{date:%Y-%m-%d, %H:%M %Z}".strip()
    )
