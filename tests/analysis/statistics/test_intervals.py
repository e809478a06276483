"""Intervals against published values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from analysis.output.tables import format_percent, format_plus_minus
from analysis.statistics.intervals import (
    binomial_interval,
    correlation_interval,
    difference_interval,
    mean_interval,
)
from analysis.statistics.resampling import mean_between_runs, mean_distance_within


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(0, 0.0, 0.0362), (17, 0.1023, 0.2582), (56, 0.4572, 0.6592), (100, 0.9638, 1.0)],
)
def test_clopper_pearson_of_a_hundred(count, low, high):
    assert binomial_interval(count, 100) == pytest.approx(
        (count / 100, low, high), abs=1e-4
    )


def test_t_interval_of_a_mean():
    values = np.array([1.0, 2.0, 4.0])
    low, high = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx((values.mean(), low, high))


def test_the_interval_of_a_difference_covers_as_often_as_it_says(generator):
    covered = 0
    for _ in range(400):
        result = difference_interval(
            generator.normal(1, 1, 12), generator.normal(0.4, 3, 25)
        )
        covered += result.low <= 0.6 <= result.high
    assert 0.92 < covered / 400 < 0.98
    assert np.isnan(difference_interval(np.ones(3), np.zeros(4)).high)
    assert np.isnan(difference_interval(np.ones(1), np.zeros(4)).low)


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=30),
    st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (0.0, 100.0)]),
)
def test_means_of_values_between_limits_have_intervals_of_some_width(values, limits):
    """Also if all values are equal, or at a limit, and never beyond the limits."""
    low, high = limits
    result = mean_interval(low + (high - low) * np.array(values), limits=limits)
    assert low <= result.low <= result.value <= result.high <= high
    assert result.low < result.high
    difference = difference_interval(np.array(values), np.array(values[::-1]), (0, 1))
    assert difference.low < 0 < difference.high


@given(st.integers(0, 12), st.integers(0, 12))
def test_the_mean_of_zeros_and_ones_has_the_interval_of_a_fraction(ones, zeros):
    if ones + zeros < 2:
        return
    values = np.repeat([1.0, 0.0], [ones, zeros])
    expected = binomial_interval(ones, ones + zeros)
    assert mean_interval(values, limits=(0, 1)) == pytest.approx(expected, abs=1e-9)


def test_values_of_small_variance_have_nearly_the_t_interval(generator):
    values = generator.normal(0.8, 0.001, 200)
    bounded, free = mean_interval(values, limits=(0, 1)), mean_interval(values)
    assert bounded == pytest.approx(free, abs=5e-6)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30))
def test_means_of_counts_have_intervals_of_some_width(counts):
    result = mean_interval(np.array(counts), discrete=True, limits=(0, np.inf))
    assert 0 <= result.low <= result.value < result.high


def test_values_that_are_all_the_same_are_no_certainty():
    same, varied = np.full(50, 3.0), np.append(np.full(49, 3.0), 9.0)
    assert mean_interval(same).value == 3
    for interval in (
        mean_interval(same),
        mean_interval(np.full(3, 0.1)),
        difference_interval(same, same + 1),
        correlation_interval(np.arange(5), np.arange(5)),
    ):
        assert np.isnan([interval.low, interval.high]).all()
    assert mean_interval(varied, discrete=True) == mean_interval(varied)
    assert np.isnan(mean_interval(np.array([0.5]), limits=(0, 1)).low)


def test_what_has_no_interval_prints_as_none():
    assert format_plus_minus(mean_interval(np.array([]))) == "-"
    assert format_plus_minus(mean_interval(np.array([3.0]))) == "3.0"
    assert format_plus_minus(mean_interval(np.array([3.0, 3.0]))) == "3.0"
    assert (
        format_plus_minus(mean_interval(np.array([1.0, 1.0]), limits=(0, 1)))
        == "1.0 [0.2, 1.0]"
    )
    assert format_percent(binomial_interval(1, 2)).startswith("50.0 [")
    assert format_percent(binomial_interval(0, 0)) == "-"


@pytest.mark.parametrize("paired", [False, True])
def test_intervals_of_distances_cover_the_truth(paired):
    """Distances share runs; treated as independent, the intervals within would cover
    the mean in 65 of 100."""
    generator = np.random.default_rng(3)
    hits = {"within": 0, "between": 0}
    truth = 4 / np.sqrt(np.pi) / 2  # mean distance of two standard normal numbers
    for _ in range(300):
        a, b = generator.normal(size=(2, 25))
        within, between = (
            mean_distance_within(abs(a[:, None] - a)),
            mean_between_runs(abs(a[:, None] - b), paired),
        )
        hits["within"] += within.low < truth < within.high
        hits["between"] += between.low < truth < between.high
    assert 0.88 < hits["within"] / 300 <= 0.99
    assert 0.90 < hits["between"] / 300 <= 0.99


def test_means_of_distances_are_those_of_plain_loops():
    x = np.random.default_rng(0).normal(size=7)
    distances = abs(x[:, None] - x)
    expected = np.mean([abs(x[i] - x[j]) for i in range(7) for j in range(7) if i != j])
    assert_allclose(mean_distance_within(distances).value, expected)
    assert_allclose(mean_between_runs(distances, paired=True).value, expected)
    assert_allclose(mean_between_runs(distances).value, distances.mean())
    for few in (np.zeros((0, 0)), np.zeros((1, 1))):
        assert np.isnan(mean_distance_within(few).value)
    assert np.isnan(mean_between_runs(np.zeros((0, 3))).value)
    assert np.isnan(mean_between_runs(np.zeros((1, 1)), paired=True).value)


def test_a_correlation_has_its_fisher_interval():
    x = np.random.default_rng(0).normal(size=30)
    y = x + np.random.default_rng(1).normal(size=30)
    result = correlation_interval(x, y)
    z, half = np.arctanh(np.corrcoef(x, y)[0, 1]), 1.959964 / np.sqrt(27)
    assert_allclose(
        result, [np.tanh(z), np.tanh(z - half), np.tanh(z + half)], rtol=1e-6
    )
    assert np.isnan(correlation_interval(x, np.ones(30)).value)
    assert np.isnan(correlation_interval(x[:1], y[:1]).value)
    assert np.isnan(correlation_interval(x[:3], y[:3]).low)
