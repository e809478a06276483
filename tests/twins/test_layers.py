"""docs/analyses/weight_spectra.md, activations.md and the shapes of compare.md in plain
loops."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.loss_geometry import weight_spectra
from analysis.structures import compare_trajectories, representation_measures
from tests.twins.correlations import cosine
from tests.twins.intervals import equal
from tests.twins.trajectories import modular, particles

LAYERS = ("embedding", "hidden_weight", "hidden_bias", "output_weight", "output_bias")

# ------------------------------------------------------------------------------- twins


def matrix(w):
    """The first axis against all others; a vector is a single row."""
    w = np.asarray(w, float)
    return w[None] if w.ndim == 1 else w.reshape(len(w), -1)


def ranks(w):
    """Singular values, effective and stable rank."""
    s = np.linalg.svd(matrix(w), compute_uv=False)
    if s.sum() == 0:
        return s, math.nan, math.nan
    p = s / s.sum()
    entropy = -sum(v * math.log(v) for v in p if v > 0)
    return s, math.exp(entropy), (s**2).sum() / s[0] ** 2


def cka(x, y):
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    below = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return np.linalg.norm(x.T @ y) ** 2 / below if below > 0 else math.nan


def shape_distance(x, y):
    """Full Procrustes distance; of a single point 0 from another one, 1 from others."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = np.linalg.norm(x) * np.linalg.norm(y)
    if size == 0:
        return 0.0 if np.linalg.norm(x) == np.linalg.norm(y) else 1.0
    overlap = np.linalg.svd(x.T @ y, compute_uv=False).sum() / size
    return math.sqrt(max(0.0, 1 - overlap**2))


def relabelled_distance(x, y):
    n = len(x)
    units = [u for u in range(1, n) if math.gcd(u, n) == 1]
    return min(
        shape_distance(x, np.array([y[u * i % n] for i in range(n)])) for u in units
    )


def participation(x):
    a = x - x.mean(axis=0)
    c = a.T @ a
    below = np.trace(c @ c)
    return np.trace(c) ** 2 / below if below > 0 else math.nan


def departure(moved, moments):
    """The moment at which half of the largest distance is first reached."""
    half = max(moved) / 2
    if half == 0:
        return math.nan
    for t in range(1, len(moved)):
        if moved[t] >= half:
            part = (half - moved[t - 1]) / (moved[t] - moved[t - 1])
            return moments[t - 1] + part * (moments[t] - moments[t - 1])
    return math.nan


# ------------------------------------------------------------------------------- tests


@settings(max_examples=6)
@given(
    st.integers(2, 6),
    st.integers(1, 2),
    st.sets(st.integers(0, 7), min_size=1),
    st.sampled_from(["trained", "zero", "still", "one value"]),
    st.none() | st.integers(0, 6),
)
def test_weight_spectra(tokens, runs, frames, kind, last):
    trajectory = modular(tokens, runs, 8, last={} if last is None else {0: last})
    for layer in LAYERS:
        w = trajectory[layer].values
        if kind == "zero":
            w[:] = 0
        elif kind == "still":
            w[:] = w[:, :1]
        elif kind == "one value":
            w[:] = 0.5
    frames = sorted(frames)
    result = weight_spectra(trajectory, frames, values=3)
    for run, layer in itertools.product(range(runs), LAYERS):
        w = trajectory[layer].values[run].astype(float)
        one = result.isel(run=run).sel(layer=layer)
        valid = [t for t in frames if run or last is None or t <= last]
        for k, t in enumerate(frames):
            there = one.isel(step=k)
            if t not in valid:
                assert np.isnan(there["effective_rank"])
                assert np.isnan(there["distance"])
                continue
            s, effective, stable = ranks(w[t])
            equal(there["value"][: len(s)], s[:3], 1e-6)
            equal(there["effective_rank"], effective, 1e-5)
            equal(there["stable_rank"], stable, 1e-6)
            equal(there["norm"], np.linalg.norm(w[t]), 1e-6)
            equal(there["distance"], np.linalg.norm(w[t] - w[0]), 1e-6)
            expected = math.nan
            if 0 < k < len(valid) - 1:
                before, after = w[t] - w[valid[k - 1]], w[valid[k + 1]] - w[t]
                expected = cosine(before, after)
            equal(there["update_alignment"], expected, 1e-6)


@settings(max_examples=6)
@given(
    st.integers(2, 6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 999),
    st.booleans(),
)
def test_activations(examples, features, runs, frames, seed, constant):
    x = np.random.default_rng(seed).standard_normal((runs, frames, examples, features))
    if constant:
        x[0, 0] = 1.5
    trajectory = modular(5, runs, 3).isel(step=slice(frames))
    trajectory["last_step"][:] = frames - 1
    trajectory["activation.a"] = (("run", "step", "example", "feature"), x)
    result = representation_measures(trajectory, range(frames)).sel(layer="a")
    for run, t in itertools.product(range(runs), range(frames)):
        one, y = result.isel(run=run, step=t), x[run, t]
        equal(one["participation_ratio"], participation(y))
        equal(one["cka_to_last"], cka(y, x[run, -1]))
        equal(one["procrustes_to_last"], shape_distance(y, x[run, -1]), 1e-6)
        equal(one["cka_step"], cka(x[run, t - 1], y) if t else math.nan)
        others = [cka(y, x[other, t]) for other in range(runs) if other != run]
        others = [v for v in others if not math.isnan(v)]
        equal(one["cka_between_runs"], np.mean(others) if others else math.nan)


@settings(max_examples=12)
@given(st.integers(3, 9), st.integers(1, 3), st.integers(1, 4), st.integers(0, 999))
def test_shapes_and_departures(tokens, runs, frames, seed):
    generator = np.random.default_rng(seed)
    x, y = (generator.standard_normal((runs, frames, tokens, 2)) for _ in range(2))
    gaps = generator.integers(1, 9, frames - 1)
    steps = np.concatenate([[0], np.cumsum(gaps)])
    result = compare_trajectories(particles(x, steps), particles(y, steps))
    for i, j in itertools.product(range(runs), repeat=2):
        equal(result["between"][i, j], relabelled_distance(x[i, -1], y[j, -1]), 1e-6)
        for side, z in (("first", x), ("second", y)):
            within = relabelled_distance(z[i, -1], z[j, -1]) if i != j else math.nan
            equal(result[f"within_{side}"][i, j], within, 1e-6)
    if frames == 1:
        return
    for side, z in (("first", x), ("second", y)):
        for run in range(runs):
            expected = relabelled_distance(z[run, -1], z[run, 0])
            equal(result[f"{side}_from_start"][run], expected, 1e-6)
            moved = [np.linalg.norm(frame - z[run, 0]) for frame in z[run]]
            when = departure(moved, steps / steps[-1])
            equal(result[f"{side}_departure"][run], when)
