"""The particle system against plain loops, closed forms and invariants."""

import dataclasses
import hashlib

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dynamics.kernels.compiling import numba_threads
from dynamics.particles import ParticleState, ParticleSystem, pair_forces
from dynamics.settings import ParticleSettings, SettingsError
from tests import naive
from tests.polygons import polygon

BALANCES = st.sampled_from(["magnitude", "count", "none"])
settings_of_all_kinds = st.builds(
    ParticleSettings,
    **dict.fromkeys(("fa", "ga", "gr"), st.floats(0, 5)),
    **dict.fromkeys(("repulsion_balance", "alignment_balance"), BALANCES),
    n=st.integers(2, 9),
    dim=st.integers(1, 3),
    step_size=st.floats(1e-4, 0.5),
    step_rule=st.sampled_from(["force", "direction", "particle"]),
    variance=st.sampled_from(["overall", "axis", "none"]),
    diagonal=st.sampled_from(["twice", "once", "none"]),
)


def start(settings, runs=1, seed=0):
    return ParticleSystem(settings).initial(seed + np.arange(runs))


def same(a: ParticleState, b: ParticleState, rows=slice(None)) -> bool:
    names = [
        field.name
        for field in dataclasses.fields(ParticleState)
        if field.name != "step" and getattr(a, field.name) is not None
    ]
    return a.step == b.step and all(
        np.array_equal(getattr(a, name), getattr(b, name)[rows]) for name in names
    )


@given(settings=settings_of_all_kinds, seed=st.integers(0, 1000))
def test_a_step_is_that_of_the_plain_loops(settings, seed):
    before = start(settings, seed=seed)
    after = ParticleSystem(settings).advance(before, 1)
    force = naive.total_force(before.embedding[0], settings)
    scale = np.abs(force).max() + 1e-12
    assert_allclose(
        ParticleSystem(settings).force(before.embedding)[0][0],
        force,
        atol=1e-10 * scale,
    )
    assert_allclose(
        before.gradient_norm, np.sqrt((force**2).sum()), rtol=1e-9, atol=1e-10 * scale
    )
    assert_array_equal(after.gradient_norm, before.gradient_norm)
    expected = naive.step(before.embedding[0], settings)
    # directions amplify the rounding of a force that is nearly zero
    tolerance = 1e-9 * (1 + 1 / max(np.sqrt((force**2).sum(axis=1)).min(), 1e-3))
    if (
        settings.step_rule != "particle"
        or np.sqrt((force**2).sum(axis=1)).min() > 1e-6 * scale
    ):
        assert_allclose(after.embedding[0], expected, atol=tolerance)
        moved = np.sqrt(((expected - before.embedding[0]) ** 2).sum())
        assert_allclose(after.update_norm, moved, atol=tolerance * settings.n)


@pytest.mark.parametrize("variance", ["overall", "axis", "none"])
def test_particles_in_one_point_go_to_the_origin_and_stay(variance):
    """The mean of seventeen times 0.1 is not 0.1 to the last bit; what rounding leaves
    is no spread."""
    np.save("x.npy", np.tile([0.1, 0.2], (17, 1)))
    settings = ParticleSettings(start="x.npy", variance=variance)
    assert_allclose(
        ParticleSystem(settings).advance(start(settings), 5).embedding, 0, atol=1e-15
    )


def test_an_axis_without_spread_stays_without(generator):
    x = generator.standard_normal((17, 2))
    x[:, 1] = 0.3
    np.save("x.npy", x)
    state = start(ParticleSettings(start="x.npy", variance="axis"))
    assert (state.embedding[..., 1] == 0).all()
    assert_allclose(state.embedding[..., 0].std(), 1)


