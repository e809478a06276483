"""docs/analyses/curvature.md, edge.md and spectral_density.md with matrices from
differences of gradients and forces."""

import dataclasses
import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis import plots
from analysis.linearization import linearize_trajectory, tabulate_curvature
from analysis.loss_geometry import edge_of_stability, spectral_density
from dynamics import ModularSettings, SparseSettings, read_settings, simulate
from dynamics.tasks import distinct_sequences
from tests import naive
from tests.twins import intervals
from tests.twins.differences import examples, is_drawn, row_has, same
from tests.twins.networks import (
    flat,
    modular_gradient,
    modular_hessian,
    modular_loss,
    pairs_of,
    weights_of,
)
from tests.twins.trajectories import modular, particles

# ------------------------------------------------------------------------------- twins


def curvature_of(trajectory, run, frame):
    weights, pairs = weights_of(trajectory, run, frame), pairs_of(trajectory, run)
    return modular_hessian(weights, pairs, read_settings(trajectory).n)


def shares(hessian, movement):
    """Of the movement along the lowest and the highest eigenvector and within those of
    negative eigenvalues; the fraction of negative eigenvalues."""
    values, vectors = np.linalg.eigh(hessian)
    size = movement @ movement
    negative = values < -1e-6 * np.abs(values).max()
    if size == 0 or math.isnan(size):
        return math.nan, math.nan, math.nan, negative.mean()
    part = (vectors.T @ movement) ** 2 / size
    return part[0], part[-1], part[negative].sum(), negative.mean()


def kind(rates):
    """0 stable, 1 saddle, 2 unstable; the number of growing modes."""
    least = 1e-6 * np.abs(rates).max()
    grow, decay = (rates > least).sum(), (rates < -least).sum()
    if grow and decay:
        return 1, grow
    return (2 if grow else 0), grow


def largest_fall(losses, most):
    """The frame before the largest decrease of the running minimum below a level."""
    lowest = np.minimum.accumulate(np.minimum(losses, most))
    falls = lowest[:-1] - lowest[1:]
    if len(falls) == 0 or falls.max() <= 0:
        return None
    return int(np.argmax(falls))


def repeated(trajectory, run, last):
    """The frames after the last one of a diverged run repeat it."""
    if last is not None:
        for name in trajectory.data_vars:
            if "step" in trajectory[name].dims:
                trajectory[name][run, last + 1 :] = trajectory[name][run, last].values
    return trajectory


# ------------------------------------------------------------------------------- tests


@settings(max_examples=examples(3))
@given(
    st.integers(2, 5),
    st.lists(st.integers(0, 5), min_size=1, max_size=2, unique=True),
    st.none() | st.integers(0, 4),
    st.booleans(),
)
def test_curvature_of_networks(tokens, frames, last, uneven):
    frames = sorted(frames)
    steps = [0, 1, 3, 4, 8, 9] if uneven else None
    trajectory = modular(tokens, 2, 6, steps, {} if last is None else {0: last})
    trajectory = repeated(trajectory, 0, last)
    result = linearize_trajectory(trajectory, frames, quiet=True)
    for run, (k, t) in itertools.product(range(2), enumerate(frames)):
        here = result.isel(run=run, step=k)
        final = last if run == 0 and last is not None else 5
        if t > final:
            assert np.isnan(here["sharpness"])
            assert here["kind"] == -1
            continue
        hessian = curvature_of(trajectory, run, t)
        values = np.linalg.eigvalsh(hessian)
        same("curvature", np.sort(here["growth_rate"]), np.sort(-values), 1e-6)
        same("curvature", here["rotation_rate"], 0)
        same("curvature", here["sharpness"], values[-1], 1e-6)
        same("curvature", here["trace"], np.trace(hessian), 1e-6)
        movement = np.full(len(values), math.nan)
        if t < final:
            here_and_next = (flat(weights_of(trajectory, run, f)) for f in (t, t + 1))
            movement = -np.subtract(*here_and_next)
        expected = shares(hessian, movement)
        for name, value in zip(
            ("lowest_share", "highest_share", "negative_share"), expected, strict=False
        ):
            if name == "negative_share" or well_apart(values, name):
                same("curvature", here[name], value, 1e-4)
        same("curvature", here["negative_chance"], expected[3], 1e-6)
        assert (int(here["kind"]), float(here["growing_modes"])) == kind(-values)
        at = 0
        for layer in result["layer"].values:
            size = trajectory[layer][0, 0].size
            block = np.linalg.eigvalsh(hessian[at : at + size, at : at + size])
            at += size
            one = here.sel(layer=layer)
            same("curvature", one["layer_lowest"], block[0], 1e-6)
            same("curvature", one["layer_highest"], block[-1], 1e-6)
    check_escapes(trajectory, result, last)
    check_curvature_rows(result)


