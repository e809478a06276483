"""docs/analyses/circuits.md in plain loops."""

import math

import numpy as np
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.clustering_heads import (
    circuit_table,
    ideal_cluster_count,
    labels,
    measure_circuits,
)
from tests.twins import heads, intervals
from tests.twins.correlations import pearson
from tests.twins.differences import examples, row_has, same

# ------------------------------------------------------------------------------- twins

THRESHOLDS = {
    "learned": 0.5,
    "tolerance": 0.01,
    "part": 0.25,
    "elsewhere": 0.1,
    "fuzzy": 0.5,
}


def value_fraction(xi, sequences, t):
    """Of position t, with the sequences grouped by all other tokens."""
    groups = {}
    for x, point in zip(sequences, xi, strict=True):
        groups.setdefault(x[:t] + x[t + 1 :], []).append(point)
    inside = [
        ((g - g.mean(axis=0)) ** 2).sum() / len(g)
        for g in map(np.array, groups.values())
    ]
    return np.mean(inside) / heads.variance(xi)


def order_fraction(xi, sequences, t, u):
    if t == u:
        return 0.0
    index = {x: k for k, x in enumerate(sequences)}
    total = 0.0
    for x, point in zip(sequences, xi, strict=True):
        y = list(x)
        y[t], y[u] = x[u], x[t]
        total += ((point - xi[index[tuple(y)]]) ** 2).sum()
    return total / len(xi) / 4 / heads.variance(xi)


def clusters(xi):
    """Single linkage with links of a tenth of the root mean square distance."""
    spread = math.sqrt(heads.spread(xi))
    if spread <= 1e-6 * np.abs(xi).max():
        return 1
    link = 0.1 * spread
    left, count = set(range(len(xi))), 0
    while left:
        count += 1
        waiting = [left.pop()]
        while waiting:
            point = xi[waiting.pop()]
            near = {k for k in left if math.dist(xi[k], point) <= link}
            left -= near
            waiting += near
    return count


def encoded_sum(xi, sequences, s):
    """Steps by position and token, or None; whether they are whole and congruent, the
    number of sums, and the fraction of the variance between them."""
    means = np.zeros((s.length, s.vocab, xi.shape[1]))
    for t in range(s.length):
        for v in range(s.vocab):
            means[t, v] = np.mean(
                [p for x, p in zip(sequences, xi, strict=True) if x[t] == v], axis=0
            )
    effects = means - means[:, :1]
    _, _, directions = np.linalg.svd(effects.reshape(-1, xi.shape[1]))
    steps = effects @ directions[0]
    smallest = [
        min(abs(a - b) for k, a in enumerate(steps[t]) for b in steps[t][:k])
        for t in s.counting
    ]
    unit = np.median(smallest)
    if math.isnan(heads.variance(xi)) or unit <= 1e-9 * np.abs(steps).max():
        return None, False, False, 0, math.nan

    def congruent(steps):
        return sum(
            (round(steps[t, v]) - (v if t in s.counting else 0)) % s.vocab == 0
            for t in range(s.length)
            for v in range(s.vocab)
        )

    signs = (steps / unit, -steps / unit)
    steps = max(signs, key=lambda f: (congruent(f), f[list(s.counting)].sum()))
    if (np.abs(steps - np.round(steps)) >= 0.25).any():
        return steps, False, False, 0, math.nan
    sums = [sum(round(steps[t, v]) for t, v in enumerate(x)) for x in sequences]
    return (
        steps,
        True,
        congruent(steps) == steps.size,
        len(set(sums)),
        heads.between(xi, sums),
    )


def group_of(order, tolerance):
    """The largest group of positions that swap, directly or by others."""
    left, groups = list(range(len(order))), []
    while left:
        group, waiting = [], [left.pop(0)]
        while waiting:
            t = waiting.pop()
            group.append(t)
            near = [u for u in left if order[t][u] <= tolerance]
            left = [u for u in left if u not in near]
            waiting += near
        groups.append(group)
    return max(groups, key=len)


