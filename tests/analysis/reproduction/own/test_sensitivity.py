"""Estimates and verdicts on claims about the open choices of table 2, for made evidence."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.musat2024 import particles
from analysis.reproduction.own import sensitivity
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction import judging

PRINTED, OTHER = (0.01, 0.17, 0.56), (0.2, 0.12, 0.9)
"""Fractions of circles by f_a."""


def evidence(*circles) -> xr.Dataset:
    """Fractions of circles of 300 runs by reading and f_a; imperfections are as printed."""
    circle = (np.arange(300) < 300 * np.array(circles)[..., None]).astype(float)
    mean = np.array([float(row["imperfections"].split()[0]) for row in particles.PRINTED.values()])[:, None]
    spread = np.array([particles.printed_spread(fa).interval.value for fa in particles.FAS])[:, None]
    imperfections = np.broadcast_to(mean + spread * np.where(np.arange(300) % 2, 1, -1), circle.shape)
    dims, names = ("reading", "fa", "run"), ["defaults", *(f"choice {k}" for k in range(1, len(circles)))]
    return xr.Dataset(
        {"circle": (dims, circle), "imperfections": (dims, imperfections)},
        {"reading": names, "fa": list(particles.FAS)},
    )


@pytest.mark.parametrize(("changed", "expected"), [(0, Verdict.REPRODUCED), (1, Verdict.PARTLY), (5, Verdict.NOT)])
def test_readings_are_judged_by_how_many_contradict_the_paper(changed, expected):
    found = evidence(*[PRINTED] * (10 - changed), *[OTHER] * changed)
    verdicts = [judging.part_verdicts(name, found)[:2] for name in ("OWN.sensitivity", "OWN.sensitivity-rise")]
    for each in verdicts:
        assert judging.combine_verdicts(each) == expected
    estimate = sensitivity.percentage_of_readings(found, sensitivity.contradicted_numbers)
    assert estimate.interval.value == pytest.approx(100 * (9 - changed) / 9)
    assert estimate.count == 9
    if changed:
        assert "choice 9: 2 of 6 numbers" in estimate.note
        falling = sensitivity.percentage_of_readings(found, sensitivity.falling_circles)
        assert "choice 9: 20.0%, 12.0%, 90.0% circles" in falling.note


@pytest.mark.parametrize(("circles", "contradicted"), [(0.09, ""), (0.02, "1 of 6 numbers")])
def test_a_number_near_the_papers_interval_is_no_contradiction(circles, contradicted):
    found = evidence((0.0, circles, 0.56)).isel(reading=0)  # the paper's own interval begins at 10.2%
    assert sensitivity.contradicted_numbers(found) == contradicted


def test_numbers_that_cannot_be_measured_contradict_nothing():
    found = evidence(PRINTED).isel(reading=0)
    assert not sensitivity.contradicted_numbers(found * np.nan)
    assert sensitivity.incompatible_spread(found * np.nan) == "too few simulations"
    assert not sensitivity.falling_circles(evidence((0, 0, 0)).isel(reading=0))


def test_the_spread_is_compared_with_the_printed_one():
    found = evidence(PRINTED).isel(reading=0)
    assert sensitivity.incompatible_spread(found) == ""
    narrow = found.assign(imperfections=found["imperfections"].mean("run") + 0.3 * (
        found["imperfections"] - found["imperfections"].mean("run")))  # fmt: skip
    assert sensitivity.incompatible_spread(narrow).endswith("% of samples")


def test_readings_against_the_papers_text_are_shown_and_not_counted():
    found = evidence(PRINTED, PRINTED, PRINTED, (0.9, 0.5, 0.1))
    found = found.assign_coords(reading=[*found["reading"].values[:3], sensitivity.AGAINST[0]])
    for failure in (sensitivity.contradicted_numbers, sensitivity.falling_circles):
        estimate = sensitivity.percentage_of_readings(found, failure)
        assert (estimate.interval.value, estimate.count) == (100, 2)
        assert sensitivity.AGAINST[0] in estimate.note
        assert "not counted" in estimate.note
    assert sensitivity.percentage_of_readings(found.isel(reading=[0]), failure).note == "there are no readings"


def test_readings_are_different_ensembles():
    needs = sensitivity.ensembles({"runs": 4})
    assert len({need.settings for need in needs}) == len(needs) == len(sensitivity.CHANGES) * 3
    assert set(sensitivity.AGAINST) < set(sensitivity.CHANGES)
