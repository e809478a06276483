"""Results of claims: estimates, judgements and verdicts."""

from collections.abc import Mapping
from typing import NamedTuple

import xarray as xr

from analysis.reproduction.verification.claim import Claim
from analysis.reproduction.verification.criteria import Judgement, Verdict, combine_verdicts, judge_estimate
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Size


class ClaimResult(NamedTuple):
    """What was found for each part of a claim, and what becomes of it."""

    claim: Claim
    estimates: tuple[Estimate, ...]
    """Of its parts, in their order; none where it was not tested"""
    judgements: tuple[Judgement, ...]
    """Of its parts"""
    verdict: Verdict
    """Of the whole"""
    size: Size


class ReportProvenance(NamedTuple):
    """How a report came to be."""

    size: Size
    created_at: str
    """Date, or date and time in ISO 8601"""
    environment: Mapping[str, str]
    """Versions, device, cores, commit, by what they are called"""
    seconds: float
    """That all evidence took, whenever it was gathered; runs that were there before aside"""
    runs: int
    """Of the ensembles that the experiments name: what they make beside these is not counted"""


def judge_claim(claim: Claim, evidence: xr.Dataset | None, size: Size) -> ClaimResult:
    """Measure all parts of a claim on the evidence and judge them; None if it was not measured at this size."""
    if claim.untestable:
        return ClaimResult(claim, (), (), Verdict.UNTESTABLE, size)
    if evidence is None:
        return ClaimResult(claim, (), (), Verdict.SKIPPED, size)
    estimates = tuple(part.measure(evidence) for part in claim.parts)
    judgements = tuple(
        judge_estimate(part.criterion, estimate) for part, estimate in zip(claim.parts, estimates, strict=True)
    )
    return ClaimResult(claim, estimates, judgements, combine_verdicts([each.verdict for each in judgements]), size)
