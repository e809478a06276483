"""Rank statistics: closed forms, brute force, and how often the intervals hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from analysis.statistics.ranks import (
    mann_whitney_p_value,
    rank_biserial,
    rank_biserial_profile,
    rank_correlation,
)

values = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(first=values, second=values)
def test_the_rank_biserial_correlation_counts_pairs(first, second):
    pairs = [np.sign(a - b) for a in first for b in second]
    result = rank_biserial(first, second)
    assert result.value == pytest.approx(np.mean(pairs))
    assert -1 <= result.low <= result.value <= result.high <= 1
    other = rank_biserial(second, first)
    assert_allclose(
        (other.value, other.low, other.high),
        (-result.value, -result.high, -result.low),
        atol=1e-9,
    )


def test_its_interval_solves_its_equation_and_keeps_its_width():
    result = rank_biserial(np.arange(10) + 4.5, np.arange(12))
    theta = (result.value + 1) / 2
    for bound in (result.low, result.high):
        t = (bound + 1) / 2
        variance = t * (1 - t) * (1 + 10 * (1 - t) / (2 - t) + 10 * t / (1 + t)) / 120
        quantile = stats.t.ppf(0.975, 20)
        assert abs(theta - t) == pytest.approx(quantile * np.sqrt(variance), rel=1e-5)
    apart = rank_biserial([5, 6, 7], [1, 2])
    assert (apart.value, apart.high) == (1, 1)
    assert -0.7 < apart.low < 0.5
    assert np.isnan(rank_biserial([], [1]).value)
    assert np.isnan(mann_whitney_p_value([], [1]))


def test_rank_correlation(generator):
    x = generator.standard_normal(30)
    y = x + generator.standard_normal(30)
    result = rank_correlation(x, y)
    assert result.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert result.low < result.value < result.high
    z = np.arctanh(result)
    assert_allclose(
        z[2] - z[0], 1.959964 * np.sqrt((1 + result.value**2 / 2) / 27), rtol=1e-5
    )
    for sign in (1, -1):
        same = rank_correlation(x, sign * np.exp(x))
        low, high = sorted(sign * np.array([same.low, same.high]))
        assert 0.99 < low < high == 1
        assert same.value == pytest.approx(sign)
    assert np.isnan(rank_correlation(x, np.zeros(30)).value)
    assert np.isnan(rank_correlation([1, 2, 3], [1, 3, 2]).low)


with_nan = st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0, np.inf, np.nan]), max_size=8)


@given(first=with_nan, second=with_nan)
def test_nan_is_left_out(first, second):
    known = [[x for x in values if not np.isnan(x)] for values in (first, second)]
    assert_array_equal(rank_biserial(first, second), rank_biserial(*known))
    assert_array_equal(
        mann_whitney_p_value(first, second), mann_whitney_p_value(*known)
    )
    pairs = [p for p in zip(first, second, strict=False) if np.isfinite(p).all()]
    count = min(len(first), len(second))
    both = [np.array(first[:count]), np.array(second[:count])]
    for values in both:
        values[np.isinf(values)] = np.nan
    expected = rank_correlation(*np.array(pairs).reshape(-1, 2).T)
    assert_array_equal(rank_correlation(*both), expected)


def test_a_position_with_nan_changes_no_other(generator):
    """Before, it made the effects at all positions significant."""
    curves = generator.standard_normal((20, 6))
    first = np.arange(20) < 8
    bare = rank_biserial_profile(
        np.delete(curves, 2, axis=1), first, np.random.default_rng(1)
    )
    curves[4, 2] = np.nan
    result = rank_biserial_profile(curves, first, np.random.default_rng(1))
    assert_array_equal(np.isnan(result), np.arange(6) == np.full((2, 1), 2))
    assert_array_equal(np.delete(result.p_value, 2), bare.p_value)


def test_a_profile_finds_what_was_planted_and_little_else(generator):
    first = np.arange(40) < 15
    curves = generator.standard_normal((40, 30))
    curves[first, 10:15] += 2
    result = rank_biserial_profile(curves, first, generator)
    assert (result.p_value[10:15] < 0.01).all()
    assert (np.delete(result.p_value, range(10, 15)) > 0.05).all()
    for place in (0, 12):
        expected = rank_biserial(curves[first, place], curves[~first, place]).value
        assert result.effect[place] == pytest.approx(expected)
    assert np.isnan(
        rank_biserial_profile(curves, np.zeros(40, bool), generator).p_value
    ).all()


def test_where_nothing_is_planted_a_profile_finds_something_one_time_in_twenty(
    generator,
):
    """Alike at all places or not, as neighbouring thresholds are."""
    first, result = np.arange(24) < 9, 0
    for _ in range(150):
        walks = generator.standard_normal((24, 20)).cumsum(axis=1)
        result += rank_biserial_profile(walks, first, generator).p_value.min() < 0.05
    assert stats.binomtest(result, 150, 0.05).pvalue > 0.01
