"""The claims as data: each says all that a reader needs, and none of either paper is left out."""

import re

import pytest

from analysis.reproduction.claims import circuits, heads, phases, saddles, sparsity, task
from analysis.reproduction.claims.registry import CLAIMS, select_claims
from analysis.reproduction.experiments.register import EXPERIMENTS
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.verification.coverage import uncovered_places
from analysis.reproduction.verification.rules import Agrees, Every, Nearly
from dynamics.settings import SettingsError

NAMES = [claim.name for claim in CLAIMS]


SIZES_OF = {experiment.name: experiment.sizes for experiment in EXPERIMENTS}


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
    counts = {params.get("runs", params.get("cases")) for params in SIZES_OF[claim.study].values()}
    assert not any(f"{count} runs" in claim.measured for count in counts)  # sizes differ, so words cannot name one
    labels = [part.label for part in claim.parts]
    assert labels
    assert len(set(labels)) == len(labels)
    assert all(labels) or len(labels) == 1


def test_no_place_of_the_papers_is_left_out():
    assert uncovered_places(CLAIMS) == []
    places = {"abstract", "table 1", "table 2", "compute resources", "limitations", "broader impact"}
    places |= {f"figure {k}" for k in range(1, 7)} | {f"section {k}" for k in range(1, 9)}
    places |= {"section 5.1", "section 5.2", "appendix A.1", "appendix A.2"} | {f"appendix {k}" for k in "BCDEF"}
    assert places <= {place for claim in CLAIMS if claim.paper in ("CA", "OWN") for place in claim.covers}


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


VC_CLAIMS = [claim for subject in (task, circuits, phases, saddles, sparsity, heads) for claim in subject.CLAIMS]


def all_words(claim):
    """All that a claim says."""
    said = (claim.source, claim.statement, claim.measured, claim.refuted, claim.untestable, claim.meaning)
    return " ".join(each for each in (*said, *claim.readings) if each)


def test_claims_that_a_claim_names_exist():
    named = {name.rstrip(".") for claim in CLAIMS for name in
             re.findall(r"\b(?:CA|VC|CH|OWN)\.[A-Za-z0-9.-]+", all_words(claim))}  # fmt: skip
    assert named
    assert named <= set(NAMES)


def test_exact_claims_have_no_exception_and_others_may_have_rare_ones():
    strict = {claim.name for claim in VC_CLAIMS for part in claim.parts if isinstance(part.rule, Every)}
    assert strict == {"VC.s2.2.keys-and-outputs", "VC.s3.1.permutation", "VC.s3.1.suffix", "OWN.sum"}


@pytest.mark.parametrize("claim", VC_CLAIMS, ids=lambda claim: claim.name)
def test_what_refutes_and_what_is_measured_is_said_precisely(claim):
    assert claim.covers
    assert len(claim.parts) < 2 or "partly" in claim.refuted
    if any(isinstance(part.rule, Nearly) for part in claim.parts):
        assert "one" in claim.refuted
        assert "in ten" in claim.refuted
    sizes = r"\b\d+ (runs|updates|networks|thresholds|simulations)\b|\bover \d+ |frames \(of"  # which differ
    assert not re.search(sizes, claim.measured)
    assert "  " not in all_words(claim)
    assert not re.search(r"[a-z][,;][A-Za-z]", all_words(claim))


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
