"""Verdicts on the terminal, and as CSV."""

import math
import textwrap
from collections.abc import Sequence

import pandas as pd

from analysis.output.tables import interval_columns, make_table
from analysis.reproduction.verification.claim import Measurement
from analysis.reproduction.verification.criteria import Agrees, Verdict
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.formatting import format_bound, format_estimate
from analysis.reproduction.verification.results import ClaimResult
from analysis.statistics.intervals import NO_INTERVAL

COLUMNS = (
    "claim", "part", "verdict_of_claim", "verdict", "value", "low", "high", "unit", "count", "of", "paper_value",
    "paper_low", "paper_high", "difference", "difference_low", "difference_high", "effect", "effect_name", "size",
)  # fmt: skip


def format_verdict(judged: ClaimResult) -> str:
    """A verdict and the name of its claim."""
    return f"  {judged.verdict:15}  {judged.claim.name}"


def format_claim_result(judged: ClaimResult, whole: bool = False) -> str:
    """A verdict, the claim in words, and what the verdict rests on, a line for each part; as a whole also how it is
    measured, and what would refute it."""
    claim = judged.claim
    lines = _wrapped(f"{format_verdict(judged)}: {claim.statement}")
    if claim.untestable:
        lines += _wrapped(f"Not testable: {claim.untestable}", INDENT)
    elif whole:
        lines += _wrapped(f"Measured: {claim.measured}.", INDENT)
    for part, finding, why in zip(claim.parts, judged.estimates, judged.judgements, strict=False):
        label = f"{part.label}: " if part.label else ""
        verdict = f"{why.verdict}, as {why.reason}" if why.reason else str(why.verdict)
        lines += _wrapped(f"{label}{_found(part, finding)}: {verdict}", INDENT)
    return "\n".join(lines)


INDENT = " " * 19


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines of a terminal's width; those that go on stand under the first."""
    return textwrap.wrap(text, 118, initial_indent=indent, subsequent_indent=INDENT + ("  " if indent else ""))


def _found(part: Measurement, finding: Estimate) -> str:
    """What was found, beside what is reported or asked for."""
    if math.isnan(finding.interval.value):
        return "nothing"
    asked = (
        f"paper: {part.criterion.reported.printed}"
        if isinstance(part.criterion, Agrees)
        else f"asked: {format_bound(part)}"
    )
    return f"{format_estimate(finding.interval, part)}, of {finding.count} {finding.of} ({asked})"


def format_verdict_totals(done: Sequence[ClaimResult]) -> str:
    """How many claims there are of each verdict."""
    count = {verdict: sum(each.verdict == verdict for each in done) for verdict in Verdict}
    claims = f"{len(done)} claim{'s' * (len(done) != 1)}"
    return f"{claims}: " + ", ".join(f"{count[verdict]} {verdict}" for verdict in Verdict if count[verdict])


def claim_result_table(results: Sequence[ClaimResult]) -> pd.DataFrame:
    """All verdicts with their numbers: a row for each part of a claim, or for a claim that was not tested."""
    rows: list[dict[str, object]] = []
    for result in results:
        whole = {"claim": result.claim.name, "verdict_of_claim": result.verdict, "size": result.size}
        if not result.estimates:
            rows.append({**whole, "verdict": result.verdict})
        for part, finding, why in zip(result.claim.parts, result.estimates, result.judgements, strict=False):
            paper = part.criterion.reported.interval if isinstance(part.criterion, Agrees) else NO_INTERVAL
            value, low, high = finding.interval
            rows.append(
                {
                    **whole,
                    "part": part.label,
                    "verdict": why.verdict,
                    "value": value,
                    "low": low,
                    "high": high,
                    "unit": part.unit,
                    "count": finding.count,
                    "of": finding.of,
                    **interval_columns("paper", paper),
                    **interval_columns("difference", why.difference),
                    "effect": finding.effect,
                    "effect_name": finding.effect_name,
                }
            )
    return make_table(rows).rename(columns={"paper": "paper_value"}).reindex(columns=COLUMNS)