def well_apart(values, name):
    """The eigenvector is not one of several."""
    gap = values[1] - values[0] if name == "lowest_share" else values[-1] - values[-2]
    return gap > 1e-4 * np.abs(values).max()


def check_escapes(trajectory, result, last):
    """Within the largest fall of the training loss below ln N."""
    for run in range(2):
        final = last if run == 0 and last is not None else 5
        losses = trajectory["loss"].sel(split="train").values[run, : final + 1]
        n = read_settings(trajectory).n
        at = largest_fall(losses.astype(float), math.log(n))
        one = result.isel(run=run)
        if at is None:
            assert one["escape_step"] == -1
            assert np.isnan(one["escape_negative_share"])
            continue
        assert one["escape_step"] == trajectory["step"][at]
        hessian = curvature_of(trajectory, run, at)
        movement = flat(weights_of(trajectory, run, at + 1)) - flat(
            weights_of(trajectory, run, at)
        )
        expected = shares(hessian, movement)
        same("curvature", one["escape_negative_share"], expected[2], 1e-4)
        same("curvature", one["escape_negative_chance"], expected[3], 1e-6)


def check_curvature_rows(result):
    """Medians, means of fractions, and fractions of runs."""
    table = tabulate_curvature(result)
    for k, row in enumerate(table.astype(float).to_dict("records")):
        here = result.isel(step=k)
        valid = np.isfinite(here["sharpness"].values)
        assert row["runs"] == valid.sum()
        kinds = here["kind"].values[valid]
        for name, values in (
            ("growing_modes", here["growing_modes"].values[valid]),
            ("sharpness", here["sharpness"].values[valid]),
            ("largest_growth", here["growth_rate"].values[valid].max(axis=1)),
        ):
            row_has("curvature", row, name, intervals.median(values))
        above = here["sharpness"].values[valid] > here["limit"].values[valid]
        for name, values in (
            ("above_threshold", above),
            ("stable", kinds == 0),
            ("saddle", kinds == 1),
            ("unstable", kinds == 2),
        ):
            row_has(
                "curvature", row, name, intervals.fraction(values.sum(), len(values))
            )
        for name in ("lowest_share", "negative_share", "negative_chance"):
            if name in row:
                values = here[name].values[valid]
                row_has("curvature", row, name, intervals.mean_between(values))


