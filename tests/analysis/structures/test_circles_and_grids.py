"""Circles and grid imperfections against the paper's algorithms in plain loops, and
summaries."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.structures import circles_and_grids as structures
from analysis.structures.nearest_points import nearest_other_points
from tests import naive
from tests.polygons import polygon


@given(n=st.integers(1, 9), dim=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_algorithms_1_and_2_on_random_embeddings(n, dim, seed):
    x = np.random.default_rng(seed).standard_normal((n, dim))
    assert structures.count_imperfections(x) == naive.imperfections(x, n)
    assert structures.is_circle(x) == naive.is_circle(x)


@given(
    n=st.integers(1, 9),
    dim=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    size=st.integers(1, 3),
)
def test_equally_near_pair_sums_are_told_apart_as_in_algorithm_2(n, dim, seed, size):
    """On a lattice of few points nearly all distances are ties, and many are zero."""
    x = np.random.default_rng(seed).integers(-size, size + 1, (n, dim)).astype(float)
    assert structures.count_imperfections(x) == naive.imperfections(x, n)


@pytest.mark.parametrize(
    "exponent", [-300, -200, -163, -160, -100, 0, 100, 155, 160, 300]
)
def test_structures_do_not_depend_on_scale(exponent, generator):
    x = generator.standard_normal((4, 6, 2))
    scaled = np.ldexp(x, int(exponent * np.log2(10)))
    assert_array_equal(
        structures.count_imperfections(scaled), structures.count_imperfections(x)
    )
    assert_array_equal(structures.norm_ratio(scaled), structures.norm_ratio(x))


def arrangements(n, generator):
    """Embeddings of n tokens whose pair sums have no, some, or nearly only equal
    distances."""
    row = np.arange(n)
    noise = generator.standard_normal((n, 2))
    lattice = np.stack([row % 11, row // 11], axis=-1).astype(float)
    yield from (
        noise,
        polygon(n),
        polygon(n) + 1e-4 * noise,
        lattice,
        lattice + 1e-3 * noise,
        np.zeros((n, 2)),
    )
    yield np.stack([0 * row, row], axis=-1).astype(float)
    yield np.stack([0 * row, row % 2], axis=-1) + 1e-12 * noise
    yield generator.standard_normal((n, 3)).round(1)


def test_the_tree_gives_what_the_sorted_sweep_gives(generator, monkeypatch):
    for x in arrangements(113, generator):
        by_tree = structures.imperfect_pair_sums(x)
        with monkeypatch.context() as patch:
            patch.setattr(structures, "_TREE_PAIRS", 10**9)
            assert_array_equal(by_tree, structures.imperfect_pair_sums(x))


def test_the_tree_gives_what_plain_loops_give(generator, monkeypatch):
    monkeypatch.setattr(structures, "_TREE_PAIRS", 0)
    for n in (2, 7, 12):
        for x in arrangements(n, generator):
            expected = naive.imperfections(x, n)
            assert structures.count_imperfections(x) == expected
            assert structures.imperfect_pair_sums(x).sum() == expected


@given(
    count=st.integers(1, 40),
    dim=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    size=st.integers(0, 2),
)
def test_the_first_of_the_nearest_points_is_found(count, dim, seed, size):
    points = (
        np.random.default_rng(seed)
        .integers(-size, size + 1, (count, dim))
        .astype(float)
    )
    distance = np.linalg.norm(points[:, None] - points, axis=-1) + np.diag(
        np.full(count, np.inf)
    )
    expected = distance.argmin(axis=1) if count > 1 else [-1]
    assert_array_equal(
        nearest_other_points(np.ascontiguousarray(points.T)[None])[0], expected
    )


def test_structures_in_words():
    assert structures.structure_label(polygon(17)) == "circle"
    rows = np.stack([np.arange(17), np.arange(17) % 4], axis=-1) - [8.0, 1.5]
    assert structures.structure_label(rows) == "grid, 14 imperfections"
    assert structures.structure_label(polygon(17) * [1.0, 1.3]).startswith("neither, ")
    assert structures.grid_or_neither(30, 153) == "grid"
    assert structures.grid_or_neither(31, 153) == "neither"


def test_polygons_are_circles_unless_stretched_or_at_the_origin():
    assert structures.is_circle(polygon(17, step=5))
    assert not structures.is_circle(polygon(17) * [1.0, 1.25])
    assert structures.is_circle(polygon(17) * [1.0, 1.15])
    assert structures.norm_ratio(np.array([[0.0, 0.0], [1.0, 0.0]])) == np.inf
    assert not structures.is_circle(np.zeros((3, 2)))


@given(
    n=st.integers(5, 40),
    dim=st.integers(2, 600),
    seed=st.integers(0, 2**32),
    shift=st.floats(0, 1e3),
)
def test_equal_norms_are_no_circle_in_many_dimensions_or_far_away(n, dim, seed, shift):
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((n, dim))
    assert not structures.is_circle(noise + shift) or dim < 4
    sphere = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    if dim >= 10 and n >= 10:
        assert not structures.is_circle(sphere)
    axes = np.linalg.qr(generator.standard_normal((dim, 2)))[0]
    circle = polygon(n) @ axes.T
    assert structures.is_circle(circle + 1e-3 * noise / np.sqrt(dim))
    assert not structures.is_circle(circle + 10 + shift)


def test_leading_axes_and_dimensions_by_name(generator):
    x = xr.DataArray(
        generator.standard_normal((2, 7, 3)), dims=("axis", "token", "run")
    )
    arrays = x.transpose("run", "token", "axis").values
    imperfections, circles = (
        structures.count_imperfections(arrays),
        structures.is_circle(arrays),
    )
    assert (
        structures.circles(x).dims
        == structures.grid_imperfections(x.to_dataset(name="embedding")).dims
        == ("run",)
    )
    assert_array_equal(structures.grid_imperfections(x), imperfections)
    assert_array_equal(structures.circles(x), circles)
    assert_array_equal(
        imperfections, [structures.count_imperfections(array) for array in arrays]
    )
    assert structures.is_circle(arrays[:, None]).shape == (3, 1)
    assert structures.count_imperfections(np.zeros((0, 7, 2))).shape == (0,)


@pytest.mark.parametrize(
    "function", [structures.count_imperfections, structures.is_circle]
)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(3), "embedding: found"),
        (np.full((3, 2), np.nan), "embedding: found"),
        (np.zeros((3, 0)), "embedding: found"),
        (np.zeros((3, 2), dtype=complex), "complex"),
    ],
)
def test_arrays_that_are_no_embedding_are_refused(function, x, message):
    with pytest.raises(ValueError, match=message):
        function(x)


def test_imperfections_are_averaged_over_the_runs_that_are_no_circles(generator):
    grids = generator.standard_normal((3, 7, 2))
    result = structures.summarise_structures(np.concatenate([[polygon(7)], grids]))
    assert (result.runs, result.circles, result.grids) == (4, 1, 3)
    assert_allclose(
        result.imperfections.value, np.mean([naive.imperfections(x, 7) for x in grids])
    )
    with pytest.raises(ValueError, match=r"expected \(run, token, axis\)"):
        structures.summarise_structures(np.zeros((2, 3, 7, 2)))
