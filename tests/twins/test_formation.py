"""docs/analyses/formation.md in plain loops."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.statistics import (
    kaplan_meier,
    logrank_p_value,
    mean_interval,
    median_interval,
)
from analysis.structures import (
    FormationResult,
    find_formation_times,
    formation_rows,
    structure_measures,
)
from tests.twins import intervals
from tests.twins.intervals import equal
from tests.twins.trajectories import particles

# ------------------------------------------------------------------------------- twins


def circle_distance(x):
    """The least full Procrustes distance from the circles of coprime frequencies; 1 for
    tokens in one point."""
    x = np.asarray(x, float)
    n = len(x)
    a = x - x[:1]  # exact for tokens in one point
    a = a - a.mean(axis=0)
    size = math.sqrt((a * a).sum())
    if size == 0:
        return 1.0
    a = a / size
    best = math.inf
    for k in range(1, n):
        if math.gcd(k, n) > 1:
            continue
        angles = [2 * math.pi * k * i / n for i in range(n)]
        b = np.array([[math.cos(t), math.sin(t)] for t in angles])
        b = b - b.mean(axis=0)
        b = b / math.sqrt((b * b).sum())
        overlap = np.linalg.svd(a.T @ b, compute_uv=False).sum()
        best = min(best, math.sqrt(max(0.0, 1 - min(overlap, 1.0) ** 2)))
    return best


def is_circle(x):
    norms = [math.sqrt(sum(float(v) ** 2 for v in row)) for row in x]
    if max(norms) >= 1.2 * min(norms):
        return False
    mean = math.sqrt(sum((sum(column) / len(x)) ** 2 for column in x.T))
    lengths = sorted(np.linalg.eigvalsh(x.T @ x), reverse=True)
    inside = mean <= sum(norms) / len(x) / 2
    return inside and sum(lengths[:2]) >= 0.9 * sum(lengths)


def imperfections(x):
    """Algorithm 2: of pair sums at equal distance the first pair counts."""
    n = len(x)
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    count = 0
    for p in pairs:
        best, nearest = math.inf, None
        for q in pairs:
            if q == p:
                continue
            difference = (x[p[0]] + x[p[1]]) - (x[q[0]] + x[q[1]])
            distance = float(difference @ difference)
            if distance < best:
                best, nearest = distance, q
        count += (sum(nearest) - sum(p)) % n != 0
    return count


def power(x):
    """Fractions at frequencies 1 to N // 2."""
    n = len(x)
    a = x - x.mean(axis=0)
    powers = [0.0] * (n // 2)
    for k in range(1, n):
        c = sum(a[i] * np.exp(-2j * math.pi * k * i / n) for i in range(n))
        powers[min(k, n - k) - 1] += float((abs(c) ** 2).sum())
    whole = sum(powers)
    return [p / whole if whole > 0 else math.nan for p in powers]


def last_halfway(values, moments):
    """The time of the last passage of the middle of the first and last value."""
    half = (values[0] + values[-1]) / 2
    for t in range(len(values) - 1, 0, -1):
        if values[t - 1] > half >= values[t]:
            part = (values[t - 1] - half) / (values[t - 1] - values[t])
            return moments[t - 1] + part * (moments[t] - moments[t - 1])
    return moments[0]


def stays_from(there, moments):
    """The first moment from which it is there to the end; None if it is not."""
    first = None
    for t in range(len(there) - 1, -1, -1):
        if not there[t]:
            break
        first = moments[t]
    return first


def onsets(series, chance, moments, last):
    """Of one run: {event: (formed, moment)}; `series` holds the measures by frame,
    `last` the last valid frame, after which a diverged run is censored."""
    ended = last == len(moments) - 1
    censored = (False, moments[last])

    def below(name):
        if not ended or not series[name][-1] < chance[name]:
            return censored
        return True, last_halfway(series[name], moments)

    start = stays_from(series["circle"], moments) if ended else None
    circle = censored if start is None else (True, start)
    dominant = series["dominant_frequency"]
    level = chance["dominant_fraction"]
    there = [
        k == dominant[-1] and share > level
        for k, share in zip(dominant, series["dominant_fraction"], strict=True)
    ]
    start = stays_from(there, moments) if ended else None
    result = {
        "circle": circle,
        "polygon": below("circle_distance"),
        "imperfections": below("imperfections"),
        "frequency": censored if start is None else (True, start),
    }
    if "grid_distance" in series:
        result["grid"] = below("grid_distance")
        result["perfect grid"] = below("perfect_distance")
    return result


# ------------------------------------------------------------------------------- tests


@st.composite
def embeddings(draw):
    """Trajectories (run, step, token, axis) that are noise, polygons, lattices or
    constant, some with ties, with unequally spaced steps and runs that diverge."""
    n, runs = draw(st.integers(5, 12)), draw(st.integers(1, 3))
    frames, axes = draw(st.integers(1, 5)), draw(st.integers(2, 3))
    seed = draw(st.integers(0, 2**31))
    generator = np.random.default_rng(seed)
    x = np.empty((runs, frames, n, axes))
    for run in range(runs):
        kind = draw(st.sampled_from(["noise", "polygon", "lattice", "still"]))
        begin = generator.standard_normal((n, axes))
        end = generator.standard_normal((n, axes))
        if kind == "polygon":
            k = int(generator.integers(1, n))
            angles = 2 * np.pi * k * np.arange(n) / n
            end = 0.01 * end
            end[:, :2] += np.stack([np.cos(angles), np.sin(angles)], axis=1)
        elif kind == "lattice":
            end = generator.integers(-2, 3, (n, axes)).astype(float)
            end[0] += 1
            end[1] += 2
        elif kind == "still":
            end = begin
        for frame in range(frames):
            part = frame / max(frames - 1, 1)
            x[run, frame] = (1 - part) * begin + part * end
    gaps = draw(st.lists(st.integers(1, 9), min_size=frames - 1, max_size=frames - 1))
    steps = [0, *itertools.accumulate(gaps)]
    last = {}
    if frames > 2 and draw(st.booleans()):
        last[runs - 1] = draw(st.integers(0, frames - 2))
        x[runs - 1, last[runs - 1] :] = x[runs - 1, last[runs - 1]]
    return x, steps, last


def check_measures(x, steps, last):
    runs, frames = x.shape[:2]
    result = structure_measures(particles(x, steps, last))
    for run, frame in itertools.product(range(runs), range(frames)):
        one = result.isel(run=run, step=frame)
        if frame > last.get(run, frames):
            assert np.isnan(one["circle_distance"])
            assert np.isnan(one["imperfections"])
            continue
        points = x[run, frame]
        assert bool(one["circle"]) == is_circle(points)
        assert int(one["imperfections"]) == imperfections(points)
        # a square root of a difference near 0
        equal(one["circle_distance"], circle_distance(points), 2e-7)
        shares = power(points)
        equal(one["power_fraction"], shares)
        equal(one["dominant_fraction"], max(shares))
        entropy = -sum(p * math.log(p) for p in shares if p > 0)
        equal(one["effective_frequencies"], math.exp(entropy))
        assert math.isclose(shares[int(one["dominant_frequency"]) - 1], max(shares))
    return result


@settings(max_examples=12)
@given(embeddings())
def test_measures_and_formation_times(case):
    x, steps, last = case
    runs, frames = x.shape[:2]
    measures = check_measures(x, steps, last)
    times = find_formation_times(measures)
    if frames == 1:
        assert np.isnan(times["onset"]).all()
        return
    moments = [(s - steps[0]) / (steps[-1] - steps[0]) for s in steps]
    names = set(measures["measure"].values)
    names |= {"circle", "dominant_frequency"}
    for run in range(runs):
        series = {name: measures[name].values[run].tolist() for name in names}
        chance = {
            str(name): float(measures["chance"].sel(measure=name)[run])
            for name in measures["measure"].values
        }
        expected = onsets(series, chance, moments, last.get(run, frames - 1))
        if "grid" in expected:
            circle = expected["circle"][0]
            expected["structure"] = expected["polygon" if circle else "grid"]
        for event, (formed, onset) in expected.items():
            one = times.sel(event=event).isel(run=run)
            if event == "structure" and circle and not formed:
                continue
            assert bool(one["formed"]) == formed, (event, run)
            equal(one["onset"], onset)


@st.composite
def censored_times(draw):
    pairs = draw(
        st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30)
    )
    return np.array([t / 4 for t, _ in pairs]), np.array([e for _, e in pairs])


