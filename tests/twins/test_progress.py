"""docs/analyses/progress.md in plain loops."""

import cmath
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import output, progress_measures
from dynamics import all_pairs, read_settings, training_pairs
from tests.twins.differences import check_csv, examples, same
from tests.twins.trajectories import modular


def logits_of(weights, n):
    """CA's network of two numbers, on the sum of their embeddings."""
    e, w, b, u, c = weights
    result = np.empty((n, n, n))
    for i in range(n):
        for j in range(n):
            hidden = np.maximum(w @ (e[i] + e[j]) + b, 0)
            result[i, j] = u @ hidden + c
    return result


def sums(logits):
    n = len(logits)
    m = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            m[(i + j) % n] += logits[i, j] / n
    return m


def fraction_of_sums(logits):
    """Of the variance of centred logits over pairs, at frequencies 1 to n // 2."""
    n = len(logits)
    o = logits - logits.mean(axis=2, keepdims=True)
    variance = ((o - o.mean(axis=(0, 1))) ** 2).sum() / n**2
    m, result = sums(o), [0.0] * (n // 2)
    for k in range(1, n):
        for c in range(n):
            z = (
                sum(m[s, c] * cmath.exp(-2j * math.pi * k * s / n) for s in range(n))
                / n
            )
            result[min(k, n - k) - 1] += abs(z) ** 2
    return [v / variance if variance > 0 else math.nan for v in result]


def parts_of_sums(logits, keys):
    """The components of a + b at the key frequencies, by pair and class."""
    n, m = len(logits), sums(logits)
    at = np.zeros((n, n))
    for k in range(1, n):
        if min(k, n - k) not in keys:
            continue
        wave = [cmath.exp(2j * math.pi * k * s / n) for s in range(n)]
        z = sum(m[s] * wave[s].conjugate() for s in range(n)) / n
        at += np.array([(z * wave[s]).real for s in range(n)])
    return np.array([[at[(i + j) % n] for j in range(n)] for i in range(n)])


def loss_of(logits, pairs):
    n, whole = len(logits), 0.0
    for i, j in pairs:
        row = logits[i, j] - logits[i, j].max()
        whole += math.log(np.exp(row).sum()) - row[(i + j) % n]
    return whole / len(pairs)


def norms_of(table):
    n = len(table)
    power = [0.0] * (n // 2)
    for k in range(1, n):
        z = sum(table[i] * cmath.exp(-2j * math.pi * k * i / n) for i in range(n))
        power[min(k, n - k) - 1] += (abs(z) ** 2).sum() / n
    return [math.sqrt(v) for v in power]


def gini(values):
    n, whole = len(values), sum(values)
    if whole == 0:
        return math.nan
    return sum(abs(a - b) for a in values for b in values) / (2 * n * whole)


def irrelevance(logits):
    n = len(logits)
    if n % 2 == 0:
        return math.nan
    table = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            table[(i + j) % n, (i - j) % n] = logits[i, j, (i + j) % n]
    whole = table.std()
    return table.std(axis=0).mean() / whole if whole > 0 else math.nan


def circularity(e):
    a = e - e.mean(axis=0)
    u, s, _ = np.linalg.svd(a, full_matrices=False)
    if s[0] == 0:
        return math.nan
    shares = []
    for k in range(min(4, e.shape[1], len(s))):
        if s[k] <= 1e-12 * s[0]:
            continue
        power = [v**2 for v in norms_of(u[:, k : k + 1])]
        shares.append(max(power) / sum(power))
    return np.mean(shares)


def first_above(values, bound):
    return next((t for t, v in enumerate(values) if v > bound), None)


LAYERS = ("embedding", "hidden_weight", "hidden_bias", "output_weight", "output_bias")


def test_progress_measures(typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trajectories = []

    @settings(max_examples=examples(4))
    @given(
        st.integers(3, 8),
        st.integers(2, 4),
        st.none() | st.integers(0, 3),
        st.sampled_from(["trained", "random", "zero", "circle"]),
        st.integers(0, 999),
    )
    def check(tokens, frames, last, kind, seed):
        generator = np.random.default_rng(seed)
        steps = [0, *np.cumsum(generator.integers(1, 9, frames - 1)).tolist()]
        last = {} if last is None else {0: min(last, frames - 1)}
        trajectory = modular(tokens, 2, frames, steps, last)
        trajectory = trajectory.assign_coords(epoch=("step", np.array(steps, float)))
        for layer in LAYERS:
            if kind == "random":
                shape = trajectory[layer].shape
                trajectory[layer][:] = generator.standard_normal(shape)
            elif kind == "zero":
                trajectory[layer][:] = 0
        if kind == "circle":
            angle = 2 * np.pi * np.arange(tokens) / tokens
            circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
            trajectory["embedding"][:] = 3 * circle
        accuracy = generator.integers(0, 101, trajectory["accuracy"].shape) / 100
        trajectory["accuracy"][:] = accuracy
        trajectories.append(trajectory)
        result = progress_measures.measure_progress(trajectory)
        rows = progress_measures.progress_rows(result)
        for run in range(2):
            check_run(trajectory, result.isel(run=run), rows[run], run, steps, last)

    check()
    result = progress_measures.measure_progress(trajectories[-1])
    table = output.make_table(progress_measures.progress_rows(result))
    check_csv("progress", typed, [], trajectories[-1], table)


def check_run(trajectory, one, row, run, steps, last):
    n = trajectory.attrs["modulus"]
    s = read_settings(trajectory)
    final = last.get(run, len(steps) - 1)
    both = [(i, j) for i in range(n) for j in range(n)]
    chosen = training_pairs(n, s.train_pairs, trajectory["seed"].values)[run]
    training = [tuple(pair) for pair in all_pairs(n)[chosen].tolist()]
    keys = None
    for t in range(final, -1, -1):
        weights = [trajectory[layer].values[run, t].astype(float) for layer in LAYERS]
        logits = logits_of(weights, n)
        fractions = fraction_of_sums(logits)
        if keys is None:
            keys = [
                k + 1
                for k, v in enumerate(fractions)
                if not math.isnan(v) and v >= 0.02 * max(fractions) - 1e-12
            ]
        here = one.isel(step=t)
        same("progress", here["sum_fraction"], fractions, 1e-6)
        part = parts_of_sums(logits, keys)
        restricted = loss_of(logits.mean(axis=(0, 1)) + part, both)
        same("progress", here["restricted_loss"], restricted, 1e-6)
        same("progress", here["excluded_loss"], loss_of(logits - part, training), 1e-6)
        e, _, _, u, _ = weights
        same("progress", here["embedding_norm"], norms_of(e), 1e-6)
        same("progress", here["map_norm"], norms_of(u), 1e-6)
        same("progress", here["embedding_gini"], gini(norms_of(e)), 1e-6)
        same("progress", here["map_gini"], gini(norms_of(u)), 1e-6)
        same("progress", here["distance_irrelevance"], irrelevance(logits), 1e-6)
        same("progress", here["component_circularity"], circularity(e), 1e-5)
        squares = sum((v**2).sum() for v in weights)
        same("progress", here["squared_weights"], squares, 1e-6)
    accuracy = np.round(100 * trajectory["accuracy"].values[run, : final + 1])
    memorised = first_above(accuracy[:, 0], 99)
    generalised = first_above(accuracy[:, 1], 90) if accuracy.shape[1] > 1 else None
    for name, t in (("memorised", memorised), ("generalised", generalised)):
        same("progress", row[name], math.nan if t is None else steps[t])
