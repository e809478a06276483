"""Verdicts on claims about table 2, for made evidence."""

import numpy as np
import pytest

from analysis.reproduction.musat2024 import particle_claims
from tests.analysis.reproduction.judging import NO, PARTLY, YES, part_verdicts
from tests.analysis.reproduction.musat2024.networks_evidence import (
    PRINTED_CIRCLES,
    simulations,
)


@pytest.mark.parametrize("fa", particle_claims.FAS)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [YES, YES, YES]),
        ({"circles": PRINTED_CIRCLES + 30}, [NO, YES, YES]),
        ({"imperfections": 15}, [YES, NO, YES]),
        ({"spread": 0.5}, [YES, YES, NO]),
    ],
)
def test_rows_are_compared_with_the_printed_ones(fa, changes, expected):
    assert part_verdicts(f"CA.table2.fa{fa:g}", simulations(**changes)) == expected


def test_a_small_difference_from_a_printed_mean_is_partly_reproduced():
    assert part_verdicts("CA.table2.fa0.5", simulations(imperfections=4.4)) == [
        YES,
        PARTLY,
        YES,
    ]


def test_the_printed_half_width_gives_a_standard_deviation():
    printed = particle_claims.printed_spread(2.0)
    assert printed.interval.value == pytest.approx(
        10.1 * np.sqrt(44) / 2.0167, rel=1e-4
    )  # t of 43 degrees
    assert np.isnan(printed.interval.low)
    assert printed.runs == 44


def test_mean_and_spread_are_compared_together():
    like, narrow = (simulations(spread=spread) for spread in (1.0, 0.6))
    for data, low, high in ((like, 0.5, 1), (narrow, 0, 0.05)):
        assert (
            low
            <= particle_claims.probability_of_printed(
                particle_claims.imperfections_of_grids(data, 2.0), 2.0
            )
            <= high
        )
    assert "p = 0." in particle_claims.imperfection_spread(like, 2.0).note
    assert (
        particle_claims.imperfection_spread(like.isel(run=slice(-1, None)), 2.0).note
        == "too few simulations"
    )


def test_samples_of_our_distribution_are_seldom_far_from_it(generator, monkeypatch):
    """Numbers "printed" of 44 simulations drawn from ours have p below 0.1 in about one
    of ten cases."""
    ours = generator.gamma(2.0, 18.0, 400)
    probabilities = []
    for drawn in generator.choice(ours, (40, 44)):
        half = 2.0167 * drawn.std(ddof=1) / np.sqrt(44)
        printed = {"circles": 56, "imperfections": f"{drawn.mean():.1f} ± {half:.1f}"}
        monkeypatch.setitem(particle_claims.PRINTED, 2.0, printed)
        probabilities.append(particle_claims.probability_of_printed(ours, 2.0))
    assert 0 <= np.mean(np.array(probabilities) < 0.1) <= 0.25
    assert 0.3 < np.mean(probabilities) < 0.7
