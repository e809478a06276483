"""Force kernels against plain loops, their symmetries, and their values where the law has none."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamics.kernels.compiling import cached_kernel
from dynamics.particles import pair_forces
from dynamics.particles.pair_forces import FIELD_NAMES, force_fields
from dynamics.particles.pair_list import group_pairs
from dynamics.settings import SettingsError
from dynamics.tasks import all_pairs
from tests import naive

plain_fields = cached_kernel()(naive.fields)
ALL = {"n": st.integers(1, 12), "dim": st.integers(1, 3), "seed": st.integers(0, 2**32)}


def embedding(n, dim, seed, *lead):
    return np.random.default_rng(seed).standard_normal((*lead, n, dim))


def rotation(dim, seed):
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))
    return q * np.sign(np.diag(r))


def scale_of(force):
    return np.abs(force).max() + 1e-300


@pytest.mark.parametrize("twice", [True, False])
@given(**ALL)
def test_fields_are_those_of_the_plain_loops(twice, n, dim, seed):
    x = embedding(n, dim, seed)
    pairs = all_pairs(n)
    found = force_fields(x, group_pairs(n, twice=twice))
    force, magnitude = plain_fields(x, pairs[:, 0], pairs[:, 1], n, twice)
    np.testing.assert_allclose(found.force, force, rtol=1e-11, atol=1e-12 * scale_of(force))
    np.testing.assert_allclose(found.magnitude, magnitude, rtol=1e-11)


@given(**ALL)
def test_fields_of_a_list_of_pairs_in_any_order(n, dim, seed):
    x = embedding(n, dim, seed)
    generator = np.random.default_rng(seed)
    pairs = generator.permutation(all_pairs(n))[: generator.integers(0, n * (n + 1) // 2 + 1)]
    turned = np.where(generator.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    found = force_fields(x, group_pairs(n, turned))
    force, magnitude = plain_fields(x, pairs[:, 0], pairs[:, 1], n, True)
    np.testing.assert_allclose(found.force, force, rtol=1e-11, atol=1e-12 * scale_of(force))
    np.testing.assert_allclose(found.magnitude, magnitude, rtol=1e-11)


@given(**ALL)
def test_turning_the_embedding_turns_the_forces(n, dim, seed):
    x, turn = embedding(n, dim, seed), rotation(dim, seed)
    straight, turned = force_fields(x), force_fields(x @ turn)
    np.testing.assert_allclose(turned.force, straight.force @ turn, atol=1e-9 * scale_of(straight.force))


@given(**ALL)
def test_clustering_forces_cancel_in_sum(n, dim, seed):
    found = force_fields(embedding(n, dim, seed))
    for field in ("like_attraction", "unlike_repulsion"):
        force = found.force[FIELD_NAMES.index(field)]
        np.testing.assert_allclose(force.sum(axis=0), 0, atol=1e-11 * scale_of(force) * n)


def test_alignment_is_not_reciprocal():
    force = force_fields(embedding(7, 2, 0)).force[FIELD_NAMES.index("unlike_alignment")]
    assert np.abs(force.sum(axis=0)).max() > 1


@given(n=st.integers(1, 12), seed=st.integers(0, 2**32), unit=st.integers(1, 100), shift=st.integers(0, 100))
def test_relabelling_by_a_unit_of_the_modulus_permutes_the_forces(n, seed, unit, shift):
    unit = unit if np.gcd(unit, n) == 1 else 1
    x = embedding(n, 2, seed)
    relabelled = (unit * np.arange(n) + shift) % n
    y = np.empty_like(x)
    y[relabelled] = x
    np.testing.assert_allclose(
        force_fields(y).force[:, relabelled], force_fields(x).force, atol=1e-10 * scale_of(force_fields(x).force)
    )


# ------------------------------------------------------------------------------ where the law has no value


def test_coincident_pair_sums_neither_attract_nor_repel():
    x = np.tile([[0.3, -0.2]], (5, 1))  # every pair sum in one point
    found = force_fields(x)
    assert (found.force[:2] == 0).all()
    assert (found.magnitude[:2] == 0).all()
    # while alignment has a value: each of the 15 pair sums sees 2 like and 12 unlike ones in its half-plane
    assert found.magnitude[2:].tolist() == [15 * 2, 15 * 12]


@given(n=st.integers(1, 8), dim=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_lattices_full_of_ties_coincidences_and_origins(n, dim, seed):
    x = np.random.default_rng(seed).integers(-1, 2, (n, dim)).astype(float)
    pairs = all_pairs(n)
    found = force_fields(x)
    force, magnitude = plain_fields(x, pairs[:, 0], pairs[:, 1], n, True)
    np.testing.assert_allclose(found.force, force, rtol=1e-12, atol=1e-12 * scale_of(force))
    np.testing.assert_allclose(found.magnitude, magnitude, rtol=1e-13)


@pytest.mark.parametrize("distance", [0.0, 1e-300, 1e-160, 1e-139, 1e-30, 1e-8])
def test_forces_are_finite_however_near_two_particles_come(distance):
    x = np.array([[1.0, 0.0], [1.0 + distance, distance], [-2.0, 1.0], [0.5, 0.5]]) - [[1.0, 0.0]] * 4
    found = force_fields(x)
    assert np.isfinite(found.force).all()
    assert np.isfinite(found.magnitude).all()


# ----------------------------------------------------------------------------------- the same bits always


@pytest.mark.parametrize(("n", "dim"), [(1, 1), (2, 2), (5, 1), (17, 2), (9, 3)])
def test_one_run_or_many_one_thread_or_two_give_the_same_bits(n, dim, monkeypatch):
    x = embedding(n, dim, 3, 21)
    together = force_fields(x)
    before = numba.get_num_threads()
    results = []
    for across in (True, False):
        monkeypatch.setattr(
            pair_forces, "summation_plan", lambda runs, pairs, way=across: (way, numba.get_num_threads())
        )
        for threads in {1, before}:
            numba.set_num_threads(threads)
            results += [force_fields(x), force_fields(x[4:5]), force_fields(x[:9])]
    numba.set_num_threads(before)
    for found, rows in zip(results, [slice(None), slice(4, 5), slice(0, 9)] * (len(results) // 3), strict=True):
        np.testing.assert_array_equal(found.force, together.force[:, rows])
        np.testing.assert_array_equal(found.magnitude, together.magnitude[:, rows])


def test_leading_axes_of_any_number():
    x = embedding(5, 2, 1, 2, 3)
    found = force_fields(x)
    assert found.force.shape == (4, 2, 3, 5, 2)
    assert found.magnitude.shape == (4, 2, 3)
    np.testing.assert_array_equal(found.force[:, 1, 2], force_fields(x[1, 2]).force)


# --------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("pairs", [[[0, 5]], [[-1, 0]], [[0, 1], [1, 0]], [[0.0, 1.0]], [0, 1]])
def test_invalid_pairs_are_refused(pairs):
    with pytest.raises(SettingsError) as error:
        group_pairs(5, np.array(pairs))
    assert error.value.field == "pairs"


@pytest.mark.parametrize("x", [np.zeros(3), np.full((3, 2), np.nan), np.full((3, 2), np.inf), np.zeros((0, 2))])
def test_invalid_embeddings_are_refused(x):
    with pytest.raises(SettingsError, match="embedding"):
        force_fields(x)


def test_a_list_for_another_modulus_is_refused():
    with pytest.raises(SettingsError, match="N = 4"):
        force_fields(np.zeros((5, 2)), group_pairs(4))
