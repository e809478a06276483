"""Estimates from samples of runs."""

import numpy as np
import pytest

from analysis.reproduction.verification import samples


def test_effect_sizes_have_known_values():
    assert samples.cohens_d(np.array([1.0, 3.0]), np.array([0.0, 2.0])) == pytest.approx(1 / np.sqrt(2))
    assert np.isnan(samples.cohens_d(np.ones(3), np.ones(3)))
    assert np.isnan(samples.cohens_d(np.ones(1), np.ones(3)))


def test_a_median_is_over_runs_that_have_a_value():
    found = samples.estimate_median(np.array([1.0, np.nan, 3.0, 8.0]), "runs with a drop")
    assert (found.interval.value, found.count, found.of) == (3, 3, "runs with a drop")
    assert samples.estimate_median(np.array([np.nan]), "runs with a drop").note == "there are no runs with a drop"


def test_runs_are_compared_with_themselves_and_with_others():
    own, others = samples.own_and_others(np.array([[1.0, 4.0, 6.0], [2.0, 3.0, np.nan], [np.nan, np.nan, 5.0]]))
    np.testing.assert_equal(own, [1, 3, 5])
    np.testing.assert_equal(others, [5, 2, np.nan])
