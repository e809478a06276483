"""The contents of the report as texts and formatted numbers, without markup."""

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any, NamedTuple

from scipy import stats

from analysis.reproduction.report.strips import Strip, number_strip
from analysis.reproduction.verification import coverage, criteria, formatting, results
from analysis.reproduction.verification.claim import Claim, Kind, Measurement
from analysis.reproduction.verification.criteria import (
    Above,
    Agrees,
    Below,
    Judgement,
    Verdict,
)
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Size
from analysis.reproduction.verification.results import ClaimResult, ReportProvenance

REPORT_TITLE = "Reproduction of papers on training dynamics"
PAPERS = (*coverage.PAPERS, coverage.Paper(coverage.OWN, "Our own claims", "", "", ()))
TOP_PARTS = 3
"""Number of parts of a main claim that are shown on the first page."""
_TEXTS = tomllib.loads(files(__package__).joinpath("first_page.toml").read_text())
MAIN_CLAIMS: list[dict[str, str]] = _TEXTS["main_claims"]
"""The rows of the first page's table: in each, what a paper states and the names of the
claims that it stands for."""
IMPORTANT = 2
"""Importance from which a claim is shown in full on the second page."""
OPEN_REASONS = (
    "Not decided by these runs",
    "Too few cases",
    "Outside a threshold of ours",
)
"""Groups of undecided claims."""
DECIDABLE = 100
"""An undecided claim that needs more times its runs than this is too close to its
bound."""
MARKS = dict(zip(Verdict, "●◐✕?–○", strict=True))
"""A symbol for each verdict, so that colour is not needed to tell them apart."""
WORST_FIRST = (Verdict.NOT, Verdict.PARTLY, Verdict.UNDECIDED)
TESTED = (Verdict.REPRODUCED, Verdict.PARTLY, Verdict.NOT, Verdict.UNDECIDED)
OWN_WORDS = {Verdict.REPRODUCED: "confirmed", Verdict.NOT: "refuted"}
"""Verdicts on our own claims, which we cannot reproduce ourselves."""
SENTENCES = ("statement", "measured", "meaning", "untestable")
"""Texts of claims that are shown as sentences."""


class Picture(NamedTuple):
    """A figure of a paper that was drawn for the report."""

    name: str
    claim: str
    """The claim in whose entry it is shown"""
    title: str
    caption: str
    alt: str
    """A text in place of the figure"""


class PartView(NamedTuple):
    """A part of a claim."""

    label: str
    """Empty if it is the only part"""
    number: str
    of: str
    """Number of cases"""
    criterion: str
    verdict: Verdict
    reason: str
    """The reason of the verdict; empty if its definition says it"""
    note: str
    to_decide: str
    """What would decide it, if it is undecided"""
    open_reason: str
    """Why it is undecided: a heading of the second page"""
    strip: Strip | None


class MainRow(NamedTuple):
    """A row of the first page: one or more claims."""

    text: str
    claims: list["ClaimView"]
    """Claims of the papers"""
    lines: list[tuple["ClaimView", PartView]]
    """The parts that are shown, each with its claim: of the claims with the worst
    verdicts, and of our own"""


