"""Hessians in closed form against those of torch; curvature of a run."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.linearization import (
    clustering_head_hessian,
    network_curvature,
    training_objective,
)
from analysis.linearization.cross_entropy import add_gram, cross_entropy_derivatives
from analysis.linearization.network_curvature import flat_weight_pairs, loss_curvature
from dynamics import (
    ModularSettings,
    SparseSettings,
    simulate,
)
from dynamics.networks import ClusteringHead, ConstantAttention

TRAINED = SparseSettings(data=64, hidden=4, lr=0.02)


def network_for(settings):
    return (
        ClusteringHead if isinstance(settings, SparseSettings) else ConstantAttention
    )(settings)


def somewhere(network, seed=0, size=0.3):
    """Flat parameters near a first state, where nothing is special."""
    row = network.flatten(network.initial(np.array([seed])))[0].astype(np.float64)
    return torch.from_numpy(
        row + size * np.random.default_rng(seed).standard_normal(len(row))
    )


def off(result, expected):
    """Largest entry of the difference over the spectral norm."""
    return float(
        (result - expected).abs().max() / torch.linalg.matrix_norm(expected, 2)
    )


def closed_form_error(network, row, seed=0):
    """Difference between the Hessian in closed form and that of torch."""
    objective = training_objective(network, seed)
    return off(objective.hessian(row), torch.func.hessian(objective.loss)(row))


# ------------------------------------------------------------------------- VC's network

VARIANTS = [
    {},
    {"length": 6, "sparsity": 2, "positions": (0, 3)},
    {"table": 3, "hidden": 32, "norm": "unit"},
]


@pytest.mark.parametrize(
    "settings",
    [
        *(
            SparseSettings(**{"data": 60, "batch": 30, "hidden": 5, **variant})
            for variant in VARIANTS
        ),
        ModularSettings(n=7, hidden=5),
        ModularSettings(n=5, dim=3, hidden=4, train_share=1.0),
        ModularSettings(n=4, dim=1, hidden=1),
        ModularSettings(n=2, hidden=3),
        ModularSettings(),
        ModularSettings(activation="gelu"),
        ModularSettings(n=5, dim=3, hidden=4, activation="tanh"),
        ModularSettings(n=4, dim=1, hidden=1, activation="tanh"),
    ],
)
def test_hessians_in_closed_form_are_those_of_torch(settings):
    network = network_for(settings)
    row = somewhere(network)
    result = training_objective(network, 3).hessian(row)
    assert off(result, result.T) < 1e-14
    assert closed_form_error(network, row, 3) < 1e-12


@given(
    vocab=st.integers(2, 4),
    more=st.integers(0, 2),
    length=st.integers(1, 5),
    dim=st.integers(1, 4),
    hidden=st.integers(1, 5),
    norm=st.sampled_from(["rms", "unit", "rms-smooth", "unit-smooth"]),
    width=st.sampled_from([1.0, 0.4, 3.0]),
    activation=st.sampled_from(["gelu", "relu", "tanh"]),
    biases=st.booleans(),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
@examples(max_examples=25)
def test_hessians_of_small_heads_are_those_of_torch(
    vocab, more, length, dim, hidden, norm, width, activation, biases, bias, seed
):
    settings = SparseSettings(
        vocab=vocab,
        table=vocab + more,
        length=length,
        sparsity=1 + seed % length,
        dim=dim,
        hidden=hidden,
        norm=norm,
        smooth_width=width if norm.endswith("smooth") else 1.0,
        activation=activation,
        receptor_biases=biases,
        output_bias=bias,
        data=40,
        batch=40,
    )
    network = ClusteringHead(settings)
    assert closed_form_error(network, somewhere(network, seed), seed) < 1e-11


def test_the_hessian_does_not_depend_on_the_number_of_sequences_held_at_a_time(
    monkeypatch,
):
    network = ClusteringHead(SparseSettings(data=100, hidden=4))
    row = somewhere(network)
    result = training_objective(network, 1)
    whole = result.hessian(row)
    for size in (3000, 1):
        monkeypatch.setattr(clustering_head_hessian, "_MAX_ARRAY_SIZE", size)
        assert off(result.hessian(row), whole) < 1e-14


@pytest.mark.parametrize("norm", ["rms", "rms-smooth", "unit-smooth"])
def test_the_hessian_is_exact_without_sequence_embeddings_and_for_large_logits(norm):
    """With V = 0 sequence embeddings are zero; these forms have a derivative there, and
    autodiff the same."""
    network = ClusteringHead(
        SparseSettings(data=60, hidden=4, norm=norm, table=5, batch=60)
    )
    zero = somewhere(network)
    large = somewhere(network)
    zero[network.begins["value"] :][:4] = 0
    large[:10] *= 1000  # logits of hundreds: probabilities underflow to 0
    assert closed_form_error(network, zero) < 1e-12
    assert closed_form_error(network, large) < 1e-9


# ------------------------------------------------------------------------- CA's network


@pytest.mark.parametrize(
    "settings", [ModularSettings(n=7, hidden=5), SparseSettings(data=64, hidden=4)]
)
def test_the_loss_of_the_objective_is_the_recorded_one(settings):
    trajectory = simulate(settings, runs=2, seed=4, steps=6, every=3)
    network = network_for(settings)
    rows = flat_weight_pairs(trajectory, network, [0, 1, 2])
    recorded = trajectory["loss"].sel(split="train").values
    for run, frame in np.ndindex(2, 3):
        loss = training_objective(network, 4 + run).loss(
            torch.from_numpy(rows[run, frame, 0])
        )
        assert float(loss) == pytest.approx(recorded[run, frame], rel=1e-5)
    assert_array_equal(rows[:, 0, 1], rows[:, 1, 0])
    assert_array_equal(rows[:, 2, 1], rows[:, 2, 0])


# -------------------------------------------------------------------------------- parts


@given(
    classes=st.integers(1, 6),
    scale=st.sampled_from([0.1, 3.0, 400.0]),
    seed=st.integers(0, 99),
)
def test_derivatives_of_the_cross_entropy_are_those_of_autodiff(classes, scale, seed):
    generator = np.random.default_rng(seed)
    logits = torch.from_numpy(scale * generator.standard_normal((classes, 9)))
    target = torch.from_numpy(generator.integers(0, classes, 9))
    share = torch.from_numpy(generator.random(9))
    error, root = cross_entropy_derivatives(logits, target, share)
    p = torch.softmax(logits, 0)
    expected = (
        torch.einsum("ks,kl->kls", p, torch.eye(classes, dtype=torch.float64))
        - p[:, None] * p
    )
    assert_allclose(
        torch.einsum("krs,lrs->kls", root, root), share * expected, atol=1e-15
    )
    loss = torch.nn.functional.cross_entropy
    by_autodiff = torch.func.grad(
        lambda each: loss(each.T, target, reduction="none") @ share
    )(logits)
    assert_allclose(error, by_autodiff, atol=1e-14)


@pytest.mark.parametrize("rows", [1, 56, 57, 200])
def test_products_with_the_own_transpose_are_added(rows, generator):
    x = torch.from_numpy(generator.standard_normal((rows, 31)))
    total = torch.ones(rows, rows, dtype=torch.float64)
    add_gram(total, x)
    assert_allclose(total, 1 + x @ x.T, atol=1e-12)


# ------------------------------------------------------------------- along a trajectory


@pytest.fixture(scope="module")
def trained():
    return simulate(TRAINED, runs=3, steps=8, every=2)


def test_spectra_layers_and_traces_are_those_of_the_hessian(trained):
    threads = torch.get_num_threads()
    result = loss_curvature(trained, [0, 3])
    assert torch.get_num_threads() == threads
    network = ClusteringHead(TRAINED)
    rows = flat_weight_pairs(trained, network, [0, 3])
    for run, frame in np.ndindex(3, 2):
        here = result.isel(run=run, step=frame)
        loss = training_objective(network, run).loss
        hessian = torch.func.hessian(loss)(torch.from_numpy(rows[run, frame, 0]))
        values, vectors = np.linalg.eigh(hessian.numpy())
        assert_allclose(here["eigenvalue"], values, atol=1e-12 * values[-1])
        assert (here["trace"], here["sharpness"]) == pytest.approx(
            (values.sum(), values[-1])
        )
        for place, (name, begin) in enumerate(network.begins.items()):
            block = np.linalg.eigvalsh(
                hessian[begin:, begin:][
                    : network.lengths[place], : network.lengths[place]
                ]
            )
            assert here["layer_lowest"].sel(layer=name) == pytest.approx(
                block[0], abs=1e-12
            )
            assert here["layer_highest"].sel(layer=name) == pytest.approx(
                block[-1], abs=1e-12
            )
        moved = rows[run, frame, 1] - rows[run, frame, 0]
        along = np.square(vectors.T @ moved) / (moved @ moved)
        assert here["lowest_share"] == pytest.approx(along[0], rel=1e-6, abs=1e-12)
        assert here["highest_share"] == pytest.approx(along[-1], rel=1e-6, abs=1e-12)
        negative = values < -1e-6 * np.abs(values).max()
        assert here["negative_share"] == pytest.approx(along[negative].sum(), rel=1e-6)
        assert here["negative_chance"] == pytest.approx(negative.mean())


def test_frames_after_divergence_have_no_curvature(trained):
    lost = trained.copy(deep=True)
    lost["last_step"].values[0] = 4
    result = loss_curvature(lost, [1, 2, 3, 4])
    known = np.isfinite(result["eigenvalue"].values).all(axis=-1)
    assert_array_equal(known, [[True, True, False, False], [True] * 4, [True] * 4])
    moved = np.isfinite(result["lowest_share"].values[:2])
    assert_array_equal(moved, [[True, False, False, False], [True, True, True, False]])


def test_extreme_eigenvalues_agree_with_the_whole_spectrum(trained, monkeypatch):
    whole = loss_curvature(trained, [0, 2])
    monkeypatch.setattr(network_curvature, "_MAX_DENSE", 10)
    ends = loss_curvature(trained, [0, 2])
    assert ends.sizes["mode"] == 6
    expected = whole["eigenvalue"].values[..., [0, 1, 2, -3, -2, -1]]
    assert_allclose(ends["eigenvalue"], expected, atol=1e-9 * expected.max())
    for name in ("sharpness", "lowest_share", "highest_share"):
        assert_allclose(ends[name], whole[name], rtol=1e-5, atol=1e-12)
    assert np.isnan(ends["negative_share"]).all()
    assert (np.abs(ends["trace"] - whole["trace"]) < 5 * ends["trace_error"]).all()


@pytest.mark.parametrize("dense", [2000, 10])
def test_sharpness_accounts_for_learning_rates_of_layers(dense, monkeypatch):
    """Gradient descent with a step of its own for each layer is stable up to 2 / lr of
    the scaled Hessian."""
    settings = SparseSettings(data=64, hidden=4, mlp_lr_discount=0.05)
    trajectory = simulate(settings, runs=1, steps=2, every=2)
    network = ClusteringHead(settings)
    monkeypatch.setattr(network_curvature, "_MAX_DENSE", dense)
    result = loss_curvature(trajectory, [1])
    row = torch.from_numpy(flat_weight_pairs(trajectory, network, [1])[0, 0, 0])
    rates = network_curvature.relative_learning_rates(network)
    assert set(rates) == {1.0, 20.0}
    limit = np.abs(
        np.linalg.eigvals(
            np.diag(rates) @ training_objective(network, 0).hessian(row).numpy()
        )
    ).max()
    assert result["sharpness"].item() == pytest.approx(limit, rel=1e-8)
