"""Jackknife intervals against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from analysis.statistics.intervals import mean_interval
from analysis.statistics.resampling import (
    jackknife_groups,
    jackknife_runs,
    leave_one_out_interval,
    mean_between_runs,
)


def test_the_jackknife_of_a_mean_is_its_t_interval(generator):
    values = generator.standard_normal(30)
    for result in (
        jackknife_groups(lambda kept: values[kept].mean(), np.arange(30)),
        jackknife_runs(lambda runs: float(values[runs].mean()), 30),
    ):
        assert_allclose(result, mean_interval(values))
    assert np.isnan(jackknife_runs(lambda runs: 1.0, 2).low)


def test_the_jackknife_leaves_out_whole_groups(generator):
    means = generator.standard_normal(12)
    values, groups = np.repeat(means, 5), np.repeat(np.arange(12), 5)
    assert_allclose(
        jackknife_groups(lambda kept: values[kept].mean(), groups), mean_interval(means)
    )
    assert math.isnan(jackknife_groups(lambda kept: 1.0, np.array([0, 0, 1])).low)


def test_the_jackknife_over_two_samples_is_welchs_error(generator):
    one, other = generator.standard_normal(12), 3 * generator.standard_normal(30)
    without = [
        [np.delete(one, k).mean() - other.mean() for k in range(12)],
        [one.mean() - np.delete(other, k).mean() for k in range(30)],
    ]
    result = leave_one_out_interval(
        one.mean() - other.mean(), [np.array(item) for item in without]
    )
    error = math.sqrt(one.var(ddof=1) / 12 + other.var(ddof=1) / 30)
    assert result.half == pytest.approx(stats.t.ppf(0.975, 11) * error)


def test_a_statistic_that_does_not_vary_has_no_interval():
    none = np.zeros(100)
    result = jackknife_runs(lambda runs: float(none[runs].mean()), 100)
    assert result.value == 0
    assert math.isnan(result.low)
    assert math.isnan(jackknife_groups(lambda kept: 0.1 + 0.2, np.arange(50)).high)


@given(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
def test_partners_are_left_out_whatever_runs_have_diverged(rows, columns):
    """Runs of either side without distances are left out after their partners."""
    distances = np.random.default_rng(0).random((6, 6))
    distances[list(rows)] = np.nan
    distances[:, list(columns)] = np.nan
    others = np.where(np.eye(6) > 0, np.nan, distances)
    expected = np.nanmean(others) if np.isfinite(others).any() else np.nan
    result = mean_between_runs(distances, paired=True).value
    assert result == pytest.approx(expected, nan_ok=True)