@settings(max_examples=examples(3))
@given(
    st.integers(2, 6),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.integers(0, 99),
)
def test_curvature_of_particles(tokens, axes, alignment, seed):
    x = np.random.default_rng(seed).standard_normal((2, 1, tokens, axes))
    for run in range(2):
        x[run, 0] = naive.normalise(x[run, 0], "overall")
    trajectory = particles(x)
    s = read_settings(trajectory)
    if tokens * axes - axes - 1 - axes * (axes - 1) // 2 <= 0:
        return
    result = linearize_trajectory(trajectory, [0], quiet=True)
    for run in range(2):
        here = result.isel(run=run, step=0)
        motion, force = (
            differences(lambda y, k=k: normalised_motion(y, s)[k], x[run, 0])
            for k in range(2)
        )
        basis = free_directions(x[run, 0])
        modes = np.linalg.eigvals(basis.T @ motion @ basis)
        ours = here["growth_rate"].values + 1j * here["rotation_rate"].values
        size = np.abs(modes).max()
        check_spectrum(ours / size, modes / size)
        modes = np.linalg.eigvals(force)
        ours = (
            here["force_growth_rate"].values + 1j * here["force_rotation_rate"].values
        )
        check_spectrum(ours / np.abs(modes).max(), modes / np.abs(modes).max())
        odd = np.linalg.norm((force - force.T) / 2) / np.linalg.norm(force)
        same("curvature, particles", here["asymmetry"], odd, 1e-4)
        g, f = normalised_motion(x[run, 0], s)
        rest = np.linalg.norm(g) / np.linalg.norm(f)
        same("curvature, particles", here["rest"], rest, 1e-7)


def normalised_motion(x, s):
    """G and F."""
    force = naive.total_force(x, s)
    rate = (x * force).sum() / x.size
    return force - force.mean(axis=0) - rate * x, force


def differences(function, x, h=1e-5):
    """The Jacobian (coordinate, coordinate) by central differences."""
    columns = []
    for k in range(x.size):
        step = np.zeros(x.size)
        step[k] = h
        step = step.reshape(x.shape)
        wide = (function(x + 2 * step) - function(x - 2 * step)) / (4 * h)
        near = (function(x + step) - function(x - step)) / (2 * h)
        columns.append(((4 * near - wide) / 3).ravel())
    return np.array(columns).T


def free_directions(x):
    """Without shifts, the change of size and rotations: orthonormal columns."""
    n, d = x.shape
    fixed = [x.ravel()]
    for axis in range(d):
        fixed.append(np.outer(np.ones(n), np.eye(d)[axis]).ravel())
    for a, b in itertools.combinations(range(d), 2):
        turn = np.zeros((d, d))
        turn[a, b], turn[b, a] = 1, -1
        fixed.append((x @ turn).ravel())
    u, values, _ = np.linalg.svd(np.array(fixed).T)
    return u[:, (values > 1e-9).sum() :]


def check_spectrum(ours, twin):
    """Both have the same eigenvalues in any order."""
    ours, twin = list(ours[np.isfinite(ours)]), list(twin)
    assert len(ours) == len(twin)
    for value in twin:
        nearest = min(ours, key=lambda v: abs(v - value))
        ours.remove(nearest)
        same("curvature, particles", abs(nearest - value), 0, 1e-4)


@settings(max_examples=examples(4))
@given(st.integers(2, 5), st.sampled_from(["adamw", "adam", "sgd"]), st.integers(0, 9))
def test_edge_of_stability(tokens, optimizer, seed):
    """With Adam's second moments from the gradients at all steps."""
    s = ModularSettings(n=tokens, hidden=3, optimizer=optimizer, lr=0.02)
    if optimizer != "sgd":
        s = dataclasses.replace(s, beta2=0.9)
    trajectory = simulate(s, runs=2, seed=seed, steps=6, every=1, progress=False)
    frames = [0, 1, 4, 6]
    result = edge_of_stability(trajectory, frames)
    for run in range(2):
        pairs = pairs_of(trajectory, run)
        moments = np.zeros(1)
        for t in range(7):
            weights = weights_of(trajectory, run, t)
            if t in frames:
                here = result.isel(run=run, step=frames.index(t))
                hessian = modular_hessian(weights, pairs, tokens)
                largest = np.linalg.eigvalsh(hessian)[-1]
                same("edge", here["loss"], modular_loss(weights, pairs, tokens), 1e-6)
                same("edge", here["sharpness"], largest, 1e-6)
                added = s.weight_decay if optimizer != "adamw" else 0.0
                over = largest + (added if optimizer == "sgd" else 0.0)
                same("edge", here["relative_sharpness"], over * s.lr / 2, 1e-6)
                value = shifted = limit = math.nan
                if t and optimizer != "sgd":
                    corrected = moments / (1 - s.beta2**t)
                    p = (1 - s.beta1**t) * (np.sqrt(corrected) + 1e-8)
                    root = 1 / np.sqrt(p)
                    value = np.linalg.eigvalsh(root[:, None] * hessian * root)[-1]
                    whole = hessian + added * np.eye(len(hessian))
                    shifted = np.linalg.eigvalsh(root[:, None] * whole * root)[-1]
                    shrink = s.lr * s.weight_decay if optimizer == "adamw" else 0.0
                    limit = (2 - shrink) * (1 + s.beta1) / ((1 - s.beta1) * s.lr)
                same(
                    "edge",
                    here["preconditioned_sharpness"] / value,
                    value / value,
                    1e-4,
                )
                same("edge", here["relative_preconditioned"], shifted / limit, 1e-4)
            g = modular_gradient(weights, pairs, tokens)
            if optimizer == "adam":  # its weight decay is part of the gradient
                g = g + s.weight_decay * flat(weights)
            moments = s.beta2 * moments + (1 - s.beta2) * g * g


