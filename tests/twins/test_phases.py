"""Phases and gradient symmetricity of docs/analyses/progress.md in plain loops."""

import functools
import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.progress_measures import (
    gradient_symmetricity,
    grokking_phases,
    measure_progress,
    random_triples,
)
from dynamics import TransformerSettings, simulate
from dynamics.networks import network_of
from tests.twins import events
from tests.twins.differences import examples, same
from tests.twins.trajectories import modular

# ------------------------------------------------------------------------------- twins


def drops(x):
    """In windows of 5, 10 and 20% of the frames."""
    found = events.events(x, window=0.05)
    return [event for event in found if event.kind == "drop"]


def phases(losses, accuracies):
    """First and last frame of each phase; None for a phase that the run does not have."""
    first = drops(losses)
    if not first:
        return None, None, None
    memorised = first[0].end
    errors = [1 - v for v in accuracies]
    start = math.ceil(memorised)
    later = drops(errors[start:])
    if not later:
        return (0.0, memorised), None, None
    largest = max(later, key=lambda event: event.before - event.after)
    if largest.after > largest.before / 2 * (1 + 1e-6):
        return (0.0, memorised), None, None
    begin, end = (start + moment for moment in (largest.begin, largest.end))
    return (0.0, memorised), (memorised, begin), (begin, end)


def softmax(x):
    x = np.exp(x - x.real.max())
    return x / x.sum()


def gradients(weights, s, i, j, c):
    """Of logit c at both embeddings, by complex steps."""

    def logit(first, second):
        rows = [first, second]
        if s.equals_token:
            rows.append(weights["embedding"][s.n])
        x = np.array(rows) + weights["position_embedding"]
        for block in range(s.layers):
            moved = np.zeros_like(x)
            for t in range(len(x)):
                seen = x[: t + 1] if s.causal else x
                for head in range(s.heads):
                    q, k, v = (
                        weights[f"{n}_weight"][block, head]
                        for n in ("query", "key", "value")
                    )
                    scores = seen @ k.T @ (q @ x[t]) / math.sqrt(len(q))
                    share = s.attention_rate * softmax(scores) + 1 - s.attention_rate
                    out = weights["attention_output"][block, :, head]
                    moved[t] += out @ (share @ (seen @ v.T))
            x = x + moved
            hidden = (
                x @ weights["mlp_input"][block].T + weights["mlp_input_bias"][block]
            )
            x = (
                x
                + (hidden * (hidden.real > 0)) @ weights["mlp_output"][block].T
                + weights["mlp_output_bias"][block]
            )
        return weights["unembedding"][c] @ x[-1]

    a, b = weights["embedding"][i], weights["embedding"][j]
    moves = 1e-30j * np.eye(s.dim)
    one = [logit(a + move, b).imag / 1e-30 for move in moves]
    two = [logit(a, b + move).imag / 1e-30 for move in moves]
    return np.array(one), np.array(two)


def symmetricity(weights, s, triples):
    cosines = []
    for i, j, c in triples:
        one, two = gradients(weights, s, i, j, c)
        size = math.sqrt((one @ one) * (two @ two))
        if size > 1e-12:
            cosines.append(one @ two / size)
    return np.mean(cosines) if cosines else math.nan


# ------------------------------------------------------------------------------- tests


@st.composite
def curves(draw):
    """Training losses and accuracies of the other pairs, of three runs."""
    frames = draw(st.integers(6, 120))
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    x = np.arange(frames)
    losses, accuracies = np.empty((2, 3, frames))
    for run in range(3):
        kind = draw(st.sampled_from(["grokking", "grokking", "steps", "flat", "noise"]))
        a, b = np.sort(generator.integers(0, frames, 2))
        width = generator.choice([0.1, 1.0, frames / 20])
        losses[run] = 3 / (1 + np.exp(np.clip((x - a) / width, -50, 50)))
        accuracies[run] = 0.1 + 0.9 / (1 + np.exp(np.clip((b - x) / width, -50, 50)))
        if kind == "steps":
            edges = np.sort(generator.integers(0, frames, 3))
            accuracies[run] = np.array([0.1, 0.3, 0.7, 1.0])[
                (x[:, None] >= edges).sum(axis=1)
            ]
        elif kind == "flat":
            losses[run], accuracies[run] = 1.0, generator.choice([0.0, 0.2, 1.0])
        elif kind == "noise":
            losses[run] = generator.random(frames)
            accuracies[run] = generator.random(frames)
    accuracies = np.round(accuracies * 20) / 20
    gaps = generator.integers(1, draw(st.sampled_from([2, 6])), frames - 1)
    steps = [0, *np.cumsum(gaps).tolist()]
    last = {1: draw(st.integers(0, frames - 2))} if draw(st.booleans()) else {}
    return losses, accuracies, steps, last


def test_phases_of_runs():
    @settings(max_examples=examples(20))
    @given(curves())
    def check(case):
        losses, accuracies, steps, last = case
        frames = len(steps)
        trajectory = modular(4, 3, frames, steps, last)
        trajectory = trajectory.assign_coords(epoch=("step", np.array(steps, float)))
        trajectory["loss"][..., 0] = losses
        trajectory["accuracy"][..., 1] = accuracies
        result = grokking_phases(trajectory)
        for run in range(3):
            until = last.get(run, frames - 1) + 1
            x = trajectory["loss"].values[run, :until, 0].astype(float).tolist()
            y = trajectory["accuracy"].values[run, :until, 1].astype(float).tolist()
            for k, phase in enumerate(phases(x, y)):
                one = result.isel(run=run, phase=k)
                expected = [math.nan] * 2
                if phase is not None:
                    expected = [events.at_step(moment, steps) for moment in phase]
                same("phases", [one["begin"], one["end"]], expected)

    check()


@functools.cache
def transformer(**options):
    s = TransformerSettings(n=5, dim=4, hidden=6, heads=2, train_share=0.6, **options)
    return s, simulate(s, runs=1, steps=2, every=1, progress=False)


def test_symmetricity_of_transformers():
    @settings(max_examples=examples(6))
    @given(
        st.sampled_from([0.0, 0.5, 1.0]),
        st.booleans(),
        st.booleans(),
        st.integers(1, 2),
        st.integers(0, 2**31),
    )
    def check(rate, equals, causal, layers, seed):
        s, trajectory = transformer(
            attention_rate=rate, equals_token=equals, causal=causal, layers=layers
        )
        generator = np.random.default_rng(seed)
        network = network_of(trajectory)
        weights = {
            n: generator.standard_normal(trajectory[n].shape[2:])
            for n in network.variables
        }
        triples = random_triples(5, seed, 8)
        given_weights = {n: torch.from_numpy(v) for n, v in weights.items()}
        ours = gradient_symmetricity(network, given_weights, triples)
        same("progress", ours, symmetricity(weights, s, triples.tolist()), 1e-5)

    check()


def test_symmetricity_of_trajectories():
    """That of the triples of the seed."""
    s, trajectory = transformer(attention_rate=1.0)
    result = measure_progress(trajectory)
    names = network_of(trajectory).variables
    seed = int(trajectory["seed"][0])
    for frame in range(3):
        weights = {n: trajectory[n].values[0, frame].astype(float) for n in names}
        twin = symmetricity(weights, s, random_triples(5, seed).tolist())
        same("progress", result["gradient_symmetricity"][0, frame], twin, 1e-5)