@given(censored_times(), censored_times())
def test_survival_and_log_rank(first, second):
    curve = kaplan_meier(*first)
    rows = np.array(intervals.survival(*first))
    equal(curve.time, rows[:, 0])
    equal(curve.fraction, rows[:, 1])
    between = (rows[:, 1] > 0) & (rows[:, 1] < 1)
    equal(curve.low[between], rows[between, 2])
    equal(curve.high[between], rows[between, 3])
    median = curve.median
    equal([median.value, median.low, median.high], intervals.median_time(*first))
    equal(logrank_p_value(first, second), intervals.log_rank(first, second))


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), min_size=1, max_size=20))
def test_means_and_medians(values):
    x = np.array(values)
    for ours, twin in (
        (mean_interval(x), intervals.mean(x)),
        (median_interval(x), intervals.median(x)),
    ):
        equal([ours.value, ours.low, ours.high], twin)


@pytest.mark.parametrize("tokens", [7, 25])
def test_rows_of_the_table(tokens):
    generator = np.random.default_rng(tokens)
    x = generator.standard_normal((8, 4, tokens, 2))
    angles = 2 * np.pi * 2 * np.arange(tokens) / tokens
    for run in range(7):
        for frame in range(run % 4, 4):
            x[run, frame] = 0.1 * x[run, frame]
            x[run, frame] += np.stack([np.cos(angles), np.sin(angles)], axis=1)
    measures = structure_measures(particles(x, [0, 1, 5, 9], {7: 1}))
    times = find_formation_times(measures)
    rows = formation_rows(
        [
            FormationResult("a", "particles", measures, times),
            FormationResult("b", "particles", measures.isel(run=LATER), later(times)),
        ],
        "normalised",
    )
    first = {row["what"]: row for row in rows if row["run"] == "a"}
    second = {row["what"]: row for row in rows if row["run"] == "b"}
    assert list(first) == list(second) == list(map(str, times["event"].values))
    for event in first:
        one, two = (
            (t.sel(event=event)["onset"].values, t.sel(event=event)["formed"].values)
            for t in (times, later(times))
        )
        for row, (onset, formed) in ((first[event], one), (second[event], two)):
            assert (row["runs"], row["formed"]) == (len(formed), formed.sum())
            check(row, "fraction", intervals.fraction(formed.sum(), len(formed)))
            check(row, "median", intervals.median_time(onset, formed))
            there = onset[formed == 1]
            check(row, "median_of_formed", intervals.median(there))
        assert np.isnan(first[event]["p_value"])
        equal(second[event]["p_value"], intervals.log_rank(one, two))
        check_levels(first[event], measures)