@settings(max_examples=examples(3))
@given(
    st.integers(2, 5), st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)
)
def test_spectral_density(tokens, frames):
    """All eigenvalues, each with the weight 1 / P."""
    frames = sorted(frames)
    trajectory = modular(tokens, 2, 6)
    result = spectral_density(trajectory, frames)
    for run, (k, t) in itertools.product(range(2), enumerate(frames)):
        here = result.isel(run=run, step=k)
        values = np.linalg.eigvalsh(curvature_of(trajectory, run, t))
        epsilon = 1e-4 * np.abs(values).max()
        same("spectral density", here["largest"], values[-1], 1e-6)
        same("spectral density", here["lowest"], values[0], 1e-6)
        same("spectral density", here["trace"], values.sum(), 1e-6)
        same("spectral density", here["saddle_index"], (values < -epsilon).sum())
        null = (np.abs(values) <= epsilon).mean()
        same("spectral density", here["null_fraction"], null)
        x = here["eigenvalue"].values
        width = 0.005 * (values[-1] - values[0])
        density = np.mean([stats.norm.pdf(x, v, width) for v in values], axis=0)
        same("spectral density", here["density"], density, 1e-4)


def test_gauss_newton_matrix():
    trajectory = modular(4, 1, 3)
    result = spectral_density(trajectory, [2], "gauss_newton").isel(run=0, step=0)
    weights, pairs = weights_of(trajectory, 0, 2), pairs_of(trajectory, 0)
    e, wh, bh, wo, _ = weights.values()
    total = 0.0
    for a, b in pairs:
        before = wh @ (e[a] + e[b]) + bh
        hidden, on = np.maximum(before, 0), before > 0
        o = wo @ hidden + weights["output_bias"]
        p = np.exp(o - o.max())
        p /= p.sum()
        rows = []
        for c in range(4):
            back = wo[c] * on
            gradient = {name: np.zeros_like(w) for name, w in weights.items()}
            gradient["output_bias"][c] = 1
            gradient["output_weight"][c] = hidden
            gradient["hidden_bias"] = back
            gradient["hidden_weight"] = np.outer(back, e[a] + e[b])
            gradient["embedding"][a] += wh.T @ back
            gradient["embedding"][b] += wh.T @ back
            rows.append(flat(gradient))
        jacobian = np.array(rows)
        total = total + jacobian.T @ (np.diag(p) - np.outer(p, p)) @ jacobian
    values = np.linalg.eigvalsh(total / len(pairs))
    same("spectral density", result["largest"], values[-1])
    same("spectral density", result["lowest"], values[0])
    same("spectral density", result["trace"], values.sum())


