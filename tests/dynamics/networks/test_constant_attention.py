"""The network of CA against NumPy; networks and weights read from a trajectory."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import (
    ModularSettings,
    SettingsError,
    TrajectoryError,
    all_pairs,
    simulate,
    training_pairs,
)
from dynamics.networks import ConstantAttention, network_of, weights

SMALL = ModularSettings(n=5, hidden=7, dim=3, train_share=0.7)


def test_first_weights_are_those_of_torch_layers():
    """E standard normal, both layers uniform within ±1/sqrt(fan-in), one run by its
    seed alone."""
    network = ConstantAttention(ModularSettings())
    initial = network.initial(np.arange(400))
    assert {
        name: weight.shape[1:] for name, weight in initial.items()
    } == network.shapes
    assert abs(initial["embedding"].std() - 1) < 0.01
    for name, bound in (
        ("hidden_weight", 2**-0.5),
        ("hidden_bias", 2**-0.5),
        ("output_weight", 32**-0.5),
    ):
        assert 0.999 * bound < abs(initial[name]).max() <= np.float32(bound)
        assert abs(initial[name].std() - bound / 3**0.5) < 0.01 * bound
    for name, weight in network.initial(np.array([7])).items():
        assert_array_equal(weight[0], initial[name][7])


def test_logits_and_losses_are_those_of_numpy():
    network, pairs = ConstantAttention(SMALL), all_pairs(5)
    initial = {
        name: weight.astype(np.float64)
        for name, weight in network.initial(np.arange(3)).items()
    }
    tensors = {name: torch.from_numpy(weight) for name, weight in initial.items()}
    logits, losses = (
        item(tensors, torch.from_numpy(pairs))
        for item in (network.logits, network.losses)
    )
    for run in range(3):
        embedding, *layers = (weight[run] for weight in initial.values())
        for at, (i, j) in enumerate(pairs):
            hidden = np.maximum(
                layers[0] @ (embedding[i] + embedding[j]) + layers[1], 0
            )
            expected = layers[2] @ hidden + layers[3]
            assert_allclose(logits[run, at], expected, atol=1e-12)
            loss = np.log(np.exp(expected).sum()) - expected[(i + j) % 5]
            assert_allclose(losses[run, at], loss, atol=1e-12)


def test_recorded_networks_can_be_mapped_and_differentiated():
    trajectory = simulate(SMALL, runs=3, steps=4, every=2)
    network, pairs = network_of(trajectory), torch.from_numpy(all_pairs(5))
    chosen = training_pairs(SMALL.n, SMALL.train_pairs, trajectory["seed"].values)
    share = torch.from_numpy(chosen / SMALL.train_pairs).float()
    losses = network.loss(weights(trajectory), pairs, share[:, None])  # run, step
    assert_allclose(losses, trajectory["loss"].sel(split="train"), rtol=1e-5)
    gradient = torch.func.grad(network.loss)
    one = gradient(weights(trajectory, run=1, step=2), pairs, share[1])
    mapped = torch.func.vmap(gradient, in_dims=(0, None, 0))(
        weights(trajectory, step=2), pairs, share
    )
    for name in network.variables:
        torch.testing.assert_close(mapped[name][1], one[name])


def test_missing_weights_are_an_error():
    with pytest.raises(TrajectoryError, match="embedding: missing"):
        weights(simulate(SMALL, runs=1, steps=2, record="metrics"))
    for name in ("step", "run"):
        with pytest.raises(SettingsError, match=f"{name}: found 1"):
            weights(simulate(SMALL, runs=1, steps=2, every=2), **{name: 1})
