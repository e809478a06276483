"""Forces as matrices agree with the kernels of the particles and with plain loops, in
any dimension."""

import dataclasses

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.forces import pair_force_matrices
from dynamics import all_pairs
from dynamics.forces import Force
from dynamics.particles import ParticleSystem, force_fields, group_pairs
from dynamics.settings import ParticleSettings, SettingsError
from tests.laws import OWN_LAW, STRENGTHS, fields_by_loops

LAW = ParticleSettings(n=11, dim=3, fa=0.7, ga=1.3)
PAIRS = all_pairs(11)[::2]
SOME_LAWS = [
    OWN_LAW,
    *(
        tuple(
            Force(f"force_{place}", ("like", "unlike", "all")[place % 3], along, text)
            for place, text in enumerate(texts)
        )
        for along, texts in STRENGTHS.items()
    ),
]
"""Laws of all directions, pairs and strengths."""


@given(
    unit=st.sampled_from([1, 2, 3, 5, 10]),
    shift=st.integers(0, 10),
    seed=st.integers(0, 100),
    dim=st.sampled_from([2, 5]),
)
def test_renamings_that_keep_the_task_change_no_field(unit, shift, seed, dim):
    """i -> u i + c leaves pairs of equal sums equal; other names do not."""
    x = np.random.default_rng(seed).normal(size=(2, 11, dim))
    true = pair_force_matrices.law_fields(x, PAIRS).force
    swapped = np.array([1, 0, *range(2, 11)])
    same, other = pair_force_matrices.fields_with_renamed_tokens(
        x, PAIRS, true, [(unit * np.arange(11) + shift) % 11, swapped]
    )
    assert_allclose(same, true, rtol=1e-9, atol=1e-9)
    assert abs(other - true).max() > 1e-3


@pytest.mark.parametrize("balance", ["magnitude", "count", "none"])
def test_fields_and_laws_are_those_of_the_particles(balance, generator, monkeypatch):
    x = 3 * generator.normal(size=(2, 11, 3)) + 1
    expected, result = (
        force_fields(x, group_pairs(11, PAIRS)),
        pair_force_matrices.fields_by_matrices(x, PAIRS),
    )
    assert_allclose(result.force, expected.force, rtol=1e-9, atol=1e-12)
    assert_allclose(result.magnitude, expected.magnitude, rtol=1e-9)
    law = dataclasses.replace(LAW, repulsion_balance=balance, alignment_balance=balance)
    names = [generator.permutation(11)]
    renamed = list(
        pair_force_matrices.fields_with_renamed_tokens(x, PAIRS, expected.force, names)
    )
    monkeypatch.setattr(pair_force_matrices, "_COMPILED", 2)
    by_difference = list(
        pair_force_matrices.fields_with_renamed_tokens(x, PAIRS, expected.force, names)
    )
    assert_allclose(by_difference, renamed, rtol=1e-9, atol=1e-9)
    force = pair_force_matrices.law_force(x, PAIRS, law, result)
    assert_allclose(
        force, ParticleSystem(law, pairs=PAIRS).force(x)[0], rtol=1e-9, atol=1e-12
    )
    with pytest.raises(SettingsError, match="diagonal: found once"):
        pair_force_matrices.law_force(
            x, PAIRS, dataclasses.replace(law, diagonal="once"), result
        )


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_fields_of_an_own_law_are_those_of_the_kernels(dim, generator, monkeypatch):
    x = generator.normal(size=(2, 11, dim))
    expected = force_fields(x, group_pairs(11, PAIRS), OWN_LAW)
    result = pair_force_matrices.fields_by_matrices(x, PAIRS, OWN_LAW)
    close = {"rtol": 1e-8, "atol": 1e-8 * np.abs(expected.force).max()}
    assert_allclose(result.force, expected.force, **close)
    assert_allclose(result.magnitude, expected.magnitude, rtol=1e-8)
    law = ParticleSettings(n=11, dim=dim, law=OWN_LAW)
    total = ParticleSystem(law, pairs=PAIRS).force(x)[0]
    names = [generator.permutation(11)]
    arguments = (x, PAIRS, expected.force, names, OWN_LAW)
    renamed = list(pair_force_matrices.fields_with_renamed_tokens(*arguments))
    monkeypatch.setattr(pair_force_matrices, "_COMPILED", 0)
    by_difference = list(pair_force_matrices.fields_with_renamed_tokens(*arguments))
    assert_allclose(by_difference, renamed, **close)
    force = pair_force_matrices.law_force(x, PAIRS, law, result)
    assert_allclose(force, total, **close)


