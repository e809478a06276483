"""Shape distances against scipy and plain loops over relabellings, and what they must
not depend on."""

from math import gcd

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import procrustes as scipy_procrustes

from analysis.structures import procrustes as shapes
from analysis.structures.procrustes import (
    end_shape_distances,
    match_shapes,
    procrustes_distance,
)
from tests.analysis.structures.test_embedding_motion import trajectory_of
from tests.polygons import polygon

ROUNDING = 1e-7  # what the docstring promises

seeds = st.integers(0, 2**32)
tokens = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13])
axes = st.integers(1, 3)


def of_seed(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def naive_distance(a, b):
    """By scipy, which knows neither other numbers of axes nor embeddings without
    extent."""
    dim = max(a.shape[1], b.shape[1])
    a, b = (np.pad(x, ((0, 0), (0, dim - x.shape[1]))) for x in (a, b))
    flat = [(x == x[0]).all() for x in (a, b)]
    if any(flat):
        return 0.0 if all(flat) else 1.0
    return np.sqrt(scipy_procrustes(a, b)[2])


def naive_shape_distance(a, b, shifts):
    n = len(a)
    best = np.inf
    for u in range(n) if n > 1 else [1]:
        for c in range(n if shifts else 1):
            if gcd(u, n) == 1:
                distance = naive_distance(
                    a, np.array([b[(u * i + c) % n] for i in range(n)])
                )
                if distance < best - ROUNDING:
                    best, match = distance, (u, c)
    return best, *match


@given(n=tokens, first=axes, second=axes, seed=seeds)
def test_procrustes_is_that_of_scipy(n, first, second, seed):
    a, b = of_seed(seed, n, first), of_seed([seed, 1], n, second)
    assert_allclose(procrustes_distance(a, b), naive_distance(a, b), atol=ROUNDING)


@given(n=tokens, first=axes, second=axes, seed=seeds, shifts=st.booleans())
def test_all_relabellings_are_tried(n, first, second, seed, shifts):
    a, b = of_seed(seed, n, first), of_seed([seed, 1], n, second)
    result, (distance, *match) = (
        match_shapes(a, b, shifts),
        naive_shape_distance(a, b, shifts),
    )
    assert_allclose(result.distance, distance, atol=ROUNDING)
    matched = b[(result.unit * np.arange(n) + result.shift) % n]
    assert_allclose(procrustes_distance(a, matched), distance, atol=ROUNDING)
    if n > 3 and max(first, second) > 1:  # few tokens on a line have ties
        assert [result.unit, result.shift] == match


def test_the_first_unit_that_matches_is_given(generator):
    x = generator.standard_normal((7, 2))
    assert (
        procrustes_distance(x, x[-np.arange(7) % 7]) > 0.3
    )  # a unit and its negative are not equivalent
    result = match_shapes(x[-2 * np.arange(7) % 7], x)
    assert (result.distance < ROUNDING, result.unit) == (True, 5)
    result = match_shapes(
        polygon(17), np.stack([polygon(17, step) for step in range(1, 17)])
    )
    assert (result.distance < ROUNDING).all()
    inverse = [pow(step, -1, 17) for step in range(1, 17)]
    assert result.unit.tolist() == [min(unit, 17 - unit) for unit in inverse]


@pytest.mark.parametrize("place", [0.0, 0.1, 1e300])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_tokens_in_one_point_are_a_shape_of_their_own(n, place, generator):
    point, other, x = (
        np.full((n, 2), place),
        np.full((n, 1), 0.3),
        generator.standard_normal((n, 2)),
    )
    assert procrustes_distance(point, other) == match_shapes(point, other).distance == 0
    for distance in (
        procrustes_distance(point, x),
        procrustes_distance(x, point),
        match_shapes(x, point).distance,
    ):
        assert distance == (n > 1)


@pytest.mark.parametrize("scale", [5e-324 * 2**60, 1e-200, 1e200, 1.7e308])
def test_very_small_and_large_embeddings_have_exact_distances(scale, generator):
    a, b = generator.standard_normal((2, 6, 2))
    a = np.clip(a, -1, 1)
    assert_allclose(
        procrustes_distance(scale * a, b), procrustes_distance(a, b), atol=ROUNDING
    )
    small = np.stack([np.ones(6), 1e-200 * a[:, 0]], axis=-1)
    assert_allclose(
        procrustes_distance(small, b), procrustes_distance(a[:, :1], b), atol=ROUNDING
    )


@pytest.mark.parametrize("at_once", [1, 5000, 32 << 20])
def test_leading_axes_broadcast_in_blocks_of_any_size(at_once, generator, monkeypatch):
    monkeypatch.setattr(shapes, "_BLOCK_BYTES", at_once)
    a, b = generator.standard_normal((3, 1, 7, 2)), generator.standard_normal((4, 7, 3))
    result = match_shapes(a, b, shifts=True)
    assert (
        result.distance.shape
        == result.unit.shape
        == result.shift.shape
        == procrustes_distance(a, b).shape
        == (3, 4)
    )
    for i, j in np.ndindex(3, 4):
        one = match_shapes(a[i, 0], b[j], shifts=True)
        assert_allclose([item[i, j] for item in result], one, atol=ROUNDING)
    assert match_shapes(a[:0, 0], b[0]).distance.shape == (0,)


@pytest.mark.parametrize("function", [procrustes_distance, match_shapes])
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (np.zeros((6, 2)), "token: found 5 and 6"),
        (np.full((5, 2), np.nan), "not finite"),
        (np.zeros(5), "found shape"),
        (np.full((5, 2), np.inf), "not finite"),
        (np.zeros((5, 2), complex), "complex"),
        (np.zeros((1, 2)), "token: found 5 and 1"),
    ],
)
def test_embeddings_that_cannot_be_compared_are_refused(function, other, message):
    with pytest.raises(ValueError, match=message):
        function(np.zeros((5, 2)), other)