def label_of(one, counting, by):
    """`one` has accuracy, value (position,), order (counting, counting), attention
    (position,) and token attention (position, token)."""
    chance = 1 / one["tokens"].shape[1]
    accuracy = (one["accuracy"] - chance) / (1 - chance)
    if not accuracy >= by["learned"] - 1e-12 or np.isnan(one["value"]).any():
        return "none"
    length = len(one["value"])
    spurious = [t for t in range(length) if t not in counting]
    lacking = sum(one["value"][t] > by["tolerance"] for t in spurious)
    lacking += len(counting) - len(group_of(one["order"], by["tolerance"]))
    if lacking:
        return "partial" if lacking <= by["fuzzy"] * length else "fuzzy"
    tokens = one["tokens"][list(counting)].mean(axis=0)
    if tokens.min() < by["part"] * tokens.max():
        return "part of the values"
    mass = sum(one["attention"][t] for t in counting)
    return "ideal" if mass >= 1 - by["elsewhere"] else "corrected"


def measures_of(weights, s):
    sequences, table = heads.all_sequences(s), heads.table_of(weights, s)
    attention, xi = map(
        np.array,
        zip(*(heads.attend(x, weights, table) for x in sequences), strict=True),
    )
    hits = []
    for x, point in zip(sequences, xi, strict=True):
        logits = weights["embedding"] @ heads.transform(point, weights, s)
        best = [v for v, logit in enumerate(logits) if logit == logits.max()]
        hits.append((heads.target_of(x, s) in best) / len(best))
    held = [
        [
            np.mean(
                [a[t] for x, a in zip(sequences, attention, strict=True) if x[t] == v]
            )
            for v in range(s.vocab)
        ]
        for t in range(s.length)
    ]
    multisets = [tuple(sorted(x[t] for t in s.counting)) for x in sequences]
    return {
        "accuracy": np.mean(hits),
        "value": np.array([value_fraction(xi, sequences, t) for t in range(s.length)]),
        "order": np.array(
            [
                [order_fraction(xi, sequences, t, u) for u in s.counting]
                for t in s.counting
            ]
        ),
        "class": heads.between(xi, multisets),
        "clusters": clusters(xi),
        "attention": attention.mean(axis=0),
        "map": attention.ravel(),
        "tokens": np.array(held),
        "sum": encoded_sum(xi, sequences, s),
    }


# ------------------------------------------------------------------------------- tests


@st.composite
def networks(draw):
    """Trajectories of three networks, of which some have learned the task."""
    vocab = draw(st.sampled_from([2, 2, 3]))
    length = draw(st.integers(1, 4 if vocab == 2 else 3))
    order = draw(st.permutations(range(length)))
    positions = tuple(sorted(order[: draw(st.integers(1, length))]))
    dim = draw(st.integers(1, 3))
    norm = draw(st.sampled_from(["rms", "unit", "rms-smooth", "unit-smooth"]))
    s = heads.settings_of(vocab, length, positions, dim, norm)
    frames = draw(st.integers(2, 4))
    trajectory = heads.trained(s, 3, frames).copy(deep=True)
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    for run in range(3):
        kind = draw(
            st.sampled_from(["trained", "invariant", "invariant", "any", "zero"])
        )
        if kind == "zero":
            for name in heads.LAYERS:
                trajectory[name][run] = 0
        elif kind != "trained":
            for name, value in planted(s, kind, generator).items():
                trajectory[name][run, -1] = value
    if draw(st.booleans()):
        run, frame = draw(st.integers(0, 2)), draw(st.integers(0, frames - 2))
        trajectory["last_step"][run] = trajectory["step"][frame]
        trajectory["status"][run] = 2
    return trajectory, s


