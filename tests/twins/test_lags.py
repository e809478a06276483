"""The lagged correlations of docs/analyses/overview.md in plain loops."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.transitions import lagged_correlation
from tests.twins import intervals
from tests.twins.intervals import equal, spearman


def mean_at_lag(x, y, lag):
    """Mean in Fisher's z over runs, with its t interval, and the number of runs in
    which neither series is constant."""
    z = []
    for a, b in zip(x, y, strict=True):
        n = len(a)
        pairs = [(a[t], b[t + lag]) for t in range(n) if 0 <= t + lag < n]
        r = spearman(*map(np.array, zip(*pairs, strict=True)))
        if not math.isnan(r):
            z.append(math.atanh(max(-1.0, min(1.0, r))))
    value, low, high = intervals.mean(z)
    return math.tanh(value), math.tanh(low), math.tanh(high), len(z)


@settings(max_examples=4)
@given(st.integers(2, 5), st.integers(15, 24), st.integers(0, 999), st.booleans())
def test_lagged_correlations(runs, frames, seed, constant):
    generator = np.random.default_rng(seed)
    x, y = generator.integers(0, 9, (2, runs, frames)).astype(float)
    if constant:
        x[0] = 2.0
    result = lagged_correlation(x, y)
    most = max(abs(int(lag)) for lag in result.lags)
    assert most == min(10, frames // 5)
    rows = {}
    for lag, ours, number in zip(result.lags, result.by_lag, result.runs, strict=True):
        rows[lag] = mean_at_lag(x, y, int(lag))
        equal([ours.value, ours.low, ours.high, number], rows[lag])
    largest = [
        max(abs(mean_at_lag(x, np.roll(y, -k, axis=0), int(lag))[0]) for lag in rows)
        for k in range(runs)
    ]
    exceed = sum(v >= largest[0] - 1e-12 for v in largest)
    equal(result.p_value, exceed / runs)
    equal(result.chance, np.quantile(largest[1:], 0.95))
