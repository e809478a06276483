"""Distances from perfect circles and grids and from grids with holes: planted ones,
brute force, chance."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.structures import perfect_grids, procrustes_distance, relabellings
from analysis.structures.embedding_arrays import centred_unit_norm
from analysis.structures.nearest_structures import (
    grid_residuals,
    nearest_circle,
    nearest_grid,
    nearest_perfect_grid,
)
from tests.polygons import polygon


@given(n=st.integers(3, 14), dim=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_nearest_circle_is_that_of_brute_force(n, dim, seed):
    x = np.random.default_rng(seed).standard_normal((4, n, dim))
    kept = [k for k in range(1, n // 2 + 1) if np.gcd(k, n) == 1]
    by_force = np.array([procrustes_distance(x, polygon(n, k)) for k in kept])
    result = nearest_circle(x)
    assert_allclose(result.distance, by_force.min(axis=0), atol=1e-9)
    assert_array_equal(result.which, np.array(kept)[by_force.argmin(axis=0)])


@pytest.mark.parametrize("n", [7, 11])
def test_planted_grids_under_all_that_keeps_them(n, generator):
    grids = perfect_grids(n)
    chosen = generator.choice(len(grids.kind), 12, replace=False)
    _, _, images = relabellings(n, shifts=True)
    for dim in (2, 3):
        x = grids.basis[chosen] @ generator.standard_normal((len(chosen), 2, dim)) + 4
        assert nearest_perfect_grid(x).distance.max() < 1e-6
        renamed = np.take_along_axis(
            x, images[generator.integers(len(images), size=12)][..., None], axis=1
        )
        result = nearest_perfect_grid(renamed)
        assert result.distance.max() < 1e-6
        planar = grids.lines[chosen] > 1
        assert_array_equal(grids.kind[result.which][planar], grids.kind[chosen][planar])


def test_the_nearest_perfect_grid_is_that_of_brute_force(generator):
    x, grids = generator.standard_normal((20, 7, 2)), perfect_grids(7)
    centred = x - x.mean(axis=1, keepdims=True)
    images = (
        basis @ (basis.T @ centred) for basis in grids.basis
    )  # the best linear images, by least squares
    least = np.min([procrustes_distance(x, image) for image in images], axis=0)
    assert_allclose(nearest_perfect_grid(x).distance, least, atol=1e-6)
    assert nearest_perfect_grid(x[3]).distance == pytest.approx(least[3])


def test_one_point_is_far_from_all_structures():
    assert nearest_circle(np.ones((5, 2))).distance == 1
    for nearest in (nearest_perfect_grid, nearest_grid):
        assert nearest(np.ones((2, 5, 2))).distance.tolist() == [1, 1]
    with pytest.raises(ValueError, match="at least 3"):
        nearest_circle(np.ones((2, 2)))


# --------------------------------------------------------------------- grids with holes


def with_holes(grids, at, generator, moves=2):
    """The places of a grid of which some tokens have moved to others of their class, by
    short vectors."""
    places, kernel = grids.places[at].astype(float), grids.kernel[grids.kind[at]]
    length = np.linalg.norm(kernel, axis=1)
    short = kernel[(length > 0) & (length < 6)]
    for token in generator.choice(len(places), moves, replace=False):
        places[token] += short[generator.integers(len(short))]
    return places


def test_kernels_lead_from_a_place_to_others_of_its_class():
    grids, numbers = (
        perfect_grids(11),
        np.array(list(itertools.product(range(11), repeat=2))),
    )
    for at in range(0, len(grids.kind), 97):
        places, kernel = (
            grids.places[at].astype(int),
            grids.kernel[grids.kind[at]].astype(int),
        )
        respects = (
            ((places - places[0]) @ numbers.T - np.arange(11)[:, None]) % 11 == 0
        ).all(axis=0)
        assert respects.any()  # numbers by which the places respect addition
        if grids.lines[at] > 1:
            assert len(kernel) > 10
            assert ((kernel @ numbers[respects][0]) % 11 == 0).all()


def plain_settle(x, places, kernel):
    """The search of `settle` by least squares and by trying all moves."""
    g, least = places.astype(float), 1.0
    while True:
        centred = g - g.mean(axis=0)
        linear = np.linalg.lstsq(centred, x)[0]
        rest = ((x - centred @ linear) ** 2).sum()
        if rest >= least - 1e-12:
            return least
        least = rest
        places_of = (g[:, None] + kernel - g.mean(axis=0)) @ linear
        g = g + kernel[((x[:, None] - places_of) ** 2).sum(axis=-1).argmin(axis=1)]


def test_the_search_for_grids_with_holes_is_that_of_plain_loops(generator):
    grids = perfect_grids(11)
    for at in generator.choice(np.flatnonzero(grids.lines > 1), 10, replace=False):
        x = centred_unit_norm(generator.standard_normal((11, 2 + at % 2)))
        result = grid_residuals(
            x[None], np.array([[at]]), grids.places, grids.kind, grids.kernel
        )
        assert result[0, 0] == pytest.approx(
            plain_settle(x, grids.places[at], grids.kernel[grids.kind[at]])
        )


def test_planted_grids_with_holes_are_found(generator):
    grids = perfect_grids(17)
    planar = np.flatnonzero((grids.lines > 2) & (grids.lines < 5))
    planted = [
        with_holes(grids, at, generator)
        for at in generator.choice(planar, 24, replace=False)
    ]
    x = np.array(planted) @ (np.array([[1.0, 0.3], [0.1, 0.8]])) - 2
    assert (
        np.mean(nearest_grid(x).distance < 1e-6) > 0.75
    )  # of two hundred 87% are found
    assert nearest_perfect_grid(x).distance.min() > 0.05  # none is a grid without holes
    assert (
        np.median(
            nearest_grid(
                x + 0.02 * x.std() * generator.standard_normal(x.shape)
            ).distance
        )
        < 0.05
    )
    spatial = nearest_grid(x @ generator.standard_normal((2, 3)))
    assert_allclose(np.median(spatial.distance), 0, atol=1e-6)


def test_grids_with_holes_are_never_further_than_perfect_ones(generator):
    x = generator.standard_normal((40, 17, 2))
    result, perfect = nearest_grid(x).distance, nearest_perfect_grid(x).distance
    assert (result <= perfect + 1e-6).all()
    assert (
        0.08 < result.min() < np.median(result) < 0.25
    )  # what any embedding has by chance
    assert nearest_grid(polygon(17, 3)).distance > 0.5
    assert nearest_grid(np.arange(17.0)[:, None] * [1.0, 0.5]).distance < 1e-6
