"""Verdicts on the terminal, and as CSV."""

from collections.abc import Sequence

from analysis.tables import Table, number
from analysis.verification.claim import Part
from analysis.verification.finding import Finding
from analysis.verification.judged import Judged
from analysis.verification.rules import Agrees, Verdict
from analysis.verification.wording import amount, limit

COLUMNS = (
    "claim", "part", "verdict_of_claim", "verdict", "value", "low", "high", "unit", "count", "of", "paper_value",
    "paper_low", "paper_high", "difference", "difference_low", "difference_high", "effect", "effect_name", "size",
)  # fmt: skip


def verdict_of(judged: Judged) -> str:
    """A verdict and the name of its claim."""
    return f"  {judged.verdict:15}  {judged.claim.name}"


def told(judged: Judged) -> str:
    """A verdict and what it rests on, in a line, and one for each part where there are several."""
    head = verdict_of(judged)
    if judged.claim.untestable:
        return f"{head}: {judged.claim.untestable}"
    parts = list(zip(judged.claim.parts, judged.findings, judged.judgements, strict=False))
    if len(parts) <= 1:
        return head + "".join(f": {_found(part, finding)}" for part, finding, _ in parts)
    return "\n".join(
        [head, *(f"{'':19}{part.label}: {_found(part, each)}; {why.verdict}" for part, each, why in parts)]
    )


def _found(part: Part, finding: Finding) -> str:
    """What was found, beside what is stated."""
    stated = f"paper: {part.rule.reported.printed}" if isinstance(part.rule, Agrees) else f"stated: {limit(part)}"
    return f"{amount(finding.interval, part)}, of {finding.count} {finding.of} ({stated})"


def totals(done: Sequence[Judged]) -> str:
    """How many claims there are of each verdict."""
    count = {verdict: sum(each.verdict == verdict for each in done) for verdict in Verdict}
    return f"{len(done)} claims: " + ", ".join(f"{count[verdict]} {verdict}" for verdict in Verdict if count[verdict])


def as_table(done: Sequence[Judged]) -> Table:
    """All verdicts as numbers, a row for each part, or for a claim that was not tested."""
    rows = []
    for judged in done:
        claim = judged.claim
        if not judged.findings:
            rows.append([claim.name, "", judged.verdict, judged.verdict, *[""] * (len(COLUMNS) - 5), judged.size])
        for part, finding, why in zip(claim.parts, judged.findings, judged.judgements, strict=False):
            paper = (
                [number(each) for each in part.rule.reported.interval] if isinstance(part.rule, Agrees) else [""] * 3
            )
            numbers = [number(each) for each in why.difference]
            effect = [number(finding.effect), finding.effect_name]
            measured = [*(number(each) for each in finding.interval), part.unit, str(finding.count), finding.of]
            rows.append(
                [claim.name, part.label, judged.verdict, why.verdict, *measured, *paper, *numbers, *effect, judged.size]
            )
    return Table(COLUMNS, rows)
