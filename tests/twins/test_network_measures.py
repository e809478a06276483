"""docs/analyses/noise.md, weights.md and sparsity.md in plain loops."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import clustering_heads, forces, loss_geometry
from dynamics import (
    SparseSettings,
    all_pairs,
    read_settings,
    sample_sequences,
    simulate,
    training_pairs,
)
from tests.plain_head import Net
from tests.twins import intervals
from tests.twins.differences import examples, same
from tests.twins.trajectories import modular

LAYERS = ("embedding", "hidden_weight", "hidden_bias", "output_weight", "output_bias")


def training(trajectory, run):
    s = read_settings(trajectory)
    chosen = training_pairs(s.n, s.train_pairs, trajectory["seed"].values)[run]
    return all_pairs(s.n)[chosen]


def change_weights(trajectory, kind, generator):
    for layer in LAYERS:
        if kind == "random":
            trajectory[layer][:] = generator.standard_normal(trajectory[layer].shape)
        elif kind == "zero":
            trajectory[layer][:] = 0


# -------------------------------------------------------------------------------- noise


def flat_loss(shapes, pairs, n):
    """The loss of the examples as a function of all parameters in one vector."""
    pairs = torch.as_tensor(pairs)

    def losses(vector):
        parts = torch.split(vector, [math.prod(shape) for shape in shapes])
        parts = (part.view(shape) for part, shape in zip(parts, shapes, strict=True))
        e, w, b, u, c = parts
        logits = torch.relu(e[pairs].sum(1) @ w.T + b) @ u.T + c
        target = pairs.sum(1) % n
        return torch.nn.functional.cross_entropy(logits, target, reduction="none")

    return losses


def test_gradient_noise():
    @settings(max_examples=examples(4))
    @given(
        st.integers(3, 5),
        st.sampled_from(["trained", "random"]),
        st.integers(0, 99),
        st.integers(1, 3),
    )
    def check(tokens, kind, seed, modes):
        trajectory = modular(tokens, 1, 3)
        change_weights(trajectory, kind, np.random.default_rng(seed))
        result = loss_geometry.gradient_noise(trajectory, [0, 2], modes=modes)
        for k, t in enumerate((0, 2)):
            weights = [trajectory[name].values[0, t].astype(float) for name in LAYERS]
            losses = flat_loss(
                [w.shape for w in weights], training(trajectory, 0), tokens
            )
            vector = torch.from_numpy(np.concatenate([w.ravel() for w in weights]))
            g = torch.autograd.functional.jacobian(losses, vector).numpy()
            hessian = torch.autograd.functional.hessian(
                lambda v, f=losses: f(v).mean(), vector
            ).numpy()
            mean = g.mean(axis=0)
            c = (g - mean).T @ (g - mean) / len(g)
            values, vectors = np.linalg.eigh(hessian)
            order = np.argsort(values)[::-1][:modes]
            one = result.isel(run=0, step=k)
            size, trace = float(mean @ mean), float(np.trace(c))
            same("noise", one["loss"], losses(vector).mean(), 1e-5)
            same("noise", one["gradient_size"], math.sqrt(size), 1e-5)
            same("noise", one["noise_trace"], trace, 1e-5)
            same("noise", one["noise_scale"], trace / size, 1e-5)
            same("noise", one["noise_rank"], trace**2 / np.trace(c @ c), 1e-5)
            same("noise", one["hessian_eigenvalue"], values[order], 1e-5)
            top = np.linalg.eigvalsh(c)[::-1][:modes]
            same("noise", one["noise_eigenvalue"], top, 1e-5)
            following = np.argsort(values)[::-1][: modes + 1]
            gaps = -np.diff(values[following])
            if min(gaps) < 1e-4 * values[following[0]]:
                continue  # eigenvectors of equal eigenvalues are not unique
            v = vectors[:, order]
            along = [float(v[:, i] @ c @ v[:, i]) for i in range(modes)]
            same("noise", one["noise_along_hessian"], sum(along) / trace, 1e-5)
            share = ((v.T @ mean) ** 2).sum() / size
            same("noise", one["gradient_along_hessian"], share, 1e-5)
            same("noise", one["alignment"], np.array(along) / top[0], 1e-5)

    check()


# ------------------------------------------------------------------------------ weights


def angle_between(a, b):
    cosine = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    return math.acos(max(-1.0, min(1.0, cosine)))


def rank_in_the_plane(nearness, directions):
    """The fraction of all directions in a plane whose nearest angle is larger."""
    angles = sorted(math.atan2(d[1], d[0]) % (2 * math.pi) for d in directions)
    angles = [a for k, a in enumerate(angles) if k == 0 or a - angles[k - 1] > 1e-9]
    gaps = [b - a for a, b in itertools.pairwise([*angles, angles[0] + 2 * math.pi])]
    return sum(max(0.0, gap - 2 * nearness) for gap in gaps) / (2 * math.pi)


def rays(x, pairs, number):
    """number: of each token."""
    n, along, whole = len(x), 0.0, 0.0
    for c in range(n):
        s = [x[i] + x[j] for i, j in pairs if (number[i] + number[j]) % n == c]
        s = np.array(s)
        if len(s):
            along += np.linalg.svd(s, compute_uv=False)[0] ** 2
            whole += (s**2).sum()
    return along / whole if whole > 0 else math.nan


def test_weights():
    @settings(max_examples=examples(4))
    @given(
        st.integers(3, 6),
        st.sampled_from(["trained", "random", "zero"]),
        st.booleans(),
        st.integers(0, 99),
    )
    def check(tokens, kind, diverges, seed):
        trajectory = modular(tokens, 2, 2, last={0: 0} if diverges else {})
        change_weights(trajectory, kind, np.random.default_rng(seed))
        measures = forces.measure_weights(trajectory)
        runs = [1] if diverges else [0, 1]
        same("weights", measures["seed"], trajectory["seed"].values[runs])
        for k, run in enumerate(runs):
            e, w, b = (
                trajectory[name].values[run, -1].astype(float) for name in LAYERS[:3]
            )
            pairs = training(trajectory, run)
            same("weights", measures["weight"][k], np.abs(w).mean(), 1e-6)
            same("weights", measures["bias"][k], np.abs(b).mean(), 1e-6)
            same("weights", measures["rays"][k], rays(e, pairs, range(tokens)), 1e-6)
            sums = np.array([e[i] + e[j] for i, j in pairs])
            sums = sums[np.linalg.norm(sums, axis=1) > 0]
            living = [
                i for i in range(len(w)) if len(sums) and (sums @ w[i] + b[i]).max() > 0
            ]
            if not living:
                assert np.isnan(measures["alignment"][k])
                continue
            size = [float(np.linalg.norm(w[i])) for i in living]
            lines = np.concatenate([sums, -sums])
            alignment, boundaries = [], []
            for i in living:
                near = min(angle_between(w[i], s) for s in sums)
                alignment.append(rank_in_the_plane(near, sums))
                near = min(abs(math.pi / 2 - angle_between(w[i], s)) for s in sums)
                boundaries.append(rank_in_the_plane(near, lines))
            for name, ranks in (("alignment", alignment), ("boundaries", boundaries)):
                expected = np.average(ranks, weights=size)
                # of 4096 directions
                assert abs(measures[name][k] - expected) < 0.04
                assert abs(measures[f"{name}_chance"][k] - 0.5) < 0.1
            numbers = itertools.permutations(range(tokens))
            chance = [rays(e, pairs, number) for number in numbers]
            error = 5 * np.std(chance) / math.sqrt(50)  # of 50 permutations
            assert abs(measures["rays_chance"][k] - np.mean(chance)) <= error + 1e-6

    check()


# ----------------------------------------------------------------------------- sparsity


def hidden(net, tokens):
    """GELU of the hidden units, (sequence, unit)."""
    z = net.norm(net.embedding(tokens) + net.position_embedding.weight)
    attention = torch.softmax(z @ net.query / net.dim**0.5, dim=-1)
    xi = net.value((attention[..., None] * z).sum(-2))
    x = net.receptor(net.norm(xi)).detach().numpy()
    return np.array(
        [[0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in row] for row in x]
    )


@pytest.fixture(scope="module")
def sparse():
    small = SparseSettings(length=4, sparsity=2, data=16, batch=16, hidden=4)
    return simulate(small, runs=7, steps=30, progress=False)


def plain(trajectory, run, step=-1):
    s = read_settings(trajectory)
    net = Net(s).double()
    names = {
        "embedding": net.embedding.weight,
        "position_embedding": net.position_embedding.weight,
        "query": net.query,
        "value": net.value.weight,
        "receptor": net.receptor.weight,
        "receptor_bias": net.receptor.bias,
        "transform_bias": net.assembler.bias,
        "assembler": net.assembler.weight,
    }
    with torch.no_grad():
        for name, parameter in names.items():
            values = torch.from_numpy(trajectory[name].values[run, step].astype(float))
            parameter.copy_(values.T if name == "assembler" else values)
    return net


def effect(first, second):
    """Rank-biserial correlation; NaN without runs on one side."""
    signs = [np.sign(a - b) for a in first for b in second]
    return sum(signs) / len(signs) if signs else math.nan


def check_p_values(p_values, curves, successes, effects):
    """Against all choices of the runs that succeed, of which the analysis draws."""
    runs, largest = range(len(curves)), []
    for chosen in itertools.combinations(runs, successes):
        others = [k for k in runs if k not in chosen]
        both = ([c[list(chosen)], c[others]] for c in curves.T)
        largest.append(max(abs(effect(*pair)) for pair in both))
    for p_value, value in zip(p_values, effects, strict=True):
        p = np.mean([v >= abs(value) - 1e-12 for v in largest])
        assert abs(p_value - p) <= 6 * math.sqrt(p * (1 - p) / 10_000) + 1e-3


def test_sparsity(sparse):
    @settings(max_examples=examples(3))
    @given(st.integers(0, 99), st.booleans())
    def check(seed, diverges):
        generator = np.random.default_rng(seed)
        trajectory = sparse.copy(deep=True)
        trajectory["accuracy"][:] = generator.choice([0.5, 0.9, 0.95], (7, 1, 1))
        for run in range(7):
            trajectory["receptor"][run] *= generator.choice([0.01, 1.0, 3.0])
        runs = list(range(7))
        if diverges:
            trajectory["status"][6], trajectory["last_step"][6] = 2, 0
            runs = runs[:6]
        result = clustering_heads.compare_successes(
            clustering_heads.measure_sparsity(trajectory)
        )
        s, eps = read_settings(trajectory), result["eps"].values
        table = clustering_heads.sparsity_table([result], ["one"])
        accuracy = trajectory["accuracy"].sel(split="test").values[:, -1].astype(float)
        wins = [accuracy[run] > 0.9 for run in runs]
        for split in map(str, result["split"].values):
            here = result.sel(split=split)
            curves = []
            for run in runs:
                seeds = trajectory["seed"].values[run : run + 1]
                tokens = torch.from_numpy(sample_sequences(s, seeds, split)[0]).long()
                size = np.abs(hidden(plain(trajectory, run), tokens))
                curves.append([(size < e).mean() for e in eps])
                same("sparsity", here["sparsity"][run], curves[-1], 1e-12)
            curves = np.array(curves)
            inside = [k for k, e in enumerate(eps) if 1e-3 / 1.0001 < e < 10 * 1.0001]
            log = np.log(eps[inside])
            means = [np.trapezoid(c[inside], log) / (log[-1] - log[0]) for c in curves]
            same("sparsity", here["mean_sparsity"][runs], means, 1e-9)
            won, lost = (
                [k for k, w in enumerate(wins) if bool(w) is v] for v in (True, False)
            )
            effects = [effect(c[won], c[lost]) for c in curves.T]
            same("sparsity", here["effect"], effects)
            row = table[table["split"] == split].iloc[0]
            assert (row["successes"], row["failures"]) == (len(won), len(lost))
            if not won or not lost:
                continue
            means = np.array(means)
            same("sparsity", row["effect"], effect(means[won], means[lost]))
            expected = [np.median(means[won]), np.median(means[lost])]
            same("sparsity", row[["median_success", "median_failure"]], expected)
            r = intervals.spearman(means, accuracy[runs])
            same("sparsity", row["correlation"], r)
            check_p_values(here["p_value"].values, curves, len(won), effects)

    check()
