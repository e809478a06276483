"""docs/analyses/audit.md and pair_law.md in plain loops."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import forces, plots
from dynamics import (
    ModularSettings,
    all_pairs,
    read_settings,
    simulate,
    training_pairs,
)
from tests import naive
from tests.twins import intervals
from tests.twins.differences import examples, is_drawn, row_has, same
from tests.twins.trajectories import modular

# ------------------------------------------------------------------------------- twins


def modular_gradient(weights, pairs, n):
    """dL/dE of the mean cross-entropy of CA's network."""
    e, wh, bh, wo, bo = (np.asarray(weights[k], float) for k in NAMES)
    gradient = np.zeros_like(e)
    for a, b in pairs:
        before = wh @ (e[a] + e[b]) + bh
        o = wo @ np.maximum(before, 0) + bo
        p = np.exp(o - o.max())
        p /= p.sum()
        p[(a + b) % n] -= 1
        g = wh.T @ ((wo.T @ p) * (before > 0)) / len(pairs)
        gradient[a] += g
        gradient[b] += g
    return gradient


NAMES = ("embedding", "hidden_weight", "hidden_bias", "output_weight", "output_bias")


def normalised(y, x):
    """Without a common shift and a change of size."""
    moved, x = y - y.mean(axis=0), x - x.mean(axis=0)
    size = (x * x).sum()
    rest = moved - (moved * x).sum() / size * x if size > 0 else moved
    rounding = (rest * rest).sum() <= 1e-26 * (y * y).sum()
    return 0 * rest if rounding else rest


def balanced(fields, magnitude, pairs, n):
    """The four fields with the balance of unlike pairs, and the sum of CA's law at f_a
    = 1."""
    like = unlike = 0
    for p, q in itertools.product(range(len(pairs)), repeat=2):
        if p != q:
            same_class = (sum(pairs[p]) - sum(pairs[q])) % n == 0
            like, unlike = like + same_class, unlike + (not same_class)
    repulsion = magnitude[0] / magnitude[1] if magnitude[1] > 0 else 0.0
    alignment = like / unlike if unlike else 0.0
    return fields[0] + repulsion * fields[1] + fields[2] + alignment * fields[3]


def r_squared_of_fit(y, fields):
    """Least squares without an intercept; R², and the weights of the fields."""
    size = (y * y).sum()
    if size == 0:
        return math.nan, np.full(len(fields), math.nan)
    matrix = np.array([f.ravel() for f in fields]).T
    norms = np.sqrt((matrix**2).sum(axis=0))
    scaled = matrix / np.where(norms > 0, norms, 1)
    beta = np.linalg.lstsq(scaled, y.ravel(), rcond=1e-10)[0]
    rest = y.ravel() - scaled @ beta
    return 1 - rest @ rest / size, beta / math.sqrt(size)


def cosine(a, b):
    size = math.sqrt((a * a).sum()) * math.sqrt((b * b).sum())
    return (a * b).sum() / size if size > 0 else math.nan


def forces_of(x, pairs, n):
    first, second = np.array(pairs).T
    fields, magnitude = naive.fields(np.asarray(x, float), first, second, n, True)
    return fields, balanced(fields, magnitude, pairs, n)


def renamed_forces(x, pairs, n, permutation):
    """The fields if token i counts as the number permutation[i]."""
    numbers = [(permutation[a], permutation[b]) for a, b in pairs]
    renamed = np.empty_like(x)
    renamed[list(permutation)] = x
    fields = naive.fields(renamed, *np.array(numbers).T, n, True)[0]
    return fields[:, list(permutation)]


def plane(x, k):
    """An orthonormal basis (axis, 2) of the Fourier component of frequency k."""
    n = len(x)
    angles = 2 * np.pi * k * np.arange(n) / n
    vectors = np.array([np.cos(angles) @ x, np.sin(angles) @ x])
    return np.linalg.qr(vectors.T)[0]


def comparisons(y, x, fields, law, part):
    if part == "normalised":
        y, law = normalised(y, x), normalised(law, x)
        fields = [normalised(f, x) for f in fields]
    c = cosine(y, law)
    law_r = math.nan if math.isnan(c) else max(c, 0.0) ** 2
    r, weight = r_squared_of_fit(y, fields)
    return c, law_r, r, weight


# ------------------------------------------------------------------------------- tests


def pairs_of(trajectory, run, n, share):
    chosen = training_pairs(n, share, trajectory["seed"].values[run : run + 1])[0]
    return [tuple(map(int, p)) for p in all_pairs(n)[chosen]]


@settings(max_examples=examples(4))
@given(
    st.integers(2, 6),
    st.integers(1, 2),
    st.sampled_from(["trained", "one point", "still", "large"]),
    st.none() | st.integers(0, 3),
    st.booleans(),
)
def test_audit(tokens, runs, kind, last, uneven):
    trajectory = modular(
        tokens,
        runs,
        4,
        [0, 1, 4, 5] if uneven else None,
        last={} if last is None else {0: last},
    )
    x = trajectory["embedding"].values
    if kind == "one point":
        x[:, :2] = 0.5
    elif kind == "still":
        x[:] = x[:, :1]
    elif kind == "large":
        x *= 100
    if last is not None:
        x[0, last + 1 :] = x[0, last]
    result = forces.audit_forces(trajectory, frames=np.arange(4))
    count = training_count(trajectory)
    for run, t in itertools.product(range(runs), range(4)):
        pairs = pairs_of(trajectory, run, tokens, count)
        here = result.isel(run=run, step=t)
        valid = run or last is None or t <= last
        weights = {k: trajectory[k].values[run, t] for k in NAMES}
        e = weights["embedding"].astype(float)
        fields, law = forces_of(e, pairs, tokens)
        targets = {"gradient": -modular_gradient(weights, pairs, tokens)}
        later = run or last is None or t + 1 <= last
        if t < 3 and later:
            targets["update"] = x[run, t + 1].astype(float) - e
        for target, part in itertools.product(
            ("gradient", "update"), ("whole", "normalised")
        ):
            one = here.sel(target=target, part=part)
            if not valid or target not in targets:
                assert np.isnan(one["cosine"]) and np.isnan(one["r_squared"])
                continue
            c, law_r, r, weight = comparisons(targets[target], e, fields, law, part)
            same("audit", one["cosine"], c, 1e-6)
            same("audit", one["law_r_squared"], law_r, 1e-6)
            same("audit", one["r_squared"], r, 1e-6)
            if tokens > 4 and kind != "one point":
                same("audit", one["weight"], weight, 1e-5)
            if tokens <= 3:  # no other pairs can count as like
                assert np.isnan(one["renamed_r_squared"])
            elif tokens == 4:
                y = targets[target]
                check_renamings(float(one["renamed_r_squared"]), y, e, pairs, part)