@given(law=st.sampled_from(SOME_LAWS), dim=st.integers(1, 7), seed=st.integers(0, 1000))
@hypothesis.settings(max_examples=20, deadline=None)
def test_fields_of_any_law_are_those_of_plain_loops(law, dim, seed):
    x = np.random.default_rng(seed).normal(size=(5, dim))
    pairs = all_pairs(5)
    fields, magnitude = fields_by_loops(x, pairs, law)
    result = pair_force_matrices.fields_by_matrices(x, pairs, law)
    size = max(1.0, np.abs(fields).max())
    assert_allclose(result.force, fields, rtol=1e-9, atol=1e-9 * size)
    assert_allclose(result.magnitude, magnitude, rtol=1e-9, atol=1e-9)


def test_the_basis_is_that_of_plain_loops(generator):
    """Attraction and repulsion by functions of the distance, and alignment by functions
    of the angle."""
    x, radial, angles = (
        generator.normal(size=(11, 3)),
        len(pair_force_matrices.DISTANCES),
        pair_force_matrices.ANGLES,
    )
    result = pair_force_matrices.fields_by_matrices(x, PAIRS, basis=True).force[4:]
    values = generator.normal(size=len(result))
    cut = np.cumsum(list(pair_force_matrices.BASIS.values()))[:-1]
    like, unlike, like_alignment, unlike_alignment = np.split(values, cut)
    size = pair_force_matrices.pair_sum_distance(x, PAIRS)
    expected = np.zeros_like(x)
    for a, b in PAIRS:
        for c, d in PAIRS:
            if (a, b) == (c, d):
                continue
            first, second, same = x[a] + x[b], x[c] + x[d], (a + b - c - d) % 11 == 0
            r = np.linalg.norm(first - second)
            knots = np.log(pair_force_matrices.DISTANCES)
            force = (
                np.interp(np.log(r / size), knots, like if same else unlike)
                * (first - second)
                / r
            )
            cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
            step = (like_alignment if same else unlike_alignment)[
                int((cosine + 1) / 2 * angles)
            ]
            force += step * second / np.linalg.norm(second)
            expected[a] += force
            expected[b] += force
    assert radial == len(like) == len(unlike)
    assert_allclose(
        np.einsum("f,fta->ta", values, result), expected, rtol=1e-9, atol=1e-9
    )


def test_coincident_pair_sums_do_not_attract_or_repel():
    x = np.tile(np.random.default_rng(0).normal(size=(1, 5)), (7, 1))
    result = pair_force_matrices.fields_by_matrices(x, all_pairs(7), basis=True)
    assert np.isfinite(result.force).all()
    assert_array_equal(result.magnitude[:2], 0)
    assert_array_equal(
        pair_force_matrices.fields_by_matrices(0 * x, all_pairs(7), basis=True).force, 0
    )


def test_particles_in_any_dimension_move_as_those_of_the_system(generator, monkeypatch):
    system, start = ParticleSystem(LAW), generator.normal(size=(1, 11, 3))
    expected = system.advance(system.state_from_positions(start), 20).embedding[0]
    monkeypatch.setattr(pair_force_matrices, "_COMPILED", 2)
    result = pair_force_matrices.simulate_in_any_dimension(start[0], LAW, 20)
    assert_allclose(result, expected, rtol=1e-8, atol=1e-10)
    with pytest.raises(SettingsError, match="temperature: found"):
        pair_force_matrices.simulate_in_any_dimension(
            start[0], dataclasses.replace(LAW, temperature=0.1), 1
        )
    with pytest.raises(SettingsError, match="variance: found axis"):
        pair_force_matrices.simulate_in_any_dimension(
            start[0], dataclasses.replace(LAW, variance="axis"), 1
        )


def test_fields_of_many_tokens_are_summed_fast(generator):
    """From N = 128 on; the error is below the accuracy of particles."""
    pairs = all_pairs(131)[generator.random(131 * 66) < 0.8]
    x = generator.standard_normal((2, 131, 2))
    expected = force_fields(x, group_pairs(131, pairs))
    result = pair_force_matrices.law_fields(x, pairs)
    for field in range(4):
        assert_allclose(
            result.force[field],
            expected.force[field],
            atol=1e-6 * np.abs(expected.force[field]).max(),
        )
    assert not np.array_equal(result.force, expected.force)
    assert_allclose(result.magnitude, expected.magnitude, rtol=1e-6)
