"""Logistic fits of transitions, and powers of a size, on data whose parameters are
known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from analysis.statistics import Interval, fit_power, fit_transition, logistic_fraction

VALUES = np.array([0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0])


def test_the_width_goes_from_a_tenth_to_nine_tenths():
    low, high = 1.5 * np.exp([-0.4, 0.4])
    assert_allclose(
        logistic_fraction(np.array([low, 1.5, high]), 1.5, 0.8), [0.1, 0.5, 0.9]
    )


def test_the_fit_is_the_one_of_largest_likelihood_on_a_grid():
    counts, totals = np.array([0, 3, 17, 39, 47, 69, 93]), np.full(7, 100)
    fit = fit_transition(VALUES, counts, totals)
    middles, widths = np.linspace(1.3, 1.8, 101), np.linspace(0.8, 1.6, 101)
    fractions = np.array(
        [[logistic_fraction(VALUES, m, w) for w in widths] for m in middles]
    )
    likelihood = stats.binom.logpmf(counts, totals, fractions).sum(axis=-1)
    for result, values, profile in zip(
        fit,
        (middles, widths),
        (np.max(likelihood, 1), np.max(likelihood, 0)),
        strict=True,
    ):
        inside = values[profile > profile.max() - stats.chi2.ppf(0.95, 1) / 2]
        spacing = values[1] - values[0]
        assert_allclose(
            result,
            [values[profile.argmax()], inside[0], inside[-1]],
            atol=1.5 * spacing,
        )


def test_a_step_has_no_width_and_a_midpoint_between_its_values():
    fit = fit_transition(VALUES, np.array([0, 0, 0, 50, 50, 50, 50]), np.full(7, 50))
    assert (fit.width.value, fit.width.low) == (0, 0)
    assert 0 < fit.width.high < 0.3
    assert 1.0 < fit.midpoint.value < 1.25


@pytest.mark.parametrize("counts", [[0] * 7, [5] * 7, [0, 0, 0, 3, 0, 0, 0]])
def test_data_without_a_transition_have_no_midpoint(counts):
    totals = np.where(np.array(counts) == 3, 5, 0) if 3 in counts else np.full(7, 5)
    assert np.isnan(fit_transition(VALUES, np.array(counts), totals)).all()


def test_a_bound_that_few_runs_do_not_determine_is_infinite():
    fit = fit_transition(VALUES[:2], np.array([8, 11]), np.array([20, 20]))
    assert fit.midpoint[1:] == (0, np.inf)
    assert fit.width.high == np.inf


def test_exponents_of_powers_with_scatter_lie_in_their_intervals(generator):
    sizes, inside = np.array([7, 13, 17, 23, 43, 59, 113]), 0
    for _ in range(100):
        middles = 2 * sizes**-0.3 * np.exp(0.1 * generator.standard_normal(7))
        estimates = [
            Interval(middle, middle * np.exp(-0.196), middle * np.exp(0.196))
            for middle in middles
        ]
        power = fit_power(sizes, estimates)
        inside += power.low < -0.3 < power.high
    assert inside >= 88


def test_estimates_without_both_bounds_do_not_count():
    exact = [Interval(n**2.0, 0.9 * n**2, 1.1 * n**2) for n in (1, 2, 4)]
    open_ended = [
        Interval(7.0, 0.0, 9.0),
        Interval(7.0, 5.0, np.inf),
        Interval(*[np.nan] * 3),
    ]
    result = fit_power(np.array([1, 2, 4, 8, 16, 32]), exact + open_ended)
    assert result.value == pytest.approx(2)
    assert (
        result.high - result.low > 0.1
    )  # from the intervals, although the points lie on a line
    assert np.isnan(fit_power(np.array([1, 2]), exact[:2])).all()
