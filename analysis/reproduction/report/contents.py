"""The contents of the report: results in the order of its pages, and its tables."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from itertools import groupby
from typing import Any, NamedTuple

import xarray as xr
from scipy import stats

from analysis.reproduction.claim import Claim, Kind
from analysis.reproduction.evidence import (
    ScheduledExperiment,
    format_duration,
    measurement_provenance,
)
from analysis.reproduction.experiment import Experiment, Size, Sizing
from analysis.reproduction.papers import (
    PAPERS,
    Paper,
    claims_covering,
    figure_of_claim,
    place_in_paper,
)
from analysis.reproduction.results import (
    OWN,
    TOP_PARTS,
    WORST_FIRST,
    ClaimResult,
    PartResult,
    count_panels_once,
)
from analysis.reproduction.rule import Agrees, Verdict
from analysis.reproduction.verification import criteria

REPORT_TITLE = "Reproduction of papers on training dynamics"
TEXTS = tomllib.loads(files(__package__).joinpath("texts.toml").read_text("utf-8"))
IMPORTANT = 2
"""Importance from which a claim is shown in full where we disagree."""
MARKS = dict(zip(Verdict, "●◐✕?–○", strict=True))
"""A symbol for each verdict, so that colour is not needed to tell them apart."""
CONCLUSIONS = {
    Verdict.REPRODUCED: "Holds",
    Verdict.PARTLY: "Holds in part",
    Verdict.NOT: "Does not hold",
    Verdict.UNDECIDED: "Open",
}
"""Verdicts of tests, and the words for a statement that they are on."""
KIND_WORDS = {
    Kind.EXAMPLE: "examples",
    Kind.FITTED: "fitted to the paper's numbers",
    Kind.TABLE: "of tables that the authors published",
}
"""Kinds of claims that do not count, in words."""
SEVERITY = (*WORST_FIRST, Verdict.REPRODUCED)


class ReportProvenance(NamedTuple):
    """The origin of a report."""

    size: Size
    created_at: str
    """Date and time in ISO 8601"""
    environment: Mapping[str, str]
    """Versions, device, cores and commit, by name"""
    seconds: Mapping[str, float]
    """Time of the measurement of each experiment, by name; without runs that existed
    before"""
    runs: int
    """Number of runs in the ensembles that the experiments name"""
    sizings: Mapping[str, Sizing]
    """What each experiment did, by name"""


class MainRow(NamedTuple):
    """A row of the table of main claims."""

    text: str
    results: list[ClaimResult]
    """The claims of the papers that it stands for"""
    lines: list[PartResult]
    """The parts that are shown: of the claims with the worst verdicts, and of our
    own"""


def report_provenance(
    evidence: Mapping[str, xr.Dataset],
    steps: Sequence[ScheduledExperiment],
    size: Size,
    device: str,
) -> ReportProvenance:
    """When, on which machine and with which versions the evidence was measured, and how
    long that took."""
    attributes = [dataset.attrs for dataset in evidence.values()]
    attributes = attributes or [measurement_provenance(device)]
    newest = max(attributes, key=lambda origin: origin["created_at"])
    environment = json.loads(newest["package_versions"])
    words = {"cores": "cores", "device": "device", "git_commit": "commit"}
    for name, word in words.items():
        values = {str(origin[name]) for origin in attributes}  # of all evidence
        environment[word] = ", ".join(sorted(values))
    needs = {need for step in steps for need in step.experiment.ensembles(step.params)}
    seconds = {name: float(item.attrs["seconds"]) for name, item in evidence.items()}
    sizings = {step.experiment.name: step.sizing for step in steps}
    return ReportProvenance(
        size=size,
        created_at=newest["created_at"],
        environment=environment,
        seconds=seconds,
        runs=sum(need.runs for need in needs),
        sizings=sizings,
    )


def build_contents(
    results: Sequence[ClaimResult],
    provenance: ReportProvenance,
    experiments: Mapping[str, Experiment],
) -> dict[str, Any]:
    """All that the templates of the report show, by name; experiments by name."""
    tested = [result for result in results if result.counts]
    failures = sorted(
        (result for result in tested if result.claim.paper != OWN),
        key=lambda result: -result.claim.importance,
    )
    figures = {result.claim.name: figure_of_claim(result.claim) for result in results}
    environment = [f"{name} {value}" for name, value in provenance.environment.items()]
    main_names = [names for row in TEXTS["main_claims"] for names in row.values()]
    return {
        "title": REPORT_TITLE,
        "groups": group_by_place(results),
        "size": provenance.size,
        "size_text": TEXTS["sizes"][provenance.size],
        "runs": provenance.runs,
        "results": results,
        "tested": count_panels_once(tested),
        "conclusions": paper_conclusions(results),
        "conclusion_words": CONCLUSIONS,
        "top": main_rows(results),
        "failures": failures,
        "on_page_one": " ".join(main_names).split(),
        "important": IMPORTANT,
        "words": TEXTS["words"],
        "figures": figures,
        "first_measured": first_claims(results, "measured"),
        "first_readings": first_claims(results, "readings"),
        "experiments": experiment_rows(results, provenance, experiments),
        "judging": (criteria.__doc__ or "").strip(),
        "chance": chance_text(results),
        "coverage": coverage_rows([result.claim for result in results]),
        "date": f"{datetime.fromisoformat(provenance.created_at):%Y-%m-%d, %H:%M %Z}",
        "time": format_duration(sum(provenance.seconds.values())),
        "environment": ", ".join(environment),
        "marks": MARKS,
        "kind_words": KIND_WORDS,
    }


def first_claims(results: Sequence[ClaimResult], name: str) -> dict[Any, str]:
    """For the texts of claims, the name of the first claim with the same text."""
    first: dict[Any, str] = {}
    for result in results:
        first.setdefault(getattr(result.claim, name), result.claim.name)
    return first


def main_rows(results: Sequence[ClaimResult]) -> list[MainRow]:
    """The main claims of which some were tested."""
    rows = []
    for row in TEXTS["main_claims"]:
        tested = _tested_claims(results, " ".join(row.values()))
        of_papers = [result for result in tested if result.claim.paper != OWN]
        if not of_papers:
            continue
        own = [result.main_parts[0] for result in tested if result.claim.paper == OWN]
        worst = sorted(
            of_papers,
            key=lambda result: (
                SEVERITY.index(result.verdict),
                -result.claim.importance,
            ),
        )
        lines = [
            result.main_parts[place]
            for place in range(TOP_PARTS)
            for result in worst
            if place < len(result.main_parts)
        ]
        lines = [*lines[: TOP_PARTS - len(own)], *own]
        rows.append(MainRow("; ".join(row), of_papers, lines))
    return rows


def _tested_claims(results: Sequence[ClaimResult], names: str) -> list[ClaimResult]:
    return [
        result
        for result in results
        if result.claim.name in names.split() and result.tested
    ]


def paper_conclusions(
    results: Sequence[ClaimResult],
) -> dict[str, dict[Verdict, list[str]]]:
    """For each paper, its main statements by verdict."""
    conclusions: dict[str, dict[Verdict, list[str]]] = {}
    for row in TEXTS["main_claims"]:
        for text, names in row.items():
            tested = [
                result
                for result in _tested_claims(results, names)
                if result.claim.paper != OWN
            ]
            if tested:
                verdict = criteria.combine_verdicts([item.verdict for item in tested])
                by_verdict = conclusions.setdefault(tested[0].claim.paper, {})
                by_verdict.setdefault(verdict, []).append(text)
    return conclusions


def group_by_place(
    results: Sequence[ClaimResult],
) -> list[tuple[Paper, list[tuple[str, list[ClaimResult]]]]]:
    """Results by paper and place, in their order; our own claims have no places."""
    groups = []
    for paper in PAPERS.values():
        of_paper = [result for result in results if result.claim.paper == paper.short]
        places = [
            (place, list(group)) for place, group in groupby(of_paper, _place_of_result)
        ]
        if places:
            groups.append((paper, places))
    return groups


def _place_of_result(result: ClaimResult) -> str:
    claim = result.claim
    return "" if claim.paper == OWN else place_in_paper(claim.name)[0]


def experiment_rows(
    results: Sequence[ClaimResult],
    provenance: ReportProvenance,
    experiments: Mapping[str, Experiment],
) -> list[tuple[Experiment, str, str, str]]:
    """The experiments that test the claims, each with its parameters, how they are
    reduced, and its time."""
    rows = []
    for name in dict.fromkeys(result.claim.experiment for result in results):
        if name not in experiments:
            continue
        sizing = provenance.sizings.get(name)
        seconds = provenance.seconds.get(name)
        params, reduced = "not at this size", ""
        if sizing:
            reduced = sizing.reduced
            params = ", ".join(
                f"{param.replace('_', ' ')} {value}"
                for param, value in sizing.params.items()
            ).replace("'", "")
        duration = "" if seconds is None else format_duration(seconds)
        rows.append((experiments[name], params, reduced, duration))
    return rows


def chance_text(results: Sequence[ClaimResult]) -> str:
    """How many differences from printed numbers are significant, and how many would be
    by chance."""
    differences = [
        part.judgement.difference
        for result in results
        for part in result.parts
        if isinstance(part.part.criterion, Agrees)
        and part.judgement.difference.half > 0  # not if there is no sampling error
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


def coverage_rows(
    claims: Sequence[Claim],
) -> dict[str, list[tuple[str, int, list[str], str]]]:
    """For each paper that has claims, its places: number of claims under that heading,
    names of further claims, or why there are none."""
    papers = {}
    for short in dict.fromkeys(claim.paper for claim in claims):
        rows = []
        for place in PAPERS[short].places:
            covering = claims_covering(claims, PAPERS[short], place, own=True)
            names = [claim.name for claim in covering]
            others = [name for name in names if place_in_paper(name)[0] != place]
            untested = PAPERS[short].untested.get(place, "see its parts")
            reason = "" if names else untested
            rows.append((place, len(names) - len(others), others, reason))
        papers[short] = rows
    return papers
