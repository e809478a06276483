"""docs/analyses/phases.md in plain loops."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.clustering_heads import measure_circuits
from analysis.clustering_heads.learning_phases import measure_learning_phases
from dynamics import read_settings
from tests.twins import heads
from tests.twins.differences import examples, same

COUNTED = 2


def linked(points):
    """The number of the cluster of each point: single linkage with links up to a tenth
    of the root mean square distance from the mean. Points whose distances are rounding
    errors, up to 1e-6 of the largest coordinate, are one cluster."""
    distance = math.sqrt(heads.spread(points))
    if distance <= 1e-6 * np.abs(points).max():
        return [0] * len(points)
    longest = 0.1 * distance
    cluster = list(range(len(points)))
    for i, j in itertools.combinations(range(len(points)), 2):
        if cluster[i] != cluster[j] and math.dist(points[i], points[j]) <= longest:
            old, new = cluster[i], cluster[j]
            cluster = [new if c == old else c for c in cluster]
    return cluster


def short_training(vocab, length, dim, frames):
    task = heads.settings_of(vocab, length, tuple(range(COUNTED)), dim, "rms", hidden=3)
    return heads.trained(task, 2, frames)


def half_way(values, times):
    """From which time on values stay at or above the middle of the first and the last."""
    if any(map(math.isnan, values)) or values[-1] - values[0] < 0.01:
        return math.nan
    middle = (values[0] + values[-1]) / 2
    since = len(values) - 1
    while since > 0 and values[since - 1] >= middle:
        since -= 1
    return times[since]


def fractions(trajectory, run, frames):
    """Of the variance between the clusters of the last frame, and between multisets of
    the tokens that count."""
    task = read_settings(trajectory)
    inputs = heads.all_sequences(task)
    points = []
    for t in range(frames):
        weights = heads.weights_of(trajectory, run, t)
        table = heads.table_of(weights, task)
        points.append(np.array([heads.attend(x, weights, table)[1] for x in inputs]))
    clusters = linked(points[-1])
    multisets = [tuple(sorted(x[:COUNTED])) for x in inputs]
    final, multiset = (
        [heads.between(at, groups) for at in points] for groups in (clusters, multisets)
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
        for layer in heads.LAYERS:
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
        final, multiset = fractions(trajectory, run, frames)
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
