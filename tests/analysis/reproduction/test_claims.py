"""The rule that judges claims, and the texts of the claims."""

import math
import re

import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from analysis.reproduction.claim import (
    Number,
    Sign,
    Verdict,
    exact_number,
    judge_direction,
    judge_number,
    printed_count,
    printed_number,
)
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.papers import PAPERS
from analysis.reproduction.registry import (
    CLAIMS,
    EXPERIMENT_OF_CLAIM,
    EXPERIMENTS,
    required_experiments,
    select_claims,
)
from analysis.statistics.intervals import NO_INTERVAL, Interval
from dynamics.settings import SettingsError


def number(interval, expected, count=100):
    """A number whose estimate is given."""
    return Number(lambda evidence: Estimate(interval, count), expected, "it")


def verdict(interval, expected, count=100):
    return judge_number(number(interval, expected, count), xr.Dataset()).verdict


FLOATS = st.floats(-1e3, 1e3)


@given(FLOATS, FLOATS, FLOATS, st.sampled_from(Sign))
def test_a_direction_holds_if_the_whole_interval_has_its_sign(a, b, c, sign):
    low, value, high = sorted((a, b, c))
    ends = [sign * low, sign * high]
    expected = Verdict.OPEN
    if all(end > 0 for end in ends):
        expected = Verdict.HOLDS
    if all(end < 0 for end in ends):
        expected = Verdict.CONTRADICTED
    assert judge_direction(Interval(value, low, high), sign) is expected


@given(FLOATS, st.floats(0, 10), FLOATS, st.floats(0, 10))
def test_a_printed_number_agrees_if_the_difference_may_be_zero(ours, half, theirs, own):
    printed = printed_number(f"{theirs:.6f} ± {own:.6f}")
    interval = Interval(ours, ours - half, ours + half)
    distance, room = abs(ours - theirs), math.hypot(half, own)
    if abs(distance - room) > 1e-4:
        agrees = verdict(interval, printed) is Verdict.AGREES
        assert agrees == (distance < room)


def test_printed_numbers_are_read():
    assert printed_number("-0.90 [-0.93, -0.85]").interval == (-0.9, -0.93, -0.85)
    assert printed_number("31.6 ± 4.0").interval == pytest.approx((31.6, 27.6, 35.6))
    assert math.isnan(printed_number("18.2").interval.low)
    count = printed_count(0)
    assert count.text == "0 of 100"
    assert count.interval == pytest.approx((0, 0, 3.62), abs=0.01)  # 1 - .025^(1/100)


def test_a_printed_number_without_interval_is_as_uncertain_as_ours_of_as_many_runs():
    """100 runs of ours against 25 of the paper: the half-width of the difference is
    sqrt(1 + 4)."""
    inside, outside = (
        verdict(Interval(d, d - 1, d + 1), printed_number("0", 25)) for d in (2.2, 2.3)
    )
    assert (inside, outside) == (Verdict.AGREES, Verdict.DIFFERS)


def test_an_exact_number_has_no_uncertainty():
    expected = exact_number(100, "all")
    assert verdict(Interval(97, 91, 99), expected) is Verdict.DIFFERS
    assert verdict(Interval(100, 96, 100), expected) is Verdict.AGREES


@pytest.mark.parametrize(
    "interval", [NO_INTERVAL, Interval(3.0, math.nan, math.nan)], ids=["none", "value"]
)
@pytest.mark.parametrize(
    "expected", [Sign.NEGATIVE, printed_number("3 ± 1"), printed_number("3")]
)
def test_what_has_no_interval_is_open(interval, expected):
    assert verdict(interval, expected) is Verdict.OPEN


# ------------------------------------------------------------------------- as data


def test_names_are_unique_and_of_a_paper():
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names)
    pattern = rf"({'|'.join(PAPERS)})(\.[A-Za-z0-9.-]+)+"
    assert all(re.fullmatch(pattern, name) for name in names)
    assert len(EXPERIMENTS) == len(required_experiments(CLAIMS))


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.name for claim in CLAIMS])
def test_a_claim_has_what_a_reader_needs(claim):
    assert claim.statement.endswith(".")
    assert not claim.summary.endswith(".")
    assert len(claim.passage.split()) <= 12
    assert bool(claim.passage) == bool(claim.place) == (claim.paper != "OWN")
    assert claim.figure in {"", *(figure.name for figure in PAPER_FIGURES)}
    labels = [item.label for item in claim.numbers]
    assert all(labels)
    assert len(set(labels)) == len(labels)


def test_every_paper_has_a_claim_for_its_sentence():
    for paper in PAPERS:
        assert any(item.summary for item in CLAIMS if item.paper == paper)


# ----------------------------------------------------------------------- selection


@pytest.mark.parametrize("name", ["CA.table2", "ca.TABLE2.", "CA.table2.fa2"])
def test_claims_are_selected_by_their_first_words(name):
    selected = select_claims([name])
    assert {claim.name.split(".")[1] for claim in selected} == {"table2"}
    assert len(selected) == (1 if name.endswith("fa2") else 3)
    assert EXPERIMENT_OF_CLAIM[selected[0].name].name == "ca.table2"


@pytest.mark.parametrize("names", [[], ["CA.table9"], ["C"], [""]])
def test_unknown_names_are_refused_with_similar_ones(names):
    with pytest.raises(SettingsError, match=r"such as (\S+\.\S+)"):
        select_claims(names)
