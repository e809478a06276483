"""The claims as data: each says all that a reader needs, and none of either paper is left out."""

import re

import pytest

from analysis.reproduction.claims.registry import CLAIMS, select_claims
from analysis.reproduction.experiments.register import EXPERIMENTS
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.verification.coverage import uncovered_places
from analysis.reproduction.verification.experiment import Size
from analysis.reproduction.verification.rules import Agrees
from dynamics.settings import SettingsError

NAMES = [claim.name for claim in CLAIMS]


def test_names_are_different_and_can_be_typed():
    assert len(set(NAMES)) == len(NAMES)
    assert all(re.fullmatch(r"(CA|VC|CH|OWN)(\.[A-Za-z0-9.-]+)+", name) for name in NAMES)
    papers = [claim.paper for claim in CLAIMS]
    assert papers == sorted(papers, key=("CA", "VC", "CH", "OWN").index)


@pytest.mark.parametrize("claim", CLAIMS, ids=NAMES)
def test_a_claim_says_what_is_needed(claim):
    assert claim.source
    assert claim.statement.endswith((".", "?"))
    assert claim.covers or claim.paper == "OWN"
    assert claim.weight in (1, 2, 3)
    assert not claim.figure or claim.figure in {plate.name for plate in PAPER_FIGURES}
    if claim.untestable:
        assert not claim.parts
        assert not claim.study
        return
    assert claim.measured
    assert claim.refuted
    assert claim.meaning
    assert claim.study in {study.name for study in EXPERIMENTS}
    labels = [part.label for part in claim.parts]
    assert labels
    assert len(set(labels)) == len(labels)
    assert all(labels) or len(labels) == 1


def test_no_place_of_the_papers_is_left_out():
    assert uncovered_places(CLAIMS) == []


TABLES = {
    "CA.table1.wd0": "0 of 100, 18.2, 102.2 ± 6.1, -0.92 [-0.95, -0.88]",
    "CA.table1.wd0.3": "1 of 100, 34.8, 72.7 ± 6.6, -0.90 [-0.93, -0.85]",
    "CA.table1.wd0.6": "12 of 100, 65.9, 51.6, 39.6 ± 4.0, -0.84 [-0.89, -0.77]",
    "CA.table1.wd1": "18 of 100, 60.4, 46.7, 31.6 ± 4.0, -0.64 [-0.75, -0.49]",
    "CA.table2.fa0.5": "0 of 100, 35.5 ± 3.7",
    "CA.table2.fa1": "17 of 100, 36.3 ± 4.8",
    "CA.table2.fa2": "56 of 100, 42.9 ± 10.1",
}


@pytest.mark.parametrize(("name", "numbers"), TABLES.items())
def test_every_number_of_a_table_is_compared_with_ours(name, numbers):
    claim = next(each for each in CLAIMS if each.name == name)
    held = {part.rule.reported.printed for part in claim.parts if isinstance(part.rule, Agrees)}
    assert set(re.split(r", (?![^\[]*\])", numbers)) <= held


STATED = {
    "CA": {
        "section 3": ("80%",),
        "table 1": ("77.4%",),
        "section 6": ("100 steps",),
        "appendix A.1": ("1.2",),
        "appendix F": ("three and four",),
        "compute resources": ("271 hours", "less than 24"),
    },
    "VC": {
        "section 2.2": ("2048", ".9 and .999"),
        "section 3.1": ("6 of five", "21 of five"),
        "figure 5": ("244, 260, 340 and 365",),
        "figure 9": ("250 ",),
        "section 4.2": ("p > 4", "p = 3", "six clusters", "100%"),
        "figure 16": ("250", "700"),
        "figure 17": ("1e-3 to 10", ".9"),
        "appendix A.3": ("d = 8",),
    },
}
"""Further numbers that the papers print, by the place, and words with them that a claim of it must have."""


@pytest.mark.parametrize(
    ("paper", "place", "words"),
    [(paper, place, words) for paper in STATED for place, several in STATED[paper].items() for words in several],
)
def test_numbers_that_the_papers_print_are_in_a_claim_of_their_place(paper, place, words):
    texts = [
        " ".join((claim.source, claim.statement, claim.measured, claim.untestable, *claim.readings))
        for claim in CLAIMS
        if claim.paper == paper and any(f"{each}.".startswith(f"{place}.") for each in claim.covers)
    ]
    assert any(re.search(rf"(?<![\d.]){re.escape(words)}(?!\.?\d)", text) for text in texts)


def test_every_study_is_of_a_claim_and_has_the_default_size():
    assert {study.name for study in EXPERIMENTS} == {claim.study for claim in CLAIMS if claim.study}
    assert len({study.name for study in EXPERIMENTS}) == len(EXPERIMENTS)
    for study in EXPERIMENTS:
        assert Size.DEFAULT in study.sizes
        assert Size.FULL in study.sizes
        assert set(study.seconds) == set(study.sizes)
        assert all(seconds > 0 for seconds in study.seconds.values())


def test_claims_are_chosen_by_how_their_names_begin():
    assert [claim.name for claim in select_claims(["ca.table2"])] == [
        name for name in NAMES if name.startswith("CA.table2.")
    ]
    assert [claim.name for claim in select_claims(["CA.table2.fa1"])] == ["CA.table2.fa1"]
    assert select_claims(["all"]) == list(CLAIMS)


@pytest.mark.parametrize("name", ["CA.table", "CA.table22", "", "."])
def test_names_of_no_claim_are_refused(name):
    with pytest.raises(SettingsError, match="only"):
        select_claims([name])
