"""The kernels of VC's network against autograd in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from dynamics.clustering_head import ClusteringHead
from dynamics.gradients import from_lanes, to_lanes
from dynamics.head_gradients import gelu, head_gradients, head_layout, order
from dynamics.lanes import WIDTH_32, load_scalars, store_scalars
from dynamics.settings import HeadShape, SparseTask
from dynamics.tasks import sequences, sparse_sum


def both(task, shape, runs, share, scale=1.0):
    """Gradients of the mean loss weighted by share (run, sequence): of the kernel, and of autograd in float64."""
    network, count = ClusteringHead(task, shape), share.shape[1]
    drawn = {name: scale * weight for name, weight in network.initial(np.arange(runs)).items()}
    tokens = sequences(task, np.arange(runs), "train")[:, :count]
    target = sparse_sum(tokens, task)
    names = order(network)
    rows = to_lanes(np.concatenate([drawn[name].reshape(runs, -1) for name in names], axis=1))
    gradient = np.full_like(rows, np.nan)
    lanes = [to_lanes(each.reshape(runs, -1)) for each in (tokens, target, share)]
    head_gradients(rows, head_layout(network), *lanes, gradient, shape.dim)
    exact = {name: torch.from_numpy(drawn[name].astype(np.float32)).double().requires_grad_() for name in names}
    losses = network.losses(exact, torch.from_numpy(tokens), torch.from_numpy(target))
    (losses * torch.from_numpy(share)).sum().backward()
    expected = np.concatenate([exact[name].grad.numpy().reshape(runs, -1) for name in names], axis=1)
    return from_lanes(gradient, runs), expected


@settings(max_examples=25)
@given(
    norm=st.sampled_from(["rms", "unit", "rms-smooth", "unit-smooth"]), dim=st.integers(1, 3),
    vocab=st.integers(2, 4), hidden=st.integers(1, 9), extra=st.integers(0, 2), bias=st.booleans(),
    activation=st.sampled_from(["gelu", "relu"]), runs=st.integers(1, 18), scale=st.sampled_from([0.3, 1.0, 3.0]),
)  # fmt: skip
def test_gradients_are_those_of_autograd(norm, dim, vocab, hidden, extra, bias, activation, runs, scale):
    task = SparseTask(vocab=vocab, length=4, sparsity=2, data=9)
    shape = HeadShape(dim=dim, hidden=hidden, norm=norm, table=vocab + extra, activation=activation, output_bias=bias)
    share = np.full((runs, 9), 1 / 9)
    share[0, 5:] = 0  # a batch may be shorter in some runs
    found, expected = both(task, shape, runs, share, scale)
    size = abs(expected).max(axis=1, keepdims=True)
    np.testing.assert_array_less(abs(found - expected) / size, 2e-5)


def test_the_default_recipe_in_full(generator):
    found, expected = both(SparseTask(), HeadShape(), 20, np.full((20, 32), 1 / 32))
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_a_run_has_the_same_bits_in_any_company():
    share = np.full((20, 8), 1 / 8)
    whole, _ = both(SparseTask(data=8), HeadShape(hidden=5), 20, share)
    alone, _ = both(SparseTask(data=8), HeadShape(hidden=5), 1, share[:1])
    np.testing.assert_array_equal(alone[0], whole[0])


@pytest.mark.parametrize("low", [-40.0, -6.0])
def test_gelu_and_its_derivative(low):
    @njit
    def evaluate(x, value, slope):
        for group in range(x.size // WIDTH_32):
            after, derivative = gelu(load_scalars(x, group))
            store_scalars(value, group, after)
            store_scalars(slope, group, derivative)

    x = np.linspace(low, -low, 4096, dtype=np.float32)
    value, slope = np.empty_like(x), np.empty_like(x)
    evaluate(x, value, slope)
    exact = torch.from_numpy(x).double().requires_grad_()
    expected = torch.nn.functional.gelu(exact)
    expected.sum().backward()
    np.testing.assert_allclose(value, expected.detach(), atol=1e-6 * abs(low), rtol=1e-6)
    np.testing.assert_allclose(slope, exact.grad, atol=2e-6)
