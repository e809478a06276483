"""docs/analyses/fate.md in plain loops, from numbers of copies to decisions."""

import math

import numpy as np
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.committors import add_decisions, explained_variance
from tests.twins import intervals
from tests.twins.differences import examples, same
from tests.twins.test_tables import jackknife

# ------------------------------------------------------------------------------- twins


def above_from_on(steps, values, level, strictly):
    """The interpolated step from which on the values are above a level (or at it, if
    not strictly); the first step if they always are."""

    def low(v):
        return v <= level if strictly else v < level

    for k in range(len(steps) - 1, 0, -1):
        if low(values[k - 1]):
            part = (level - values[k - 1]) / (values[k] - values[k - 1])
            return steps[k - 1] + part * (steps[k] - steps[k - 1])
    return steps[0]


def basin(sizes, values):
    """Up to which size the values are at least .9, from the smallest on."""
    if not sizes:
        return math.nan
    if values[0] < 0.9:
        return 0.0
    for k in range(1, len(sizes)):
        if values[k] < 0.9:
            part = (values[k - 1] - 0.9) / (values[k - 1] - values[k])
            logs = math.log(sizes[k - 1]), math.log(sizes[k])
            return math.exp(logs[0] + part * (logs[1] - logs[0]))
    return math.inf


def explained(pairs):
    """Of (successes, copies) of each run."""
    p = [s / k for s, k in pairs]
    n = len(p)
    if n < 2:
        return math.nan
    within = (
        sum(v * (1 - v) * k / (k - 1) for v, (_, k) in zip(p, pairs, strict=True)) / n
    )
    error = sum(v * (1 - v) / (k - 1) for v, (_, k) in zip(p, pairs, strict=True)) / n
    mean = sum(p) / n
    between = sum((v - mean) ** 2 for v in p) / (n - 1) - error
    if within + between == 0:
        return math.nan
    return max(between, 0.0) / (max(between, 0.0) + within)


# ------------------------------------------------------------------------------- tests


@st.composite
def copies(draw):
    """successes and trials (run, step, displacement), with frames that were not
    measured."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3)))
    most = draw(st.sampled_from([2, 10, 20]))
    trials = np.full(shape, most)
    successes = np.array(
        [draw(st.integers(0, most)) for _ in range(int(np.prod(shape)))]
    ).reshape(shape)
    missing = np.array(
        [
            draw(st.booleans()) and draw(st.booleans())
            for _ in range(shape[0] * shape[1])
        ]
    )
    missing = missing.reshape(shape[:2])
    trials[missing], successes[missing] = 0, 0
    outcome = np.array([draw(st.sampled_from([0.0, 1.0])) for _ in range(shape[0])])
    gaps = [draw(st.integers(1, 9)) for _ in range(shape[1])]
    return successes, trials, outcome, np.cumsum(gaps) - gaps[0]


def dataset(successes, trials, outcome, steps):
    bounds = np.array(
        [
            intervals.fraction(int(s), int(k))
            for s, k in zip(successes.ravel(), trials.ravel(), strict=True)
        ]
    ).T.reshape(3, *successes.shape)
    dims = ("run", "step", "displacement")
    names = ("committor", "committor_low", "committor_high")
    return xr.Dataset(
        {name: (dims, values) for name, values in zip(names, bounds, strict=True)}
        | {
            "successes": (dims, successes),
            "trials": (dims, trials),
            "outcome": ("run", outcome),
        },
        {
            "step": steps,
            "displacement": 0.01 * 3.0 ** np.arange(successes.shape[2]),
            "seed": ("run", np.arange(len(outcome))),
        },
        {"outcome": "circle", "until": int(steps[-1]) + 5},
    )


@settings(max_examples=examples(20))
@given(copies())
def test_decisions(drawn):
    given_result = dataset(*drawn)
    successes, trials, outcome, steps = drawn
    result = add_decisions(given_result)
    sizes = given_result["displacement"].values
    for run in range(len(outcome)):
        measured = [k for k in range(len(steps)) if trials[run, k, 0]]
        times = [float(steps[k]) for k in measured]
        rows = [
            intervals.fraction(int(successes[run, k, 0]), int(trials[run, k, 0]))
            for k in measured
        ]
        if not outcome[run]:
            rows = [(1 - v, 1 - high, 1 - low) for v, low, high in rows]
        one = result.isel(run=run)
        if not times:
            for name in ("decision_step", "decision_duration"):
                assert np.isnan(one[name])
            continue
        # at the end all copies have ended as the run does
        times.append(float(given_result.attrs["until"]))
        rows.append((1.0, 1.0, 1.0))
        for name, column in (
            ("decision_step", 0),
            ("decision_step_low", 2),
            ("decision_step_high", 1),
        ):
            values = [row[column] for row in rows]
            same("fate", one[name], above_from_on(times, values, 0.5, True))
        values = [row[0] for row in rows]
        expected = math.nan
        if any(v <= 0.1 for v in values):
            last = max(t for t, v in zip(times, values, strict=True) if v <= 0.1)
            expected = above_from_on(times, values, 0.9, False) - last
        same("fate", one["decision_duration"], expected)
        for k in range(len(steps)):
            there = [j for j in range(len(sizes)) if trials[run, k, j]]
            p = [successes[run, k, j] / trials[run, k, j] for j in there]
            if not outcome[run]:
                p = [1 - v for v in p]
            radius = basin([float(sizes[j]) for j in there], p)
            same("fate", one["firmness"].isel(step=k), radius)


@settings(max_examples=examples(20))
@given(
    st.lists(
        st.integers(2, 6).flatmap(lambda k: st.tuples(st.integers(0, k), st.just(k))),
        min_size=2,
        max_size=14,
    )
)
def test_explained_variance(pairs):
    successes, trials = (np.array(v)[:, None, None] for v in zip(*pairs, strict=True))
    result = dataset(successes, trials, np.zeros(len(pairs)), np.array([0]))
    ours = explained_variance(result)
    value, low, high = jackknife(explained, pairs, 10)
    same("fate", ours.value, value)
    same("fate", [ours.low, ours.high], np.clip([low, high], 0, 1))
