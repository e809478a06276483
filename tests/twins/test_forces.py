"""docs/analyses/audit.md and pair_law.md in plain loops."""

import itertools
import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis import forces, plots
from dynamics import (
    ModularSettings,
    all_pairs,
    simulate,
)
from tests import naive
from tests.twins import intervals
from tests.twins.correlations import cosine
from tests.twins.differences import examples, is_drawn, row_has, same
from tests.twins.intervals import equal
from tests.twins.networks import embedding_gradient, pairs_of, weights_of
from tests.twins.trajectories import modular

# ------------------------------------------------------------------------------- twins


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


def four_fields(x, pairs, n):
    """As naive.fields, over all pairs that act on a pair at once."""
    sums = np.array([x[a] + x[b] for a, b in pairs])
    classes = np.array([(a + b) % n for a, b in pairs])
    size = np.sqrt((sums**2).sum(axis=1))
    fields, magnitude = np.zeros((4, *x.shape)), np.zeros(4)
    for p, pair in enumerate(pairs):
        other = np.arange(len(pairs)) != p
        like = classes == classes[p]
        apart = sums - sums[p]
        r = np.sqrt((apart**2).sum(axis=1))
        facing = (sums @ sums[p] > 0) & (size > 0) & other
        for k, chosen in enumerate(
            (like & other & (r > 0), ~like & (r > 0), like & facing, ~like & facing)
        ):
            length = (size if k > 1 else r)[chosen]
            unit = (sums if k > 1 else apart)[chosen] / length[:, None]
            strength = 1 / length if k == 1 else np.ones(len(length))
            force = (-1) ** k * (strength[:, None] * unit).sum(axis=0)
            magnitude[k] += strength.sum()
            for token in pair:
                fields[k, token] += force
    return fields, magnitude


def test_the_fields_are_those_of_the_loops():
    x = np.random.default_rng(0).standard_normal((5, 3))
    x[1] = x[0]
    pairs = [tuple(map(int, p)) for p in all_pairs(5)[1:]]
    for ours, loops in zip(
        four_fields(x, pairs, 5),
        naive.fields(x, *np.array(pairs).T, 5, True),
        strict=True,
    ):
        equal(ours, loops, 1e-12)


def forces_of(x, pairs, n):
    fields, magnitude = four_fields(x, pairs, n)
    return fields, balanced(fields, magnitude, pairs, n)


def renamed_forces(x, pairs, n, permutation):
    """The fields if token i counts as the number permutation[i]."""
    numbers = [(permutation[a], permutation[b]) for a, b in pairs]
    renamed = np.empty_like(x)
    renamed[list(permutation)] = x
    fields = four_fields(renamed, numbers, n)[0]
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


@settings(max_examples=examples(3))
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
    for run, t in itertools.product(range(runs), range(4)):
        pairs = pairs_of(trajectory, run)
        here = result.isel(run=run, step=t)
        valid = run or last is None or t <= last
        weights = weights_of(trajectory, run, t)
        e = weights["embedding"].astype(float)
        fields, law = forces_of(e, pairs, tokens)
        targets = {"gradient": -embedding_gradient(weights, pairs, tokens)}
        later = run or last is None or t + 1 <= last
        if t < 3 and later:
            targets["update"] = x[run, t + 1].astype(float) - e
        for target, part in itertools.product(
            ("gradient", "update"), ("whole", "normalised")
        ):
            one = here.sel(target=target, part=part)
            if not valid or target not in targets:
                assert np.isnan(one["cosine"])
                assert np.isnan(one["r_squared"])
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
        weights = weights_of(trajectory, run, t)
        pairs = pairs_of(trajectory, run)
        e = weights["embedding"].astype(float)
        basis = plane(e, k)
        y = -embedding_gradient(weights, pairs, tokens) @ basis
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
        here = result.isel(
            step=int(np.argmin(abs(result["step"].values - row["epoch"])))
        )
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
    return [
        np.mean(v[np.isfinite(v)]) if np.isfinite(v).any() else np.nan for v in values
    ]


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


# ------------------------------------------------------------------------- pair law


def pair_law_forces(x, pairs, n, knots, steps):
    """The force on the tokens of each of the coefficients of a pair law: like and
    unlike at each knot, then like and unlike alignment in each interval of the
    cosine; (coefficient, token, axis)."""
    sums = np.array([x[a] + x[b] for a, b in pairs])
    classes = np.array([(a + b) % n for a, b in pairs])
    apart = sums[:, None] - sums[None]
    r = np.sqrt((apart**2).sum(axis=-1))
    size = np.sqrt((sums**2).sum(axis=-1))
    off = ~np.eye(len(pairs), dtype=bool)
    unit = math.sqrt((r**2).mean())
    m, logs = len(knots), np.log(knots)
    result = np.zeros((2 * m + 2 * steps, n, x.shape[1]))
    for p in range(len(pairs)):
        others = off[p]
        unlike = (classes[p] != classes[others]).astype(int)
        distance = r[p, others]
        at = np.clip(np.log(distance / unit), logs[0], logs[-1])
        k = np.minimum(np.searchsorted(logs, at, side="right") - 1, m - 2)
        part = ((at - logs[k]) / (logs[k + 1] - logs[k]))[:, None]
        away = apart[p, others] / distance[:, None]
        c = sums[others] @ sums[p] / (size[others] * size[p])
        step = np.clip(np.floor((c + 1) / 2 * steps), 0, steps - 1).astype(int)
        toward = sums[others] / size[others][:, None]
        for token in pairs[p]:
            np.add.at(result[:, token], unlike * m + k, (1 - part) * away)
            np.add.at(result[:, token], unlike * m + k + 1, part * away)
            np.add.at(result[:, token], 2 * m + unlike * steps + step, toward)
    return result


RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)


def fitted_law(frames, ridge):
    """Least squares for the coefficients and for a factor in each frame in turn."""
    factors = [1.0] * len(frames)
    for _ in range(30):
        normal = sum(c * c * f @ f.T for c, (_, f) in zip(factors, frames, strict=True))
        right = sum(c * f @ y for c, (y, f) in zip(factors, frames, strict=True))
        diagonal = np.where(np.diag(normal) > 0, np.diag(normal), 1.0)
        beta = np.linalg.solve(normal + ridge * np.diag(diagonal), right)
        factors = [
            max((beta @ f) @ y, 0) / ((beta @ f) @ (beta @ f)) for y, f in frames
        ]
        if sum(factors) == 0:
            break
        factors = [c / np.mean(factors) for c in factors]
    return beta


def best_law(samples):
    """With the ridge that explains most in each run by the law of the others; with one
    run, in each second frame by the others'."""
    runs = {run for run, _ in samples}
    group = {s: s[0] if len(runs) > 1 else s[1] // 2 % 2 for s in samples}
    scores = []
    for ridge in RIDGES:
        explained = []
        for g in sorted(set(group.values())):
            law = fitted_law([v for s, v in samples.items() if group[s] != g], ridge)
            for s, (y, f) in samples.items():
                if group[s] == g:
                    explained.append(max(cosine(law @ f, y), 0) ** 2)
        scores.append(np.mean(explained))
    return fitted_law(list(samples.values()), RIDGES[int(np.argmax(scores))])


@settings(max_examples=examples(1))
@given(
    st.sampled_from([(4, 2), (5, 3), (6, 1), (9, 7)]),
    st.integers(2, 3),
    st.integers(0, 9),
)
@example((9, 7), 2, 0)
def test_pair_law(shape, runs, seed):
    """In a frame all coefficients are fitted if there are more numbers; what is held out
    is compared for few tokens, as its plain version takes long."""
    tokens, axes = shape
    s = ModularSettings(n=tokens, hidden=6, dim=axes)
    trajectory = simulate(s, runs=runs, seed=seed, steps=40, every=10, progress=False)
    frames = 4
    result = forces.fit_pair_law(trajectory, frames=np.arange(frames)).sel(
        space="whole"
    )
    knots, steps = result["distance"].values, result.sizes["angle_step"]
    assert (len(knots), steps) == (16, 8)
    data = {}
    for run, t in itertools.product(range(runs), range(frames)):
        pairs = pairs_of(trajectory, run)
        weights = weights_of(trajectory, run, t)
        e = weights["embedding"].astype(float)
        y = normalised(-embedding_gradient(weights, pairs, tokens), e)
        fields, law = forces_of(e, pairs, tokens)
        here = result.isel(run=run, step=t)
        c = cosine(y, normalised(law, e))
        same("pair_law", here["cosine"].sel(law="CA"), c, 1e-6)
        own = pair_law_forces(e, pairs, tokens, knots, steps)
        for name, values in (("four fields", fields), ("pair law", own)):
            r = r_squared_of_fit(y, [normalised(f, e) for f in values])[0]
            if (tokens - 1) * axes - 1 <= len(values):
                r = math.nan
            same("pair_law", here["frame_r_squared"].sel(law=name), r, 1e-6)
        y = y.ravel() / np.linalg.norm(y)
        for name, values in (("four fields", fields), ("pair law", own)):
            flat = np.array([normalised(f, e).ravel() for f in values])
            data.setdefault(name, {})[run, t] = (y, flat)
    for name, samples in data.items():
        for run, t in samples if tokens < 9 else ():
            others = {
                (q, u): v for (q, u), v in samples.items() if q != run and (u - t) % 2
            }
            y, f = samples[run, t]
            here = result.isel(run=run, step=t).sel(law=name)
            same("pair_law", here["cosine"], cosine(best_law(others) @ f, y), 1e-5)
    for law in result["law"].values:
        one = result.sel(law=law)
        c = one["cosine"].values
        same("pair_law", one["r_squared"], np.where(c > 0, c**2, 0))
    check_pair_law_rows(result)


def check_pair_law_rows(result):
    names = {
        "ca": "CA",
        "four": "four fields",
        "pair": "pair law",
        "renamed": "renamed",
    }
    for row in forces.pair_law_rows(result.expand_dims("space")):
        here = result.sel(step=row["step"])
        for name in row:
            kind, _, law = name.rpartition("_")
            if kind not in ("cosine", "r_squared", "frame") or law not in names:
                continue
            variable = "frame_r_squared" if kind == "frame" else kind
            values = here[variable].sel(law=names[law]).values
            low = -1 if kind == "cosine" else 0
            row_has("pair_law", row, name, intervals.mean_between(values, low, 1))


def test_curves_of_the_pair_law():
    trajectory = modular(5, 3, 6, [0, 1, 4, 5, 9, 30])
    result = forces.fit_pair_law(trajectory, frames=np.arange(6))
    axes = plots.plot_pair_law(result, "networks").axes[0]
    for law in result["law"].values:
        medians = np.median(result["r_squared"].sel(space="whole", law=law), axis=0)
        x = result["step"].values / result.attrs["unit"]
        is_drawn("pair_law", axes, x, medians)