@settings(max_examples=examples(3))
@given(st.integers(2, 4), st.integers(1, 3), st.integers(0, 9))
def test_distance_from_the_origin_of_the_normalisation(length, axes, seed):
    s = SparseSettings(length=length, sparsity=2, data=8, batch=8, hidden=2, dim=axes)
    trajectory = simulate(s, runs=2, seed=seed, steps=4, every=2, progress=False)
    result = linearize_trajectory(trajectory, [0, 1, 2], quiet=True)
    for run, t in itertools.product(range(2), range(3)):
        seed = int(trajectory["seed"][run])
        sequences = [list(q) for q in distinct_sequences(s, seed, "train")[0]]
        here = result.isel(run=run, step=t)
        x, xi = points(trajectory, run, t, sequences)
        same("normalisation", here["x_length"], np.linalg.norm(x, axis=-1), 1e-6)
        for place in np.ndindex(x.shape[:2]):
            size = np.abs(x[place]).max()
            derivative = differences(normalise, x[place], 1e-4 * size)
            norm = np.linalg.norm(derivative, 2)
            same("normalisation", here["x_jacobian_norm"][place] / norm, 1, 1e-4)
        quantiles = result["quantile"].values
        lengths = np.linalg.norm(xi, axis=-1)
        same(
            "normalisation",
            here["xi_length"],
            sample_quantiles(lengths, quantiles),
            1e-5,
        )
        same(
            "normalisation",
            here["x_smallest"].isel(frame=t),
            np.linalg.norm(x, axis=-1).min(),
            1e-6,
        )
        if t == 2:
            assert np.isnan(here["x_flip_ratio"]).all()
            continue
        x_next, xi_next = points(trajectory, run, t + 1, sequences)
        flip = np.linalg.norm(x_next - x, axis=-1) / np.linalg.norm(x, axis=-1)
        same("normalisation", here["x_flip_ratio"], flip, 1e-5)
        same(
            "normalisation",
            here["x_largest_flip_ratio"].isel(frame=t),
            flip.max(),
            1e-5,
        )
        flip = np.linalg.norm(xi_next - xi, axis=-1) / lengths
        same(
            "normalisation",
            here["xi_flip_ratio"],
            sample_quantiles(flip, quantiles),
            1e-5,
        )
        same("normalisation", here["xi_flips"], (flip > 1).mean())
        turns = ((xi * xi_next).sum(axis=-1) < 0).mean()
        same("normalisation", here["xi_turns"], turns)


def sample_quantiles(values, fractions):
    """The smallest value with at least this fraction of the values up to it."""
    x = sorted(values)
    return [x[max(math.ceil(q * len(x) - 1e-9), 1) - 1] for q in fractions]


def normalise(z):
    return z / (np.sqrt((z**2).mean(axis=-1, keepdims=True)) + 1e-5)


def points(trajectory, run, frame, sequences):
    """E + P (position, token, axis), and the xi of all sequences (sequence, axis)."""
    e, p, q, v = (
        trajectory[name].values[run, frame].astype(float)
        for name in ("embedding", "position_embedding", "query", "value")
    )
    x = np.array([[e[token] + p[t] for token in range(len(e))] for t in range(len(p))])
    xi = []
    for sequence in sequences:
        z = np.array([x[t, token] for t, token in enumerate(sequence)])
        z = normalise(z)
        a = np.exp(z @ q / math.sqrt(len(q)))
        xi.append(v @ (a @ z / a.sum()))
    return x, np.array(xi)


def test_curves_of_the_edge():
    trajectory = modular(4, 3, 4)
    result = edge_of_stability(trajectory, range(4))
    figure = plots.plot_edge(result)
    x = result["step"].values
    for name in ("relative_sharpness", "relative_preconditioned"):
        is_drawn("edge", figure.axes[0], x, np.median(result[name], axis=0))
    is_drawn("edge", figure.axes[1], x, np.median(result["loss"], axis=0))
