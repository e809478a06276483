"""The kernels of VC's network against autograd in float64."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal, assert_array_less

from dynamics.kernels.optimizers import training_arrays, update_rates
from dynamics.kernels.simd import (
    from_lanes,
    to_lanes,
)
from dynamics.kernels.sparse_backprop import sparse_layout
from dynamics.kernels.sparse_minibatches import LabelledSequences, sparse_trainer
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SparseSettings
from dynamics.tasks import sample_sequences, sparse_splits, sparse_sum, unseen_mask
from dynamics.training.minibatches import epoch_orders
from dynamics.training.sparse_backends import SparseSimdBackend


def both(s, runs, begin=0, end=None, scale=1.0):
    """Gradients of the mean loss over places of an order: of the kernel, and of
    autograd in float64."""
    network, seeds, end = ClusteringHead(s), np.arange(runs), end or s.data
    rows = np.float32(scale) * network.flatten(network.initial(seeds))
    tokens, order = sample_sequences(s, seeds, "train"), epoch_orders(seeds, 3, s.data)
    targets = sparse_sum(tokens, s)
    memory = training_arrays(to_lanes(rows).shape, 2)
    memory.weights[:] = to_lanes(rows)
    learned = LabelledSequences(tokens, targets.astype(np.int16))
    rates, layout, axes = update_rates(s, network), sparse_layout(network), range(s.dim)
    factors = np.ones(0)
    sizes = (1, begin, end - begin, 0, tuple(axes))
    train = sparse_trainer(s.optimizer_value)
    train(memory, layout, learned, order, rates, factors, *sizes)
    exact = torch.from_numpy(rows).double().requires_grad_()
    at = order[:, begin:end]
    batch, target = (
        np.take_along_axis(tokens, at[..., None], 1),
        np.take_along_axis(targets, at, 1),
    )
    losses = network.losses(
        network.unflatten(exact),
        torch.from_numpy(batch).long(),
        torch.from_numpy(target),
    )
    losses.mean(-1).sum().backward()
    assert_array_equal(from_lanes(memory.weights, runs), rows)
    return from_lanes(memory.gradient, runs), exact.grad.numpy()


@settings(max_examples=25)
@given(
    norm=st.sampled_from(["rms", "unit", "rms-smooth", "unit-smooth"]),
    width=st.sampled_from([1.0, 0.3, 2.5]),
    dim=st.integers(1, 3),
    vocab=st.integers(2, 4),
    hidden=st.integers(1, 9),
    extra=st.integers(0, 2),
    bias=st.booleans(),
    biases=st.booleans(),
    activation=st.sampled_from(["gelu", "relu", "tanh"]),
    runs=st.integers(1, 18),
    scale=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_gradients_are_those_of_autograd(
    norm, width, dim, vocab, hidden, extra, bias, biases, activation, runs, scale
):
    s = SparseSettings(
        vocab=vocab,
        length=4,
        sparsity=2,
        data=9,
        batch=9,
        dim=dim,
        hidden=hidden,
        norm=norm,
        smooth_width=width if norm.endswith("smooth") else 1.0,
        table=vocab + extra,
        activation=activation,
        output_bias=bias,
        receptor_biases=biases,
    )
    result, expected = both(s, runs, 2, 7, scale)
    # on one axis N(x) is the sign of x: a difference of equal numbers is divided by x
    is_sign = dim == 1 and not norm.endswith("smooth")
    size = abs(expected).max(axis=1, keepdims=True)
    # a probability near 1 is rounded, in float32 autograd too, however small the rest
    rounding = 1e-6
    bound = (2e-4 if is_sign else 2e-5) * size + rounding
    assert_array_less(abs(result - expected), np.broadcast_to(bound, result.shape))


def test_the_default_recipe_in_full():
    result, expected = both(SparseSettings(), 20, 64, 96)
    assert_allclose(result, expected, atol=2e-5)


@settings(max_examples=12)
@given(
    vocab=st.integers(2, 4),
    length=st.integers(3, 6),
    runs=st.integers(1, 18),
    scale=st.sampled_from([0.3, 1.0, 4.0, 12.0]),
)
def test_scores_are_those_of_float64(vocab, length, runs, scale):
    s = SparseSettings(
        vocab=vocab, length=length, sparsity=2, data=150, batch=8, hidden=6
    )
    network, seeds = ClusteringHead(s), np.arange(runs)
    engine = SparseSimdBackend(network, seeds)
    rows = np.float32(scale) * network.flatten(network.initial(seeds))
    engine.set_state(rows, dict.fromkeys(engine.names, np.zeros_like(rows)), 0)
    loss, accuracy = engine.scores()
    assert loss.shape == (runs, len(sparse_splits(s)))
    weights, drawn = network.unflatten(torch.from_numpy(rows).double()), []
    for split, name in enumerate(("train", "test")):
        drawn.append(sample_sequences(s, seeds, name))
        tokens, target = (
            torch.from_numpy(drawn[-1]).long(),
            torch.from_numpy(sparse_sum(drawn[-1], s)),
        )
        losses = network.losses(weights, tokens, target)
        right = network.logits(weights, tokens).argmax(-1) == target
        assert_allclose(loss[:, split], losses.mean(-1), rtol=1e-4, atol=1e-9)
        assert_allclose(
            accuracy[:, split], right.double().mean(-1), atol=0.011
        )  # of one that ties
    if loss.shape[1] == 3:
        for run, new in enumerate(torch.from_numpy(unseen_mask(*drawn))):
            assert_allclose(loss[run, 2], losses[run][new].mean(), rtol=1e-4)
    assert_allclose(
        engine.exact_scores(np.full(runs, True))[0], loss, rtol=1e-4, atol=1e-9
    )
