"""Intervals of fractions of events that are clustered by run, and of medians."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from analysis.statistics.intervals import clustered_binomial_interval, median_interval


def test_a_share_of_independent_events_has_the_exact_interval():
    matched, total = np.array([1, 0, 1, 1, 0, 1]), np.ones(6, int)
    result = clustered_binomial_interval(matched, total)
    exact = stats.binomtest(4, 6).proportion_ci(method="exact")
    assert_allclose(result, (4 / 6, exact.low, exact.high), rtol=1e-6)
    all_of_them = clustered_binomial_interval(np.array([3, 4]), np.array([3, 4]))
    assert all_of_them.value == all_of_them.high == 1
    assert all_of_them.low < 0.65
    assert clustered_binomial_interval(np.zeros(2, int), np.array([3, 4])).low == 0
    assert np.isnan(
        clustered_binomial_interval(np.zeros(2, int), np.zeros(2, int)).value
    )


def test_the_interval_of_a_median_covers_as_often_as_it_says(generator):
    for count in (6, 15, 100):
        result = [
            median_interval(item) for item in generator.exponential(size=(2000, count))
        ]
        covered = np.mean([item.low <= np.log(2) <= item.high for item in result])
        assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 2000)
        one_less = (
            int(stats.binom.ppf(0.025, count, 0.5)) + 1
        )  # the next narrower one covers too seldom
        assert 1 - 2 * stats.binom.cdf(one_less - 1, count, 0.5) < 0.95
    assert np.isnan(median_interval(np.array([*range(9), np.nan]))).all()
    few = median_interval(np.arange(5.0))
    assert (few.value, np.isnan(few.low), np.isnan(few.high)) == (2, True, True)
    assert np.isnan(median_interval(np.array([])).value)
    assert median_interval(np.arange(6.0)) == (2.5, 0, 5)
    assert median_interval(np.arange(10))[1:] == (
        1,
        8,
    )  # 1 - 2 P(Bin(10, 1/2) <= 1) = .979


def test_clustered_events_have_intervals_over_runs(generator):
    """With spikes of one run alike, intervals over runs hold the true share; those over
    single spikes would not."""
    for runs in (6, 12, 40):
        inside = 0
        for _ in range(200):
            totals = generator.integers(1, 12, runs)
            result = clustered_binomial_interval(
                np.where(generator.random(runs) < 0.6, totals, 0), totals
            )
            inside += result.low <= 0.6 <= result.high
        assert inside / 200 >= 0.9, runs
    assert clustered_binomial_interval(np.zeros(5), np.ones(5)).high == pytest.approx(
        stats.beta.ppf(0.975, 1, 5)
    )
