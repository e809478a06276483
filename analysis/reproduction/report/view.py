"""The contents of the report as texts and formatted numbers, without markup."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from scipy import stats

from analysis.reproduction.report.strips import Strip, number_strip
from analysis.reproduction.verification import coverage, criteria, formatting, results
from analysis.reproduction.verification.claim import Claim, Kind, Measurement
from analysis.reproduction.verification.criteria import Above, Agrees, Below, Judgement, Verdict
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Size
from analysis.reproduction.verification.results import ClaimResult, ReportProvenance

REPORT_TITLE = "Two papers on training dynamics, put to the test"
PAPERS = (*coverage.PAPERS, coverage.Paper(coverage.OWN, "Our own claims", "", "", ()))
TOP, TOP_PARTS = 10, 3
"""Number of claims on the first page, and of their parts that are shown there."""
IMPORTANT = 2
"""Importance from which a claim is shown in full on the second page."""
DECIDABLE = 100
"""An undecided claim that needs more times its runs than this is too close to its bound."""
SIZES = {
    Size.QUICK: "small ensembles, and only the short experiments",
    Size.DEFAULT: "the papers' sizes where they take less than two and a half hours in all on two cores, smaller ones "
    "elsewhere",
    Size.FULL: "the papers' sizes",
}
KINDS = {
    Kind.CONSTRUCTION: "By construction (identities, definitions and circuits built by hand)",
    Kind.EXAMPLE: "Examples (one case suffices)",
    Kind.REPEATED: "Repeated (counted as part of an earlier claim)",
}
MARKS = dict(zip(Verdict, "●◐✕?–○", strict=True))
"""A symbol for each verdict, so that colour is not needed to tell them apart."""
WORST_FIRST = (Verdict.NOT, Verdict.PARTLY, Verdict.UNDECIDED)
TESTED = (Verdict.REPRODUCED, Verdict.PARTLY, Verdict.NOT, Verdict.UNDECIDED)
UNTESTED = {Verdict.UNTESTABLE: "Not testable", Verdict.SKIPPED: "Not tested at this size"}
SENTENCES = ("statement", "measured", "meaning", "untestable")
"""Texts of claims that are shown as sentences."""


class Picture(NamedTuple):
    """A figure of a paper that was drawn for the report."""

    name: str
    claim: str
    """The claim in whose entry it is shown"""
    title: str
    caption: str = ""


class PartView(NamedTuple):
    """A part of a claim."""

    label: str
    """Empty if it is the only part"""
    number: str
    of: str
    """Number of cases; empty if all parts have the same"""
    criterion: str
    """Empty if all parts have the same"""
    verdict: Verdict
    reason: str
    """The reason of the verdict, unless it is "reproduced" """
    note: str
    to_decide: str
    """What would decide it, if it is undecided"""
    strip: Strip | None


class ClaimView(NamedTuple):
    """A claim with its verdict."""

    claim: Claim
    """Texts as sentences; no readings if they are those of an earlier claim"""
    place: str
    verdict: Verdict
    remarks: str
    counts: bool
    """Whether it counts in the headline"""
    parts: tuple[PartView, ...]
    common: str
    """The criterion and the number of cases, if several parts have the same"""
    same_measured: str
    """An earlier claim that is measured in the same way"""
    command: str
    picture: Picture | None

    @property
    def worst_parts(self) -> list[PartView]:
        """The parts that were not reproduced, those with the worst verdicts first."""
        failed = [part for part in self.parts if part.verdict in WORST_FIRST]
        return sorted(failed, key=lambda part: WORST_FIRST.index(part.verdict))

    @property
    def main_parts(self) -> Sequence[PartView]:
        """A few parts for the first page."""
        rest = [part for part in self.parts if part not in self.worst_parts]
        return self.parts if len(self.parts) <= TOP_PARTS else [*self.worst_parts, *rest][:TOP_PARTS]


def build_view(
    claim_results: Sequence[ClaimResult],
    provenance: ReportProvenance,
    experiments: Mapping[str, Experiment],
    pictures: Mapping[str, Picture],
) -> dict[str, Any]:
    """All that the templates of the report show, by name."""
    views = _claim_views(claim_results, experiments, pictures)
    tested = [view for view in views if view.counts]
    testable = [view for view in views if not view.claim.untestable]
    return {
        "title": REPORT_TITLE,
        "papers": [paper for paper in PAPERS if any(view.claim.paper == paper.short for view in views)],
        "size": provenance.size,
        "size_text": SIZES[provenance.size],
        "runs": provenance.runs,
        "counts": _count_by_paper(tested),
        "headline": _headline(claim_results),
        "others": _count_others(claim_results),
        "top": main_claims(tested),
        "not_reproduced": _by_importance(tested, Verdict.NOT),
        "partly": _by_importance(tested, Verdict.PARTLY),
        "undecided": _by_importance(tested, Verdict.UNDECIDED),
        "important": IMPORTANT,
        "groups": _group_by_place(testable),
        "untestable": [view.claim for view in views if view.claim.untestable],
        "experiments": _experiment_rows(views, experiments, provenance),
        "judging": (criteria.__doc__ or "").strip(),
        "chance": _chance_text(claim_results),
        "coverage": _coverage_rows([result.claim for result in claim_results]),
        "date": formatting.format_date(provenance.created_at),
        "time": formatting.format_duration(sum(provenance.seconds.values())),
        "environment": ", ".join(f"{name} {value}" for name, value in provenance.environment.items()),
        "verdicts": [verdict for verdict in Verdict if any(view.verdict is verdict for view in testable)],
        "kinds": [kind for kind in Kind if any(view.claim.kind is kind for view in views)],
        "tested_verdicts": TESTED,
        "marks": MARKS,
    }


def _claim_views(
    claim_results: Sequence[ClaimResult], experiments: Mapping[str, Experiment], pictures: Mapping[str, Picture]
) -> list[ClaimView]:
    views = []
    measured: dict[str, str] = {}
    readings: dict[tuple[str, ...], str] = {}
    for result in claim_results:
        claim, figure = result.claim, coverage.figure_of_claim(result.claim)
        picture = pictures.get(figure)
        earlier = measured.setdefault(claim.measured, claim.name)
        texts: dict[str, Any] = {name: formatting.as_sentence(getattr(claim, name)) for name in SENTENCES}
        if readings.setdefault(claim.readings, claim.name) != claim.name:
            texts["readings"] = ()
        parts = [_part_view(result, *each) for each in result.judged_parts()]
        criterion, of = (_common_text(parts, name) for name in ("criterion", "of"))
        common = [criterion.replace(":", " for each:", 1), f"each of {of}" if of else ""]
        emptied: dict[str, Any] = {name: "" for name, text in (("criterion", criterion), ("of", of)) if text}
        view = ClaimView(
            claim=dataclasses.replace(claim, figure=figure, **texts),
            place=coverage.place_in_paper(claim.name)[0],
            verdict=result.verdict,
            remarks=results.verdict_remarks(result),
            counts=result.counts,
            parts=tuple(part._replace(**emptied) for part in parts),
            common="; ".join(filter(None, common)),
            same_measured="" if earlier == claim.name else earlier,
            command=_command(result, experiments.get(claim.experiment)),
            picture=picture if picture and picture.claim == claim.name else None,
        )
        views.append(view)
    return views


def _common_text(parts: Sequence[PartView], name: str) -> str:
    """A text of all parts, if there are several and they have the same."""
    texts = {getattr(part, name) for part in parts}
    return texts.pop() if len(parts) > 1 and len(texts) == 1 else ""


def _part_view(result: ClaimResult, part: Measurement, estimate: Estimate, judgement: Judgement) -> PartView:
    same_note = len({each.note for each in result.estimates}) == 1  # then it is in the claim's remarks
    return PartView(
        label=part.label if len(result.estimates) > 1 else "",
        number=formatting.format_estimate(estimate.interval, part),
        of=f"{estimate.count:,} {estimate.of}" if estimate.count else "",
        criterion=formatting.format_criterion(part),
        verdict=judgement.verdict,
        reason="" if judgement.verdict is Verdict.REPRODUCED else judgement.reason,
        note="" if same_note or estimate.note == judgement.reason else estimate.note,
        to_decide=runs_to_decide(part, estimate, judgement) or judgement.reason,
        strip=number_strip(part, estimate),
    )


def runs_to_decide(part: Measurement, estimate: Estimate, judgement: Judgement) -> str:
    """How many cases would decide an undecided comparison with a bound if the estimate stays; otherwise empty. The
    interval narrows with the square root of their number."""
    far = abs(judgement.difference.value)
    value, low, high = estimate.interval
    half = value - low if judgement.difference.value > 0 else high - value  # on the side of the bound
    open_bound = judgement.verdict is Verdict.UNDECIDED and isinstance(part.criterion, Above | Below)
    if not (open_bound and half > far):
        return ""
    needed = estimate.count * (half / far) ** 2 if far > 0 else math.inf
    if needed > DECIDABLE * estimate.count:
        return "too close to the bound for more cases to decide"
    digits = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return f"about {math.ceil(needed / digits) * digits:,} would decide"


def _command(result: ClaimResult, experiment: Experiment | None) -> str:
    """The command that tests a claim alone; at the default size if this one does not include its experiment."""
    skipped = experiment is not None and experiment.at(result.size) is None
    option = "" if skipped or result.size is Size.DEFAULT else f" --{result.size}"
    return f"python -m analysis.verify --only {result.claim.name}{option}"


# ------------------------------------------------------------------------------------------ first and second page


def main_claims(tested: Sequence[ClaimView]) -> list[ClaimView]:
    """Of the papers' tested empirical claims the most important ones, one of each experiment, in their order."""
    found: dict[str, ClaimView] = {}
    for view in _by_importance(tested, *Verdict):
        found.setdefault(view.claim.experiment, view)
    chosen = list(found.values())[:TOP]
    return [view for view in tested if view in chosen]


