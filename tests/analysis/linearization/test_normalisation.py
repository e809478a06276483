"""Derivatives of the normalisations against autodiff, longer floats and brute force;
distances to the origin."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.linearization import normalisation, normalisation_margin
from analysis.linearization.attention_derivatives import normalisation_derivatives
from analysis.linearization.normalisation import (
    normalisation_jacobian_norm,
    normalisation_second_derivative_norm,
)
from dynamics import SparseSettings, simulate
from dynamics.networks.clustering_head import NORMALISATION_EPSILON, ClusteringHead
from dynamics.networks.from_trajectory import weights
from dynamics.tasks import distinct_sequences

NORMS = ("rms", "unit", "rms-smooth", "unit-smooth")
POINTS = {
    "norm": st.sampled_from(NORMS),
    "dim": st.integers(1, 5),
    "seed": st.integers(0, 99),
    "size": st.sampled_from([1e-3, 0.1, 0.3, 0.7, 1.4, 30.0]),
    "width": st.sampled_from([1.0, 0.4, 2.5]),
}
SETTINGS = SparseSettings(data=64, hidden=4, table=3, lr=0.05)


def point(dim, seed, size):
    x = np.random.default_rng(seed).standard_normal(dim)
    return size * x / np.linalg.norm(x)


def derivatives(x, norm, width=1.0):
    """N' and N'' at one point (axis,)."""
    result = normalisation_derivatives(norm, torch.from_numpy(x)[:, None], width)
    return result.first[..., 0].numpy(), result.second[..., 0].numpy()


@given(**POINTS)
def test_derivatives_are_those_of_the_normalisation_of_the_network(
    norm, dim, seed, size, width
):
    width = width if norm.endswith("smooth") else 1.0
    network = ClusteringHead(SparseSettings(norm=norm, dim=dim, smooth_width=width))
    x = point(dim, seed, size)
    first = torch.func.jacrev(network.normalise)
    tensor = torch.from_numpy(x)
    expected = (first(tensor).numpy(), torch.func.jacrev(first)(tensor).numpy())
    for result, item in zip(derivatives(x, norm, width), expected, strict=True):
        assert_allclose(
            result, item, atol=1e-9 * max(np.abs(item).max(), 1e-6), strict=True
        )


def longer(x, norm):
    """N' and N'' by N = f(r) x in the longest floats there are, with no polar form: f δ
    + (f'/r) x x, and so on."""
    x = x.astype(np.longdouble)
    r = np.sqrt((x * x).sum())
    dim = len(x)
    radius = np.sqrt(np.longdouble(dim)) if norm.startswith("rms") else np.longdouble(1)
    if norm.endswith("smooth"):
        f = radius * (3 * r - 2 * r * r)
        f1 = radius * (3 - 4 * r)
        f2 = -4 * radius
    else:
        shift = (
            np.longdouble(NORMALISATION_EPSILON) * radius
            if norm == "rms"
            else np.longdouble(0)
        )
        f = radius / (r + shift)
        f1 = -radius / (r + shift) ** 2
        f2 = 2 * radius / (r + shift) ** 3
    eye = np.eye(dim, dtype=np.longdouble)
    outer = np.multiply.outer
    xx = outer(x, x)
    first = f * eye + f1 / r * xx
    sides = outer(eye, x) + np.swapaxes(outer(eye, x), 1, 2) + outer(x, eye)
    return first, (f1 / r * sides + (f2 / r**2 - f1 / r**3) * outer(xx, x))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [1e-8, 1e-5, 1e-2, 0.5])
def test_they_are_accurate_near_the_origin(norm, size):
    for seed in range(5):
        x = point(3, seed, size)
        for result, expected in zip(derivatives(x, norm), longer(x, norm), strict=True):
            assert np.abs(result - expected).max() / np.abs(expected).max() < 1e-12


def test_derivatives_at_the_origin_and_norms_of_the_unit_form():
    zero = np.zeros(2)
    origin = np.array(0.0)
    for norm in ("rms-smooth", "unit-smooth"):
        assert not any(derivative.any() for derivative in derivatives(zero, norm))
        assert normalisation_jacobian_norm(origin, norm, 2) == 0
        limit = 6 * normalisation.normalised_length(norm, 2)
        assert normalisation_second_derivative_norm(origin, norm, 2) == pytest.approx(
            limit
        )
    assert_allclose(derivatives(zero, "rms")[0], np.eye(2) / NORMALISATION_EPSILON)
    assert not any(
        derivative.any() for derivative in derivatives(zero, "unit")
    )  # counts as 0
    r = np.array([0, 1e-6, 0.5, 3.0])
    with np.errstate(divide="ignore"):
        first = 1 / r
        second = 2 / math.sqrt(3) / r**2
    assert_allclose(normalisation_jacobian_norm(r, "unit", 2), first)
    assert_allclose(normalisation_second_derivative_norm(r, "unit", 2), second)


