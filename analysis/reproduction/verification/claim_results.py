"""Results of claims: each number with its verdict, on the terminal, as CSV and for the
report."""

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
import xarray as xr

from analysis.output.tables import interval_columns, make_table
from analysis.reproduction.verification.claim import Claim, Kind, Measurement
from analysis.reproduction.verification.criteria import (
    ENOUGH,
    OUTSIDE,
    Judgement,
    Verdict,
    combine_verdicts,
    format_number,
    judge_estimate,
)
from analysis.reproduction.verification.experiment import Size
from analysis.reproduction.verification.samples import Estimate

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
OPEN_REASONS = (
    "Not decided by these runs",
    "Too few cases",
    "Outside a threshold of ours",
)
"""Groups of undecided claims."""
WORST_FIRST = (Verdict.NOT, Verdict.PARTLY, Verdict.UNDECIDED)
OWN = "OWN"
"""The paper of our own claims."""
OWN_WORDS = {Verdict.REPRODUCED: "confirmed", Verdict.NOT: "refuted"}
"""Verdicts on our own claims, which we cannot reproduce ourselves."""
TOP_PARTS = 3
"""Number of parts of a main claim that are shown on the first page."""


@dataclasses.dataclass(frozen=True)
class PartResult:
    """A part of a claim: its number, from the evidence to the cell of a table."""

    claim: Claim
    part: Measurement
    estimate: Estimate
    judgement: Judgement

    @property
    def label(self) -> str:
        """The name of the part; empty if it is the only one."""
        return self.part.label if len(self.claim.parts) > 1 else ""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the part."""
        return self.judgement.verdict

    @property
    def reason(self) -> str:
        """The reason of the verdict; empty if its definition says it."""
        return self.judgement.reason

    @property
    def number(self) -> str:
        """The number with its interval; what is so by construction has no sampling
        error."""
        interval = self.estimate.interval
        if self.claim.kind is Kind.CONSTRUCTION:
            interval = interval._replace(low=math.nan, high=math.nan)
        return format_number(interval, self.part.unit, self.part.digits)

    @property
    def of(self) -> str:
        """Number of cases."""
        estimate = self.estimate
        return f"{estimate.count:,} {estimate.of}" if estimate.count else ""

    @property
    def criterion(self) -> str:
        """The criterion in words."""
        return self.part.criterion.words(self.part.unit, self.part.digits)

    @property
    def note(self) -> str:
        """A remark on the number, unless it is the reason of the verdict."""
        note = self.estimate.note
        return "" if note == self.reason else note

    @property
    def to_decide(self) -> str:
        """What would decide it, if it is undecided."""
        estimate = self.estimate
        if self.reason:
            return ""
        if estimate.count < ENOUGH:
            return f"{estimate.count} {estimate.of} are too few"
        return self.part.criterion.cases_to_decide(estimate)

    @property
    def open_reason(self) -> str:
        """Why it is undecided."""
        outside = self.reason == OUTSIDE
        return OPEN_REASONS[2 if outside else self.estimate.count < ENOUGH]


@dataclasses.dataclass(frozen=True)
class ClaimResult:
    """A claim with its judged parts and its verdict."""

    claim: Claim
    parts: tuple[PartResult, ...]
    """None if the claim was not tested"""
    verdict: Verdict
    """On the whole claim"""
    size: Size
    reduced: str = ""
    """How the experiment is smaller than the paper's, if it is"""

    @property
    def tested(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict not in (Verdict.UNTESTABLE, Verdict.SKIPPED)

    @property
    def counts(self) -> bool:
        """Whether it counts in the headline: an empirical claim that was tested."""
        return self.claim.kind is Kind.EMPIRICAL and self.tested

    @property
    def word(self) -> str:
        """The verdict in a word."""
        own = self.claim.paper == OWN
        return OWN_WORDS.get(self.verdict, self.verdict) if own else self.verdict

    @property
    def remarks(self) -> str:
        """What a reader needs beside the verdict: the kind of the claim, and the
        departures of claim and experiment from the paper."""
        kind = "" if self.claim.kind is Kind.EMPIRICAL else self.claim.kind.value
        texts = (kind, self.claim.departure, self.reduced)
        return "; ".join(text.strip().rstrip(".") for text in texts if text)

    @property
    def note(self) -> str:
        """The note that all parts have; empty if they differ, or if it is the reason of
        a verdict."""
        notes = {part.estimate.note for part in self.parts}
        if len(notes) > 1 or notes & {part.reason for part in self.parts}:
            return ""
        return "".join(notes)

    @property
    def common_criterion(self) -> str:
        """The criterion, if several parts have the same."""
        return _common_text(part.criterion for part in self.parts)

    @property
    def common_of(self) -> str:
        """The number of cases, if several parts have the same."""
        return _common_text(part.of for part in self.parts)

    @property
    def worst_parts(self) -> list[PartResult]:
        """The parts that were not reproduced, those with the worst verdicts first."""
        failed = [part for part in self.parts if part.verdict in WORST_FIRST]
        return sorted(failed, key=lambda part: WORST_FIRST.index(part.verdict))

    @property
    def open_part(self) -> PartResult:
        """The first undecided part."""
        return next(part for part in self.parts if part.verdict is Verdict.UNDECIDED)

    @property
    def main_parts(self) -> list[PartResult]:
        """A few parts for the first page: the worst, one that was reproduced,
        others."""
        worst = self.worst_parts
        rest = [part for part in self.parts if part not in worst]
        return [*worst[:1], *rest[:1], *worst[1:], *rest[1:]][:TOP_PARTS]


def _common_text(texts: Iterable[str]) -> str:
    """The text that all of several parts have."""
    first, *others = [*texts] or [""]
    return first if others and {*others} == {first} else ""


def judge_claim(
    claim: Claim, evidence: xr.Dataset | None, size: Size, reduced: str = ""
) -> ClaimResult:
    """Measure all parts of a claim on the evidence and judge them; None if it was not
    measured at this size. reduced: how the experiment is smaller than the paper's."""
    if claim.untestable:
        return ClaimResult(claim, (), Verdict.UNTESTABLE, size)
    if evidence is None:
        return ClaimResult(claim, (), Verdict.SKIPPED, size)
    parts = []
    for part in claim.parts:
        estimate = part.measure(evidence)
        judgement = judge_estimate(part.criterion, estimate)
        parts.append(PartResult(claim, part, estimate, judgement))
    verdict = combine_verdicts([part.verdict for part in parts])
    return ClaimResult(claim, tuple(parts), verdict, size, reduced)


def count_panels_once(results: Iterable[ClaimResult]) -> list[ClaimResult]:
    """The results, with one for all panels of a figure."""
    figures: dict[str, list[ClaimResult]] = {}
    for result in results:
        figures.setdefault(result.claim.panels or result.claim.name, []).append(result)
    merged = []
    for first, *others in figures.values():
        panels = [first, *others]
        verdict = combine_verdicts([panel.verdict for panel in panels])
        parts = tuple(part for panel in panels for part in panel.parts)
        merged.append(dataclasses.replace(first, parts=parts, verdict=verdict))
    return merged


def count_verdicts(results: Iterable[ClaimResult]) -> str:
    """How many results have each verdict, such as "3 reproduced, 1 partly"."""
    verdicts = [result.verdict for result in results]
    counts = {verdict: verdicts.count(verdict) for verdict in Verdict}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


# ---------------------------------------------------------------------- on the terminal


def format_verdict(result: ClaimResult) -> str:
    """A verdict, the name of its claim, and remarks."""
    remarks = f" ({result.remarks})" if result.remarks else ""
    return f"  {result.verdict:15}  {result.claim.name}{remarks}"


def format_claim_result(result: ClaimResult, whole: bool = False) -> str:
    """A verdict, the statement, and a line for each part; with `whole` also how it is
    measured."""
    claim = result.claim
    lines = _wrap(f"{format_verdict(result)}: {claim.statement}")
    if claim.untestable:
        lines += _wrap(f"Not testable: {claim.untestable}", INDENT)
    elif whole:
        measured = f"{as_sentence(claim.measured)} {as_sentence(result.note)}"
        lines += _wrap(f"Measured: {measured}", INDENT)
    for judged in result.parts:
        part, estimate = judged.part, judged.estimate
        label = f"{part.label}: " if part.label else ""
        number = format_number(estimate.interval, part.unit, part.digits)
        cases = f"{estimate.count} {estimate.of} ({judged.criterion})"
        reason = f", {judged.reason}" if judged.reason else ""
        line = f"{label}{number} of {cases}: {judged.verdict}{reason}"
        lines += _wrap(line, INDENT)
    return "\n".join(lines)


def _wrap(text: str, indent: str = "") -> list[str]:
    """Lines of the terminal's width; further lines are indented."""
    further = INDENT + ("  " if indent else "")
    return textwrap.wrap(text, 118, initial_indent=indent, subsequent_indent=further)


def format_verdict_totals(results: Sequence[ClaimResult]) -> str:
    """How many claims have each verdict, and how many of them are empirical claims that
    were tested."""
    plural = "s" * (len(results) != 1)
    total = f"{len(results)} claim{plural}: {count_verdicts(results)}"
    tested = count_panels_once(result for result in results if result.counts)
    if not tested:
        return total
    return f"{total}\n{len(tested)} empirical and tested: {count_verdicts(tested)}"


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


def claim_result_table(results: Sequence[ClaimResult]) -> pd.DataFrame:
    """All verdicts with their numbers: a row for each part of a claim, or for a claim
    that was not tested."""
    rows: list[Mapping[str, object]] = []
    for result in results:
        whole = {
            "claim": result.claim.name,
            "verdict_of_claim": result.verdict,
            "verdict": result.verdict,
            "size": result.size,
        }
        rows += [whole | _part_columns(part) for part in result.parts] or [whole]
    table = make_table(rows).rename(columns={"paper": "paper_value"})
    return table.reindex(columns=COLUMNS)


def _part_columns(judged: PartResult) -> dict[str, object]:
    part, estimate = judged.part, judged.estimate
    return {
        **estimate.interval._asdict(),
        **estimate._asdict(),
        **interval_columns("paper", part.criterion.paper),
        **interval_columns("difference", judged.judgement.difference),
        "part": part.label,
        "verdict": judged.verdict,
        "unit": part.unit,
    }
