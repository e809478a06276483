"""The claims as data: each says all that a reader needs, and none of either paper is left out."""

import re

import pytest

from analysis.claims import CLAIMS, chosen
from analysis.plates.register import PLATES
from analysis.studies.register import STUDIES
from analysis.verification.study import Size
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
    assert not claim.figure or claim.figure in {plate.name for plate in PLATES}
    if claim.untestable:
        assert not claim.parts
        assert not claim.study
        return
    assert claim.measured
    assert claim.refuted
    assert claim.meaning
    assert claim.study in {study.name for study in STUDIES}
    labels = [part.label for part in claim.parts]
    assert labels
    assert len(set(labels)) == len(labels)
    assert all(labels) or len(labels) == 1


def test_every_study_is_of_a_claim_and_has_the_default_size():
    assert {study.name for study in STUDIES} == {claim.study for claim in CLAIMS if claim.study}
    assert len({study.name for study in STUDIES}) == len(STUDIES)
    for study in STUDIES:
        assert Size.DEFAULT in study.sizes
        assert Size.FULL in study.sizes
        assert set(study.seconds) == set(study.sizes)
        assert all(seconds > 0 for seconds in study.seconds.values())


def test_claims_are_chosen_by_how_their_names_begin():
    assert [claim.name for claim in chosen(["ca.table2"])] == [name for name in NAMES if name.startswith("CA.table2.")]
    assert [claim.name for claim in chosen(["CA.table2.fa1"])] == ["CA.table2.fa1"]
    assert chosen([]) == list(CLAIMS)


@pytest.mark.parametrize("name", ["CA.table", "CA.table22", "", "."])
def test_names_of_no_claim_are_refused(name):
    with pytest.raises(SettingsError, match="only"):
        chosen([name])
