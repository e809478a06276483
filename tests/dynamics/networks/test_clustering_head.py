"""The network and task of VC against a token-by-token implementation in NumPy."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SparseSettings
from dynamics.tasks import sample_sequences, sparse_sum, unseen_mask

NORMS = ("rms", "unit", "rms-smooth", "unit-smooth")


# ----------------------------------------------------------------------------- the task


@pytest.mark.parametrize("positions", [(), (5, 1)])
def test_the_target_is_the_sum_of_the_tokens_that_count(positions):
    task = SparseSettings(vocab=3, length=6, sparsity=2, positions=positions)
    tokens = sample_sequences(task, np.arange(3), "train")
    assert tokens.shape == (3, 2048, 6)
    assert (tokens.min(), tokens.max()) == (0, 2)
    one, other = positions or (0, 1)
    assert_array_equal(
        sparse_sum(tokens, task), (tokens[..., one] + tokens[..., other]) % 3
    )


def test_samples_depend_on_seed_and_split_alone():
    task = SparseSettings()
    tokens = sample_sequences(task, np.arange(5), "train")
    assert_array_equal(sample_sequences(task, np.array([3]), "train")[0], tokens[3])
    assert (
        (sample_sequences(task, np.arange(5), "test") != tokens).any(axis=(1, 2)).all()
    )
    assert abs(tokens.mean(axis=(1, 2)) - 0.5).max() < 5 * 0.5 / math.sqrt(2048 * 12)


@pytest.mark.parametrize(
    ("vocab", "expected", "spread"), [(2, 0.39, 0.02), (3, 0.004, 0.003)]
)
def test_the_fraction_of_unseen_test_sequences_is_that_of_the_paper(
    vocab, expected, spread
):
    """39% of the test sequences occur in the training set for p = 2, 0.4% for p = 3."""
    task, seeds = SparseSettings(vocab=vocab), np.arange(10)
    train, test = (
        sample_sequences(task, seeds, "train"),
        sample_sequences(task, seeds, "test"),
    )
    new = unseen_mask(train, test)
    assert abs((1 - new.mean()) - expected) < spread
    for run, row in itertools.product(range(2), range(50)):
        assert new[run, row] == (not (train[run] == test[run, row]).all(axis=1).any())


# -------------------------------------------------------------------------- the network


def plain_norm(x, norm, width=1.0):
    length, radius = (
        np.linalg.norm(x),
        np.sqrt(len(x)) if norm.startswith("rms") else 1.0,
    )
    if norm == "rms":
        return x / (length / radius + 1e-5)
    inside = length / width
    smooth = norm.endswith("smooth") and inside < 1
    sigma = inside**2 * (3 - 2 * inside) if smooth else 1.0
    return radius * sigma * x / length if length else x


ACTIVATIONS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "tanh": math.tanh,
}


def plain_logits(weights, tokens, s):
    """The network for one sequence, token by token, in NumPy."""
    inputs = weights["embedding"][tokens] + weights["position_embedding"]
    z = np.stack([plain_norm(item, s.norm, s.smooth_width) for item in inputs])
    scores = np.exp([item @ weights["query"] / np.sqrt(s.dim) for item in z])
    xi = weights["value"] @ (scores @ z / scores.sum())
    zeta = xi + weights.get("transform_bias", 0.0)
    normalised = plain_norm(xi, s.norm, s.smooth_width)
    biases = weights.get("receptor_bias", np.zeros(s.hidden))
    for w, b, u in zip(weights["receptor"], biases, weights["assembler"], strict=True):
        zeta = zeta + u * ACTIVATIONS[s.activation](w @ normalised + b)
    return weights["embedding"] @ zeta


def doubled(network, runs, scale=1.0):
    drawn = network.initial(np.arange(runs))
    return {
        name: scale * torch.from_numpy(weight).double()
        for name, weight in drawn.items()
    }


@given(
    norm=st.sampled_from(NORMS),
    width=st.sampled_from([1.0, 0.4, 3.0]),
    dim=st.integers(1, 4),
    table=st.sampled_from([0, 4]),
    bias=st.booleans(),
    biases=st.booleans(),
    activation=st.sampled_from(["gelu", "relu", "tanh"]),
    scale=st.sampled_from([0.2, 1.0, 3.0]),
)
def test_logits_equal_those_of_a_token_by_token_implementation(
    norm, width, dim, table, bias, biases, activation, scale
):
    shape = SparseSettings(
        vocab=3,
        length=5,
        sparsity=2,
        data=7,
        batch=7,
        dim=dim,
        hidden=6,
        norm=norm,
        smooth_width=width if norm.endswith("smooth") else 1.0,
        table=table,
        activation=activation,
        output_bias=bias,
        receptor_biases=biases,
    )
    network = ClusteringHead(shape)
    weights, tokens = (
        doubled(network, 2, scale),
        sample_sequences(shape, np.arange(2), "train").astype(np.int64),
    )
    logits = network.logits(weights, torch.from_numpy(tokens))
    shared = network.logits(weights, torch.from_numpy(tokens[1]))
    assert logits.shape == (2, 7, table or 3)
    for run, row in itertools.product(range(2), range(7)):
        plain = {name: weight[run].numpy() for name, weight in weights.items()}
        assert_allclose(
            logits[run, row], plain_logits(plain, tokens[run, row], shape), atol=1e-11
        )
        assert_allclose(
            shared[run, row], plain_logits(plain, tokens[1, row], shape), atol=1e-11
        )


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_are_those_of_finite_differences_and_finite_at_the_origin(norm):
    task = SparseSettings(
        vocab=2, length=3, sparsity=2, data=3, batch=3, dim=2, hidden=3, norm=norm
    )
    network, tokens = (
        ClusteringHead(task),
        sample_sequences(task, np.arange(2), "train"),
    )
    weights, target = doubled(network, 2), torch.from_numpy(sparse_sum(tokens, task))
    inputs = torch.from_numpy(tokens).long(), target

    def loss(*values):
        return network.losses(dict(zip(weights, values, strict=True)), *inputs).mean(-1)

    values = [weight.requires_grad_() for weight in weights.values()]
    assert torch.autograd.gradcheck(loss, values, eps=1e-6, atol=1e-6)
    network = ClusteringHead(SparseSettings(norm=norm))
    x = torch.zeros(3, 2, requires_grad=True)
    network.normalise(x).sum().backward()
    assert (network.normalise(x) == 0).all()
    assert torch.isfinite(x.grad).all()


def test_first_weights_do_not_depend_on_other_sizes():
    """Rows are kept by a wider layer and a larger table; nothing else changes."""
    changes, seeds = ({}, {"hidden": 32}, {"table": 5}, {"vocab": 3}), np.arange(3)
    networks = [
        ClusteringHead(SparseSettings(**{"hidden": 8, **change})) for change in changes
    ]
    small, wide, large, three = (network.initial(seeds) for network in networks)
    alone = networks[0].initial(seeds[2:])
    for name, weight in small.items():
        rows = weight.shape[1]
        expected = weight / 2 if name in ("assembler", "transform_bias") else weight
        assert_allclose(wide[name][:, :rows], expected, rtol=1e-6)
        for result in (large, three):
            assert_array_equal(result[name][:, :rows], weight)
        assert_array_equal(alone[name][0], weight[2])


def test_first_weights_are_those_of_torch_layers():
    drawn = ClusteringHead(SparseSettings()).initial(np.arange(500))
    assert sum(weight[0].size for weight in drawn.values()) == 196
    table = ClusteringHead(SparseSettings(table=3)).initial(np.arange(1))
    assert (
        sum(weight[0].size for weight in table.values()) == 198
    )  # as the authors' grids have
    for name, bound in (
        ("query", 2**-0.5),
        ("value", 2**-0.5),
        ("receptor", 2**-0.5),
        ("assembler", 32**-0.5),
    ):
        assert 0.99 * bound < abs(drawn[name]).max() <= np.float32(bound)
    assert abs(drawn["position_embedding"].std() - 1) < 0.02
