"""The classifier of pair sums against gradients by torch, plain loops, and classifiers
whose answer is known."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

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


def test_margins_and_their_slopes(classifier):
    slope = np.zeros_like(classifier.sums)
    for axis in range(2):
        step = 1e-6 * np.eye(2)[axis]
        ahead, behind = (
            module.logit_margin(classifier._replace(sums=classifier.sums + k * step))
            for k in (1, -1)
        )
        slope[..., axis] = (ahead - behind) / 2e-6
    numeric, result = np.linalg.norm(slope, axis=-1), module.margin_slope(classifier)
    assert (
        np.abs(result - numeric) < 1e-4 * (1 + numeric)
    ).mean() > 0.99  # a kink or two may lie within a step
    correct = classifier.logits(classifier.sums).argmax(axis=-1) == classifier.right
    assert_array_equal(module.logit_margin(classifier) > 0, correct)


def test_the_slope_of_the_softmax_and_the_distance_from_the_boundary(classifier):
    def probability(sums):
        moved = classifier._replace(sums=sums)
        right = classifier.is_class(classifier.right)
        return (softmax(moved.logits(sums), axis=-1) * right).sum(axis=-1)

    slope = np.empty(classifier.sums.shape)
    for axis in range(2):
        step = 1e-6 * np.eye(2)[axis]
        ahead, behind = (probability(classifier.sums + k * step) for k in (1, -1))
        slope[..., axis] = (ahead - behind) / 2e-6
    numeric, result = np.linalg.norm(slope, axis=-1), module.softmax_slopes(classifier)
    assert (np.abs(result - numeric) < 1e-4 * (1 + numeric)).mean() > 0.99
    distance, slopes = (
        module.class_boundary_distance(classifier),
        module.margin_slope(classifier),
    )
    assert_allclose(
        (distance * slopes)[slopes > 0], module.logit_margin(classifier)[slopes > 0]
    )


def test_regions_that_start_at_the_origin(classifier):
    homogeneous = classifier._replace(
        bias=0 * classifier.bias, output_bias=0 * classifier.output_bias
    )
    assert_allclose(module.radial_agreement(homogeneous), 1.0)
    assert (module.radial_agreement(classifier) < 0.99).all()


@pytest.mark.parametrize(
    ("sizes", "expected"), [([0, 0, 2.0, 0], 1 / 4), ([0.1] * 4, 1), ([0] * 4, np.nan)]
)
def test_evenness(sizes, expected):
    assert_allclose(module.evenness(np.array([sizes])), expected)


def test_distance_of_boundaries_from_the_origin(classifier):
    norms = np.linalg.norm(classifier.hidden, axis=-1)
    assert_allclose(
        module.boundary_distance(classifier._replace(bias=-0.3 * norms)), 0.3
    )


def test_accuracy_by_the_class_of_the_nearest_pair_sum(classifier):
    result = module.accuracy_by_nearest_class(classifier)
    for run in range(3):
        r = np.linalg.norm(
            classifier.sums[run, :, None] - classifier.sums[run], axis=-1
        )
        np.fill_diagonal(r, np.inf)
        like = classifier.right[run, r.argmin(axis=1)] == classifier.right[run]
        correct = (
            classifier.logits(classifier.sums)[run].argmax(axis=-1)
            == classifier.right[run]
        )
        assert_allclose(
            [item[run] for item in result],
            [correct[like].mean(), correct[~like].mean()],
        )
    one_class = classifier._replace(right=np.zeros_like(classifier.right))
    assert np.isnan(module.accuracy_by_nearest_class(one_class)[1]).all()
