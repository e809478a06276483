"""docs/analyses/events.md and escapes.md in plain loops."""

import math
from statistics import median

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.transitions import (
    DetectionConfig,
    analyse_events,
    detect_events,
    escape_comparison,
    first_plateau_escape,
    run_event_table,
)
from tests.analysis.transitions.planted_events import planted
from tests.twins import events, intervals
from tests.twins.differences import check_csv, examples, same
from tests.twins.trajectories import modular


def escape(x, share, rising, **thresholds):
    """The frame at which a series leaves its first level, and whether it does."""
    _, rest, changes, w = events.split(x, **thresholds)
    n, sign = len(x), 1 if rising else -1
    if n <= 5:
        changes = []
    initial = [event for event in changes if event.initial]
    for event in initial:
        large = event.size() >= abs(event.before) / 2
        kind = "rise" if rising else "drop"
        if event.kind == kind and large and event.end - event.begin >= w:
            return event.middle, True
    begin = math.ceil(max([event.end for event in initial], default=0))
    level = median(rest[begin : begin + w])
    bound = share * abs(level)
    smooth = [events.around(rest, t, 5) for t in range(n)]
    error = events.noise(rest) if n > 1 else 0.0
    usual = events.median_error(min(n, 4 * w))
    for t in range(max(begin, 2), n):
        following = rest[t : t + 4 * w]
        if len(following) < 5:
            break
        excess = 2 * error * (events.median_error(len(following)) - usual)
        gain = sign * (smooth[t] - level)
        lasts = sign * (median(following) - level) >= bound + excess
        if gain >= bound and gain > 0 and lasts:
            before = sign * (smooth[t - 1] - level) if t > begin else math.inf
            if before < bound:
                return t - (gain - bound) / (gain - before), True
            return float(t), True
    return n - 1.0, False


@st.composite
def series(draw):
    """Steps, ties, walks, constants and planted events, not negative, with bursts."""
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["steps", "ties", "walk", "constant", "planted"]))
    n = draw(st.integers(6, 90))
    if kind == "steps":
        k = draw(st.integers(2, 40))
        x = np.repeat(generator.integers(0, 6, math.ceil(n / k)), k)[:n] / 2
    elif kind == "ties":
        x = generator.integers(0, 6, n) / 2
    elif kind == "walk":
        x = np.abs(np.cumsum(generator.standard_normal(n)))
    elif kind == "constant":
        x = np.full(n, draw(st.sampled_from([0.0, 1.5])))
    else:
        x = np.abs(planted(generator).series)[:: draw(st.integers(3, 9))]
    x = x.astype(float)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(x) - 1))
        x[at : at + draw(st.integers(1, 3))] += 3 * max(x.max(), 1)
    return x


THRESHOLDS = st.fixed_dictionaries(
    {
        "depth": st.sampled_from([0.05, 0.1, 0.3]),
        "window": st.sampled_from([0.02, 0.1]),
        "significance": st.sampled_from([1.0, 5.0]),
        "level": st.sampled_from(["largest", "local", "log"]),
    }
)


def row(event):
    moments = (event.begin, event.middle, event.end)
    return *moments, event.before, event.after, event.initial


def test_events_of_series():
    @settings(max_examples=examples(20))
    @given(series(), THRESHOLDS, st.sampled_from([0.1, 0.5, 1.0]), st.booleans())
    def check(x, thresholds, share, rising):
        def order(event):
            return event.kind, round(event.middle, 6), round(event.begin, 6)

        config = DetectionConfig(**thresholds)
        ours = sorted(detect_events(x, config), key=order)
        twins = sorted(events.events(x.tolist(), **thresholds), key=order)
        assert [event.kind for event in ours] == [event.kind for event in twins]
        scale = max(1.0, np.abs(x).max())
        units = np.array([1, 1, 1, scale, scale, 1])
        a, b = (np.array([*map(row, found)], float) for found in (ours, twins))
        same("events", a / units if len(a) else a, b / units if len(b) else b)
        left = first_plateau_escape(x, share, rising, config)
        moment, observed = escape(x.tolist(), share, rising, **thresholds)
        assert left.observed == observed
        same("escapes", left.moment, moment)

    check()


def trajectory_of(losses, steps, last, generator):
    """Networks with given training losses and weights that walk."""
    trajectory = modular(4, len(losses), losses.shape[1], steps, last)
    trajectory = trajectory.assign_coords(epoch=("step", np.array(steps, float)))
    trajectory["loss"][:] = losses[..., None]
    for layer in map(str, trajectory["layer"].values):
        walk = generator.standard_normal(trajectory[layer].shape)
        size = generator.integers(0, 4, losses.shape)
        size = size.reshape(*losses.shape, *[1] * (walk.ndim - 2))
        trajectory[layer][:] = np.cumsum(walk * size, axis=1)
    trajectory["gradient_norm"][:] = generator.integers(
        0, 9, trajectory["gradient_norm"].shape
    )
    for run, frame in last.items():
        for name in ("loss", "gradient_norm", *map(str, trajectory["layer"].values)):
            trajectory[name][run, frame:] = trajectory[name][run, frame]
    return trajectory


