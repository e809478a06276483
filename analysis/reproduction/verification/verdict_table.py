"""Results of claims on the terminal and as CSV."""

import textwrap
from collections.abc import Sequence

import pandas as pd

from analysis.output.tables import interval_columns, make_table
from analysis.reproduction.verification.criteria import Agrees
from analysis.reproduction.verification.formatting import (
    as_sentence,
    format_criterion,
    format_estimate,
)
from analysis.reproduction.verification.results import (
    ClaimResult,
    common_note,
    count_verdicts,
    verdict_remarks,
)
from analysis.statistics.intervals import NO_INTERVAL

COLUMNS = (
    "claim",
    "part",
    "verdict_of_claim",
    "verdict",
    "value",
    "low",
    "high",
    "unit",
    "count",
    "of",
    "paper_value",
    "paper_low",
    "paper_high",
    "difference",
    "difference_low",
    "difference_high",
    "effect",
    "effect_name",
    "size",
)
INDENT = " " * 19


def format_verdict(result: ClaimResult) -> str:
    """A verdict, the name of its claim, and remarks."""
    remarks = verdict_remarks(result)
    return f"  {result.verdict:15}  {result.claim.name}" + (
        f" ({remarks})" if remarks else ""
    )


def format_claim_result(result: ClaimResult, whole: bool = False) -> str:
    """A verdict, the statement, and a line for each part; with `whole` also how it is
    measured."""
    claim = result.claim
    lines = _wrap(f"{format_verdict(result)}: {claim.statement}")
    if claim.untestable:
        lines += _wrap(f"Not testable: {claim.untestable}", INDENT)
    elif whole:
        lines += _wrap(
            f"Measured: {as_sentence(claim.measured)}"
            f" {as_sentence(common_note(result))}",
            INDENT,
        )
    for part, estimate, judgement in result.judged_parts():
        label = f"{part.label}: " if part.label else ""
        number = (
            f"{format_estimate(estimate.interval, part)} of {estimate.count}"
            f" {estimate.of}"
        )
        reason = f", {judgement.reason}" if judgement.reason else ""
        lines += _wrap(
            f"{label}{number} ({format_criterion(part)}): {judgement.verdict}{reason}",
            INDENT,
        )
    return "\n".join(lines)


def _wrap(text: str, indent: str = "") -> list[str]:
    """Lines of the terminal's width; further lines are indented."""
    return textwrap.wrap(
        text,
        118,
        initial_indent=indent,
        subsequent_indent=INDENT + ("  " if indent else ""),
    )


def format_verdict_totals(results: Sequence[ClaimResult]) -> str:
    """How many claims have each verdict, and how many of them are empirical claims that
    were tested."""
    total = (
        f"{len(results)} claim{'s' * (len(results) != 1)}: {count_verdicts(results)}"
    )
    tested = [result for result in results if result.counts]
    return (
        f"{total}\n{len(tested)} empirical and tested: {count_verdicts(tested)}"
        if tested
        else total
    )


def claim_result_table(results: Sequence[ClaimResult]) -> pd.DataFrame:
    """All verdicts with their numbers: a row for each part of a claim, or for a claim
    that was not tested."""
    rows: list[dict[str, object]] = []
    for result in results:
        whole = {
            "claim": result.claim.name,
            "verdict_of_claim": result.verdict,
            "size": result.size,
        }
        if not result.estimates:
            rows.append({**whole, "verdict": result.verdict})
        for part, estimate, judgement in result.judged_parts():
            paper = (
                part.criterion.reported.interval
                if isinstance(part.criterion, Agrees)
                else NO_INTERVAL
            )
            intervals = interval_columns("paper", paper) | interval_columns(
                "difference", judgement.difference
            )
            numbers = estimate.interval._asdict() | estimate._asdict() | intervals
            rows.append(
                {
                    **whole,
                    **numbers,
                    "part": part.label,
                    "verdict": judgement.verdict,
                    "unit": part.unit,
                }
            )
    return (
        make_table(rows)
        .rename(columns={"paper": "paper_value"})
        .reindex(columns=COLUMNS)
    )
