"""The claims as data: each says all that a reader needs, and none of either paper is
left out."""

import dataclasses
import re

import pytest
from analysis.reproduction.rule import (
    Above,
    Agrees,
    Below,
    Nearly,
    Within,
    read_criterion,
)

from analysis.reproduction.claim import Kind, read_parts
from analysis.reproduction.estimates import (
    mean_of,
    percentage,
    reported_number,
)
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.papers import (
    PAPERS,
    figure_of_claim,
    places_of_claim,
    uncovered_places,
)
from analysis.reproduction.registry import (
    CLAIMS,
    mark_repeated,
    select_claims,
)
from dynamics.settings import SettingsError

NAMES = [claim.name for claim in CLAIMS]


def test_names_are_unique_and_contain_no_special_characters():
    assert len(set(NAMES)) == len(NAMES)
    assert all(
        re.fullmatch(r"(CA|VC|CH|ZL|NA|OWN)(\.[A-Za-z0-9.-]+)+", name) for name in NAMES
    )
    papers = [claim.paper for claim in CLAIMS]
    assert papers == sorted(papers, key=[*PAPERS].index)


def test_a_part_is_read_for_each_value_of_arguments_with_several():
    names = {"measured": percentage, "LAYERS": {"query": "the query"}, "mean": mean_of}
    row = {
        "label": "{layer}, {rate:g} of {pair[0]}",
        "estimate": "measured",
        "with": {"estimator": "mean", "limits": [0, 100]},
        "over": {"layer": "LAYERS", "rate": [0.5, 1.0], "pair": [["a", "b"]]},
        "criterion": {"above": 50, "minimum": 10, "ours": True},
        "unit": "%",
    }
    first, second = read_parts([row], names)
    assert (first.label, second.label) == ("the query, 0.5 of a", "the query, 1 of a")
    assert first.criterion == second.criterion == Above(50, 10, ours=True)
    assert second.number == (
        percentage,
        repr(
            (
                (),
                [
                    ("estimator", mean_of),
                    ("layer", "query"),
                    ("limits", (0, 100)),
                    ("pair", ("a", "b")),
                    ("rate", 1.0),
                ],
            )
        ),
    )


@pytest.mark.parametrize(
    ("row", "criterion"),
    [
        ("nearly", Nearly()),
        ({"below": 1, "contrary": 2.0}, Below(1, contrary=2.0)),
        ({"within": [0, 2], "ours": True}, Within(0, 2, ours=True)),
        (
            {"agrees": "3.5 ± 0.5", "runs": 9, "margin": 1},
            Agrees(reported_number("3.5 ± 0.5", 9), 1),
        ),
    ],
)
def test_criteria_are_read(row, criterion):
    assert repr(read_criterion(row)) == repr(criterion)  # NaN is not equal to itself


def test_an_unknown_criterion_is_refused():
    with pytest.raises(ValueError, match="criterion near"):
        read_criterion({"near": 1})


def test_claims_have_all_texts_that_they_need():
    figures = {"", *(figure.name for figure in PAPER_FIGURES)}
    for claim in CLAIMS:
        assert claim.statement.endswith((".", "?")), claim.name
        assert claim.importance in (1, 2, 3), claim.name
        assert figure_of_claim(claim) in figures, claim.name
        assert bool(claim.untestable) != bool(
            claim.parts and claim.measured and claim.experiment
        ), claim.name
        labels = [part.label for part in claim.parts]
        assert len(set(labels)) == len(labels), claim.name
        assert all(labels) or len(labels) == 1, claim.name
        texts = "\n".join(
            (
                claim.statement,
                claim.measured,
                claim.untestable,
                claim.departure,
                *claim.readings,
            )
        )
        named = {
            name.rstrip(".")
            for name in re.findall(r"\b(?:CA|VC|CH|ZL|NA|OWN)\.[A-Za-z0-9.-]+", texts)
        }
        assert named <= set(NAMES), claim.name
        assert not re.search(r"[a-z][,;][A-Za-z]|  ", texts), claim.name