class ClaimView(NamedTuple):
    """A claim with its verdict."""

    claim: Claim
    """Texts as sentences; no readings if they are those of an earlier claim"""
    place: str
    verdict: Verdict
    remarks: str
    note: str
    """The note that all parts have"""
    counts: bool
    """Whether it counts in the headline"""
    parts: tuple[PartView, ...]
    common_criterion: str
    """The criterion, if several parts have the same"""
    common_of: str
    """The number of cases, if several parts have the same"""
    same_measured: str
    """An earlier claim that is measured in the same way"""
    command: str
    picture: Picture | None

    @property
    def word(self) -> str:
        """The verdict in a word."""
        return (
            OWN_WORDS.get(self.verdict, self.verdict)
            if self.claim.paper == coverage.OWN
            else self.verdict
        )

    @property
    def worst_parts(self) -> list[PartView]:
        """The parts that were not reproduced, those with the worst verdicts first."""
        failed = [part for part in self.parts if part.verdict in WORST_FIRST]
        return sorted(failed, key=lambda part: WORST_FIRST.index(part.verdict))

    @property
    def open_part(self) -> PartView:
        """The first undecided part."""
        return next(part for part in self.parts if part.verdict is Verdict.UNDECIDED)

    @property
    def main_parts(self) -> list[PartView]:
        """A few parts for the first page: the worst, one that was reproduced,
        others."""
        worst, rest = (
            self.worst_parts,
            [part for part in self.parts if part not in self.worst_parts],
        )
        return [*worst[:1], *rest[:1], *worst[1:], *rest[1:]][:TOP_PARTS]


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
        "papers": [
            paper
            for paper in PAPERS
            if any(view.claim.paper == paper.short for view in views)
        ],
        "size": provenance.size,
        "size_text": _TEXTS["sizes"][provenance.size],
        "runs": provenance.runs,
        "tested": tested,
        "conclusions": _conclusions(views),
        "top": main_rows(views),
        "not_reproduced": _by_importance(tested, Verdict.NOT),
        "partly": _by_importance(tested, Verdict.PARTLY),
        "undecided": _by_importance(tested, Verdict.UNDECIDED),
        "on_page_one": {
            name
            for row in MAIN_CLAIMS
            for names in row.values()
            for name in names.split()
        },
        "important": IMPORTANT,
        "groups": _group_by_place(testable),
        "words": _TEXTS["words"],
        "conclusion_words": dict(
            zip(
                TESTED, ("Holds", "Holds in part", "Does not hold", "Open"), strict=True
            )
        ),
        "untestable": [view.claim for view in views if view.claim.untestable],
        "experiments": _experiment_rows(views, experiments, provenance),
        "judging": (criteria.__doc__ or "").strip(),
        "chance": _chance_text(claim_results),
        "coverage": _coverage_rows([result.claim for result in claim_results]),
        "date": formatting.format_date(provenance.created_at),
        "time": formatting.format_duration(sum(provenance.seconds.values())),
        "environment": ", ".join(
            f"{name} {value}" for name, value in provenance.environment.items()
        ),
        "testable": testable,
        "tested_verdicts": TESTED,
        "marks": MARKS,
    }


