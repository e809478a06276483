"""Training the constant-attention network: backends against autograd, ensembles against
a plain torch loop."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.linearization import training_model
from dynamics import ModularSettings, SettingsError, all_pairs, simulate, training_pairs
from dynamics.ensemble import create_system
from dynamics.kernels import modular_backprop
from dynamics.kernels.simd import to_lanes
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.settings_text import setting_texts
from dynamics.tasks import modular_training_mask
from dynamics.training import backends
from dynamics.training.modular_backends import (
    ModularBlasBackend,
    ModularSimdBackend,
    ModularTorchBackend,
)
from tests.dynamics.training.single_updates import assert_updates_of_plain_runs
from tests.plain_torch import Run

SMALL = ModularSettings(n=5, hidden=7, dim=3, train_share=0.7)
BACKENDS = pytest.mark.parametrize(
    "kind", [ModularSimdBackend, ModularBlasBackend, ModularTorchBackend]
)


def begun(kind, s, runs, scale=1.0):
    """A backend whose runs have their initial weights times a scale, these weights
    (run, parameter), the network."""
    network, seeds = ConstantAttention(s), np.arange(runs)
    engine = kind(network, seeds, *(["cpu"] if kind is ModularTorchBackend else []))
    rows = np.float32(scale) * network.flatten(network.initial(seeds))
    engine.set_state(rows, dict.fromkeys(engine.names, np.zeros_like(rows)), 0)
    return engine, torch.from_numpy(rows), network


def shares(s, runs):
    return training_pairs(s.n, s.train_pairs, np.arange(runs)) / s.train_pairs


# --------------------------------------------------------------------- task and network


def test_splits_are_seeded_disjoint_and_of_the_right_size():
    s = ModularSettings()
    assert (s.pairs, s.train_pairs) == (153, 122)
    chosen = training_pairs(s.n, s.train_pairs, np.arange(50))
    assert (chosen.sum(1) == 122).all()
    assert len({row.tobytes() for row in chosen}) == 50
    np.testing.assert_array_equal(
        training_pairs(s.n, s.train_pairs, np.array([7]))[0], chosen[7]
    )
    often = training_pairs(17, 122, np.arange(2000)).mean(0)
    assert abs(often - 122 / 153).max() < 5 * np.sqrt(0.8 * 0.2 / 2000)
    with pytest.raises(SettingsError, match="count: found 16"):
        training_pairs(5, 16, np.arange(2))


def test_the_number_of_training_pairs_is_rounded_down_without_rounding_errors():
    for share, expected in ((1.0, 10), (0.7, 7), (0.1, 1), (0.69999, 6)):
        assert ModularSettings(n=4, train_share=share).train_pairs == expected


@pytest.mark.parametrize("backend", ["simd", "blas"])
def test_all_runs_may_have_the_training_pairs_of_one_seed(backend):
    settings = dataclasses.replace(SMALL, split_seed=3)
    chosen = modular_training_mask(settings, np.arange(2))
    expected = training_pairs(SMALL.n, SMALL.train_pairs, np.array([3]))[0]
    assert (chosen == expected).all()
    system = create_system(settings, "cpu", runs=2, backend=backend)
    plain = {row: Run(settings, row) for row in range(2)}
    assert_updates_of_plain_runs(system, np.arange(2), plain, 5)
    assert (plain[0].splits["train"] == plain[1].splits["train"]).all()
    model = training_model(simulate(settings, runs=2, steps=1, progress=False), 1)
    assert (model.batches[0][0].numpy() == all_pairs(SMALL.n)[expected]).all()


# ---------------------------------------------------------------------------- gradients


@settings(max_examples=12)
@given(
    n=st.integers(2, 19),
    hidden=st.integers(1, 40),
    dim=st.integers(1, 5),
    runs=st.integers(1, 33),
    scale=st.sampled_from([0.1, 1.0, 8.0]),
    activation=st.sampled_from(["relu", "gelu", "tanh"]),
)
def test_gradients_and_scores_equal_those_of_autograd(
    n, hidden, dim, runs, scale, activation
):
    share = 1.0 if n < 3 else 0.8
    s = ModularSettings(
        n=n, hidden=hidden, dim=dim, train_share=share, activation=activation
    )
    engine, rows, network = begun(ModularSimdBackend, s, runs, scale)
    engine.differentiate(0)
    exact, pairs = rows.double().requires_grad_(), torch.from_numpy(all_pairs(n))
    weights = network.unflatten(exact)
    network.loss(weights, pairs, torch.from_numpy(shares(s, runs))).sum().backward()
    np.testing.assert_allclose(
        engine.gradient(), exact.grad, atol=2e-6 * float(exact.grad.abs().max()) + 1e-9
    )
    losses, right = modular_backprop.modular_scores(
        to_lanes(rows.numpy()), engine.layout, engine.pairs, runs
    )
    logits, expected = (
        item(weights, pairs).detach() for item in (network.logits, network.losses)
    )
    np.testing.assert_allclose(
        losses, expected, rtol=1e-5, atol=2e-6 * float(logits.abs().max() + 1)
    )
    top = logits.topk(min(2, n), -1)
    clear = (top.values[..., 0] - top.values[..., -1] > 1e-4).numpy() | (n == 1)
    np.testing.assert_array_equal(
        right[clear], (top.indices[..., 0] == network.target(pairs)).numpy()[clear]
    )


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
@pytest.mark.parametrize(("n", "hidden", "dim"), [(2, 3, 2), (7, 9, 1), (59, 33, 5)])
def test_gradients_of_matrix_products_equal_those_of_a_plain_module(
    n, hidden, dim, activation
):
    """In float64, where all 59 tokens make two portions of training pairs."""
    share = 1.0 if n == 1 else 0.8
    s = ModularSettings(
        n=n, hidden=hidden, dim=dim, train_share=share, activation=activation
    )
    network, seeds = ConstantAttention(s), np.arange(2)
    engine, rows = (
        ModularBlasBackend(network, seeds, torch.float64),
        network.flatten(network.initial(seeds)),
    )
    engine.set_state(rows, dict.fromkeys(engine.names, np.zeros_like(rows)), 0)
    engine.differentiate(0)
    for run, result in enumerate(engine.gradient()):
        alone = Run(s, run)
        alone.net.double()
        logits = alone.net(alone.splits["train"])
        torch.nn.functional.cross_entropy(logits, alone.targets["train"]).backward()
        expected = np.concatenate(
            [parameter.grad.numpy().ravel() for parameter in alone.net.parameters()]
        )
        np.testing.assert_allclose(result, expected, atol=1e-14)


@BACKENDS
def test_scores_are_means_over_splits(kind):
    engine, rows, network = begun(kind, SMALL, 18)
    losses = network.losses(
        network.unflatten(rows.double()), torch.from_numpy(all_pairs(5))
    ).numpy()
    share = shares(SMALL, 18)
    for result in (engine.scores(), engine.exact_scores(np.full(18, True))):
        np.testing.assert_allclose(result[0][:, 0], (losses * share).sum(1), rtol=1e-5)
        np.testing.assert_allclose(
            result[0][:, 1], losses[share == 0].reshape(18, -1).mean(1), rtol=1e-5
        )
    some = engine.exact_scores(np.arange(18) == 7)
    np.testing.assert_allclose(some[0][0], result[0][7], rtol=1e-12)
    np.testing.assert_array_equal(some[1][0], engine.scores()[1][7])


@BACKENDS
def test_ties_count_as_a_guess(kind):
    """A network without any opinion is as right as one that guesses."""
    losses, accuracy = begun(kind, SMALL, 2, 0.0)[0].scores()
    np.testing.assert_allclose(accuracy, 1 / 5, rtol=1e-6)
    np.testing.assert_allclose(losses, np.log(5), rtol=1e-6)


# ----------------------------------------------------------------------------- training


TRAINED = [
    ModularSettings(),
    ModularSettings(
        n=11, hidden=20, dim=3, weight_decay=1.0, train_share=0.6, beta1=0.8, beta2=0.99
    ),
    ModularSettings(optimizer="adam", weight_decay=0.01),
    ModularSettings(optimizer="sgd", lr=0.3, weight_decay=0.001, momentum=0.9),
    ModularSettings(optimizer="sgd", lr=0.3, weight_decay=0.0),
    ModularSettings(weight_decay=1.0, embedding_weight_decay=0.0),
    ModularSettings(weight_decay=0.0, embedding_weight_decay=1.0),
    ModularSettings(optimizer="adam", weight_decay=0.01, embedding_weight_decay=0.1),
    ModularSettings(activation="gelu"),
    ModularSettings(n=11, dim=3, activation="tanh"),
]


@pytest.mark.parametrize("backend", ["simd", "blas"])
@pytest.mark.parametrize(
    "s", TRAINED, ids=lambda s: "-".join(setting_texts(s, form="code")) or "default"
)
def test_updates_are_those_of_a_plain_loop(s, backend):
    """Each of 25 updates, from the same state."""
    runs = {row: Run(s, 3 + row) for row in (0, 13, 19)}
    for plain in runs.values():
        plain.net.double()
    system = create_system(s, "cpu", backend=backend)
    state = assert_updates_of_plain_runs(system, np.arange(3, 23), runs, 25)
    frame = system.observe(state)
    for row, plain in runs.items():
        for index, split in enumerate(plain.splits):
            loss, accuracy = plain.scores(split)
            np.testing.assert_allclose(frame["loss"][row, index], loss, rtol=1e-5)
            np.testing.assert_allclose(
                frame["accuracy"][row, index], accuracy, atol=0.0101
            )


@BACKENDS
@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize(("decay", "of_embedding"), [(2.0, 0.0), (0.0, 2.0)])
def test_weight_decay_by_part_is_that_of_parameter_groups(
    kind, optimizer, decay, of_embedding
):
    """Two updates, of which the second has moments."""
    s = dataclasses.replace(
        SMALL,
        optimizer=optimizer,
        weight_decay=decay,
        embedding_weight_decay=of_embedding,
    )
    engine, _, network = begun(kind, s, 3)
    plain = Run(s, 2)
    plain.net.double()
    for step in range(2):
        begin = engine.weights()[2]
        state = {"weights": begin[None], "updates": np.array([step])}
        moments = {name: values[[2]] for name, values in engine.moments().items()}
        plain.load(network, state | moments, 0)
        plain.step()
        engine.train(step, 1)
        update = plain.rows(network)[0] - begin
        np.testing.assert_allclose(
            engine.weights()[2] - begin, update, rtol=1e-3, atol=1e-6
        )
        np.testing.assert_array_equal(
            engine.last_update()[2], engine.weights()[2] - begin
        )


def test_one_weight_decay_for_all_parts_has_the_bits_of_a_weight_decay():
    named = dataclasses.replace(SMALL, embedding_weight_decay=SMALL.weight_decay)
    for backend in ("simd", "blas"):
        whole, by_part = (
            simulate(s, runs=2, steps=5, backend=backend) for s in (SMALL, named)
        )
        np.testing.assert_array_equal(whole["embedding"], by_part["embedding"])


@pytest.mark.parametrize("backend", ["simd", "blas"])
def test_the_first_frame_has_the_gradient_of_the_first_update(backend):
    first = simulate(SMALL, runs=3, seed=3, steps=0, backend=backend).isel(step=0)
    for row in range(3):
        alone = Run(SMALL, 3 + row)
        alone.step()
        norms = [float(parameter.grad.norm()) for parameter in alone.net.parameters()]
        np.testing.assert_allclose(first["gradient_norm"][row], norms, rtol=1e-4)
    np.testing.assert_array_equal(first["update_norm"], 0)


def test_the_file_has_all_variables_of_the_format():
    with simulate(SMALL, runs=2, steps=4, every=2, out="a.nc") as trajectory:
        assert trajectory["loss"].dims == ("run", "step", "split")
        assert list(trajectory["split"].values) == ["train", "validation"]
        assert list(trajectory["layer"].values) == list(ConstantAttention.VARIABLES)
        np.testing.assert_array_equal(trajectory["epoch"], [0, 2, 4])
        np.testing.assert_array_equal(
            trajectory["time"], SMALL.lr * np.array([0, 2, 4])
        )
        assert trajectory.attrs["modulus"] == 5
        assert all(
            trajectory[name].dtype == np.float32
            for name in (*ConstantAttention.VARIABLES, "loss", "accuracy")
        )
    whole = simulate(dataclasses.replace(SMALL, train_share=1.0), runs=1, steps=2)
    assert list(whole["split"].values) == ["train"]


# --------------------------------------------------------------------------- divergence


@pytest.mark.parametrize("scale", [1.0, 3.0, 6.0, 20.0])
def test_small_losses_keep_their_digits(scale):
    engine, rows, network = begun(ModularSimdBackend, SMALL, 4, scale)
    losses, _ = modular_backprop.modular_scores(
        to_lanes(rows.numpy()), engine.layout, engine.pairs, 4
    )
    inputs = network.unflatten(rows.double()), torch.from_numpy(all_pairs(5))
    size = float(network.logits(*inputs).abs().max())
    np.testing.assert_allclose(
        losses, network.losses(*inputs), rtol=1e-6 * (1 + size), atol=1e-15
    )


# -------------------------------------------------------------------- devices and torch


def test_a_small_ensemble_is_padded_on_cuda():
    engine, rows, network = begun(ModularTorchBackend, SMALL, 3)
    assert engine.width == backends.MIN_CUDA_WIDTH
    assert ModularTorchBackend(network, np.arange(3), "cpu", 100).width == 100
    np.testing.assert_array_equal(engine.weights(), rows)