def test_every_place_of_the_papers_has_a_claim():
    assert uncovered_places(CLAIMS) == []
    places = {
        "abstract",
        "table 1",
        "table 2",
        "compute resources",
        "limitations",
        "broader impact",
    }
    places |= {f"figure {k}" for k in range(1, 7)} | {
        f"section {k}" for k in [*range(1, 9), 5.1, 5.2]
    }
    places |= {f"appendix {k}" for k in ("a.1", "a.2", *"bcdef")}
    assert places <= {
        place
        for claim in CLAIMS
        if claim.paper in ("CA", "OWN")
        for place in places_of_claim(claim)
    }


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
def test_every_number_of_a_printed_table_has_a_criterion(name, numbers):
    claim = next(item for item in CLAIMS if item.name == name)
    held = {
        part.criterion.reported.printed
        for part in claim.parts
        if isinstance(part.criterion, Agrees)
    }
    assert set(re.split(r", (?![^\[]*\])", numbers)) <= held


STATED = {
    ("CA", "section 3"): ["80%"],
    ("CA", "table 1"): ["77.4%"],
    ("CA", "section 6"): ["100 steps"],
    ("CA", "appendix A.1"): ["1.2"],
    ("CA", "appendix F"): ["three and four"],
    ("CA", "compute resources"): ["271 hours", "less than 24"],
    ("VC", "section 2.2"): ["2048", ".9 and .999"],
    ("VC", "section 3.1"): ["6 of five", "21 of five"],
    ("VC", "figure 5"): ["244, 260, 340 and 365"],
    ("VC", "figure 9"): ["250 "],
    ("VC", "section 4.2"): ["p > 4", "p = 3", "six clusters", "100%"],
    ("VC", "figure 16"): ["250", "700"],
    ("VC", "figure 17"): ["1e-3 to 10", ".9"],
    ("VC", "appendix A.3"): ["d = 8"],
    ("ZL", "models"): ["0.9937", "0.17", "0.998", "0.33", "0.85"],
    ("NA", "record"): ["53", "93", "1,637"],
    ("NA", "phases"): ["1,400", "9,400", "14,000", "five"],
}
"""Further numbers that the papers print, by the place, and words with them that a claim
of it must have."""


@pytest.mark.parametrize(
    ("paper", "place", "words"),
    [(*key, words) for key, several in STATED.items() for words in several],
)
def test_printed_numbers_are_in_a_claim_of_their_place(paper, place, words):
    texts = [
        " ".join((claim.statement, claim.measured, claim.untestable, *claim.readings))
        for claim in CLAIMS
        if claim.paper == paper
        and any(
            f"{item}.".startswith(f"{place.lower()}.")
            for item in places_of_claim(claim)
        )
    ]
    assert any(
        re.search(rf"(?<![\d.]){re.escape(words)}(?!\.?\d)", text) for text in texts
    )


def test_a_claim_is_repeated_if_earlier_claims_have_its_parts():
    first, second = (
        next(item for item in CLAIMS if item.name == name)
        for name in ("CA.table1.wd0", "CA.table1.wd1")
    )
    again = dataclasses.replace(first, name="CA.again", parts=first.parts[:1])
    both = dataclasses.replace(
        first, name="CA.both", parts=(*first.parts, *second.parts)
    )
    kinds = [claim.kind for claim in mark_repeated([first, again, both, second])]
    assert kinds == [Kind.EMPIRICAL, Kind.REPEATED, Kind.EMPIRICAL, Kind.REPEATED]
    detail = dataclasses.replace(
        again, importance=1
    )  # before a claim of higher importance
    assert [claim.kind for claim in mark_repeated([detail, first])] == [
        Kind.REPEATED,
        Kind.EMPIRICAL,
    ]
    example = dataclasses.replace(first, kind=Kind.EXAMPLE)
    assert [claim.kind for claim in mark_repeated([example, first])] == [
        Kind.EXAMPLE,
        Kind.EMPIRICAL,
    ]


def test_claims_are_selected_by_the_beginning_of_their_names():
    assert select_claims(["ca.table2"]) == [
        claim for claim in CLAIMS if claim.name.startswith("CA.table2.")
    ]
    assert [claim.name for claim in select_claims(["CA.table2.fa1"])] == [
        "CA.table2.fa1"
    ]
    assert select_claims(["all"]) == list(CLAIMS)


@pytest.mark.parametrize("name", ["CA.table", "CA.table22", "", "."])
def test_unknown_names_are_refused(name):
    with pytest.raises(SettingsError, match="only"):
        select_claims([name])
