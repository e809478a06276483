"""Numbers and rules as a reader sees them."""

import math
import re
from datetime import datetime

from analysis.output.tables import format_interval
from analysis.reproduction.verification.claim import Measurement
from analysis.reproduction.verification.criteria import Above, Agrees, Below, Every, Judgement, Nearly
from analysis.reproduction.verification.estimate import Estimate
from analysis.statistics.intervals import Interval

NOTHING = "no value"


def format_estimate(interval: Interval, part: Measurement, unit: str | None = None) -> str:
    """An estimate with its interval in brackets, in the digits and the unit of a part."""
    if math.isnan(interval.value):
        return NOTHING
    return _append_unit(format_interval(interval, part.digits), part.unit if unit is None else unit)


def _append_unit(number: str, unit: str) -> str:
    """A number, which an interval in brackets may follow, with its unit after the estimate."""
    estimate, space, bounds = number.partition(" [")
    return f"{estimate}{unit if unit == '%' else f' {unit}' if unit else ''}{space}{bounds}"


def format_difference(judgement: Judgement, part: Measurement) -> str:
    """How far a finding is from what was stated; of percentages in points."""
    interval = judgement.difference
    if math.isnan(interval.value):
        return ""
    sign = "+" if round(interval.value, part.digits) > 0 else ""
    return sign + format_estimate(interval, part, "points" if part.unit == "%" else None)


def format_stated(part: Measurement) -> str:
    """What the paper's number is, as it prints it, or what its words ask for."""
    if not isinstance(part.criterion, Agrees):
        return format_bound(part)
    reported = part.criterion.reported
    number = re.fullmatch(r"(-?[\d.]+)( [±\[].*)?", reported.printed)
    if number and float(number[1]) == reported.interval.value:
        return _append_unit(reported.printed, part.unit)
    return f"{format_estimate(reported.interval, part)} ({reported.printed})"


def quote_stated(part: Measurement) -> str:
    """The same with subject and verb."""
    return (
        f"the paper has {format_stated(part)}"
        if isinstance(part.criterion, Agrees)
        else f"its words ask for {format_stated(part)}"
    )


def format_bound(part: Measurement) -> str:
    """What a part asks for, in a few words with its unit."""
    rule = part.criterion
    return rule.words() if isinstance(rule, Every | Nearly) else _append_unit(rule.words(), part.unit)


def format_rule(part: Measurement) -> str:
    """The rule of a part, in full."""
    rule = part.criterion
    if isinstance(rule, Agrees):
        return f"agrees with {format_stated(part)}, margin {_format_margin(rule.margin, part.unit)}"
    if isinstance(rule, Above | Below) and rule.minimum:
        return f"{format_bound(part)}, by at least {_format_margin(rule.minimum, part.unit)}"
    if isinstance(rule, Nearly):
        return f"{format_bound(part)}, up to {rule.rare:g}%"
    return format_bound(part)


def _format_margin(margin: float, unit: str) -> str:
    """A difference that matters, in words; of percentages in points."""
    unit = "points" if unit == "%" else unit
    return _append_unit(f"{margin:g}", unit.removesuffix("s") if margin == 1 else unit)


def format_effect(finding: Estimate) -> str:
    """The size of an effect, by name."""
    return "" if math.isnan(finding.effect) else f"{finding.effect_name} {finding.effect:.2f}"


def as_sentence(text: str) -> str:
    """Words as a sentence: with a capital, unless they begin with a symbol such as f_a, and a full stop."""
    text = " ".join(text.split())
    if not text:
        return ""
    first = text.split(" ", 1)[0]
    word = first.rstrip(",;:")
    if word.isalpha() and word.islower() and (len(word) > 1 or word == "a"):
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text + "."


def shorten_text(text: str, most: int = 180) -> str:
    """The beginning of a text, to its last whole word, if it is a long one."""
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + " …"


def format_duration(seconds: float) -> str:
    """How long something took."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def format_date(text: str) -> str:
    """A date in ISO 8601, with its time to the minute where it has one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if len(text) <= len("2026-11-21") else f"{found:%Y-%m-%d, %H:%M %Z}".strip()
