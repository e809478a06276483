"""Results of claims: estimates, judgements and verdicts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import xarray as xr

from analysis.reproduction.verification.claim import Claim, Kind, Measurement
from analysis.reproduction.verification.criteria import (
    Judgement,
    Verdict,
    combine_verdicts,
    judge_estimate,
)
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Size


class ClaimResult(NamedTuple):
    """The estimates for the parts of a claim, and the verdict."""

    claim: Claim
    estimates: tuple[Estimate, ...]
    """One for each part; none if the claim was not tested"""
    judgements: tuple[Judgement, ...]
    """One for each part"""
    verdict: Verdict
    """On the whole claim"""
    size: Size

    @property
    def counts(self) -> bool:
        """Whether it counts in the headline: an empirical claim that was tested."""
        return self.claim.kind is Kind.EMPIRICAL and self.verdict not in (
            Verdict.UNTESTABLE,
            Verdict.SKIPPED,
        )

    def judged_parts(self) -> Iterator[tuple[Measurement, Estimate, Judgement]]:
        """The parts with their estimates and judgements; none if the claim was not
        tested."""
        return zip(self.claim.parts, self.estimates, self.judgements, strict=False)


class ReportProvenance(NamedTuple):
    """The origin of a report."""

    size: Size
    created_at: str
    """Date, or date and time in ISO 8601"""
    environment: Mapping[str, str]
    """Versions, device, cores and commit, by name"""
    seconds: Mapping[str, float]
    """Time of the measurement of each experiment, by name; without runs that existed
    before"""
    runs: int
    """Number of runs in the ensembles that the experiments name"""


def judge_claim(claim: Claim, evidence: xr.Dataset | None, size: Size) -> ClaimResult:
    """Measure all parts of a claim on the evidence and judge them; None if it was not
    measured at this size."""
    if claim.untestable:
        return ClaimResult(claim, (), (), Verdict.UNTESTABLE, size)
    if evidence is None:
        return ClaimResult(claim, (), (), Verdict.SKIPPED, size)
    criteria = [part.criterion for part in claim.parts]
    estimates = tuple(part.measure(evidence) for part in claim.parts)
    judgements = tuple(map(judge_estimate, criteria, estimates))
    return ClaimResult(
        claim,
        estimates,
        judgements,
        combine_verdicts([judgement.verdict for judgement in judgements]),
        size,
    )


def verdict_remarks(result: ClaimResult) -> str:
    """What a reader needs beside a verdict: the kind of the claim, and the departure
    from the paper."""
    claim = result.claim
    kind = "" if claim.kind is Kind.EMPIRICAL else claim.kind.value
    return "; ".join(
        text.strip().rstrip(".") for text in (kind, claim.departure) if text
    )


def common_note(result: ClaimResult) -> str:
    """The note that all parts have; empty if they differ, or if it is the reason of a
    verdict."""
    notes = {estimate.note for estimate in result.estimates}
    return (
        ""
        if len(notes) > 1
        or notes & {judgement.reason for judgement in result.judgements}
        else "".join(notes)
    )


def count_verdicts(results: Iterable[ClaimResult]) -> str:
    """How many results have each verdict, such as "3 reproduced, 1 partly"."""
    verdicts = [result.verdict for result in results]
    return ", ".join(
        f"{verdicts.count(verdict)} {verdict}"
        for verdict in Verdict
        if verdict in verdicts
    )