def _claim_views(
    claim_results: Sequence[ClaimResult],
    experiments: Mapping[str, Experiment],
    pictures: Mapping[str, Picture],
) -> list[ClaimView]:
    views = []
    measured: dict[str, str] = {}
    readings: dict[tuple[str, ...], str] = {}
    for result in claim_results:
        claim, figure, note = (
            result.claim,
            coverage.figure_of_claim(result.claim),
            results.common_note(result),
        )
        picture = pictures.get(figure)
        earlier = measured.setdefault(claim.measured, claim.name)
        texts: dict[str, Any] = {
            name: formatting.as_sentence(getattr(claim, name)) for name in SENTENCES
        }
        if readings.setdefault(claim.readings, claim.name) != claim.name:
            texts["readings"] = ()
        parts = [_part_view(result, *part) for part in result.judged_parts()]
        view = ClaimView(
            claim=dataclasses.replace(claim, figure=figure, **texts),
            place=coverage.place_in_paper(claim.name)[0],
            verdict=result.verdict,
            remarks=results.verdict_remarks(result),
            note=formatting.as_sentence(note),
            counts=result.counts,
            parts=tuple(parts),
            common_criterion=_common_text(parts, "criterion"),
            common_of=_common_text(parts, "of"),
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


def _part_view(
    result: ClaimResult, part: Measurement, estimate: Estimate, judgement: Judgement
) -> PartView:
    built = (
        result.claim.kind is Kind.CONSTRUCTION
    )  # such numbers have no sampling error
    interval = (
        estimate.interval._replace(low=math.nan, high=math.nan)
        if built
        else estimate.interval
    )
    outside = judgement.reason == criteria.OUTSIDE
    return PartView(
        label=part.label if len(result.estimates) > 1 else "",
        number=formatting.format_estimate(interval, part),
        of=f"{estimate.count:,} {estimate.of}" if estimate.count else "",
        criterion=formatting.format_criterion(part),
        verdict=judgement.verdict,
        reason=judgement.reason,
        note=(
            ""
            if results.common_note(result) or estimate.note == judgement.reason
            else estimate.note
        ),
        to_decide=(
            "" if judgement.reason else cases_to_decide(part, estimate, judgement)
        ),
        open_reason=OPEN_REASONS[2 if outside else estimate.count < criteria.ENOUGH],
        strip=number_strip(part, estimate),
    )


def cases_to_decide(part: Measurement, estimate: Estimate, judgement: Judgement) -> str:
    """What would decide an undecided part: for a comparison with a bound, how many
    cases and with which verdict, if the estimate stays. The interval narrows with the
    square root of their number."""
    criterion = part.criterion
    if estimate.count < criteria.ENOUGH:
        return f"{estimate.count} {estimate.of} are too few"
    if not isinstance(criterion, Above | Below) or math.isnan(judgement.difference.low):
        return ""
    low, value, high = sorted(
        criterion.direction * item for item in judgement.difference
    )
    factors: dict[float, str] = {}
    if value > 0:
        factors[((value - low) / value) ** 2] = (
            Verdict.REPRODUCED if value >= criterion.minimum else Verdict.PARTLY
        )
    if value < criterion.minimum:
        beyond = "outside our threshold" if criterion.ours else Verdict.NOT
        factors[((high - value) / (criterion.minimum - value)) ** 2] = beyond
    factor = min(factors, default=math.inf)
    if factor > DECIDABLE:
        return (
            f"the estimate is too close to the bound for more {estimate.of} to decide"
        )
    digits = 10 ** max(0, math.floor(math.log10(factor * estimate.count)) - 1)
    return (
        f"about {math.ceil(factor * estimate.count / digits) * digits:,} {estimate.of}"
        f" in all: {factors[factor]}"
    )


def _command(result: ClaimResult, experiment: Experiment | None) -> str:
    """The command that tests a claim alone; at the default size if this one does not
    include its experiment."""
    skipped = experiment is not None and experiment.at(result.size) is None
    option = "" if skipped or result.size is Size.DEFAULT else f" --{result.size}"
    return f"python -m analysis.verify --only {result.claim.name}{option}"


# ---------------------------------------------------------------- first and second page


def main_rows(views: Sequence[ClaimView]) -> list[MainRow]:
    """The main claims of which some were tested."""
    rows = []
    for row in MAIN_CLAIMS:
        tested_claims = _tested_claims(views, " ".join(row.values()))
        papers = [view for view in tested_claims if view.claim.paper != coverage.OWN]
        if not papers:
            continue
        own = [
            (view, view.main_parts[0]) for view in tested_claims if view not in papers
        ]
        order = (*WORST_FIRST, Verdict.REPRODUCED)
        worst = sorted(
            papers, key=lambda view: (order.index(view.verdict), -view.claim.importance)
        )
        lines = [
            (view, view.main_parts[k])
            for k in range(TOP_PARTS)
            for view in worst
            if k < len(view.main_parts)
        ]
        lines = [*lines[: TOP_PARTS - len(own)], *own]
        rows.append(MainRow("; ".join(row), papers, lines))
    return rows


def _tested_claims(views: Sequence[ClaimView], names: str) -> list[ClaimView]:
    return [
        view
        for view in views
        if view.claim.name in names.split() and view.verdict in TESTED
    ]


def _conclusions(views: Sequence[ClaimView]) -> dict[str, dict[Verdict, list[str]]]:
    """For each paper, its main statements by verdict."""
    result: dict[str, dict[Verdict, list[str]]] = {}
    for text, names in (item for row in MAIN_CLAIMS for item in row.items()):
        claims = [
            view
            for view in _tested_claims(views, names)
            if view.claim.paper != coverage.OWN
        ]
        if claims:
            verdict = criteria.combine_verdicts([view.verdict for view in claims])
            result.setdefault(claims[0].claim.paper, {}).setdefault(verdict, []).append(
                text
            )
    return result


def _by_importance(tested: Sequence[ClaimView], *verdicts: Verdict) -> list[ClaimView]:
    """The claims of the papers with some verdicts, the most important first."""
    views = [
        view
        for view in tested
        if view.verdict in verdicts and view.claim.paper != coverage.OWN
    ]
    return sorted(views, key=lambda view: -view.claim.importance)


# ------------------------------------------------------------------------- the appendix


def _group_by_place(
    views: Sequence[ClaimView],
) -> list[tuple[coverage.Paper, list[tuple[str, list[ClaimView]]]]]:
    """Claims by paper and place, in their order; our own claims have no places."""
    groups = []
    for paper in PAPERS:
        result = [view for view in views if view.claim.paper == paper.short]
        places = groupby(
            result, lambda view: view.place if view.claim.paper != coverage.OWN else ""
        )
        groups.append((paper, [(place, list(group)) for place, group in places]))
    return [(paper, places) for paper, places in groups if places]


def _experiment_rows(
    views: Sequence[ClaimView],
    experiments: Mapping[str, Experiment],
    provenance: ReportProvenance,
) -> list[tuple[Experiment, str, str, str]]:
    """The experiments that test the claims, each with its parameters, how they are
    reduced, and its time."""
    rows = []
    for name in dict.fromkeys(
        view.claim.experiment for view in views if view.claim.experiment in experiments
    ):
        sizing, seconds = (
            experiments[name].at(provenance.size),
            provenance.seconds.get(name),
        )
        reduced, words = (
            (sizing.reduced, _format_params(sizing.params))
            if sizing
            else ("", "not at this size")
        )
        rows.append(
            (
                experiments[name],
                words,
                reduced,
                "" if seconds is None else formatting.format_duration(seconds),
            )
        )
    return rows


def _format_params(params: Params) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in params.items()
    ).replace("'", "")


