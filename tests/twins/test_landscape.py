"""docs/analyses/landscape.md in plain loops."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis import plots
from analysis.linearization import training_model
from analysis.loss_geometry import loss_barriers, loss_landscape
from analysis.loss_geometry.parameter_planes import random_plane
from tests.twins.differences import examples, is_drawn, same
from tests.twins.networks import (
    NAMES,
    flat,
    modular_loss,
    pairs_of,
    unflat,
    weights_of,
)
from tests.twins.trajectories import modular


def coordinates(x, directions):
    """The nearest point of the plane of the directions, and the distance from it."""
    c = np.linalg.lstsq(directions.T, x, rcond=None)[0]
    return c, np.linalg.norm(x - c @ directions)


def frames_of(trajectory, run, frames):
    return np.array([flat(weights_of(trajectory, run, t)) for t in frames])


def check_plane(result, x, origin, directions, loss):
    """directions (2, parameter), of the signs that the result has."""
    for k, frame in enumerate(x):
        c, distance = coordinates(frame - origin, directions)
        here = result.isel(step=k)
        size = np.abs(x - origin).max() or 1.0
        same("landscape", [here["frame_u"], here["frame_v"]] / size, c / size, 1e-6)
        same("landscape", here["distance"] / size, distance / size, 1e-6)
        same("landscape", here["frame_loss"], loss(frame))
        same("landscape", here["projected_loss"], loss(origin + c @ directions), 1e-6)
    for i, j in itertools.product(range(result.sizes["v"]), range(result.sizes["u"])):
        at = result["u"].values[j], result["v"].values[i]
        value = loss(origin + np.array(at) @ directions)
        same("landscape", result["loss"][i, j], value, 1e-6)


@settings(max_examples=examples(5))
@given(
    st.integers(2, 6),
    st.sampled_from(["trajectory", "frames", "random"]),
    st.lists(st.integers(0, 7), min_size=3, max_size=5, unique=True),
    st.none() | st.integers(4, 6),
    st.integers(0, 5),
)
def test_planes(tokens, plane, frames, last, seed):
    trajectory = modular(tokens, 2, 8, last={} if last is None else {1: last})
    frames = sorted(frames)[:3] if plane == "frames" else sorted(frames)
    valid = [t for t in frames if last is None or t <= last]
    if len(valid) < 3:
        return
    result = loss_landscape(trajectory, frames, plane, run=1, points=3, seed=seed)
    like = weights_of(trajectory, 1, 0)
    pairs = pairs_of(trajectory, 1)

    def loss(x):
        return modular_loss(unflat(x, like), pairs, tokens)

    x = frames_of(trajectory, 1, valid)
    assert result["step"].values.tolist() == [int(trajectory["step"][t]) for t in valid]
    if plane == "trajectory":
        origin = x[-1]
        s, directions = np.linalg.svd(x - origin, full_matrices=False)[1:]
        same("landscape", result["explained"], (s**2 / (s**2).sum())[:2], 1e-9)
        directions = directions[:2]
    elif plane == "frames":
        origin = x[0]
        first = (x[1] - origin) / np.linalg.norm(x[1] - origin)
        second = x[2] - origin - (x[2] - origin) @ first * first
        directions = np.array([first, second / np.linalg.norm(second)])
    else:
        origin = x[-1]
        directions = check_directions(trajectory, valid[-1], seed)
    for row, name in zip(directions, ("frame_u", "frame_v"), strict=True):
        ours, twin = result[name].values, (x - origin) @ row
        if plane != "random" and ours @ twin < 0:
            row *= -1
    check_plane(result, x, origin, directions, loss)
    if plane == "frames":
        part = ((x - origin) @ directions.T) ** 2
        whole = ((x - origin) ** 2).sum()
        same("landscape", result["explained"], part.sum(axis=0) / whole)


def test_the_path_is_drawn():
    result = loss_landscape(modular(4, 1, 5), range(5), points=3)
    axes = plots.plot_landscape(result).axes[0]
    is_drawn("landscape", axes, result["frame_u"], result["frame_v"])


def check_directions(trajectory, frame, seed):
    """Each filter has the norm of its weights, and biases have no part."""
    weights = weights_of(trajectory, 1, frame)
    model = training_model(trajectory, 1)
    plane = random_plane(model, model.row(0, frame), seed)
    directions = []
    for direction in plane.directions:
        pieces = {k: v.numpy() for k, v in model.unflatten(direction).items()}
        for name in NAMES:
            if name.endswith("bias"):
                assert not pieces[name].any()
            else:
                expected = np.linalg.norm(weights[name], axis=1)
                same("landscape", np.linalg.norm(pieces[name], axis=1), expected)
        directions.append(flat(pieces))
    return np.array(directions)


def test_random_directions_point_everywhere():
    """The angles of filters of two numbers are uniform, over seeds and directions."""
    trajectory = modular(4, 1, 2)
    model = training_model(trajectory, 0)
    angles = []
    for seed in range(40):
        for direction in random_plane(model, model.row(0, 0), seed).directions:
            x, y = model.unflatten(direction)["embedding"].numpy().T
            angles += np.arctan2(y, x).tolist()
    assert len(set(angles)) == len(angles)
    uniform = stats.uniform(-np.pi, 2 * np.pi)
    assert stats.kstest(angles, uniform.cdf).pvalue > 0.01


@settings(max_examples=examples(5))
@given(
    st.integers(2, 5),
    st.integers(2, 3),
    st.integers(3, 5),
    st.booleans(),
    st.booleans(),
)
def test_lines(tokens, runs, points, equal_units, diverged):
    trajectory = modular(tokens, runs + diverged, 8, last={0: 3} if diverged else {})
    trajectory = trajectory.copy(deep=True)
    if equal_units:
        trajectory["hidden_weight"][:, :, 0] = trajectory["hidden_weight"][:, :, 1]
        trajectory["hidden_bias"][:, :, 0] = trajectory["hidden_bias"][:, :, 1]
    result = loss_barriers(trajectory, points=points)
    first = int(diverged)
    pairs = list(itertools.combinations(range(first, runs + first), 2))
    seeds = trajectory["seed"].values
    assert result["first"].values.tolist() == [seeds[i] for i, _ in pairs]
    assert result["second"].values.tolist() == [seeds[j] for _, j in pairs]
    for k, (i, j) in enumerate(pairs):
        one, other = (weights_of(trajectory, run, -1) for run in (i, j))
        training = pairs_of(trajectory, i)
        here = result.isel(pair=k)
        for prefix, end in (("", other), ("matched_", matched(one, other))):
            fractions = result["fraction"].values
            assert np.allclose(fractions, np.linspace(0, 1, points))
            losses = [
                modular_loss(
                    {n: (1 - f) * one[n] + f * end[n] for n in NAMES}, training, tokens
                )
                for f in fractions
            ]
            line = [(1 - f) * losses[0] + f * losses[-1] for f in fractions]
            same("landscape, lines", here[f"{prefix}loss"], losses)
            barrier = np.max(np.subtract(losses, line))
            same("landscape, lines", here[f"{prefix}barrier"], barrier)


def matched(one, other):
    """The permutation of hidden units with the largest inner product."""
    best, result = -np.inf, None
    for order in itertools.permutations(range(len(one["hidden_bias"]))):
        order = list(order)
        moved = other | {
            "hidden_weight": other["hidden_weight"][order],
            "hidden_bias": other["hidden_bias"][order],
            "output_weight": other["output_weight"][:, order],
        }
        value = sum((one[name] * moved[name]).sum() for name in NAMES)
        if value > best + 1e-12:
            best, result = value, moved
    return result
