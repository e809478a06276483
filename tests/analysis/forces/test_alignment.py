"""Alignment, boundaries and rays against plain loops, and for weights and embeddings
whose answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.forces import alignment as module
from analysis.forces import (
    boundary_alignment,
    embedding_pair_sums,
    pair_sum_collinearity,
    weight_alignment,
)
from analysis.forces.alignment import (
    boundary_angles,
    random_directions,
    unit_norm_fractions,
    weight_angles,
)
from dynamics.tasks import all_pairs, modular_sum
from tests.polygons import polygon

KINDS = (weight_alignment, boundary_alignment)
MEASURES = (*KINDS, weight_angles, boundary_angles)
NO_BIAS = np.zeros(32)


def at(angle):
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def random_frame(generator, dim, hidden=32, n=9, lead=()):
    """Pair sums, hidden weights and biases at random."""
    sums = embedding_pair_sums(generator.standard_normal((*lead, n, dim)), all_pairs(n))
    return (
        sums,
        generator.standard_normal((*lead, hidden, dim)),
        0.3 * generator.standard_normal((*lead, hidden)),
    )


# -------------------------------------------------------------------------- plain loops


def naive_nearness(kind, vector, sums):
    result = [
        float(s @ vector / np.linalg.norm(s) / np.linalg.norm(vector))
        for s in sums
        if any(s)
    ]
    return (
        max(result)
        if kind is weight_alignment
        else -min(abs(cosine) for cosine in result)
    )


def naive_ranked(kind, sums, weight, bias):
    reference = [
        naive_nearness(kind, r, sums) for r in random_directions(weight.shape[1])
    ]
    total = norms = 0.0
    for w, b in zip(weight, bias, strict=True):
        if (
            all(np.dot(s, w) + b <= 0 for s in sums)
            or np.linalg.norm(w) <= 1e-6 * np.linalg.norm(weight, axis=1).max()
        ):
            continue
        near = naive_nearness(kind, w, sums)
        below = sum(
            (r < near - 1e-12) + 0.5 * (abs(r - near) <= 1e-12) for r in reference
        ) / len(reference)
        total += np.linalg.norm(w) * below
        norms += np.linalg.norm(w)
    return total / norms


def naive_collinearity(sums, residue):
    classes = (sums[residue == c] for c in set(residue))
    return sum(np.linalg.svd(item)[1][0] ** 2 for item in classes) / (sums**2).sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_alignments_are_those_of_plain_loops(kind, dim, generator, monkeypatch):
    monkeypatch.setattr(module, "DIRECTIONS", 200)
    monkeypatch.setattr(module, "ROTATIONS", 10)
    sums, weight, bias = random_frame(generator, dim, hidden=5, n=4)
    weight[1] *= 1e-7  # dead: next to no weights
    bias[2] = -100.0  # dead: never active
    sums[3] = 0.0  # of no direction
    result = kind(sums, weight, bias)
    assert result.value == pytest.approx(
        naive_ranked(kind, sums, weight, bias), abs=1e-9
    )
    living = weight[[0, 3, 4]]
    turns = [
        naive_ranked(kind, sums, living @ q, np.full(3, 100.0))
        for q in module.random_orthogonal_matrices(dim)
    ]
    assert result.chance == pytest.approx(np.mean(turns), abs=1e-9)


@given(n=st.integers(1, 7), dim=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_collinearity_is_that_of_plain_loops(n, dim, seed):
    x, pairs = (
        np.random.default_rng(seed).standard_normal((n, dim)),
        all_pairs(n)[:: 1 + seed % 2],
    )
    result = pair_sum_collinearity(x, pairs)
    assert result.value == pytest.approx(
        naive_collinearity(embedding_pair_sums(x, pairs), modular_sum(pairs, n))
    )
    assert 1 / dim - 1e-9 <= result.chance <= 1 + 1e-9
    if dim == 1 or n == 1:
        assert result == pytest.approx((1, 1))


def test_pair_sums_of_pairs_of_each_frame(generator):
    x = generator.standard_normal((2, 3, 5, 2))
    pairs = generator.integers(0, 5, (2, 3, 4, 2))
    result = embedding_pair_sums(x, pairs)
    assert result.shape == (2, 3, 4, 2)
    for frame in np.ndindex(2, 3):
        for p, (i, j) in enumerate(pairs[frame]):
            assert_array_equal(result[frame][p], x[frame][i] + x[frame][j])
    assert_array_equal(
        embedding_pair_sums(x, pairs[0, 0])[1, 2],
        embedding_pair_sums(x[1, 2], pairs[0, 0]),
    )


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_frames_do_not_mix(n, dim, generator):
    frame = random_frame(generator, dim, hidden=4, n=n, lead=(2, 3))
    embedded = (
        generator.standard_normal((2, 3, n, dim)),
        generator.integers(0, n, (2, 3, 4, 2)),
    )
    for kind, arrays in (
        *((item, frame) for item in KINDS),
        (pair_sum_collinearity, embedded),
    ):
        result = kind(*arrays)
        assert result.value.shape == result.chance.shape == (2, 3)
        for at in np.ndindex(2, 3):
            assert_allclose(
                [m[at] for m in result],
                kind(*(array[at] for array in arrays)),
                rtol=1e-12,
            )
        known = result.value[np.isfinite(result.value)]
        assert ((known >= 0) & (known <= 1 + 1e-9)).all()
        assert kind(*(array[:0, 0] for array in arrays)).chance.shape == (0,)


# ------------------------------------------------------------------------ known answers


@pytest.mark.parametrize("offset", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_rank_on_a_circle_is_the_distance_from_a_ray(offset, generator):
    """N = 17 tokens on a circle have pair sums along 34 rays; no direction is farther
    than pi/34 from one."""
    sums = embedding_pair_sums(polygon(17, step=3, radius=2.0), all_pairs(17))
    angle = (
        np.pi
        / 17
        * (generator.integers(0, 34, 32) + 0.5 * offset * generator.choice([-1, 1], 32))
    )
    result = weight_alignment(sums, at(angle), NO_BIAS)
    assert result == (pytest.approx(1 - offset, abs=0.02), pytest.approx(0.5, abs=0.1))
    # 17 is odd: perpendicular to a line is midway
    assert boundary_alignment(sums, at(angle), NO_BIAS).value == pytest.approx(
        offset, abs=0.02
    )
    assert weight_angles(sums, at(angle), NO_BIAS) == pytest.approx(
        (offset * 90 / 17, 45 / 17), abs=0.05
    )
    assert boundary_angles(sums, at(angle), NO_BIAS) == pytest.approx(
        ((1 - offset) * 90 / 17, 45 / 17), abs=0.05
    )


# --------------------------------------------------------------------------- invariance


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 7.0, 1e30])
def test_measures_do_not_depend_on_scale(scale, generator):
    sums, weight, bias = random_frame(generator, 3)
    for kind in KINDS:
        expected = kind(sums, weight, bias)
        assert_allclose(kind(scale * sums, weight, scale * bias), expected, atol=1e-3)
        assert_allclose(kind(sums, scale * weight, scale * bias), expected, atol=1e-3)
    x, pairs = generator.standard_normal((9, 3)), all_pairs(9)
    assert_allclose(
        pair_sum_collinearity(scale * x, pairs), pair_sum_collinearity(x, pairs)
    )


# --------------------------------------------------------------------------- dead units


def test_units_count_by_norm_and_dead_units_do_not_count(generator):
    sums, weight, bias = random_frame(generator, 2)
    more = np.concatenate([weight, [[5.0, 5.0], [1e-9, 0.0], [0.0, 0.0]]])
    biases = np.concatenate([bias, [-1e3, 1.0, 1.0]])
    fractions = unit_norm_fractions(sums, more, biases)
    assert_array_equal(fractions[-3:], 0.0)
    assert fractions.sum() == pytest.approx(1)
    assert_allclose(fractions[:-3], unit_norm_fractions(sums, weight, bias))
    for kind in MEASURES:
        assert_allclose(kind(sums, more, biases), kind(sums, weight, bias), rtol=1e-12)
    units = np.array([[3.0, 4.0], [15.0, 0.0], [-1.0, 0.0]])
    assert_allclose(
        unit_norm_fractions(np.array([[1.0, 0.0]]), units, np.zeros(3)), [0.25, 0.75, 0]
    )


def test_measures_without_units_or_pair_sums_are_nan():
    sums, weight, bias = np.ones((3, 2)), np.ones((4, 2)), np.zeros(4)
    for arrays in (
        (sums, 0 * weight, bias),
        (sums, weight, bias - 10),
        (0 * sums, weight, bias + 1),
    ):
        assert all(np.isnan(kind(*arrays)).all() for kind in MEASURES)
    assert np.isnan(pair_sum_collinearity(0 * sums, all_pairs(3))).all()


# -------------------------------------------------------------------------- rays, ranks


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_random_embeddings_are_collinear_by_chance_alone(dim, generator):
    x, pairs = (
        generator.standard_normal((400, 9, dim)) * np.geomspace(1, 3, dim),
        all_pairs(9)[::2],
    )
    result = pair_sum_collinearity(x, pairs)
    assert result.value.mean() == pytest.approx(result.chance.mean(), abs=0.01)
    assert result.value.std() < 0.15


def test_equal_values_count_half_in_ranks():
    result = module.fraction_below(
        np.array([0.0, 1.0, 1.5, 2.0, 9.0]), np.array([2.0, 1, 1, 3])
    )
    assert_allclose(result, [0, 0.25, 0.5, 0.625, 1])


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_random_rotations_and_directions_are_isotropic(dim):
    turns = module.random_orthogonal_matrices(dim)
    products = turns @ np.swapaxes(turns, -1, -2)
    assert_allclose(products, np.broadcast_to(np.eye(dim), turns.shape), atol=1e-12)
    assert np.abs(turns.mean(axis=0)).max() < 4 / np.sqrt(dim * len(turns))
    directions = random_directions(dim)
    assert_allclose(np.linalg.norm(directions, axis=-1), 1)
    assert_allclose(
        directions.T @ directions / len(directions), np.eye(dim) / dim, atol=0.03
    )