def _chance_text(claim_results: Sequence[ClaimResult]) -> str:
    """How many differences from printed numbers are significant, and how many would be
    by chance."""
    differences = [
        judgement.difference
        for result in claim_results
        for part, _, judgement in result.judged_parts()
        if isinstance(part.criterion, Agrees)
        and judgement.difference.half > 0  # not if there is no sampling error
    ]
    if not differences:
        return ""
    number = len(differences)
    significant = sum(
        not difference.low <= 0 <= difference.high for difference in differences
    )
    most = int(stats.binom.ppf(0.95, number, 0.05))
    unusual = "more than chance explains" if significant > most else "not unusual"
    return (
        f"We compare {number} number{'s' * (number > 1)} with printed ones. At the 95%"
        f" level about {number / 20:.1f} differ by chance even if all agree. Here"
        f" {significant} differ{'s' * (significant == 1)}, which is {unusual}. The"
        " comparisons are not independent, so this is a rough check. Where a paper"
        " prints no interval, its number is assumed to be as uncertain as ours would"
        " be with the same number of runs."
    )


def _coverage_rows(
    claims: Sequence[Claim],
) -> list[tuple[str, list[tuple[str, int, list[str], str]]]]:
    """For each paper that has claims, its places: number of claims under that heading,
    further claims, or why none."""
    papers, chosen = [], {claim.paper for claim in claims}
    for paper in coverage.PAPERS:
        if paper.short not in chosen:
            continue
        rows = []
        for place in paper.places:
            names = [
                claim.name
                for claim in coverage.claims_covering(claims, paper, place, own=True)
            ]
            others = [
                name for name in names if coverage.place_in_paper(name)[0] != place
            ]
            reason = (
                ""
                if names
                else coverage.UNTESTED_PLACES.get((paper.short, place), "see its parts")
            )
            rows.append((place, len(names) - len(others), others, reason))
        papers.append((paper.short, rows))
    return papers
