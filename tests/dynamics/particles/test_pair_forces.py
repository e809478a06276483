"""Force kernels against plain loops, their symmetries, and their values where the law
has none."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import SettingsError, all_pairs
from dynamics.kernels.compiling import cached_kernel, numba_threads
from dynamics.particles import force_fields, group_pairs, pair_forces
from tests import naive

plain_fields = cached_kernel()(naive.fields)
ALL = {"n": st.integers(1, 12), "dim": st.integers(1, 3), "seed": st.integers(0, 2**32)}


def embedding(n, dim, seed, *lead):
    return np.random.default_rng(seed).standard_normal((*lead, n, dim))


def scale_of(force):
    return np.abs(force).max() + 1e-300


def assert_plain(x, pair_list, pairs, twice=True, rtol=1e-11):
    """The fields of a list of pairs are those of plain loops over the pairs."""
    result = force_fields(x, pair_list)
    force, magnitude = plain_fields(x, *np.ascontiguousarray(pairs.T), len(x), twice)
    assert_allclose(result.force, force, rtol=rtol, atol=1e-12 * scale_of(force))
    assert_allclose(result.magnitude, magnitude, rtol=rtol)


@pytest.mark.parametrize("twice", [True, False])
@given(**ALL)
def test_fields_are_those_of_the_plain_loops(twice, n, dim, seed):
    assert_plain(
        embedding(n, dim, seed), group_pairs(n, twice=twice), all_pairs(n), twice
    )


@given(**ALL)
def test_fields_of_a_list_of_pairs_in_any_order(n, dim, seed):
    generator = np.random.default_rng(seed)
    pairs = generator.permutation(all_pairs(n))[
        : generator.integers(0, n * (n + 1) // 2 + 1)
    ]
    turned = np.where(generator.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    assert_plain(embedding(n, dim, seed), group_pairs(n, turned), pairs)


# ----------------------------------------------------------- where the law has no value


@given(n=st.integers(1, 8), dim=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_lattices_full_of_ties_coincidences_and_origins(n, dim, seed):
    x = np.random.default_rng(seed).integers(-1, 2, (n, dim)).astype(float)
    assert_plain(x, group_pairs(n), all_pairs(n), rtol=1e-13)


@pytest.mark.parametrize("distance", [0.0, 1e-300, 1e-160, 1e-139, 1e-30, 1e-8])
def test_forces_are_finite_however_near_two_particles_come(distance):
    x = (
        np.array([[1.0, 0.0], [1.0 + distance, distance], [-2.0, 1.0], [0.5, 0.5]])
        - [[1.0, 0.0]] * 4
    )
    result = force_fields(x)
    assert np.isfinite(result.force).all()
    assert np.isfinite(result.magnitude).all()


# ----------------------------------------------------------------- the same bits always


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize(("n", "dim"), [(1, 1), (2, 2), (5, 1), (17, 2), (9, 3)])
def test_one_run_or_many_one_thread_or_two_give_the_same_bits(
    n, dim, across, monkeypatch
):
    x = embedding(n, dim, 3, 21)
    together = force_fields(x)
    monkeypatch.setattr(
        pair_forces,
        "summation_plan",
        lambda runs, pairs: (across, numba.get_num_threads()),
    )
    for threads in (1, numba.get_num_threads()):
        for rows in (slice(None), slice(4, 5), slice(0, 9)):
            with numba_threads(threads):
                result = force_fields(x[rows])
            assert_array_equal(result.force, together.force[:, rows])
            assert_array_equal(result.magnitude, together.magnitude[:, rows])


def test_leading_axes_of_any_number():
    x = embedding(5, 2, 1, 2, 3)
    result = force_fields(x)
    assert result.force.shape == (4, 2, 3, 5, 2)
    assert result.magnitude.shape == (4, 2, 3)
    assert_array_equal(result.force[:, 1, 2], force_fields(x[1, 2]).force)


# ----------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "pairs", [[[0, 5]], [[-1, 0]], [[0, 1], [1, 0]], [[0.0, 1.0]], [0, 1]]
)
def test_invalid_pairs_are_refused(pairs):
    with pytest.raises(SettingsError) as error:
        group_pairs(5, np.array(pairs))
    assert error.value.field == "pairs"


def test_invalid_embeddings_and_a_list_for_another_modulus_are_refused():
    for x in (
        np.zeros(3),
        np.full((3, 2), np.nan),
        np.full((3, 2), np.inf),
        np.zeros((0, 2)),
    ):
        with pytest.raises(SettingsError, match="embedding"):
            force_fields(x)
    with pytest.raises(SettingsError, match="N = 4"):
        force_fields(np.zeros((5, 2)), group_pairs(4))
