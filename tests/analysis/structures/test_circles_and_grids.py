"""Circles and grid imperfections against the paper's algorithms in plain loops, and summaries."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from analysis.structures.circles_and_grids import (
    circles,
    circularity,
    count_imperfections,
    format_structure,
    grid_imperfections,
    imperfect_pair_sums,
    is_circle,
    structure_label,
    summarise_structures,
)
from dynamics.tasks import all_pairs, modular_sum
from tests import naive
from tests.polygons import polygon


@given(n=st.integers(1, 9), dim=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_algorithms_1_and_2_on_random_embeddings(n, dim, seed):
    x = np.random.default_rng(seed).standard_normal((n, dim))
    assert count_imperfections(x) == naive.imperfections(x, n)
    assert is_circle(x) == naive.is_circle(x)


@given(n=st.integers(1, 9), dim=st.integers(1, 3), seed=st.integers(0, 2**32), size=st.integers(1, 3))
def test_equally_near_pair_sums_are_told_apart_as_in_algorithm_2(n, dim, seed, size):
    """On a lattice of few points nearly all distances are ties, and many are zero."""
    x = np.random.default_rng(seed).integers(-size, size + 1, (n, dim)).astype(float)
    assert count_imperfections(x) == naive.imperfections(x, n)


@pytest.mark.parametrize("exponent", [-300, -200, -163, -160, -100, 0, 100, 155, 160, 300])
def test_structures_do_not_depend_on_scale(exponent, generator):
    x = generator.standard_normal((4, 6, 2))
    scaled = np.ldexp(x, int(exponent * np.log2(10)))
    np.testing.assert_array_equal(count_imperfections(scaled), count_imperfections(x))
    np.testing.assert_array_equal(circularity(scaled), circularity(x))


@given(n=st.integers(1, 19), seed=st.integers(0, 2**32), unit=st.integers(1, 100), shift=st.integers(0, 100))
def test_relabelling_by_a_unit_of_the_modulus_changes_no_imperfection(n, seed, unit, shift):
    unit = unit if np.gcd(unit, n) == 1 else 1
    x = np.random.default_rng(seed).standard_normal((n, 2))
    y = np.empty_like(x)
    y[(unit * np.arange(n) + shift) % n] = x
    assert count_imperfections(y) == count_imperfections(x)


def test_the_k_d_tree_agrees_at_a_large_modulus(generator):
    n = 59
    x = generator.standard_normal((n, 2))
    pairs = all_pairs(n)
    sums, residue = x[pairs].sum(axis=1), modular_sum(pairs, n)
    nearest = cKDTree(sums).query(sums, k=2)[1]
    other = np.where(nearest[:, 0] == np.arange(len(sums)), nearest[:, 1], nearest[:, 0])
    np.testing.assert_array_equal(imperfect_pair_sums(x), residue[other] != residue)
    assert count_imperfections(x) == imperfect_pair_sums(x).sum()


def test_structures_in_words(generator):
    assert structure_label(polygon(17)) == format_structure(True, int(count_imperfections(polygon(17))))
    assert format_structure(False, 1) == "no circle, 1 imperfection"
    assert format_structure(True, 0) == "circle, 0 imperfections"


def test_a_perfect_line_has_imperfections_only_where_no_other_pair_has_the_same_sum():
    """Tokens at the numbers 0..N-1: the sums 0, 1, 2N-3 and 2N-2 each come from one pair."""
    n = 17
    x = np.stack([np.arange(n), np.zeros(n)], axis=-1)
    assert count_imperfections(x) == 4


def test_a_polygon_is_a_circle_in_any_order_and_a_stretched_one_is_not():
    assert is_circle(polygon(17, step=5))
    assert not is_circle(polygon(17) * [1.0, 1.25])
    assert is_circle(polygon(17) * [1.0, 1.15])


def test_a_token_at_the_origin_is_no_circle():
    assert circularity(np.array([[0.0, 0.0], [1.0, 0.0]])) == np.inf
    assert not is_circle(np.zeros((3, 2)))


def test_any_leading_axes(generator):
    x = generator.standard_normal((3, 4, 7, 2))
    assert count_imperfections(x).shape == is_circle(x).shape == (3, 4)
    assert count_imperfections(x)[2, 1] == count_imperfections(x[2, 1])
    assert count_imperfections(np.zeros((0, 7, 2))).shape == (0,)


def test_dimensions_are_known_by_name(generator):
    x = xr.DataArray(generator.standard_normal((2, 7, 3)), dims=("axis", "token", "run"))
    expected = np.moveaxis(x.values, (2, 1, 0), (0, 1, 2))
    assert circles(x).dims == grid_imperfections(x.to_dataset(name="embedding")).dims == ("run",)
    np.testing.assert_array_equal(grid_imperfections(x), count_imperfections(expected))
    np.testing.assert_array_equal(circles(x), is_circle(expected))


@pytest.mark.parametrize("function", [count_imperfections, is_circle])
@pytest.mark.parametrize("x", [np.zeros(3), np.full((3, 2), np.nan), np.zeros((3, 0))])
def test_what_is_no_embedding_is_refused(function, x):
    with pytest.raises(ValueError, match="embedding: found"):
        function(x)


def test_a_summary_wants_runs():
    with pytest.raises(ValueError, match=r"expected \(run, token, axis\)"):
        summarise_structures(np.zeros((2, 3, 7, 2)))


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="complex"):
        count_imperfections(np.zeros((3, 2), dtype=complex))


def test_imperfections_are_averaged_over_the_runs_that_are_no_circles(generator):
    grids = generator.standard_normal((3, 7, 2))
    found = summarise_structures(np.concatenate([[polygon(7)], grids]))
    assert (found.runs, found.circles, found.grids) == (4, 1, 3)
    np.testing.assert_allclose(found.imperfections.value, np.mean([naive.imperfections(x, 7) for x in grids]))