@given(**POINTS)
def test_norms_are_those_of_the_arrays(norm, dim, seed, size, width):
    first, bilinear = derivatives(point(dim, seed, size), norm, width)
    result = normalisation_jacobian_norm(np.array(size), norm, dim, width)
    assert result == pytest.approx(np.linalg.norm(first, 2), rel=1e-9)
    u, v = np.random.default_rng(seed).standard_normal((2, 500, dim))
    u, v = (item / np.linalg.norm(item, axis=-1, keepdims=True) for item in (u, v))
    for _ in range(60):  # alternately the best of each, from many starts
        u = np.einsum("abc,nb,nc->na", bilinear, u, v)
        u /= np.maximum(np.linalg.norm(u, axis=-1, keepdims=True), 1e-300)
        u, v = v, u
    reached = np.linalg.norm(np.einsum("abc,nb,nc->na", bilinear, u, v), axis=-1)
    result = normalisation_second_derivative_norm(np.array(size), norm, dim, width)
    assert reached.max() == pytest.approx(result, rel=1e-3, abs=1e-12)


# -------------------------------------------------------------------------------- flips


def test_a_point_may_flip_where_it_moves_farther_than_it_is():
    x = np.array([[1.0, 0], [1, 0], [0, 0], [0, 0]])
    moved = np.array([[0.5, 0], [-1, 0], [0, 1], [0, 0]])
    assert_array_equal(normalisation_margin.flip_ratios(x, moved), [0.5, 2, np.inf, 0])


@pytest.fixture(scope="module")
def trained():
    return simulate(SETTINGS, runs=2, steps=8, every=2)


def test_distances_are_those_of_embeddings_and_of_sequence_embeddings(trained):
    result = normalisation_margin.measure_normalisation_margins(trained, [0, 2, 4])
    embedding, position = (
        trained[name].values.astype(float)
        for name in ("embedding", "position_embedding")
    )
    x = embedding[:, :, None, :2] + position[:, :, :, None]
    length = np.linalg.norm(x, axis=-1)
    assert_allclose(result["x_length"], length[:, [0, 2, 4]])
    assert_allclose(result["x_smallest"], length.min(axis=(2, 3)))
    moved = np.linalg.norm(np.diff(x, axis=1), axis=-1) / length[:, :-1]
    assert_allclose(result["x_flip_ratio"][:, :2], moved[:, [0, 2]])
    assert_allclose(result["x_largest_flip_ratio"][:, :-1], moved.max(axis=(2, 3)))
    assert all(
        np.isnan(result[name][:, -1]).all()
        for name in ("x_flip_ratio", "x_largest_flip_ratio")
    )

    network = ClusteringHead(SETTINGS)
    tokens = torch.from_numpy(distinct_sequences(SETTINGS, 1, "train")[0])
    step = [int(item) for item in trained["step"]]
    states = [
        {k: w.double() for k, w in weights(trained, 1, step[at]).items()}
        for at in (2, 3)
    ]
    first, second = (
        network.sequence_embedding(state, tokens).numpy() for state in states
    )
    size = np.linalg.norm(first, axis=-1)
    here = result.isel(run=1, step=1)
    assert_allclose(here["xi_length"].sel(quantile=[0, 1]), [size.min(), size.max()])
    assert_allclose(
        here["xi_length"].sel(quantile=0.5), np.sort(size)[(len(size) - 1) // 2]
    )
    ratio = np.linalg.norm(second - first, axis=-1) / size
    assert_allclose(here["xi_flip_ratio"].sel(quantile=1), ratio.max())
    assert here["xi_flips"] == pytest.approx((ratio > 1).mean())
    assert here["xi_turns"] == pytest.approx(((first * second).sum(-1) < 0).mean())
    largest = normalisation_jacobian_norm(size.min(), "rms", 2)
    assert_allclose(here["xi_jacobian_norm"].sel(quantile=1), largest, rtol=1e-9)


def test_frames_after_a_divergence_have_no_value(trained):
    lost = trained.copy(deep=True)
    lost["last_step"].values[0] = 4
    result = normalisation_margin.measure_normalisation_margins(lost, [1, 2, 3])
    # flips are of the movement after a frame, so that the last valid frame has none
    for name, valid in (("x_length", 2), ("xi_flips", 1), ("x_smallest", 3)):
        assert np.isfinite(result[name].values[0, :valid]).all()
        assert np.isnan(result[name].values[0, valid:]).all()
    assert np.isfinite(result["xi_length"].values[1]).all()