LATER = [0, 2, 3, 4, 5, 6, 7]


def later(times):
    return times.isel(run=LATER).assign(onset=times["onset"].isel(run=LATER) ** 0.5)


def check(row, name, expected):
    equal([row[name], row[f"{name}_low"], row[f"{name}_high"]], expected)


NAMES = {
    "circle": "circle",
    "polygon": "circle_distance",
    "grid": "grid_distance",
    "perfect grid": "perfect_distance",
    "imperfections": "imperfections",
    "frequency": "dominant_fraction",
}


def check_levels(row, measures):
    """The values of the first and last frame, and those of renamed tokens."""
    if row["what"] == "structure":
        return
    name = NAMES[row["what"]]
    for column, frame in (("start", 0), ("end", -1)):
        x = measures[name].values[:, frame]
        if name == "circle":
            valid = x[:-1] if frame else x  # the last run diverged
            expected = intervals.fraction(valid.sum(), len(valid))
        elif name == "imperfections":
            expected = intervals.mean_of_counts(x)
        else:
            expected = intervals.mean_between(x)
        check(row, column, expected)
    if name == "circle":
        return
    equal(row["random_mean"], np.mean(measures["expected"].sel(measure=name)))
    equal(row["random_1_in_100"], np.median(measures["chance"].sel(measure=name)))
