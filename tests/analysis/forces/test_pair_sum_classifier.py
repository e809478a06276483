"""The classifier of pair sums against gradients by torch, plain loops, and classifiers
whose answer is known."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from analysis.forces import pair_sum_classifier as module
from dynamics import ModularSettings, all_pairs
from dynamics.networks.constant_attention import ConstantAttention


@pytest.fixture
def drawn(generator):
    """Random weights of three networks, by name."""
    shapes = ConstantAttention(ModularSettings()).shapes
    return {
        name: generator.standard_normal((3, *shape)) for name, shape in shapes.items()
    }


@pytest.fixture
def classifier(drawn):
    """The classifier of these networks, at all pairs."""
    pairs = all_pairs(17)
    sums = drawn["embedding"][:, pairs].sum(axis=2)
    layers = (
        drawn[name]
        for name in ("hidden_weight", "hidden_bias", "output_weight", "output_bias")
    )
    return module.Classifier(
        *layers, sums, np.broadcast_to(pairs.sum(axis=1) % 17, sums.shape[:2])
    )


def test_gradients_at_pair_sums_add_up_to_that_of_the_embedding(drawn, classifier):
    weights = {name: torch.from_numpy(values) for name, values in drawn.items()}
    weights["embedding"].requires_grad_()
    ConstantAttention(ModularSettings()).losses(
        weights, torch.from_numpy(all_pairs(17))
    ).sum().backward()
    total = np.zeros_like(drawn["embedding"])
    for place, pair in enumerate(all_pairs(17)):
        for token in pair:
            total[:, token] += module.pair_sum_gradients(classifier)[:, place]
    assert_allclose(total, -weights["embedding"].grad.numpy(), atol=1e-9)


def test_regions_that_start_at_the_origin(classifier):
    homogeneous = classifier._replace(
        bias=0 * classifier.bias, output_bias=0 * classifier.output_bias
    )
    assert_allclose(module.radial_agreement(homogeneous), 1.0)
    assert (module.radial_agreement(classifier) < 0.99).all()