def _by_importance(tested: Sequence[ClaimView], *verdicts: Verdict) -> list[ClaimView]:
    """The claims of the papers with some verdicts, the most important first."""
    found = [view for view in tested if view.verdict in verdicts and view.claim.paper != coverage.OWN]
    return sorted(found, key=lambda view: -view.claim.importance)


def _headline(claim_results: Sequence[ClaimResult]) -> str:
    tested = [result for result in claim_results if result.counts and result.claim.paper != coverage.OWN]
    if not tested:
        return "No empirical claim was tested."
    subject = "claims of the papers were" if len(tested) > 1 else "claim of the papers was"
    return f"{len(tested)} empirical {subject} tested: {results.count_verdicts(tested)}."


def _count_by_paper(tested: Sequence[ClaimView]) -> dict[str, list[int]]:
    """The number of tested empirical claims of each paper with each verdict."""
    verdicts = {paper.short: [view.verdict for view in tested if view.claim.paper == paper.short] for paper in PAPERS}
    return {paper: [found.count(verdict) for verdict in TESTED] for paper, found in verdicts.items() if found}


def _count_others(claim_results: Sequence[ClaimResult]) -> list[str]:
    """A line for each kind of claim that the headline does not count."""
    lines = []
    for kind, text in KINDS.items():
        found = [each for each in claim_results if each.claim.kind is kind and each.verdict not in UNTESTED]
        if found:
            lines.append(f"{text}: {len(found)} ({results.count_verdicts(found)}).")
    verdicts = [result.verdict for result in claim_results]
    return lines + [f"{text}: {verdicts.count(each)}." for each, text in UNTESTED.items() if each in verdicts]


