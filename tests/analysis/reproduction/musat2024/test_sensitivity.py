"""Estimates and verdicts on claims about the open choices of table 2, for made
evidence."""

import pytest
import xarray as xr

from analysis.reproduction.musat2024 import particle_claims
from tests.analysis.reproduction.judging import NO, OPEN, part_verdicts
from tests.analysis.reproduction.musat2024.networks_evidence import simulations

PRINTED, OTHER = simulations((1, 17, 56), runs=300), simulations((20, 12, 90), runs=300)


def readings(*evidence, **names) -> xr.Dataset:
    """Evidence of the default reading and of choices 1, 2, ...; names: other names of
    some of them."""
    data = xr.concat(evidence, "reading")
    choices = [
        "defaults",
        *(names.get(f"choice{k}", f"choice {k}") for k in range(1, len(evidence))),
    ]
    return data.assign_coords(reading=choices)


@pytest.mark.parametrize(("changed", "expected"), [(0, OPEN), (1, NO), (5, NO)])
def test_verdicts_follow_the_number_of_readings_that_contradict_the_paper(
    changed, expected
):
    data = readings(*[PRINTED] * (10 - changed), *[OTHER] * changed)
    for name in ("OWN.sensitivity", "OWN.sensitivity-rise"):
        assert part_verdicts(name, data)[0] == expected
    estimate = particle_claims.percentage_of_choices(
        data, particle_claims.contradicted_numbers
    )
    assert (estimate.value, estimate.count) == (
        pytest.approx(100 * (9 - changed) / 9),
        9,
    )
    if changed:
        assert "choice 9: 2 of 6" in estimate.note
        falling = particle_claims.percentage_of_choices(
            data, particle_claims.falling_circles
        )
        assert "choice 9: 20.0%, 12.0%, 90.0% circles" in falling.note


@pytest.mark.parametrize(("circles", "contradicted"), [(9, ""), (2, "1 of 6")])
def test_a_number_near_the_printed_interval_is_no_contradiction(circles, contradicted):
    data = simulations(
        (0, circles, 56), runs=300
    )  # the paper's own interval begins at 10.2%
    assert particle_claims.contradicted_numbers(data) == contradicted


def test_numbers_that_cannot_be_measured_contradict_nothing():
    assert not particle_claims.contradicted_numbers(PRINTED * float("nan"))
    assert (
        particle_claims.incompatible_spread(PRINTED * float("nan"))
        == "too few simulations"
    )
    assert not particle_claims.falling_circles(simulations((0, 0, 0)))


@pytest.mark.parametrize(("spread", "expected"), [(1, ""), (0.3, "p = 0.000")])
def test_the_spread_is_compared_with_the_printed_one(spread, expected):
    assert (
        particle_claims.incompatible_spread(simulations(spread=spread, runs=300))
        == expected
    )


@pytest.mark.parametrize(
    "failure", [particle_claims.contradicted_numbers, particle_claims.falling_circles]
)
def test_readings_against_the_papers_text_are_shown_and_not_counted(failure):
    against = particle_claims.AGAINST[0]
    data = readings(
        PRINTED, PRINTED, PRINTED, simulations((90, 50, 10), runs=300), choice3=against
    )
    estimate = particle_claims.percentage_of_choices(data, failure)
    assert (estimate.value, estimate.count) == (100, 2)
    assert against in estimate.note
    assert "not counted" in estimate.note
    assert (
        particle_claims.percentage_of_choices(data.isel(reading=[0]), failure).note
        == "there are no choices"
    )


def test_readings_are_different_ensembles():
    needs = particle_claims.ensembles_of_readings({"runs": 4})
    assert (
        len({need.settings for need in needs})
        == len(needs)
        == len(particle_claims.CHANGES) * 3
    )
    assert set(particle_claims.AGAINST) < set(particle_claims.CHANGES)