# ------------------------------------------------------------------------- trajectories


@pytest.fixture
def trajectories(generator):
    shapes = (3, 4, 5, 2), (2, 4, 5, 3)
    return tuple(
        trajectory_of(generator.standard_normal(shape), range(4)) for shape in shapes
    )


def ends(trajectory):
    return (
        trajectory["embedding"].transpose("run", "step", "token", "axis").values[:, -1]
    )


@pytest.mark.parametrize("shifts", [False, True])
def test_ends_of_all_pairs_of_runs(trajectories, shifts):
    first, second = trajectories
    result = end_shape_distances(first, second, shifts=shifts)
    assert result.dims == ("run", "other_run")
    assert (result["seed"].values.tolist(), result["other_seed"].values.tolist()) == (
        [3, 4, 5],
        [3, 4],
    )
    expected = match_shapes(ends(first)[:, None], ends(second), shifts).distance
    assert_allclose(result, expected, atol=ROUNDING)
    reordered = end_shape_distances(
        first.transpose("axis", "step", ...),
        second.transpose("token", ...),
        shifts=shifts,
    )
    assert_allclose(reordered, expected, atol=ROUNDING)


def test_ends_of_runs_in_pairs(trajectories):
    first, second = trajectories[0].isel(run=[2, 0]), trajectories[1]
    result = end_shape_distances(first, second, paired=True)
    assert result.dims == ("run",)
    assert (result["seed"].values.tolist(), result["other_seed"].values.tolist()) == (
        [5, 3],
        [3, 4],
    )
    assert_allclose(
        result, match_shapes(ends(first), ends(second)).distance, atol=ROUNDING
    )
    with pytest.raises(ValueError, match="run: found 3 and 2"):
        end_shape_distances(*trajectories, paired=True)
    with pytest.raises(ValueError, match="token: found 5 and 4"):
        end_shape_distances(first, second.isel(token=slice(4)))


def test_runs_that_diverged_are_nan(trajectories):
    first, second = trajectories
    first["last_step"][1] = 25
    second["last_step"][0] = 0
    assert np.isnan(end_shape_distances(first, second)).values.tolist() == [
        [True, False],
        [True, True],
        [True, False],
    ]
    assert np.isnan(
        end_shape_distances(first.isel(run=[0, 1]), second, paired=True)
    ).values.tolist() == [True, True]
    assert np.isnan(
        end_shape_distances(first.isel(run=[1, 0]), second, paired=True)
    ).values.tolist() == [True, False]


def test_end_embeddings_and_single_runs_are_accepted(trajectories):
    first, second = trajectories
    expected = end_shape_distances(first, second).values
    arrays = (
        xr.DataArray(ends(first), dims=("run", "token", "axis")),
        second["embedding"],
    )
    assert_array_equal(end_shape_distances(*arrays), expected)
    one = end_shape_distances(first.isel(run=1), second)
    assert one.dims == ("other_run",)
    assert_array_equal(one, expected[1])
