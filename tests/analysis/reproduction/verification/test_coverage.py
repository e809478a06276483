"""Coverage: which claims cover which place of the papers."""

import pytest
from analysis.reproduction.verification import coverage

from analysis.reproduction.claim import Claim
from analysis.reproduction.papers import PAPERS

CLAIMS = [
    Claim("CA.s5.1.one", ""),
    Claim("CA.table1.x", "", places="Table 1, limitations, figure 99"),
    Claim("VC.s4.x", "", places="section 4.2, figure 1, conclusion"),
]


def names(short, place, **how):
    return [
        claim.name
        for claim in coverage.claims_covering(CLAIMS, PAPERS[short], place, **how)
    ]


def test_claims_cover_their_places_and_the_sections_above_them():
    assert names("CA", "section 5") == names("CA", "section 5.1") == ["CA.s5.1.one"]
    assert names("CA", "section 5.2") == []
    assert names("CA", "table 1") == ["CA.table1.x"]
    assert names("VC", "figure 1") == names("VC", "section 5") == ["VC.s4.x"]
    assert names("CA", "figure 1") == names("VC", "figure 10") == []
    # a subsection is covered, not the section
    assert names("CA", "section 5", own=True) == []
    assert names("CA", "section 5.1", own=True) == ["CA.s5.1.one"]


def test_uncovered_places_exclude_those_that_state_nothing():
    missing = set(coverage.uncovered_places(CLAIMS))
    assert {"CA section 5.2", "VC figure 2"} <= missing
    covered = {"CA section 5", "CA table 1", "VC section 4"}
    assert not (covered | {"CA section 1", "CH remark 3.1"}) & missing
    claims = []
    for paper in PAPERS.values():
        assert set(paper.untested) <= set(paper.places)
        assert set(paper.other_names.values()) <= set(paper.places)
        claims += [
            Claim(f"{paper.short}.x", "", places=place) for place in paper.places
        ]
    assert coverage.uncovered_places(claims) == []
    untested = sum(len(paper.untested) for paper in PAPERS.values())
    assert len(coverage.uncovered_places([])) == len(claims) - untested


NAMES = {
    "CA.s5.1.apart": ("section 5.1", "apart"),
    "CA.s4.grids": ("section 4", "grids"),
    "CA.table1.wd0.6": ("table 1", "wd0.6"),
    "VC.appA.1.drops": ("appendix A.1", "drops"),
    "CA.appB.biases": ("appendix B", "biases"),
    "CH.remark3.1.faithful": ("remark 3.1", "faithful"),
    "CH.abstract.spikes": ("abstract", "spikes"),
    "OWN.audit": ("audit", ""),
}


@pytest.mark.parametrize(("name", "place"), NAMES.items())
def test_place_in_a_claim_name(name, place):
    assert coverage.place_in_paper(name) == place
