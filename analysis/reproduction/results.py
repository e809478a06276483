"""Results of claims: each number with its verdict, on the terminal, as CSV and for the
report."""

import dataclasses
import math
import textwrap
from collections.abc import Mapping, Sequence

import pandas as pd
import xarray as xr

from analysis.output.tables import format_interval, interval_columns, make_table
from analysis.reproduction.claim import (
    Claim,
    JudgedNumber,
    Sign,
    Verdict,
    judge_number,
)
from analysis.reproduction.experiment import Experiment, Size
from analysis.statistics.intervals import Interval

COLUMNS = (
    "claim",
    "number",
    "verdict_of_claim",
    "verdict",
    "value",
    "low",
    "high",
    "unit",
    "count",
    "of",
    "printed",
    "difference",
    "difference_low",
    "difference_high",
    "size",
)
SIGNS = {Sign.POSITIVE: "above 0", Sign.NEGATIVE: "below 0"}
"""The stated sign of a difference, in words."""
SYMBOLS = {"%": "%", "times": "×"}
POSSIBLE = {"%": (0.0, 100.0), "points": (-100.0, 100.0)}
"""The least and the largest possible number, by unit."""
INDENT = " " * 14


@dataclasses.dataclass(frozen=True)
class ClaimResult:
    """A claim with its judged numbers."""

    claim: Claim
    experiment: Experiment
    numbers: tuple[JudgedNumber, ...]
    """Empty if the claim was not tested"""
    size: Size
    reduced: str = ""
    """How the experiment is smaller than the paper's, if it is"""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim: that on its first number."""
        return self.numbers[0].verdict if self.numbers else Verdict.SKIPPED

    @property
    def remarks(self) -> str:
        """How large the effect is, and how claim and experiment depart from the
        paper."""
        texts = (self.claim.comment, self.reduced)
        return " ".join(as_sentence(text) for text in texts if text)


def judge_claim(
    claim: Claim,
    experiment: Experiment,
    evidence: xr.Dataset | None,
    size: Size,
    reduced: str = "",
) -> ClaimResult:
    """Estimate all numbers of a claim on the evidence of its experiment, and judge
    them; evidence is None if the experiment was not done at this size."""
    if evidence is None:
        return ClaimResult(claim, experiment, (), size)
    numbers = tuple(judge_number(number, evidence) for number in claim.numbers)
    return ClaimResult(claim, experiment, numbers, size, reduced)


# ------------------------------------------------------------------------ numbers as text


def number_text(judged: JudgedNumber) -> str:
    """The estimate with its interval and its unit."""
    return format_number(
        judged.estimate.interval, judged.number.unit, judged.number.digits
    )


def expected_text(judged: JudgedNumber) -> str:
    """The printed number, or the stated sign."""
    expected = judged.number.expected
    if isinstance(expected, Sign):
        return SIGNS[expected]
    if " of " in expected.text:  # a count of runs
        return expected.text
    return insert_unit(expected.text, judged.number.unit)


def difference_text(judged: JudgedNumber) -> str:
    """Our number less the printed one; empty for a direction."""
    if isinstance(judged.number.expected, Sign):
        return ""
    unit = "points" if judged.number.unit == "%" else judged.number.unit
    return format_number(judged.difference, unit, judged.number.digits)


def cases_text(judged: JudgedNumber) -> str:
    """The number of cases."""
    estimate = judged.estimate
    return f"{estimate.count:,} {estimate.of}" if estimate.count else ""


def format_number(interval: Interval, unit: str, digits: int) -> str:
    """A number with its interval in brackets, and its unit.

    >>> format_number(Interval(12.84, 10.8, 15.0), "%", 1)
    '12.8% [10.8, 15.0]'
    """
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


# ---------------------------------------------------------------------- on the terminal


def format_claim_result(result: ClaimResult) -> str:
    """A verdict, the statement, a line for each number, and the remarks."""
    claim = result.claim
    lines = _wrap(f"{result.verdict:12}  {claim.name}: {claim.statement}")
    for judged in result.numbers:
        cases = cases_text(judged)
        texts = [f"{judged.number.label}: {number_text(judged)}"]
        texts += [f"of {cases}"] if cases else []
        texts.append(f"expected {expected_text(judged)}: {judged.verdict}")
        difference = difference_text(judged)
        texts += [f"difference {difference}"] if difference else []
        note = judged.estimate.note
        lines += _wrap(", ".join(texts + ([note] if note else [])), INDENT)
    if result.numbers and result.remarks:
        lines += _wrap(result.remarks, INDENT)
    return "\n".join(lines)


def _wrap(text: str, indent: str = "") -> list[str]:
    """Lines of the terminal's width; further lines are indented."""
    further = INDENT + ("  " if indent else "")
    return textwrap.wrap(text, 118, initial_indent=indent, subsequent_indent=further)


def count_verdicts(results: Sequence[ClaimResult]) -> str:
    """How many claims have each verdict, such as "2 claims: 1 agrees, 1 open"."""
    verdicts = [result.verdict for result in results]
    counts = {verdict: verdicts.count(verdict) for verdict in Verdict}
    texts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    return f"{len(results)} claim{'s' * (len(results) != 1)}: {', '.join(texts)}"


# --------------------------------------------------------------------------------- CSV


def claim_result_table(results: Sequence[ClaimResult]) -> pd.DataFrame:
    """A row for each number of a claim, or for a claim that was not tested."""
    rows: list[Mapping[str, object]] = []
    for result in results:
        whole = {
            "claim": result.claim.name,
            "verdict_of_claim": result.verdict,
            "verdict": result.verdict,
            "size": result.size,
        }
        rows += [whole | _number_columns(judged) for judged in result.numbers] or [
            whole
        ]
    return make_table(rows).reindex(columns=COLUMNS)


def _number_columns(judged: JudgedNumber) -> dict[str, object]:
    estimate = judged.estimate
    return {
        **estimate.interval._asdict(),
        **interval_columns("difference", judged.difference),
        "number": judged.number.label,
        "verdict": judged.verdict,
        "unit": judged.number.unit,
        "count": estimate.count,
        "of": estimate.of,
        "printed": expected_text(judged),
    }