def planted(s, kind, generator):
    """Weights with invariances, some of them broken, and an MLP that solves the task."""
    weights = {
        "embedding": generator.standard_normal((s.vocab, s.dim)),
        "position_embedding": generator.standard_normal((s.length, s.dim)),
        "query": 2 * generator.standard_normal(s.dim),
        "value": generator.standard_normal((s.dim, s.dim)),
        "receptor": 3 * generator.standard_normal((s.hidden, s.dim)),
        "receptor_bias": 2 * generator.standard_normal(s.hidden),
        "transform_bias": np.zeros(s.dim),
    }
    if kind == "invariant":
        p = weights["position_embedding"]
        jitter = generator.choice([0.0, 0.0, 0.1, 1.0])
        away = generator.choice([-30.0, 30.0]) * weights["query"]
        if generator.random() < 0.3:
            away *= 0
        for t in range(s.length):
            if t in s.counting:
                p[t] = jitter * p[t]
            else:
                p[t] = p[t] + away
    table = heads.table_of(weights, s)
    sequences = heads.all_sequences(s)
    xi = np.array([heads.attend(x, weights, table)[1] for x in sequences])
    before = [weights["receptor"] @ heads.normalise(v, s.norm) for v in xi]
    active = np.vectorize(heads.gelu)(np.array(before) + weights["receptor_bias"])
    wanted = 5 * weights["embedding"][[heads.target_of(x, s) for x in sequences]]
    weights["assembler"] = np.linalg.lstsq(active, wanted - xi, rcond=1e-6)[0]
    return weights


def test_circuits_of_networks():
    @settings(max_examples=examples(5))
    @given(networks())
    def check(case):
        trajectory, s = case
        result = measure_circuits(trajectory)
        last = len(trajectory["step"]) - 1
        valid = trajectory["last_step"].values >= int(trajectory["step"][-1])
        kinds, rows = [], []
        for run in range(3):
            one = result.isel(run=run)
            if not valid[run]:
                assert str(one["label"].item()) == "none"
                assert np.isnan(one["value_share"]).all()
                kinds.append("none")
                rows.append(None)
                continue
            twin = measures_of(heads.weights_of(trajectory, run, last), s)
            rows.append(twin)
            same("circuits", one["accuracy"], twin["accuracy"])
            same("circuits", one["value_share"], twin["value"])
            same("circuits", one["order_share"], twin["order"])
            same("circuits", one["class_share"], twin["class"])
            same("circuits", one["attention"], twin["attention"])
            same("circuits", one["token_attention"], twin["tokens"])
            assert int(one["clusters"]) == twin["clusters"]
            steps, *rest = twin["sum"]
            same(
                "circuits", one["sum_steps"], math.nan if steps is None else steps, 1e-6
            )
            names = ("whole", "congruent", "levels", "share")
            same("circuits", [one[f"sum_{name}"].item() for name in names], rest)
            kinds.append(label_of(twin, s.counting, THRESHOLDS))
            assert str(one["label"].item()) == kinds[-1]
        check_inherited(trajectory, result, rows, s)
        check_table(
            circuit_table(result, ideal_cluster_count(s)), kinds, rows, s, result
        )

    check()


def leak_of(measures, spurious):
    if np.isnan(measures["value"]).any():
        return math.nan
    return max((measures["value"][t] for t in spurious), default=0.0)


def check_inherited(trajectory, result, rows, s):
    """Attention at the start of each run and at the end of each other one."""
    first = []
    for run in range(3):
        weights = heads.weights_of(trajectory, run, 0)
        table = heads.table_of(weights, s)
        first.append(
            np.ravel(
                [heads.attend(x, weights, table)[0] for x in heads.all_sequences(s)]
            )
        )
    for one in range(3):
        for other in range(3):
            value = result["inherited"].values[one, other]
            if rows[other] is None:
                assert np.isnan(value)
            else:
                same("circuits", value, pearson(first[one], rows[other]["map"]), 1e-6)


