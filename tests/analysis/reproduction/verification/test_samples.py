"""Estimates from samples of runs."""

import numpy as np
import pytest
from analysis.reproduction.rule import Above, Verdict, judge_estimate
from analysis.reproduction.verification import samples

from analysis.statistics.intervals import difference_interval


def test_effect_sizes_have_known_values():
    assert samples.cohens_d(
        np.array([1.0, 3.0]), np.array([0.0, 2.0])
    ) == pytest.approx(1 / np.sqrt(2))
    assert np.isnan(samples.cohens_d(np.ones(3), np.ones(3)))
    assert np.isnan(samples.cohens_d(np.ones(1), np.ones(3)))


def test_a_median_is_over_runs_that_have_a_value():
    result = samples.estimate_median(
        np.array([1.0, np.nan, 3.0, 8.0]), "runs with a drop"
    )
    assert (result.interval.value, result.count, result.of) == (
        3,
        3,
        "runs with a drop",
    )
    assert (
        samples.estimate_median(np.array([np.nan]), "runs with a drop").note
        == "there are no runs with a drop"
    )


def test_own_values_and_means_of_others():
    own, others = samples.own_and_others(
        np.array([[1.0, 4.0, 6.0], [2.0, 3.0, np.nan], [np.nan, np.nan, 5.0]])
    )
    np.testing.assert_equal(own, [1, 3, 5])
    np.testing.assert_equal(others, [5, 2, np.nan])


def test_values_that_do_not_vary_give_no_verdict():
    none = np.zeros(100)
    estimates = [
        samples.estimate_mean(none),
        samples.mean_by_seed(none, none == 0, np.arange(100), ""),
    ]
    estimates += [
        samples.paired_difference(none + 3, none),
        samples.independent_difference(none + 1, none),
    ]
    for estimate in estimates:
        assert np.isfinite(estimate.interval.value)
        assert np.isnan(estimate.interval.low)
        assert [
            judge_estimate(Above(bound), estimate).verdict for bound in (-1, 9)
        ] == [Verdict.UNDECIDED] * 2
    assert samples.estimate_mean(none).note
    assert samples.estimate_mean(np.append(none, 1.0)).interval.high > 0


def test_differences_of_independent_runs(generator):
    one, other = generator.standard_normal(50) + 1, generator.standard_normal(40)
    result = samples.independent_difference(np.append(one, np.nan), other)
    assert (result.interval, result.count) == (difference_interval(one, other), 90)
    assert result.effect == samples.cohens_d(one, other)
    assert samples.independent_difference(one, []).note
    ratio = samples.paired_ratio(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(ratio.interval, [2, np.nan, np.nan])  # all are equal


def test_differences_of_percentages():
    ones = np.append(np.repeat([1.0, 0.0], [90, 10]), np.nan)
    zeros = np.repeat([1.0, 0.0], [10, 90])
    apart = samples.difference_of_ones(ones, zeros)
    assert (apart.value, apart.count) == (pytest.approx(80), 200)
    assert 60 < apart.interval.low < 75 < 80 < apart.interval.high < 90
    assert apart.effect == pytest.approx(
        2 * np.arcsin(np.sqrt(0.9)) - 2 * np.arcsin(np.sqrt(0.1))
    )
    assert np.isnan(samples.difference_of_ones([], zeros).value)
    share = samples.percentage_or_none(90, 100, "runs")
    assert samples.percentage_of_ones(ones, "runs") == share


def test_kinds_that_share_seeds_are_compared_over_seeds(generator):
    seeds, first, stratum = np.tile(np.arange(20), 2), np.arange(40) >= 20, np.zeros(40)
    values = (
        first
        + 5 * generator.standard_normal(20)[seeds]
        + 0.01 * generator.standard_normal(40)
    )
    result = samples.stratified_difference(
        values, first, ~first, seeds, stratum, "networks"
    )
    assert result.interval.value == pytest.approx(1, abs=0.02)
    assert 0 < result.interval.half < 0.02
    assert (
        samples.stratified_difference(
            values, first, ~first, np.arange(40), stratum, "networks"
        ).interval.half
        > 1
    )
    assert samples.stratified_difference(
        values, first, first & False, seeds, stratum, "networks"
    ).note


def test_the_mean_by_seed_counts_each_seed_once():
    pooled = samples.mean_by_seed(
        np.array([1.0, 3.0, 5.0]), np.ones(3, bool), np.array([0, 0, 1]), "circles"
    )
    assert pooled.interval.value == 3.5
    assert (pooled.count, pooled.of) == (2, "seeds that have circles")


def test_kinds_are_compared_within_strata(generator):
    """Where one kind is rare, values are lower; within each stratum the first kind is
    better by 2."""
    strata = np.repeat([0, 1, 2], 200)
    first = generator.random(600) < np.array([0.1, 0.8, 0.0])[strata]
    values = (
        np.array([0.0, 30.0, 99.0])[strata]
        + 2.0 * first
        + 0.5 * generator.standard_normal(600)
    )
    result = samples.stratified_difference(
        values, first, ~first, np.tile(np.arange(200), 3), strata, "networks"
    )
    apart = [
        values[first & (strata == k)].mean() - values[~first & (strata == k)].mean()
        for k in (0, 1)
    ]
    weight = [
        min((first & (strata == k)).sum(), (~first & (strata == k)).sum())
        for k in (0, 1)
    ]
    assert result.interval.value == pytest.approx(np.average(apart, weights=weight))
    assert result.interval.low < 2 < result.interval.high
    assert result.interval.half < 0.3
    assert (result.count, result.effect) == (400, pytest.approx(4, abs=0.6))
