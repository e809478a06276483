"""Results of claims: estimates, judgements and verdicts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import xarray as xr

from analysis.reproduction.verification.claim import Claim, Kind, Measurement
from analysis.reproduction.verification.criteria import Judgement, Verdict, combine_verdicts, judge_estimate
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
        return self.claim.kind is Kind.EMPIRICAL and self.verdict not in (Verdict.UNTESTABLE, Verdict.SKIPPED)

    def judged_parts(self, *verdicts: Verdict) -> Iterator[tuple[Measurement, Estimate, Judgement]]:
        """The parts with these verdicts, or all, with their estimates and judgements."""
        for part, estimate, judgement in zip(self.claim.parts, self.estimates, self.judgements, strict=False):
            if not verdicts or judgement.verdict in verdicts:
                yield part, estimate, judgement


class ReportProvenance(NamedTuple):
    """The origin of a report."""

    size: Size
    created_at: str
    """Date, or date and time in ISO 8601"""
    environment: Mapping[str, str]
    """Versions, device, cores and commit, by name"""
    seconds: Mapping[str, float]
    """Time of the measurement of each experiment, by name; without runs that existed before"""
    runs: int
    """Number of runs in the ensembles that the experiments name"""


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


def verdict_caveat(result: ClaimResult) -> str:
    """What a reader needs beside a verdict: the parts that failed, the kind of the claim, departures and notes."""
    claim = result.claim
    texts = [_failed_parts(result), claim.departure]
    if claim.kind is not Kind.EMPIRICAL:
        texts.insert(0, claim.kind.value)
    notes = {estimate.note for estimate in result.estimates}
    if len(notes) == 1 and not (notes & {judgement.reason for judgement in result.judgements}):
        texts.append(notes.pop())
    return "; ".join(text.strip().rstrip(".") for text in texts if text)


def _failed_parts(result: ClaimResult) -> str:
    """The labels of the parts that were not reproduced, by verdict; the reason if there is only one part."""
    failed = [verdict for verdict in Verdict if verdict is not Verdict.REPRODUCED]
    if result.verdict is Verdict.REPRODUCED:
        return ""
    if len(result.judgements) == 1:
        return result.judgements[0].reason
    labels = {verdict: [part.label for part, _, _ in result.judged_parts(verdict)] for verdict in failed}
    if len(labels[result.verdict]) == len(result.judgements):
        return "all parts" if result.judgements else ""
    return "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in labels.items() if names)


def count_verdicts(results: Iterable[ClaimResult]) -> str:
    """How many results have each verdict, such as "3 reproduced, 1 partly"."""
    verdicts = [result.verdict for result in results]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict if verdict in verdicts)