def test_a_start_whose_force_passes_the_limit_is_refused():
    np.save("x.npy", np.array([[0.0, 0.0], [1e-60, 0.0], [-1e-60, 0.0]]))
    with pytest.raises(
        SettingsError, match="start: found positions with a force beyond 1e38"
    ):
        start(
            ParticleSettings(
                n=3, start="x.npy", variance="none", repulsion_balance="none"
            )
        )


def test_the_bits_of_version_1():
    """Raise `numerics_version`, and this digest, when a change alters results: files of
    before must not mix with it."""
    state = ParticleSystem(SETTINGS).advance(start(SETTINGS, 3), 20)
    result = hashlib.sha256(
        state.embedding.tobytes() + state.gradient_norm.tobytes()
    ).hexdigest()
    assert (ParticleSystem(SETTINGS).numerics_version, result) == (1, BITS_OF_VERSION_1)


BITS_OF_VERSION_1 = "768265410bfdb9aca63c7e0b3412f371dcc111a5d8de4f5ec48a318e71d30f1c"


def test_a_regular_polygon_is_an_equilibrium_up_to_scale():
    """By symmetry the force on every corner points along its radius, and normalisation
    takes that away."""
    x = polygon(7, radius=np.sqrt(2))[None]
    settings = ParticleSettings(n=7, fa=2.0)
    still = ParticleState(0, x, np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64))
    moved = ParticleSystem(settings).advance(still, 1)
    assert_allclose(moved.embedding, x, atol=1e-12)
    assert moved.gradient_norm[0] > 1


# ----------------------------------------------------------------- the same bits always

SETTINGS = ParticleSettings(fa=2.0)


@pytest.fixture(scope="module")
def hundred():
    return ParticleSystem(SETTINGS).advance(start(SETTINGS, 100), 30)


def test_a_single_run_equals_the_run_in_an_ensemble(hundred):
    assert same(
        ParticleSystem(SETTINGS).advance(start(SETTINGS, 1, seed=7), 30),
        hundred,
        slice(7, 8),
    )


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_results_do_not_depend_on_threads_and_summation(
    hundred, across, threads, monkeypatch
):
    monkeypatch.setattr(
        pair_forces,
        "summation_plan",
        lambda runs, pairs: (across, numba.get_num_threads()),
    )
    with numba_threads(threads):
        again = ParticleSystem(SETTINGS).advance(start(SETTINGS, 20, seed=40), 30)
    assert same(again, hundred, slice(40, 60))


def test_a_force_that_advance_would_not_use_is_refused():
    def force(self, embedding):
        return embedding, np.zeros(len(embedding))

    def advance(self, state, steps):
        return state

    with pytest.raises(TypeError, match=r"^Weak\.force: `advance` does not call it"):
        type("Weak", (ParticleSystem,), {"force": force})
    type("Own", (ParticleSystem,), {"force": force, "advance": advance})


def test_steps_may_be_taken_in_portions_and_states_restored(hundred):
    system, state = ParticleSystem(SETTINGS), start(SETTINGS, 100)
    for steps in (1, 0, 12, 17):
        arrays = {
            name: values.copy() for name, values in system.checkpoint(state).items()
        }
        state = system.advance(system.restore(arrays), steps)
    assert same(state, hundred)


# --------------------------------------------------------------------------- divergence


def test_a_run_that_diverges_stays_where_it_was_and_leaves_the_others_alone():
    settings = ParticleSettings(n=5, variance="none")
    x, zero = start(settings, 3).embedding, np.zeros(3)
    x[1] *= (
        9e37 / np.abs(x[1]).max() * 1.2
    )  # its distance from the origin passes the limit
    state = ParticleState(4, x, zero, zero, np.full(3, 4))
    for steps, last_step in ((6, 10), (5, 15)):
        state = ParticleSystem(settings).advance(state, steps)
        assert state.last_step.tolist() == [last_step, 4, last_step]
        assert_array_equal(state.embedding[1], x[1])
        assert np.isfinite(state.embedding).all()
        assert np.isfinite(state.gradient_norm).all()
