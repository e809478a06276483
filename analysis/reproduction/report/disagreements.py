"""The most interesting disagreements with the papers, by a stated rule."""

import math
from collections.abc import Sequence

from analysis.reproduction.verification.claim import Measurement
from analysis.reproduction.verification.criteria import Above, Agrees, Below, Judgement, Verdict, Within
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.results import ClaimResult
from analysis.statistics.intervals import Interval

PAPERS = ("CA", "VC", "CH")
MOST = 3
DISAGREEMENT_RULE = (
    "Of the papers' claims that are not reproduced, then of those that are only partly, those on which most of the "
    "paper stands come first, and among these those whose finding is furthest beyond the margin, or on the wrong side "
    "of the bound, in units of half the width of its interval; what is worked out without chance has none and comes "
    "last among these. Of one study's claims, and of claims about one number, only the first is told."
)


def main_disagreements(all_judged: Sequence[ClaimResult], most: int = MOST) -> list[ClaimResult]:
    """The first few by `RULE`."""
    told: list[ClaimResult] = []
    for each in sorted((one for one in all_judged if _disagrees(one)), key=_rank):
        if len(told) < most and not any(_alike(each, one) for one in told):
            told.append(each)
    return told


def _alike(one: ClaimResult, other: ClaimResult) -> bool:
    """Whether two are read off one study, or disagree over the same number."""
    return one.claim.experiment == other.claim.experiment or bool(_numbers(one) & _numbers(other))


def _numbers(judged: ClaimResult) -> set[tuple[Interval, int]]:
    """The numbers that disagree; not those without an interval's width, which may be equal by themselves."""
    return {(finding.interval, finding.count) for _, finding, _ in contradictions(judged) if finding.interval.half > 0}


def contradictions(judged: ClaimResult) -> list[tuple[Measurement, Estimate, Judgement]]:
    """The parts of a claim that are not reproduced, or only partly: the worst first."""
    every = zip(judged.claim.parts, judged.estimates, judged.judgements, strict=True)
    parts = [each for each in every if each[2].verdict in (Verdict.NOT, Verdict.PARTLY)]
    return sorted(parts, key=lambda each: (each[2].verdict is not Verdict.NOT, -distance_beyond_margin(*each)))


def distance_beyond_margin(part: Measurement, finding: Estimate, judgement: Judgement) -> float:
    """How far a finding is beyond the margin, or on the wrong side of a bound, in half widths of its interval.

    Negative where it is within, or on the right side; minus infinity where there is no interval, or one without width,
    as of what is worked out without chance.
    """
    rule, value = part.criterion, finding.interval.value
    far = judgement.difference if isinstance(rule, Agrees) else finding.interval
    if isinstance(rule, Agrees):
        distance = abs(judgement.difference.value) - rule.margin
    elif isinstance(rule, Above):
        distance = rule.bound - value
    elif isinstance(rule, Below):
        distance = value - rule.bound
    elif isinstance(rule, Within):
        distance = max(rule.low - value, value - rule.high)
    else:
        distance = 100 - value
    return distance / far.half if math.isfinite(distance) and far.half > 0 else -math.inf


def _disagrees(judged: ClaimResult) -> bool:
    return judged.claim.paper in PAPERS and judged.verdict in (Verdict.NOT, Verdict.PARTLY)


def _rank(judged: ClaimResult) -> tuple[bool, int, float]:
    furthest = max((distance_beyond_margin(*each) for each in contradictions(judged)), default=-math.inf)
    return judged.verdict is not Verdict.NOT, -judged.claim.importance, -furthest
