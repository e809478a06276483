"""The intervals of docs/guides/intervals.md: (value, low, high), NaN without bounds."""

import math

import numpy as np
from scipy import stats

NONE = (math.nan, math.nan, math.nan)


def fraction(successes, cases):
    """Clopper and Pearson."""
    if cases == 0:
        return NONE
    low, high = 0.0, 1.0
    if successes > 0:
        low = stats.beta.ppf(0.025, successes, cases - successes + 1)
    if successes < cases:
        high = stats.beta.ppf(0.975, successes + 1, cases - successes)
    return successes / cases, low, high


def mean(values):
    """Student's t."""
    x = [float(v) for v in values if not math.isnan(v)]
    n = len(x)
    if n == 0:
        return NONE
    m = math.fsum(x) / n
    if n == 1 or max(x) == min(x):
        return m, math.nan, math.nan
    s = math.sqrt(math.fsum((v - m) ** 2 for v in x) / (n - 1))
    half = stats.t.ppf(0.975, n - 1) * s / math.sqrt(n)
    return m, m - half, m + half


def mean_of_counts(values, least=0.0):
    """Student's t with a variance of at least 1/12, and bounds from `least` on."""
    x = [float(v) for v in values if not math.isnan(v)]
    n = len(x)
    if n == 0:
        return NONE
    m = math.fsum(x) / n
    if n == 1:
        return m, math.nan, math.nan
    variance = max(math.fsum((v - m) ** 2 for v in x) / (n - 1), 1 / 12)
    half = stats.t.ppf(0.975, n - 1) * math.sqrt(variance / n)
    return m, max(m - half, least), m + half


def mean_between(values, low=0.0, high=1.0):
    """Clopper and Pearson for n* cases, from two on."""
    x = [(float(v) - low) / (high - low) for v in values if not math.isnan(v)]
    n = len(x)
    if n == 0:
        return NONE
    m = math.fsum(x) / n
    if n == 1:
        return low + (high - low) * m, math.nan, math.nan
    cases = n
    if max(x) > min(x):
        variance = math.fsum((v - m) ** 2 for v in x) / (n - 1)
        quantiles = stats.norm.ppf(0.975) / stats.t.ppf(0.975, n - 1)
        cases = max(n, m * (1 - m) / (variance / n) * quantiles**2)
    bounds = fraction(m * cases, cases)[1:]
    return tuple(low + (high - low) * v for v in (m, *bounds))


def median(values):
    """Order statistics, from six values on."""
    x = sorted(float(v) for v in values if not math.isnan(v))
    n = len(x)
    if n == 0:
        return NONE
    middle = x[n // 2] if n % 2 else (x[n // 2 - 1] + x[n // 2]) / 2
    rank = 0
    while stats.binom.cdf(rank, n, 0.5) <= 0.025:
        rank += 1
    if n < 6:
        return middle, math.nan, math.nan
    return middle, x[rank - 1], x[n - rank]


def correlation(r, n, ranks=False):
    """Fisher's z, from four pairs on; of ranks with the variance of Bonett and
    Wright."""
    if n < 4 or abs(r) == 1:
        return r, math.nan, math.nan
    error = math.sqrt(((1 + r * r / 2) if ranks else 1) / (n - 3))
    half = stats.norm.ppf(0.975) * error
    return r, math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def survival(times, observed):
    """Rows (time, fraction, low, high) after each time, from 0 on: Kaplan and Meier
    with the log-log interval of Greenwood's variance."""
    rows, estimate, greenwood = [(0.0, 1.0, 1.0, 1.0)], 1.0, 0.0
    z = stats.norm.ppf(0.975)
    for t in sorted(set(map(float, times))):
        waiting = sum(1 for u in times if u >= t)
        events = sum(
            1 for u, seen in zip(times, observed, strict=True) if u == t and seen
        )
        estimate *= 1 - events / waiting
        if events == waiting:
            greenwood = math.inf
        else:
            greenwood += events / (waiting * (waiting - events))
        low = high = estimate
        if 0 < estimate < 1:
            error = math.sqrt(greenwood) / abs(math.log(estimate))
            low = estimate ** math.exp(z * error)
            high = estimate ** math.exp(-z * error)
        rows.append((t, estimate, low, high))
    return rows


def median_time(times, observed):
    """Where the estimate, and its bounds, first are at most one half; no bounds with
    fewer than six events; inf if it does not get there."""
    rows = survival(times, observed)

    def first(column):
        return next((r[0] for r in rows if r[column] <= 0.5 + 1e-12), math.inf)

    if sum(map(bool, observed)) < 6:
        return first(1), math.nan, math.nan
    return first(1), first(2), first(3)


def log_rank(first, second):
    """Mantel's p-value; NaN if no event happens while runs of both wait."""
    moments = sorted(
        {
            float(t)
            for times, seen in (first, second)
            for t, e in zip(times, seen, strict=True)
            if e
        }
    )
    excess = variance = 0.0
    for t in moments:
        n = [sum(1 for u in times if u >= t) for times, _ in (first, second)]
        d = [
            sum(1 for u, e in zip(times, seen, strict=True) if u == t and e)
            for times, seen in (first, second)
        ]
        whole, events = sum(n), sum(d)
        excess += d[0] - events * n[0] / whole
        if whole > 1:
            variance += (
                events * (n[0] / whole) * (n[1] / whole) * (whole - events)
            ) / (whole - 1)
    if variance == 0:
        return math.nan
    return float(stats.chi2.sf(excess**2 / variance, 1))


def spearman(x, y):
    """Correlation of mean ranks; NaN if one is constant."""
    a, b = stats.rankdata(x), stats.rankdata(y)
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else math.nan


def equal(actual, expected, tolerance=1e-9):
    """The largest relative difference, which must be within the tolerance; NaN and inf
    must agree."""
    actual = np.asarray(actual, float)
    expected = np.asarray(expected, float)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
