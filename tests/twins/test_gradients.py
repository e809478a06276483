"""docs/analyses/gradients.md in plain loops. Probabilities by chance are computed from
all shifts; the analysis draws 1000 of them."""

import itertools
import math
from statistics import median

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.transitions import coincidence_table, frame_interval, peak_coincidence
from tests.twins import events, intervals
from tests.twins.differences import check_csv, examples, same
from tests.twins.test_events import trajectory_of

SHIFTS = 1000


def norm_peaks(x):
    """Frames of the spikes of a norm and of its tops between a rise and a drop."""
    found = events.events(x)
    spikes = [event for event in found if event.kind == "spike"]
    result = [event.middle for event in spikes]
    changes = [event for event in found if event.kind in ("rise", "drop")]
    for up, down in itertools.pairwise(changes):
        if (up.kind, down.kind) == ("rise", "drop"):
            inside = range(int(up.begin), math.ceil(down.end) + 1)
            top = max(x[t] for t in inside)
            same = [t for t in inside if x[t] == top]
            middle = same[(len(same) - 1) // 2]
            if not any(spike.begin <= middle <= spike.end for spike in spikes):
                result.append(middle)
    return sorted(set(result))


def lag(event, peaks, x, slack):
    """From the middle of an event to its highest peak."""
    near = [t for t in peaks if event.begin - slack <= t <= event.end + slack]
    if not near:
        return math.nan
    return max(near, key=lambda t: x[t]) - event.middle


def matches(found, peaks, n, slack, shift):
    moved = [(t + shift) % n for t in peaks]
    return sum(
        any(event.begin - slack <= t <= event.end + slack for t in moved)
        for event in found
    )


def chance(runs, shifts):
    """The distribution of the number of events with a peak, of (events, peaks, frames,
    slack) by run."""
    whole = np.ones(1)
    for found, peaks, n, slack in runs:
        counts = np.zeros(len(found) + 1)
        for shift in shifts(n):
            counts[matches(found, peaks, n, slack, shift)] += 1
        whole = np.convolve(whole, counts / counts.sum())
    return whole


def test_coincidence_of_peaks(typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trajectories = []

    @settings(max_examples=examples(2))
    @given(st.integers(0, 2**31), st.booleans(), st.booleans())
    def check(seed, diverges, uneven):
        generator = np.random.default_rng(seed)
        n = 60
        gaps = generator.integers(1, 4, n - 1) if uneven else np.full(n - 1, 2)
        steps = np.concatenate([[0], np.cumsum(gaps)]).tolist()
        edges = np.sort(generator.integers(5, n, (3, 3)))
        frames = np.arange(n)[None, :, None]
        losses = 8.0 / 2 ** (frames >= edges[:, None]).sum(axis=2)
        losses[generator.random(losses.shape) < 0.03] += 9
        losses[2] = 1.0
        last = {1: 40} if diverges else {}
        trajectory = trajectory_of(losses, steps, last, generator)
        norms = 1 + generator.integers(0, 2, trajectory["gradient_norm"].shape)
        norms = norms + 20.0 * (generator.random(norms.shape) < 0.08)
        for run in range(3):
            t = int(generator.integers(10, 40))
            norms[run, t : t + 12] += 5
        norms[:, :, 0] = 1.5
        trajectory["gradient_norm"][:] = norms
        trajectories.append(trajectory)
        result = peak_coincidence(trajectory)
        check_coincidence(trajectory, result, steps, last, result["kind"].values)

    check()
    last = trajectories[-1]
    table = coincidence_table(peak_coincidence(last), frame_interval(last)[1])
    check_csv("gradients", typed, [], last, table)


def check_coincidence(trajectory, result, steps, last, kinds):
    n, slack = len(steps), max(2, 0.005 * len(steps))
    valid = [last.get(run, n - 1) + 1 for run in range(3)]
    losses = [
        trajectory["loss"].values[run, : valid[run], 0].astype(float).tolist()
        for run in range(3)
    ]
    found = [events.events(x) for x in losses]
    w = max(5, round(0.02 * n))
    interval = frame_interval(trajectory)[1]
    table = coincidence_table(result, interval)
    for index, layer in enumerate(map(str, trajectory["layer"].values)):
        norms = [
            trajectory["gradient_norm"]
            .values[run, : valid[run], index]
            .astype(float)
            .tolist()
            for run in range(3)
        ]
        peaks = [norm_peaks(x) for x in norms]
        same("gradients", result["peaks"].sel(layer=layer), [*map(len, peaks)])
        for kind in map(str, kinds):
            those = [[e for e in x if e.kind == kind and not e.initial] for x in found]
            same("gradients", result["events"].sel(kind=kind), [*map(len, those)])
            one = result.sel(layer=layer, kind=kind)
            total = sum(map(len, those))
            lags = []
            for run in range(3):
                moments = []
                for event in those[run]:
                    there = lag(event, peaks[run], norms[run], slack)
                    if not math.isnan(there):
                        at = event.middle + there
                        frames = range(n)
                        moments.append(
                            np.interp(at, frames, steps)
                            - np.interp(event.middle, frames, steps)
                        )
                lags.append(moments)
            hits = sum(map(len, lags))
            row = table[
                (table["layer"] == layer) & (table["measure"] == f"{kind}s with a peak")
            ]
            assert row["number"].item() == total
            if not total:
                assert (
                    row.drop(columns=["layer", "measure", "number"])
                    .isna()
                    .all(axis=None)
                )
                continue
            same("gradients", [one["total"], one["matched"]], [total, hits])
            share = clustered_fraction([*map(len, lags)], [*map(len, those)])
            same(
                "gradients", row[["value", "value_low", "value_high"]].values[0], share
            )
            medians = [median(x) for x in lags if x]
            expected = intervals.median(medians)
            same("gradients", row[["lag", "lag_low", "lag_high"]].values[0], expected)
            runs = [(those[r], peaks[r], valid[r], slack) for r in range(3)]
            for baseline, shifts in (
                ("anywhere", range),
                (
                    "nearby",
                    lambda n: [s * k for k in range(w, 2 * w + 1) for s in (1, -1)],
                ),
            ):
                least = 1 / (1 + (2 * (w + 1)) ** sum(map(bool, those)))
                p = chance(runs, shifts)
                mean = sum(k * v for k, v in enumerate(p)) / total
                spread = math.sqrt(
                    sum((k / total - mean) ** 2 * v for k, v in enumerate(p))
                )
                off = abs(row[baseline].item() - mean)
                assert off <= 6 * spread / math.sqrt(SHIFTS) + 1e-9
                above = min(p[hits:].sum(), 1.0)
                error = math.sqrt(above * (1 - above) / SHIFTS)
                above = max(above, least) if baseline == "nearby" else above
                off = abs(row[f"p_value_{baseline}"].item() - above)
                assert off <= 6 * error + 2 / SHIFTS
        check_correlation(
            table, result.sel(layer=layer), layer, norms, losses, w, interval
        )


def clustered_fraction(hits, cases):
    """Clopper and Pearson with the effective number of independent cases."""
    there = [(m, n) for m, n in zip(hits, cases, strict=True) if n]
    total, runs = sum(n for _, n in there), len(there)
    p = sum(m for m, _ in there) / total
    effective = runs if p in (0, 1) or runs == 1 else total
    if runs > 1 and 0 < p < 1:
        variance = sum(((m - p * n) / total) ** 2 for m, n in there) * runs / (runs - 1)
        quantiles = stats.t.ppf(0.975, runs - 1) / stats.t.ppf(0.975, total - 1)
        if variance > 0:
            independent = p * (1 - p) / (total - 1)
            effective = total / max(1, variance / independent * quantiles**2)
    return p, *intervals.fraction(p * effective, effective)[1:]


def correlations(norm, loss, lags):
    """Spearman's, of the norm some frames after the decrease of the loss; circular."""
    decrease = [a - b for a, b in itertools.pairwise(loss)]
    n = len(decrease)
    later = [[norm[1 + (t + lag) % n] for t in range(n)] for lag in lags]
    return [intervals.spearman(np.array(x), np.array(decrease)) for x in later]


def fisher(r):
    return math.atanh(max(-1 + 1e-9, min(1 - 1e-9, r)))


def check_correlation(table, result, layer, norms, losses, w, interval):
    lags = range(-w, w + 1)
    rows = [correlations(a, b, lags) for a, b in zip(norms, losses, strict=True)]
    rows = [row for row in rows if not math.isnan(row[0])]
    here = table[table["layer"] == layer].set_index("measure")
    first, second = here.loc["rank correlation"], here.loc["more than at far lags"]
    assert first["number"] == second["number"] == len(rows)
    if not rows:
        assert math.isnan(first["value"])
        assert math.isnan(second["value"])
        return
    means = [
        math.tanh(np.mean([fisher(row[k]) for row in rows])) for k in range(2 * w + 1)
    ]
    same("gradients", result["correlation_at_lag"], means)
    best = round(float(result["correlation_lag"])) + w
    assert abs(means[best]) >= max(map(abs, means)) - 1e-9
    same("gradients", first["lag"], (best - w) * interval)
    expected = map(math.tanh, intervals.mean([fisher(row[best]) for row in rows]))
    names = ["value", "value_low", "value_high"]
    same("gradients", first[names], [*expected])
    gains = [row[best] - (row[0] + row[-1]) / 2 for row in rows]
    same("gradients", second[names], intervals.mean_between(gains, -2, 2))
