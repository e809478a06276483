"""docs/analyses/phases.md in plain loops."""

import functools
import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.clustering_heads import measure_circuits
from analysis.clustering_heads.learning_phases import measure_learning_phases
from dynamics import SparseSettings, simulate
from tests.twins.differences import examples, same
from tests.twins.heads import LAYERS, weights_of

COUNTED = 2


def sequences(vocab, length):
    """All sequences."""
    return list(itertools.product(range(vocab), repeat=length))


def normalised(x):
    """To a root mean square of 1; 0 stays 0."""
    return x / (math.sqrt((x**2).mean()) + 1e-5)


def sequence_embedding(weights, tokens):
    """The sequence embedding, and the attention on each position."""
    e, p, q = (weights[name] for name in ("embedding", "position_embedding", "query"))
    z = np.array([normalised(e[x] + p[t]) for t, x in enumerate(tokens)])
    scores = z @ q / math.sqrt(len(q))
    attention = np.exp(scores - scores.max())
    attention /= attention.sum()
    return weights["value"] @ (attention @ z), attention


def logits(weights, tokens):
    xi, _ = sequence_embedding(weights, tokens)
    before = weights["receptor"] @ normalised(xi) + weights["receptor_bias"]
    hidden = [b * (1 + math.erf(b / math.sqrt(2))) / 2 for b in before]
    zeta = xi + hidden @ weights["assembler"] + weights["transform_bias"]
    return weights["embedding"] @ zeta


def variance(points):
    """Summed over axes."""
    points = np.asarray(points)
    return ((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()


def variance_fraction(points, groups):
    """The fraction of the variance between groups."""
    means = {}
    for group in set(groups):
        inside = [x for x, g in zip(points, groups, strict=True) if g == group]
        means[group] = np.mean(inside, axis=0)
    whole = variance(points)
    if whole <= 1e-12 * max(float(x @ x) for x in points):
        return math.nan
    return variance([means[g] for g in groups]) / whole


def linked(points):
    """The number of the cluster of each point: single linkage with links up to a tenth
    of the root mean square distance from the mean."""
    longest = 0.1 * math.sqrt(variance(points))
    cluster = list(range(len(points)))
    for i, j in itertools.combinations(range(len(points)), 2):
        if cluster[i] != cluster[j] and math.dist(points[i], points[j]) <= longest:
            old, new = cluster[i], cluster[j]
            cluster = [new if c == old else c for c in cluster]
    return cluster


@functools.cache
def short_training(vocab, length, dim, frames):
    task = {"vocab": vocab, "length": length, "sparsity": COUNTED, "dim": dim}
    s = SparseSettings(**task, hidden=3, data=16, batch=8)
    return simulate(s, runs=2, steps=frames - 1, every=1, progress=False)


def half_way(values, times):
    """From which time on values stay at or above the middle of the first and the last."""
    if any(map(math.isnan, values)) or values[-1] - values[0] < 0.01:
        return math.nan
    middle = (values[0] + values[-1]) / 2
    since = len(values) - 1
    while since > 0 and values[since - 1] >= middle:
        since -= 1
    return times[since]


def fractions(trajectory, run, frames, vocab, length):
    """Of the variance between the clusters of the last frame, and between multisets of
    the tokens that count."""
    inputs = sequences(vocab, length)
    points = []
    for t in range(frames):
        weights = weights_of(trajectory, run, t)
        points.append([sequence_embedding(weights, x)[0] for x in inputs])
    clusters = linked(points[-1])
    multisets = [tuple(sorted(x[:COUNTED])) for x in inputs]
    final, multiset = (
        [variance_fraction(at, groups) for at in points]
        for groups in (clusters, multisets)
    )
    return final if len(set(clusters)) > 1 else [math.nan] * frames, multiset


@settings(max_examples=examples(4))
@given(
    st.sampled_from([(2, 2), (2, 4), (3, 3)]),
    st.integers(1, 3),
    st.integers(2, 6),
    st.none() | st.integers(0, 5),
    st.sampled_from(["trained", "random", "symmetric", "constant"]),
    st.integers(0, 999),
)
def test_learning_phases(task, dim, frames, last, kind, seed):
    generator = np.random.default_rng(seed)
    trajectory = short_training(*task, dim, frames).isel(step=slice(frames))
    trajectory = trajectory.copy(deep=True)
    times = np.cumsum(generator.integers(1, 9, frames)) / 2
    trajectory = trajectory.assign_coords(epoch=("step", times))
    if kind != "trained":
        for layer in LAYERS:
            values = generator.standard_normal(trajectory[layer].shape)
            trajectory[layer][:] = values
    if kind == "symmetric":
        # with a growing number of frames in which positions are equal
        equal = generator.integers(0, frames + 1)
        trajectory["position_embedding"][:, equal:] = 1.0
    elif kind == "constant":
        trajectory["embedding"][:] = 0.5
        trajectory["position_embedding"][:] = 0.0
    for name in ("accuracy", "loss"):
        values = generator.integers(0, 9, trajectory[name].shape) / 8
        trajectory[name][:] = values
    trajectory["last_step"][:] = int(trajectory["step"][-1])
    if last is not None and last < frames - 1:
        trajectory["last_step"][0] = int(trajectory["step"][last])
        trajectory["status"][0] = 2
    result = measure_learning_phases(trajectory)
    for run in range(2):
        one = result.isel(run=run)
        diverged = run == 0 and last is not None and last < frames - 1
        if diverged:
            for name in ("formed", "separated", "fitted"):
                assert np.isnan(one[name])
            continue
        final, multiset = fractions(trajectory, run, frames, *task)
        same("phases", one["final_share"], final)
        same("phases", one["multiset_share"], multiset)
        train = trajectory.isel(run=run).sel(split="train")
        accuracy, loss = (train[name].values.tolist() for name in ("accuracy", "loss"))
        same("phases", one["formed"], half_way(final, times))
        same("phases", one["separated"], half_way(accuracy, times))
        same("phases", one["fitted"], half_way([-v for v in loss], times))


def test_circuits_have_these_phases():
    trajectory = short_training(2, 4, 2, 6)
    circuits, phases = measure_circuits(trajectory), measure_learning_phases(trajectory)
    for name in ("formed", "separated", "fitted"):
        same("phases", circuits[name], phases[name])