# ------------------------------------------------------------------------------------------------ the appendix


def _group_by_place(views: Sequence[ClaimView]) -> list[tuple[coverage.Paper, list[tuple[str, list[ClaimView]]]]]:
    """Claims by paper and place, in their order; our own claims have no places."""
    groups = []
    for paper in PAPERS:
        found = [view for view in views if view.claim.paper == paper.short]
        places = groupby(found, lambda view: view.place if view.claim.paper != coverage.OWN else "")
        groups.append((paper, [(place, list(group)) for place, group in places]))
    return [(paper, places) for paper, places in groups if places]


def _experiment_rows(
    views: Sequence[ClaimView], experiments: Mapping[str, Experiment], provenance: ReportProvenance
) -> list[tuple[Experiment, str, str, str]]:
    """The experiments that test the claims, each with its parameters, how they are reduced, and its time."""
    rows = []
    for name in dict.fromkeys(view.claim.experiment for view in views if view.claim.experiment in experiments):
        sizing, seconds = experiments[name].at(provenance.size), provenance.seconds.get(name)
        reduced, words = (sizing.reduced, _format_params(sizing.params)) if sizing else ("", "not at this size")
        rows.append((experiments[name], words, reduced, "" if seconds is None else formatting.format_duration(seconds)))
    return rows


def _format_params(params: Params) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in params.items()).replace("'", "")


def _chance_text(claim_results: Sequence[ClaimResult]) -> str:
    """How many differences from printed numbers are significant, and how many would be by chance."""
    differences = [
        judgement.difference
        for result in claim_results
        for part, _, judgement in result.judged_parts()
        if isinstance(part.criterion, Agrees) and judgement.difference.half > 0  # not if there is no sampling error
    ]
    if not differences:
        return ""
    number = len(differences)
    significant = sum(not each.low <= 0 <= each.high for each in differences)
    most = int(stats.binom.ppf(0.95, number, 0.05))
    return (
        f"{number} numbers are compared with printed ones. If all agreed, {number / 20:.1f} of the intervals of the "
        f"differences would exclude 0 by chance, and more than {most} in fewer than 1 of 20 reports, if the "
        f"comparisons were independent (those of one experiment are not). In this report {significant} "
        f"{'does' if significant == 1 else 'do'}. Where a paper prints no interval, its number is assumed to be as "
        "uncertain as ours would be with the same number of runs."
    )


def _coverage_rows(claims: Sequence[Claim]) -> list[tuple[str, list[tuple[str, int, list[str], str]]]]:
    """For each paper its places: number of claims under that heading, further claims, or why there are none."""
    papers = []
    for paper in coverage.PAPERS:
        rows = []
        for place in paper.places:
            found = [claim.name for claim in coverage.claims_covering(claims, paper, place, own=True)]
            others = [name for name in found if coverage.place_in_paper(name)[0] != place]
            reason = "" if found else coverage.UNTESTED_PLACES.get((paper.short, place), "see its parts")
            rows.append((place, len(found) - len(others), others, reason))
        papers.append((paper.short, rows))
    return papers
