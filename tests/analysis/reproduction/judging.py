"""Verdicts on single claims, given the evidence of their experiment."""

import xarray as xr

from analysis.reproduction.registry import CLAIMS
from analysis.reproduction.verification.criteria import Verdict, combine_verdicts, judge_estimate

CLAIMS_BY_NAME = {claim.name: claim for claim in CLAIMS}


def part_verdicts(name: str, evidence: xr.Dataset) -> list[Verdict]:
    """The verdict on each part of a claim."""
    return [judge_estimate(part.criterion, part.measure(evidence)).verdict for part in CLAIMS_BY_NAME[name].parts]


def verdict(name: str, evidence: xr.Dataset, part: int = 0) -> Verdict:
    """The verdict on one part of a claim."""
    found = CLAIMS_BY_NAME[name].parts[part]
    return judge_estimate(found.criterion, found.measure(evidence)).verdict


def verdicts(claims, evidence: xr.Dataset, experiment: str) -> dict[str, Verdict]:
    """The verdict on each of the claims that an experiment tests, by name."""
    return {
        claim.name: combine_verdicts(part_verdicts(claim.name, evidence))
        for claim in claims
        if claim.experiment == experiment
    }
