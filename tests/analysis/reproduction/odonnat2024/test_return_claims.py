"""How much of the displacement in a spike is undone, on paths that are known."""

import numpy as np
import pytest

from analysis.reproduction.odonnat2024 import return_claims
from analysis.transitions import SeriesEvent
from tests.analysis.reproduction.judging import NO, PARTLY, YES, dataset, part_verdicts


def test_undone_fractions_of_a_path_that_returns_and_of_one_that_goes_on():
    path = np.zeros((12, 2))
    path[:, 1] = np.arange(12)  # at right angles to the spike, but for its beginning
    path[7, 0] = 20.0
    path[8:, 0] = 5.0
    returned = return_claims.undone_fraction(path, 6, 7)
    assert returned == pytest.approx((15 * 20 - 3) / 401)
    assert return_claims.undone_fraction(path, 2, 3) == -3
    spike = SeriesEvent("spike", 6.0, 7.0, 8.0, 0.0, 1.0)
    assert return_claims.returned_fractions(path, spike, 4) == (returned, -3)
    assert np.isnan(return_claims.undone_fraction(path, -1, 3))
    assert np.isnan(return_claims.undone_fraction(path, 9, 10))
    assert np.isnan(return_claims.undone_fraction(0 * path, 2, 3))


@pytest.mark.parametrize(
    ("returned", "expected"), [(0.8, [YES, YES]), (0.2, [PARTLY, YES]), (-1, [NO, NO])]
)
def test_verdicts_on_returning_weights(returned, expected, generator):
    noise = 0.05 * generator.standard_normal(60)
    evidence = dataset("run", returned=returned + noise, ordinary=-0.2 + 0 * noise)
    assert part_verdicts("VC.appA.1.where-it-was", evidence) == expected
