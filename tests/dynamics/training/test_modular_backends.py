"""Training the constant-attention network: backends against autograd, ensembles against a plain torch loop."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamics.kernels import modular_backprop
from dynamics.kernels.simd import to_lanes
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.settings import ModularSettings, SettingsError
from dynamics.simulation import simulate
from dynamics.tasks import all_pairs, training_pairs
from dynamics.training import backends
from dynamics.training.modular_backends import ModularSimdBackend, ModularTorchBackend
from dynamics.trajectory.reader import open_trajectory
from tests.plain_torch import Run

SMALL = ModularSettings(n=5, hidden=7, dim=3, train_share=0.7)


def shares(s, seeds):
    return training_pairs(s.n, s.train_pairs, seeds) / s.train_pairs


def flat(network, runs):
    return torch.from_numpy(network.flatten(network.initial(np.arange(runs))))


# ------------------------------------------------------------------------------------- task and network


def test_splits_are_seeded_disjoint_and_of_the_right_size():
    s = ModularSettings()
    assert (s.pairs, s.train_pairs) == (153, 122)
    chosen = training_pairs(s.n, s.train_pairs, np.arange(50))
    assert (chosen.sum(1) == 122).all()
    assert len({row.tobytes() for row in chosen}) == 50
    np.testing.assert_array_equal(training_pairs(s.n, s.train_pairs, np.array([7]))[0], chosen[7])
    often = training_pairs(17, 122, np.arange(2000)).mean(0)
    assert abs(often - 122 / 153).max() < 5 * np.sqrt(0.8 * 0.2 / 2000)
    with pytest.raises(SettingsError, match="count: found 16"):
        training_pairs(5, 16, np.arange(2))


@pytest.mark.parametrize(("share", "expected"), [(1.0, 10), (0.7, 7), (0.1, 1), (0.69999, 6)])
def test_the_number_of_training_pairs_is_rounded_down_without_rounding_errors(share, expected):
    assert ModularSettings(n=4, train_share=share).train_pairs == expected


# -------------------------------------------------------------------------------------------- gradients


@settings(max_examples=12)
@given(
    n=st.integers(1, 19), hidden=st.integers(1, 40), dim=st.integers(1, 5), runs=st.integers(1, 33),
    scale=st.sampled_from([0.1, 1.0, 8.0]),
)  # fmt: skip
def test_gradients_and_scores_equal_those_of_autograd(n, hidden, dim, runs, scale):
    s = ModularSettings(n=n, hidden=hidden, dim=dim, train_share=1.0 if n < 3 else 0.8)
    network = ConstantAttention(s)
    share, rows = shares(s, np.arange(runs)), scale * flat(network, runs)
    engine = ModularSimdBackend(network, np.arange(runs))
    held(engine, rows)
    engine.differentiate(0)
    exact = rows.double().requires_grad_()
    pairs = torch.from_numpy(all_pairs(n))
    network.loss(network.unflatten(exact), pairs, torch.from_numpy(share)).sum().backward()
    size = float(exact.grad.abs().max())
    np.testing.assert_allclose(engine.gradient(), exact.grad, atol=2e-6 * size + 1e-9)
    losses, right = modular_backprop.modular_scores(to_lanes(rows.numpy()), engine.layout, engine.pairs, runs)
    logits = network.logits(network.unflatten(exact.detach()), pairs)
    expected = network.losses(network.unflatten(exact.detach()), pairs)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=2e-6 * float(logits.abs().max() + 1))
    top = logits.topk(min(2, n), -1)
    clear = torch.ones_like(top.values[..., 0], dtype=bool) if n == 1 else top.values.diff(dim=-1)[..., 0].abs() > 1e-4
    clear = clear.numpy()
    np.testing.assert_array_equal(right[clear], (top.indices[..., 0] == network.target(pairs)).numpy()[clear])


def held(engine, rows):
    """The engine begun from rows (run, parameter)."""
    engine.set_state(rows.numpy(), {name: np.zeros(rows.shape, np.float32) for name in engine.names}, 0)
    return engine


@pytest.mark.parametrize(
    "kind", [ModularSimdBackend, lambda network, seeds: ModularTorchBackend(network, seeds, "cpu")]
)
def test_scores_are_means_over_splits(kind):
    network, seeds = ConstantAttention(SMALL), np.arange(18)
    rows, share = flat(network, 18), shares(SMALL, seeds)
    engine = held(kind(network, seeds), rows)
    losses = network.losses(network.unflatten(rows.double()), torch.from_numpy(all_pairs(5))).numpy()
    for found in (engine.scores(), engine.exact_scores(np.full(18, True))):
        np.testing.assert_allclose(found[0][:, 0], (losses * share).sum(1), rtol=1e-5)
        np.testing.assert_allclose(found[0][:, 1], losses[share == 0].reshape(18, -1).mean(1), rtol=1e-5)
    some = engine.exact_scores(np.arange(18) == 7)
    np.testing.assert_allclose(some[0][0], found[0][7], rtol=1e-12)
    np.testing.assert_array_equal(some[1][0], engine.scores()[1][7])


def test_ties_count_as_a_guess():
    """A network without any opinion is as right as one that guesses."""
    network = ConstantAttention(SMALL)
    for engine in (ModularSimdBackend(network, np.arange(2)), ModularTorchBackend(network, np.arange(2), "cpu")):
        losses, accuracy = engine.scores()
        np.testing.assert_allclose(accuracy, 1 / 5, rtol=1e-6)
        np.testing.assert_allclose(losses, np.log(5), rtol=1e-6)


# --------------------------------------------------------------------------------------------- training


def plain_training(s, seed, steps):
    """Weights, norms of gradient and update at every step, and scores of a run trained alone."""
    run, history = Run(s, seed), []
    for _ in range(steps):
        before = [parameter.detach().clone() for parameter in run.net.parameters()]
        run.step()
        moved = [float((p.detach() - b).norm()) for p, b in zip(run.net.parameters(), before, strict=True)]
        history.append(([float(parameter.grad.norm()) for parameter in run.net.parameters()], moved))
    scores = {split: run.scores(split) for split in run.splits}
    return [parameter.detach().numpy() for parameter in run.net.parameters()], history, scores


@pytest.mark.parametrize(
    "s",
    [
        ModularSettings(),
        ModularSettings(n=11, hidden=20, dim=3, weight_decay=1.0, train_share=0.6, beta1=0.8, beta2=0.99),
        ModularSettings(optimizer="adam", weight_decay=0.01),
        ModularSettings(optimizer="sgd", lr=0.3, weight_decay=0.001, momentum=0.9),
        ModularSettings(optimizer="sgd", lr=0.3, weight_decay=0.0),
    ],
    ids=lambda s: f"{s.optimizer}-{s.n}-{s.momentum}",
)
def test_an_ensemble_equals_single_runs_trained_by_a_plain_loop(s):
    trajectory = simulate(s, runs=20, seed=3, steps=25, every=25, progress=False)
    for run in (0, 13, 19):
        parameters, history, scores = plain_training(s, 3 + run, 25)  # roundings grow e-fold in some 20 steps
        last = trajectory.isel(run=run, step=-1)
        for name, expected in zip(ConstantAttention.VARIABLES, parameters, strict=True):
            np.testing.assert_allclose(last[name], expected, atol=2e-4, err_msg=name)
        np.testing.assert_allclose(last["gradient_norm"], history[-1][0], rtol=2e-3, atol=1e-5)
        np.testing.assert_allclose(last["update_norm"], history[-1][1], rtol=2e-3, atol=1e-6)
        for split, (loss, accuracy) in scores.items():
            np.testing.assert_allclose(last["loss"].sel(split=split), loss, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(last["accuracy"].sel(split=split), accuracy, atol=1e-6)
        np.testing.assert_allclose(trajectory["gradient_norm"][run, 0], history[0][0], rtol=1e-4)
        np.testing.assert_array_equal(trajectory["update_norm"][run, 0], 0)


def test_the_file_has_all_variables_of_the_format(tmp_path):
    path = tmp_path / "a.nc"
    simulate(SMALL, runs=2, steps=4, every=2, out=path, progress=False).close()
    with open_trajectory(path) as trajectory:
        assert trajectory["loss"].dims == ("run", "step", "split")
        assert list(trajectory["split"].values) == ["train", "validation"]
        assert list(trajectory["layer"].values) == list(ConstantAttention.VARIABLES)
        np.testing.assert_array_equal(trajectory["epoch"], [0, 2, 4])
        np.testing.assert_array_equal(trajectory["time"], SMALL.lr * np.array([0, 2, 4]))
        assert trajectory.attrs["modulus"] == 5
        assert all(trajectory[name].dtype == np.float32 for name in (*ConstantAttention.VARIABLES, "loss", "accuracy"))
    whole = simulate(dataclasses.replace(SMALL, train_share=1.0), runs=1, steps=2, progress=False)
    assert list(whole["split"].values) == ["train"]


# ------------------------------------------------------------------------------------------- divergence


def test_small_losses_keep_their_digits():
    network = ConstantAttention(SMALL)
    shape, pairs, rows = modular_backprop.modular_layout(5, 7, 3), modular_backprop.pair_quads(5), flat(network, 4)
    for scale in (1.0, 3.0, 6.0, 20.0):
        losses, _ = modular_backprop.modular_scores(to_lanes(scale * rows.numpy()), shape, pairs, 4)
        exact = network.losses(network.unflatten((scale * rows).double()), torch.from_numpy(all_pairs(5))).numpy()
        size = float(network.logits(network.unflatten(scale * rows), torch.from_numpy(all_pairs(5))).abs().max())
        np.testing.assert_allclose(losses, exact, rtol=1e-6 * (1 + size), atol=1e-15)


# ------------------------------------------------------------------------------------- devices and torch


def test_a_small_ensemble_is_padded_on_cuda():
    network, seeds = ConstantAttention(SMALL), np.arange(3)
    engine = ModularTorchBackend(network, seeds, "cpu")
    assert engine.width == backends.MIN_CUDA_WIDTH
    assert ModularTorchBackend(network, seeds, "cpu", 100).width == 100
    rows = flat(network, 3)
    np.testing.assert_array_equal(held(engine, rows).weights(), rows)