def training_count(trajectory):
    return read_settings(trajectory).train_pairs


def check_renamings(mean, y, x, pairs, part):
    """Of four numbers there are two renamings up to linear ones."""
    one, other = (
        comparisons(y, x, renamed_forces(x, pairs, 4, p), y, part)[2]
        for p in ((0, 1, 3, 2), (0, 2, 1, 3))
    )
    means = [(k * one + (8 - k) * other) / 8 for k in range(9)]
    same("audit", mean, min(means, key=lambda v: abs(v - mean)), 1e-6)


@settings(max_examples=examples(3))
@given(st.integers(4, 7), st.integers(2, 3), st.integers(0, 99))
def test_audit_in_planes_and_its_table(tokens, axes, seed):
    s = ModularSettings(n=tokens, hidden=4, dim=axes)
    trajectory = simulate(s, runs=3, seed=seed, steps=3, every=1, progress=False)
    trajectory = trajectory.isel(step=slice(3))
    trajectory["status"][1], trajectory["last_step"][1] = 2, 1
    keys = np.random.default_rng(seed).random((3, tokens // 2)) < 0.5
    keys[:, 0] = True
    result = forces.audit_forces(trajectory, frames=np.arange(3), keys=keys)
    for run, t, k in itertools.product(range(3), range(3), range(1, tokens // 2 + 1)):
        here = result.isel(run=run, step=t).sel(frequency=k, target="gradient")
        if not keys[run, k - 1] or (run == 1 and t > 1):
            assert np.isnan(here["plane_cosine"])
            continue
        weights = {name: trajectory[name].values[run, t] for name in NAMES}
        pairs = pairs_of(trajectory, run, tokens, training_count(trajectory))
        e = weights["embedding"].astype(float)
        basis = plane(e, k)
        y = -modular_gradient(weights, pairs, tokens) @ basis
        fields, law = forces_of(e @ basis, pairs, tokens)
        c, law_r, r, _ = comparisons(y, e @ basis, fields, law, "normalised")
        same("audit", here["plane_cosine"], c, 1e-5)
        same("audit", here["plane_law_r_squared"], law_r, 1e-5)
        if tokens > 4:
            same("audit", here["plane_r_squared"], r, 1e-5)
    check_audit_rows(result)


def check_audit_rows(result):
    """Means over the runs that are valid at a frame."""
    for row in forces.audit_rows(result):
        here = result.isel(step=int(np.argmin(abs(result["step"].values - row["epoch"]))))
        normal = here.sel(target="gradient", part="normalised")
        whole = here.sel(target="gradient", part="whole")
        update = here.sel(target="update", part="normalised")
        assert row["runs"] == np.isfinite(whole["cosine"]).sum()
        for name, values, low in (
            ("cosine_whole", whole["cosine"], -1),
            ("cosine", normal["cosine"], -1),
            ("cosine_update", update["cosine"], -1),
            ("law_r_squared", normal["law_r_squared"], 0),
            ("r_squared", normal["r_squared"], 0),
            ("renamed_r_squared", normal["renamed_r_squared"], 0),
            ("plane_cosine", run_means(here, "plane_cosine"), -1),
            ("plane_r_squared", run_means(here, "plane_r_squared"), 0),
            ("plane_renamed_r_squared", run_means(here, "plane_renamed_r_squared"), 0),
        ):
            expected = intervals.mean_between(np.array(values), low, 1)
            row_has("audit", row, name, expected, 1e-7)
        for field in normal["field"].values:
            weights = normal["weight"].sel(field=field).values
            row_has("audit", row, f"weight_{field}", intervals.mean(weights), 1e-7)


def run_means(here, name):
    values = here[name].sel(target="gradient").values
    return [np.mean(v[np.isfinite(v)]) if np.isfinite(v).any() else np.nan for v in values]


def test_curves_of_the_audit():
    trajectory = modular(7, 3, 5, [0, 1, 4, 5, 9])
    result = forces.audit_forces(trajectory, frames=np.arange(5))
    figure = plots.plot_audit(result, "networks")
    normal = result.sel(target="gradient", part="normalised")
    update = result.sel(target="update", part="normalised")["cosine"]
    left, middle, right = figure.axes[:3]
    x = result["step"].values / result.attrs["unit"]
    for axes, values in (
        (left, normal["cosine"]),
        (left, update),
        (middle, normal["r_squared"]),
        (middle, normal["renamed_r_squared"]),
        *((right, normal["weight"].isel(field=k)) for k in range(4)),
    ):
        valid = np.isfinite(values.values).any(axis=0)
        medians = np.full(values.shape[1], np.nan)
        medians[valid] = np.median(values.values[:, valid], axis=0)
        is_drawn("audit", axes, x, medians)
