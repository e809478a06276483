"""The transformer against a plain nn.Module; its initial weights, attention and
gradient."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import TRANSFORMER_PRESETS, TransformerSettings, simulate
from dynamics.networks import Transformer, network_of, transformer_of, weights
from dynamics.tasks import operation_pairs
from tests.plain_transformer import PlainTransformer, plain_tokens

SMALL = TransformerSettings(n=7, dim=12, heads=3)
CASES = [
    {},
    {"attention_rate": 0.0},
    {"attention_rate": 0.0, "equals_token": True, "own_vocabularies": True},
    {
        "attention_rate": 0.3,
        "own_vocabularies": True,
        "heads": 2,
        "head_dim": 3,
        "hidden": 5,
    },
    {"equals_token": True, "activation": "gelu"},
    {"layers": 2, "attention_rate": 0.6, "ordered": False},
    {"layers": 3, "causal": True, "equals_token": True, "own_vocabularies": True},
    {"task": "symmetric", "n": 3},
]


def weights_of(s, runs):
    """Weights in float64, with biases that are not 0."""
    initial = Transformer(s).initial(np.arange(runs))
    return {
        name: torch.from_numpy(values).double() + 0.1 * ("bias" in name)
        for name, values in initial.items()
    }


@pytest.mark.parametrize("changes", CASES, ids=str)
def test_logits_are_those_of_a_plain_module(changes):
    s = dataclasses.replace(SMALL, **changes)
    network, pairs, tensors = (
        Transformer(s),
        torch.from_numpy(operation_pairs(s)),
        weights_of(s, 3),
    )
    together, per_run = (
        network.logits(tensors, pairs),
        network.logits(tensors, pairs.expand(3, -1, -1)),
    )
    for run in range(3):
        one = {name: values[run] for name, values in tensors.items()}
        expected = (
            PlainTransformer(s).double().load(one)(plain_tokens(s, pairs)).detach()
        )
        for result in (together[run], per_run[run], network.logits(one, pairs)):
            assert_allclose(result, expected, rtol=0, atol=1e-12)


def test_initial_weights_have_the_deviations_of_both_papers():
    for name, mlp_input, unembedding in (
        ("zhong", 512**-0.5, 59**-0.5),
        ("nanda", 128**-0.5, 114**-0.5),
    ):
        initial = Transformer(TRANSFORMER_PRESETS[name]).initial(np.arange(4))
        expected = dict.fromkeys(initial, 128**-0.5) | {
            "mlp_input": mlp_input,
            "unembedding": unembedding,
        }
        for weight, values in initial.items():
            deviation = 0 if "bias" in weight else expected[weight]
            assert abs(values.std() - deviation) < 0.1 * deviation + 1e-12, weight
    assert_array_equal(
        Transformer(SMALL).initial(np.array([2]))["unembedding"][0],
        Transformer(SMALL).initial(np.arange(4))["unembedding"][2],
    )


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_attention_rows_sum_to_their_rate(alpha):
    s = dataclasses.replace(SMALL, attention_rate=alpha, equals_token=True)
    rows = Transformer(s).attention(
        weights_of(s, 2), torch.from_numpy(operation_pairs(s))
    )
    assert rows.shape == (2, s.pairs, s.heads, 3)
    assert_allclose(rows.sum(-1), alpha + 3 * (1 - alpha))


def test_recorded_weights_are_evaluated_and_mapped():
    s = dataclasses.replace(SMALL, train_share=1.0)
    trajectory = simulate(s, runs=2, steps=4, every=2)
    network, pairs = transformer_of(trajectory), torch.from_numpy(operation_pairs(s))
    assert type(network_of(trajectory)) is Transformer
    losses = network.losses(weights(trajectory), pairs).mean(-1)
    assert_allclose(losses, trajectory["loss"].sel(split="train"), rtol=1e-5)
    last = weights(trajectory, step=4)
    mapped = torch.func.vmap(
        torch.func.grad(lambda one: network.losses(one, pairs).mean())
    )(last)
    for run in range(2):
        one = torch.func.grad(lambda one: network.losses(one, pairs).mean())(
            weights(trajectory, run=run, step=4)
        )
        for name in network.variables:
            torch.testing.assert_close(mapped[name][run], one[name])
