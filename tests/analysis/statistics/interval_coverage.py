"""How often the intervals that the package prints contain the true value, by simulation.

python -m tests.analysis.statistics.interval_coverage

prints the table of docs/analyses/intervals.md. Each case draws a sample of n runs and
returns the interval and the true value; intervals without bounds are not counted."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from analysis.committors.decision import explained_fraction
from analysis.statistics import intervals as of
from analysis.statistics import ranks, resampling, survival, transition_fit
from analysis.transitions.gradient_peaks import mean_rank_correlation

SIZES = (3, 10, 100)
LEAST = 0.92
UNIT = (0.0, 1.0)
Draw = Callable[[np.random.Generator, int], tuple[of.Interval, float]]


class Case(NamedTuple):
    """An interval, the samples for which its coverage is measured, and where the
    package prints it."""

    interval: str
    sample: str
    draw: Draw
    sizes: tuple[int, ...] = SIZES
    """Sizes for which it has bounds."""


def _fraction(p: float) -> Draw:
    return lambda rng, n: (of.binomial_interval(int(rng.binomial(n, p)), n), p)


def _clustered(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    totals = rng.integers(1, 8, n)
    counts = rng.binomial(totals, rng.beta(2, 2, n))
    return of.clustered_binomial_interval(counts, totals), 0.5


def _normal(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    return of.mean_interval(rng.normal(2, 3, n)), 2.0


def _counts(mean: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
        counts = rng.poisson(mean, n)
        return of.mean_interval(counts, discrete=True, limits=(0, np.inf)), mean

    return draw


def _zeros_and_ones(p: float) -> Draw:
    return lambda rng, n: (of.mean_interval(rng.random(n) < p, limits=UNIT), p)


def _accuracies(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    """Two in three runs learn the task, the others are near chance."""
    learned = rng.random(n) < 2 / 3
    values = np.where(learned, 1.0, rng.uniform(0.1, 0.3, n))
    return of.mean_interval(values, limits=UNIT), 2 / 3 + 0.2 / 3


def _nearly_equal(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    return of.mean_interval(rng.beta(95, 5, n), limits=UNIT), 0.95


def _uniform(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    return of.mean_interval(rng.random(n), limits=UNIT), 0.5


def _median(
    draw: Callable[[np.random.Generator, int], np.ndarray], true: float
) -> Draw:
    return lambda rng, n: (of.median_interval(draw(rng, n)), true)


def _difference(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    first, second = rng.normal(1, 1, n), rng.normal(0, 3, n)
    return of.difference_interval(first, second), 1.0


def _difference_of_accuracies(
    rng: np.random.Generator, n: int
) -> tuple[of.Interval, float]:
    first, second = rng.random(n) < 0.9, rng.random(n) < 0.6
    return of.difference_interval(first, second, UNIT), 0.3


def _difference_of_fractions(
    rng: np.random.Generator, n: int
) -> tuple[of.Interval, float]:
    one, other = (of.binomial_interval(int(rng.binomial(n, p)), n) for p in (0.2, 0.6))
    return of.difference_of_estimates(one, other), -0.4


def _pairs(
    rng: np.random.Generator, n: int, rho: float
) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=n)
    return x, rho * x + np.sqrt(1 - rho**2) * rng.normal(size=n)


def _correlation(rho: float) -> Draw:
    return lambda rng, n: (of.correlation_interval(*_pairs(rng, n, rho)), rho)


def _rank_correlation(rho: float) -> Draw:
    true = 6 / np.pi * np.arcsin(rho / 2)
    return lambda rng, n: (ranks.rank_correlation(*_pairs(rng, n, rho)), true)


def _rank_biserial(shift: float) -> Draw:
    true = 2 * stats.norm.cdf(shift / np.sqrt(2)) - 1

    def draw(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
        return ranks.rank_biserial(rng.normal(shift, 1, n), rng.normal(0, 1, n)), true

    return draw


def _mean_of_correlations(
    rng: np.random.Generator, n: int
) -> tuple[of.Interval, float]:
    return mean_rank_correlation(np.tanh(rng.normal(0.5, 0.3, n))), np.tanh(0.5)


def _jackknife_ratio(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    """A rate: events over epochs of all runs together."""
    epochs = rng.uniform(500, 1000, n)
    events = rng.poisson(epochs * rng.gamma(4, 0.005 / 4, n))

    def rate(runs: np.ndarray) -> float:
        return float(events[runs].sum() / epochs[runs].sum())

    return resampling.jackknife_runs(rate, n), 0.005


def _jackknife_groups(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    groups = np.repeat(np.arange(n), 5)
    values = np.repeat(rng.normal(size=n), 5) + rng.normal(size=5 * n)
    return resampling.jackknife_groups(
        lambda kept: float(values[kept].mean()), groups
    ), 0.0


def _explained(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    """Committors of a beta distribution whose states explain half of the variance."""
    trials = np.full(n, 20)
    fractions = rng.binomial(trials, rng.beta(0.5, 0.5, n)) / trials

    def explained(runs: np.ndarray) -> float:
        return explained_fraction(fractions[runs], trials[runs])

    return resampling.jackknife_runs(explained, n), 0.5


def _within(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    x = rng.normal(size=(n, 8))
    distances = np.linalg.norm(x[:, None] - x, axis=-1)
    return resampling.mean_distance_within(distances), _MEAN_DISTANCE


def _between(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    x, y = rng.normal(size=(2, n, 8))
    distances = np.linalg.norm(x[:, None] - y, axis=-1)
    return resampling.mean_between_runs(distances), _MEAN_DISTANCE


_MEAN_DISTANCE = float(np.sqrt(2) * stats.chi.mean(8))


def _waiting(rng: np.random.Generator, n: int) -> survival.SurvivalCurve:
    times, limits = rng.exponential(1, n), rng.exponential(3, n)
    return survival.kaplan_meier(np.minimum(times, limits), times <= limits)


def _median_time(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    return _waiting(rng, n).median, float(np.log(2))


def _waiting_fraction(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    """The fraction of runs that wait at the median."""
    curve, time = _waiting(rng, n), np.log(2)
    at = int(np.searchsorted(curve.time, time, side="right")) - 1
    bounds = [values[at] for values in (curve.fraction, curve.low, curve.high)]
    return of.Interval(*map(float, bounds)), 0.5


_SETTINGS = np.array([1.0, 1.5, 2.0, 3.0, 4.0])


def _transition(part: str) -> Draw:
    """n runs at each of five values of a setting."""
    true = {"midpoint": 2.0, "width": 1.5}

    def draw(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
        p = transition_fit.logistic_fraction(_SETTINGS, *true.values())
        counts, totals = rng.binomial(n, p), np.full(len(p), n)
        fit = transition_fit.fit_transition(_SETTINGS, counts, totals)
        return getattr(fit, part), true[part]

    return draw


def _power(rng: np.random.Generator, n: int) -> tuple[of.Interval, float]:
    """n estimates with intervals of 20% at sizes from 10 to 100."""
    sizes = np.geomspace(10, 100, n)
    centres = 3 * sizes**0.5 * np.exp(rng.normal(0, 0.1, n))
    estimates = [of.Interval(c, c * np.exp(-0.196), c * np.exp(0.196)) for c in centres]
    return transition_fit.fit_power(sizes, estimates), 0.5


CASES = (
    Case("fraction (Clopper and Pearson)", "p = 0.1", _fraction(0.1)),
    Case("fraction (Clopper and Pearson)", "p = 0.5", _fraction(0.5)),
    Case(
        "fraction of cases within runs (Korn and Graubard)",
        "2 to 7 cases a run, fractions of beta(2, 2)",
        _clustered,
    ),
    Case("mean of values between two limits", "0 and 1, p = 0.5", _zeros_and_ones(0.5)),
    Case(
        "mean of values between two limits", "0 and 1, p = 0.97", _zeros_and_ones(0.97)
    ),
    Case(
        "mean of values between two limits",
        "1 in two of three runs, else 0.1 to 0.3",
        _accuracies,
    ),
    Case("mean of values between two limits", "uniform", _uniform),
    Case("mean of values between two limits", "beta(95, 5)", _nearly_equal),
    Case(
        "mean of counts (t, with the variance of rounding)",
        "Poisson, mean 0.1",
        _counts(0.1),
    ),
    Case(
        "mean of counts (t, with the variance of rounding)",
        "Poisson, mean 1",
        _counts(1.0),
    ),
    Case(
        "mean of counts (t, with the variance of rounding)",
        "Poisson, mean 30",
        _counts(30.0),
    ),
    Case("mean (t)", "normal", _normal),
    Case(
        "median (order statistics)",
        "log-normal",
        _median(lambda rng, n: rng.lognormal(0, 1, n), 1.0),
        (10, 100),
    ),
    Case(
        "median (order statistics)",
        "counts, binomial(4, 0.5)",
        _median(lambda rng, n: rng.binomial(4, 0.5, n), 2.0),
        (10, 100),
    ),
    Case("difference of means (Welch)", "normal, deviations 1 and 3", _difference),
    Case(
        "difference of means between two limits (Zou and Donner)",
        "0 and 1, p = 0.9 and 0.6",
        _difference_of_accuracies,
    ),
    Case(
        "difference of fractions (Newcombe)",
        "p = 0.2 and 0.6",
        _difference_of_fractions,
    ),
    Case("correlation (Fisher)", "normal, 0.5", _correlation(0.5), (10, 100)),
    Case(
        "rank correlation (Bonett and Wright)",
        "normal, 0",
        _rank_correlation(0.0),
        (10, 100),
    ),
    Case(
        "rank correlation (Bonett and Wright)",
        "normal, 0.8",
        _rank_correlation(0.8),
        (10, 100),
    ),
    Case(
        "rank-biserial correlation (Newcombe)",
        "normal, equal means",
        _rank_biserial(0.0),
    ),
    Case(
        "rank-biserial correlation (Newcombe)",
        "normal, means apart by 1.5",
        _rank_biserial(1.5),
    ),
    Case(
        "mean of rank correlations over runs",
        "Fisher's z normal",
        _mean_of_correlations,
    ),
    Case("rate of events (jackknife)", "Poisson, rates of gamma(4)", _jackknife_ratio),
    Case(
        "statistic of cases within runs (jackknife)",
        "normal, five cases a run",
        _jackknife_groups,
    ),
    Case(
        "explained variance of ends (jackknife)",
        "committors of beta(0.5, 0.5), 20 copies",
        _explained,
        (10, 100),
    ),
    Case(
        "mean distance within a sample (jackknife)", "normal in 8 dimensions", _within
    ),
    Case("mean distance between samples", "normal in 8 dimensions", _between),
    Case(
        "median time (Kaplan and Meier)",
        "exponential, a quarter censored",
        _median_time,
        (10, 100),
    ),
    Case(
        "fraction that waits (log-log)",
        "exponential, a quarter censored",
        _waiting_fraction,
    ),
    Case(
        "midpoint of a transition (profile likelihood)",
        "n runs at each of 5 values",
        _transition("midpoint"),
        (10, 100),
    ),
    Case(
        "width of a transition (profile likelihood)",
        "n runs at each of 5 values",
        _transition("width"),
        (10, 100),
    ),
    Case("power of a size (t)", "n sizes, errors of 10%", _power),
)


SLOW = "profile likelihood"
"""Intervals that take so long that fewer samples are drawn."""


def coverage(case: Case, size: int, samples: int = 4000, seed: int = 0) -> float:
    """Fraction of intervals with bounds that contain the true value."""
    rng = np.random.default_rng([seed, size])
    if SLOW in case.interval:
        samples = samples // 2
    inside = count = 0
    for _ in range(samples):
        interval, true = case.draw(rng, size)
        if not np.isnan(interval.low + interval.high):
            count += 1
            inside += interval.low - 1e-12 <= true <= interval.high + 1e-12
    return inside / count if count else np.nan


def table(samples: int = 4000) -> str:
    """The table in Markdown, in percent."""
    lines = [
        "| interval | sample | " + " | ".join(f"n = {n}" for n in SIZES) + " |",
        "|---|---|" + "---|" * len(SIZES),
    ]
    for case in CASES:
        cells = [
            f"{100 * coverage(case, n, samples):.1f}" if n in case.sizes else "-"
            for n in SIZES
        ]
        lines.append(f"| {case.interval} | {case.sample} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