def check_table(table, kinds, rows, s, result):
    ideal = math.comb(len(s.counting) + s.vocab - 1, len(s.counting))
    assert ideal_cluster_count(s) == ideal
    spurious = [t for t in range(s.length) if t not in s.counting]
    for _, row in table.iterrows():
        members = [k for k, label in enumerate(kinds) if label == row["label"]]
        there = [rows[k] for k in members if rows[k] is not None]
        assert row["runs"] == len(members)
        row_has("circuits", row, "share", intervals.fraction(len(members), len(kinds)))
        assert row["congruent"] == sum(m["sum"][2] for m in there)
        assert row["ideal_clusters"] == sum(m["clusters"] == ideal for m in there)
        measures = {
            "accuracy": [m["accuracy"] for m in there],
            "mass": [sum(m["attention"][t] for t in s.counting) for m in there],
            "leak": [leak_of(m, spurious) for m in there],
            "unswapped": [m["order"].max() for m in there],
        }
        for name, values in measures.items():
            row_has("circuits", row, name, intervals.mean_between(values))


@st.composite
def measured(draw):
    """Measures near the thresholds."""
    length, vocab = draw(st.integers(1, 6)), draw(st.integers(2, 3))
    counting = list(range(draw(st.integers(1, length))))
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    k = len(counting)
    order = generator.choice([0.0, 0.004, 0.01, 0.015, 0.3], (k, k), p=draw(ODDS))
    order = np.maximum(order, order.T)
    np.fill_diagonal(order, 0)
    attention = generator.dirichlet(np.ones(length))
    if k < length and draw(st.booleans()):
        attention[counting] *= (
            draw(st.sampled_from([0.8, 0.89, 0.91, 0.96])) / attention[counting].sum()
        )
        attention[k:] *= (1 - attention[counting].sum()) / attention[k:].sum()
    return {
        "accuracy": draw(st.sampled_from([0.2, 0.5, 0.6, 0.74, 0.76, 1.0])),
        "value": generator.choice([0.0, 0.004, 0.01, 0.015, 0.3], length, p=draw(ODDS)),
        "order": order,
        "attention": attention,
        "tokens": generator.choice([1.0, 0.6, 0.4, 0.2, 0.1], (length, vocab)),
    }, counting


ODDS = st.sampled_from([[0.9, 0.05, 0.05, 0, 0], [0.6, 0.1, 0.1, 0.1, 0.1], [0.2] * 5])


def test_labels_near_the_thresholds():
    @settings(max_examples=examples(60))
    @given(measured())
    def check(case):
        one, counting = case
        length, vocab = one["tokens"].shape
        result = xr.Dataset(
            {
                "accuracy": ("run", [one["accuracy"]]),
                "value_share": (("run", "position"), one["value"][None]),
                "token_share": (
                    ("run", "position", "token", "other_token"),
                    np.broadcast_to(
                        one["value"][:, None, None], (1, length, vocab, vocab)
                    ),
                ),
                "order_share": (
                    ("run", "counting", "other_counting"),
                    one["order"][None],
                ),
                "attention": (("run", "position"), one["attention"][None]),
                "token_attention": (("run", "position", "token"), one["tokens"][None]),
                "far_scores": ("run", [0]),
                **{n: (("run", "position"), np.ones((1, length))) for n in SPREADS},
                "successful": ("run", [1]),
            },
            {
                "counting": counting,
                "other_counting": counting,
                "position": range(length),
                "token": range(vocab),
            },
        )
        found = labels.circuit_labels(result)
        assert found[0].label == label_of(one, counting, THRESHOLDS)
        kinds = labels.CIRCUIT_LABELS
        sensitivity = labels.label_sensitivity(result)
        for name, factor in ((n, f) for n in THRESHOLDS for f in (0.5, 1, 2)):
            by = THRESHOLDS | {name: factor * THRESHOLDS[name]}
            counts = [int(kind == label_of(one, counting, by)) for kind in kinds]
            at = sensitivity.sel(threshold=name, factor=factor)
            same("circuits", at, counts)

    check()


SPREADS = ("embedding_spread", "value_spread", "contribution_spread")
