"""Estimates from samples of runs."""

import sys

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction import estimates, experiment
from analysis.reproduction.experiment import RequiredRuns, Runner
from analysis.statistics.intervals import difference_interval
from dynamics.settings import ParticleSettings
from dynamics.trajectory.diverged import not_diverged


def test_a_median_is_over_runs_that_have_a_value():
    result = estimates.estimate_median(np.array([1.0, np.nan, 3.0, 8.0]), "drops")
    assert (result.interval.value, result.count, result.of) == (3, 3, "drops")
    none = estimates.estimate_median(np.array([np.nan]), "drops")
    assert none.note == "there are no drops"


def test_own_values_and_means_of_others():
    own, others = estimates.own_and_others(
        np.array([[1.0, 4.0, 6.0], [2.0, 3.0, np.nan], [np.nan, np.nan, 5.0]])
    )
    np.testing.assert_equal(own, [1, 3, 5])
    np.testing.assert_equal(others, [5, 2, np.nan])


def test_values_that_do_not_vary_give_no_interval():
    none = np.zeros(100)
    results = [
        estimates.estimate_mean(none),
        estimates.mean_by_seed(none, none == 0, np.arange(100), ""),
        estimates.paired_difference(none + 3, none),
        estimates.independent_difference(none + 1, none),
    ]
    for result in results:
        assert np.isfinite(result.interval.value)
        assert np.isnan(result.interval.low)
    assert results[0].note
    assert estimates.estimate_mean(np.append(none, 1.0)).interval.high > 0


def test_differences_of_independent_runs(generator):
    one, other = generator.standard_normal(50) + 1, generator.standard_normal(40)
    result = estimates.independent_difference(np.append(one, np.nan), other)
    assert (result.interval, result.count) == (difference_interval(one, other), 90)
    assert estimates.independent_difference(one, []).note
    ratio = estimates.paired_ratio(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(ratio.interval, [2, np.nan, np.nan])  # all are equal


def test_differences_of_percentages():
    ones = np.append(np.repeat([1.0, 0.0], [90, 10]), np.nan)
    zeros = np.repeat([1.0, 0.0], [10, 90])
    apart = estimates.difference_of_ones(ones, zeros)
    assert (apart.value, apart.count) == (pytest.approx(80), 200)
    assert 60 < apart.interval.low < 75 < 80 < apart.interval.high < 90
    assert np.isnan(estimates.difference_of_ones([], zeros).value)
    share = estimates.percentage_or_none(90, 100, "runs")
    assert estimates.percentage_of_ones(ones, "runs") == share


def test_kinds_that_share_seeds_are_compared_over_seeds(generator):
    seeds, first, stratum = np.tile(np.arange(20), 2), np.arange(40) >= 20, np.zeros(40)
    values = first + 5 * generator.standard_normal(20)[seeds]
    values += 0.01 * generator.standard_normal(40)
    result = estimates.stratified_difference(
        values, first, ~first, seeds, stratum, "networks"
    )
    assert result.interval.value == pytest.approx(1, abs=0.02)
    assert 0 < result.interval.half < 0.02
    apart = estimates.stratified_difference(
        values, first, ~first, np.arange(40), stratum, "networks"
    )
    assert apart.interval.half > 1
    assert estimates.stratified_difference(
        values, first, first & False, seeds, stratum, "networks"
    ).note


def test_the_mean_by_seed_counts_each_seed_once():
    pooled = estimates.mean_by_seed(
        np.array([1.0, 3.0, 5.0]), np.ones(3, bool), np.array([0, 0, 1]), "circles"
    )
    assert pooled.interval.value == 3.5
    assert (pooled.count, pooled.of) == (2, "seeds that have circles")


def test_kinds_are_compared_within_strata(generator):
    """Where one kind is rare, values are lower; within each stratum the first kind is
    better by 2."""
    strata = np.repeat([0, 1, 2], 200)
    first = generator.random(600) < np.array([0.1, 0.8, 0.0])[strata]
    values = np.array([0.0, 30.0, 99.0])[strata] + 2.0 * first
    values += 0.5 * generator.standard_normal(600)
    result = estimates.stratified_difference(
        values, first, ~first, np.tile(np.arange(200), 3), strata, "networks"
    )
    kinds = [(first & (strata == k), ~first & (strata == k)) for k in (0, 1)]
    apart = [values[one].mean() - values[other].mean() for one, other in kinds]
    weight = [min(one.sum(), other.sum()) for one, other in kinds]
    assert result.interval.value == pytest.approx(np.average(apart, weights=weight))
    assert result.interval.low < 2 < result.interval.high
    assert result.interval.half < 0.3
    assert result.count == 400


def ones(trajectory):
    return {"size": np.ones(trajectory.sizes["run"])}


def test_runs_that_diverged_have_no_value(tmp_path, monkeypatch):
    finite = np.array([True, False, True])
    np.testing.assert_equal(
        experiment.expand_to_runs(np.array([1.0, 2.0]), finite), [1.0, np.nan, 2.0]
    )
    trajectory = xr.Dataset({"last_step": ("run", [10, 5])}, {"step": [0, 10]})
    assert not_diverged(trajectory).tolist() == [True, False]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment, "not_diverged", lambda trajectory: finite)
    needs = [RequiredRuns(ParticleSettings(n=5, fa=fa), 3, 2) for fa in (1.0, 2.0)]
    sizes = experiment.measure_ensembles(
        Runner(sys.stderr), needs, {"size": "norm"}, ones, ("fa", "run")
    )
    np.testing.assert_equal(sizes["size"].values, [[1.0, np.nan, 1.0]] * 2)
    assert sizes["size"].attrs == {"long_name": "norm", "units": "1"}