def run_rows(trajectory, steps, last, unit):
    """The columns of the CSV file, by run, and the drops that are not initial."""
    rows, all_drops = [], []
    for run in range(trajectory.sizes["run"]):
        x = trajectory["loss"].values[run, : last.get(run, len(steps)) + 1, 0]
        x = x.astype(float).tolist()
        found = [event for event in events.events(x) if not event.initial]
        drops = [event for event in found if event.kind == "drop"]
        moment, observed = escape(x, 0.1, False)
        one = {"escape": events.at_step(moment, steps) / unit, "escaped": observed}
        for name, k in (("first", 0), ("second", 1)):
            for part in ("begin", "middle", "end"):
                there = len(drops) > k
                value = (
                    events.at_step(getattr(drops[k], part), steps)
                    if there
                    else math.nan
                )
                one[f"{name}_{part}"] = value / unit
        one["between"] = max(one["second_begin"] - one["first_end"], 0.0)
        if len(drops) < 2:
            one["between"] = math.nan
        for kind in ("drop", "spike", "rise"):
            one[f"{kind}s"] = sum(event.kind == kind for event in found)
        rows.append(one)
        all_drops.append(drops)
    return rows, all_drops


def speed_ratios(trajectory, run, layer, drops, steps):
    w = trajectory[layer].values[run].astype(float)
    speed = [math.nan]
    for t in range(1, len(steps)):
        moved = math.sqrt(((w[t] - w[t - 1]) ** 2).sum())
        speed.append(moved / (steps[t] - steps[t - 1]))
    result, end = [], 0.0
    for k, drop in enumerate(drops[:2]):
        begin, until = (
            events.at_step(moment, steps) for moment in (drop.begin, drop.end)
        )
        inside = [t for t in range(len(steps)) if begin < steps[t] <= until]
        if not inside:
            inside = [next(t for t in range(len(steps)) if steps[t] > begin)]
        before = [t for t in range(1, len(steps)) if steps[t] <= begin]
        later = [t for t in before if steps[t] > end] if k else []
        usual = median(speed[t] for t in later or before) if before else 0.0
        value = median(speed[t] for t in inside)
        result.append(value / usual if usual > 0 else math.nan)
        end = until
    return result + [math.nan] * (2 - len(result))


def test_events_of_trajectories(typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @settings(max_examples=examples(3))
    @given(st.integers(0, 2**31), st.booleans())
    def check(seed, diverges):
        generator = np.random.default_rng(seed)
        steps = np.concatenate([[0], np.cumsum(generator.integers(1, 4, 59))]).tolist()
        edges = np.sort(generator.integers(5, 60, (4, 3)))
        frames = np.arange(60)[None, :, None]
        losses = 8.0 / 2 ** (frames >= edges[:, None]).sum(axis=2)
        losses[generator.random(losses.shape) < 0.02] += 9
        losses[3] = 1.0
        last = {1: 40} if diverges else {}
        trajectory = trajectory_of(losses, steps, last, generator)
        result = analyse_events(trajectory)
        trajectories.append(trajectory)
        table = run_event_table(result)
        rows, drops = run_rows(trajectory, steps, last, result.attrs["unit"])
        for name in rows[0]:
            same("events", table[name], [one[name] for one in rows])
        for layer in map(str, trajectory["layer"].values):
            ratios = [
                speed_ratios(trajectory, run, layer, drops[run], steps)
                for run in range(4)
            ]
            same("events", result["speed"].sel(layer=layer), ratios)

    trajectories = []
    check()
    last = trajectories[-1]
    table = run_event_table(analyse_events(last))
    check_csv("events", typed, [], last, table)


def test_escapes_of_two_files():
    generator = np.random.default_rng(5)
    results, samples = [], []
    for shift in (0, 9):
        losses = np.ones((9, 60))
        for run, at in enumerate(generator.integers(10, 40, 8)):
            losses[run, at + shift :] = 0.3
        trajectory = trajectory_of(losses, list(range(60)), {}, generator)
        results.append(analyse_events(trajectory))
        rows, _ = run_rows(trajectory, list(range(60)), {}, results[-1].attrs["unit"])
        samples.append([[one[name] for one in rows] for name in ("escape", "escaped")])
    table = escape_comparison(results, ["a", "b"])
    for k, sample in enumerate(samples):
        columns = ["median", "median_low", "median_high"]
        expected = intervals.median_time(*sample)
        same("escapes", table.loc[k, columns], expected)
    assert math.isnan(table.loc[0, "p_value"])
    same("escapes", table.loc[1, "p_value"], intervals.log_rank(*samples))
