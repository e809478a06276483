"""Kaplan-Meier and the log-rank test against hand counts and simulation."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from analysis.statistics.survival import kaplan_meier, logrank_p_value


def test_by_hand():
    """Five runs, two of them censored: the share waiting falls by 1/5, 1/4, and after
    one is censored by 1/2."""
    result = kaplan_meier(np.array([1.0, 2, 3, 4, 5]), np.array([1, 1, 0, 1, 0], bool))
    assert (result.runs, result.events) == (5, 3)
    assert result.fraction == pytest.approx([1, 0.8, 0.6, 0.6, 0.3, 0.3])
    assert result.median.value == 4
    assert ((result.low <= result.fraction) & (result.fraction <= result.high)).all()


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=40))
def test_the_median_is_exact(runs):
    """With times in ties and censoring, the median is where the exact fraction is at
    most one half, also where its rounded product is above."""
    times, observed = (np.array(column) for column in zip(*runs, strict=True))
    fraction, median = Fraction(1), np.inf
    for time in np.unique(times):
        at_risk = int((times >= time).sum())
        ended = int(((times == time) & observed).sum())
        fraction *= Fraction(at_risk - ended, at_risk)
        if fraction <= Fraction(1, 2):
            median = time
            break
    assert kaplan_meier(times, observed).median.value == median


def test_the_median_of_half_of_the_runs():
    """Half of the runs have escaped at step 12; the others do at 62 or never."""
    times = np.r_[np.arange(1, 13), 62, np.full(11, 5000)]
    observed = np.arange(24) < 13
    assert kaplan_meier(times, observed).median.value == 12


def test_where_nothing_or_all_happened():
    never = kaplan_meier(np.array([3.0, 3]), np.zeros(2, bool))
    assert never.median.value == np.inf
    assert (never.fraction == 1).all()
    always = kaplan_meier(np.array([1.0, 2, 3]), np.ones(3, bool))
    assert always.fraction[-1] == 0
    assert np.isfinite(always.low).all()
    assert always.high[-1] > 0.5
    assert np.isnan(always.median.low)


def test_bounds_without_an_event_and_without_a_waiting_run_are_binomial():
    """One of five runs is censored before the others have their events."""
    result = kaplan_meier(np.arange(1.0, 6), np.array([0, 1, 1, 1, 1], bool))
    assert result.fraction.tolist() == [1, 1, 0.75, 0.5, 0.25, 0]
    for place, waiting in ((0, 5), (1, 4)):
        all_wait = binomtest(waiting, waiting).proportion_ci()
        assert result.low[place] == pytest.approx(all_wait.low)
    assert result.high[-1] == pytest.approx(binomtest(0, 4).proportion_ci().high)


def test_the_interval_covers_the_median(generator):
    """Exponential times, a third of them censored independently: 95% of intervals hold
    the true median, also of few."""
    for runs in (9, 15, 60):
        inside = count = 0
        for _ in range(500):
            times, limit = (
                generator.exponential(1, runs),
                generator.exponential(2, runs),
            )
            result = kaplan_meier(np.minimum(times, limit), times <= limit).median
            if not np.isnan(result.low):
                inside, count = (
                    inside + (result.low <= np.log(2) <= result.high),
                    count + 1,
                )
        assert count > 200
        assert inside / count > 0.91, runs


def test_logrank(generator):
    """Uniform p-values between samples of one kind, small ones between different; none
    without an event."""
    same = []
    for _ in range(300):
        first, second = generator.exponential(1, (2, 40))
        same.append(logrank_p_value((first, first < 2), (second, second < 2)))
    assert 0.02 <= np.mean(np.array(same) < 0.05) <= 0.09
    slow, fast = generator.exponential(3, 100), generator.exponential(1, 100)
    assert logrank_p_value((fast, fast < 4), (slow, slow < 4)) < 1e-4
    assert np.isnan(
        logrank_p_value(
            (np.ones(3), np.zeros(3, bool)), (np.ones(3), np.zeros(3, bool))
        )
    )


@pytest.mark.parametrize(
    ("times", "observed"),
    [
        ([], []),
        ([1.0], [True, False]),
        ([-1.0], [True]),
        ([np.nan], [True]),
        ([[1.0]], [[True]]),
    ],
)
def test_what_is_no_sample_is_refused(times, observed):
    with pytest.raises(ValueError, match="times: found"):
        kaplan_meier(np.array(times), np.array(observed, bool))
