"""The derivative of the particles' force and of its constrained field, and their
eigenmodes."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.linearization import force_jacobian, force_spectra
from analysis.linearization.force_jacobian import (
    constrained_field,
    force_and_jacobian,
    free_directions,
)
from dynamics import all_pairs, simulate
from dynamics.particles import ParticleState, ParticleSystem, group_pairs
from dynamics.particles.integrator import normalise_blocks
from dynamics.particles.pair_forces import from_blocks, to_blocks
from dynamics.settings import (
    PARTICLE_CHOICES,
    ParticleSettings,
    SettingsError,
)
from tests.laws import (
    OWN_LAW,
    count_interactions,
    fields_by_loops,
    laws,
    settings_with_law,
)

BALANCES = list(
    itertools.product(("magnitude", "count", "none"), ("magnitude", "count", "none"))
)
RESTED = ParticleSettings(n=7, fa=2.0, step_size=0.004)


def scattered(n, dim, seed=0):
    """Positions whose pair sums keep apart, and away from where the order of
    half-planes changes."""
    generator = np.random.default_rng(seed)
    first, second = np.triu_indices(n)
    for _ in range(10_000):
        x = generator.standard_normal((n, dim))
        sums = x[first] + x[second]
        apart = np.linalg.norm(sums[:, None] - sums, axis=-1)[
            np.triu_indices(len(sums), 1)
        ]
        if apart.min() > 0.02 and np.abs(sums @ sums.T).min() > 1e-3:
            return x
    raise AssertionError


def differences(function, x, step=1e-5):
    """The derivative (token x axis, token x axis) of a field by central differences of
    fourth order."""
    columns = []
    for move in step * np.eye(x.size).reshape(-1, *x.shape):
        one, two = (
            (function(x + k * move) - function(x - k * move)) / (2 * k * step)
            for k in (1, 2)
        )
        columns.append((4 * one - two).ravel() / 3)
    return np.stack(columns, axis=-1)


def real_force(settings, pairs=None):
    system = ParticleSystem(settings, pairs=pairs)
    return lambda x: system.force(x[None])[0][0]


def real_step(settings):
    """One step of the system from normalised positions, as a function of positions."""
    system = ParticleSystem(settings)
    none = np.zeros(1)

    def step(y):
        y = normal(y, settings.variance)
        return system.advance(
            ParticleState(0, y[None], none, none, np.zeros(1, np.int64)), 1
        ).embedding[0]

    return step


def close(result, expected, share=1e-7):
    assert np.abs(result - expected).max() < share * np.abs(expected).max()


# ---------------------------------------------------------------------------- the force


@pytest.mark.parametrize("diagonal", ["twice", "once", "none"])
@pytest.mark.parametrize(("repulsion", "alignment"), BALANCES)
def test_the_jacobian_is_that_of_finite_differences(repulsion, alignment, diagonal):
    for n, dim in ((6, 2), (5, 3)):
        settings = ParticleSettings(
            n=n,
            dim=dim,
            fa=1.3,
            ga=0.7,
            gr=1.9,
            diagonal=diagonal,
            repulsion_balance=repulsion,
            alignment_balance=alignment,
        )
        x = scattered(n, dim)
        force = real_force(settings)
        result = force_and_jacobian(x, settings)
        assert_allclose(result.force, force(x), rtol=1e-11, atol=1e-11)
        close(result.jacobian, differences(force, x))


def plain_force(x, settings, pairs):
    """The total force in plain loops."""
    fields, magnitude = fields_by_loops(x, pairs, settings.forces)
    names = [force.name for force in settings.forces]
    total = np.zeros_like(x)
    for place, force in enumerate(settings.forces):
        weight = 1.0
        rule = settings.balance_of(force)
        if rule == "magnitude":
            above, below = magnitude[names.index(force.against)], magnitude[place]
        if rule == "count":
            against = settings.forces[names.index(force.against)]
            above, below = (
                count_interactions(pairs, len(x), item.pairs)
                for item in (against, force)
            )
        if rule != "none":
            weight = above / below if below > 0 else 0.0
        total += settings.constant_of(force) * weight * fields[place]
    return total


@given(
    law=laws(),
    repulsion=st.sampled_from(("magnitude", "count", "none")),
    alignment=st.sampled_from(("magnitude", "count", "none")),
    shape=st.sampled_from(((4, 2), (5, 1), (3, 3))),
)
@hypothesis.settings(max_examples=20, deadline=None)
def test_force_and_jacobian_of_any_law(law, repulsion, alignment, shape):
    n, dim = shape
    settings = settings_with_law(
        law,
        n=n,
        dim=dim,
        fa=1.3,
        ga=0.7,
        gr=1.9,
        repulsion_balance=repulsion,
        alignment_balance=alignment,
    )
    x = scattered(n, dim)
    pairs = all_pairs(n)
    result = force_and_jacobian(x, settings)
    expected = plain_force(x, settings, pairs)
    assert_allclose(result.force, expected, rtol=1e-10, atol=1e-10)
    slopes = differences(lambda y: plain_force(y, settings, pairs), x, 1e-6)
    size = max(1.0, np.abs(slopes).max())
    assert_allclose(result.jacobian, slopes, atol=2e-6 * size, rtol=0)


def test_the_jacobian_of_an_own_law_is_that_of_the_kernels():
    settings = ParticleSettings(n=6, law=OWN_LAW)
    x = scattered(6, 2)
    result = force_and_jacobian(x, settings)
    force = real_force(settings)
    assert_allclose(result.force, force(x), rtol=1e-11, atol=1e-11)
    close(result.jacobian, differences(force, x))


def test_the_jacobian_of_any_list_of_pairs_and_any_leading_axes():
    settings = ParticleSettings(n=6, fa=0.5)
    chosen = np.array([[0, 1], [2, 5], [3, 3], [1, 4], [0, 5], [2, 2], [1, 1]])
    x = scattered(6, 2, seed=1)
    result = force_and_jacobian(x, settings, group_pairs(6, chosen))
    close(result.jacobian, differences(real_force(settings, chosen), x))
    both = force_and_jacobian(np.stack([x, x + 1])[:, None], settings)
    assert both.jacobian.shape == (2, 1, 12, 12)
    assert_array_equal(both.jacobian[0, 0], force_and_jacobian(x, settings).jacobian)


def test_coincident_pair_sums_and_the_origin_have_no_force_and_no_derivative():
    x = np.array([[1.0, 0], [-1, 0], [0.5, 0.5], [0.5, 0.5], [0, 2]])
    settings = ParticleSettings(n=5)
    result = force_and_jacobian(x, settings)
    assert np.isfinite(result.jacobian).all()
    assert_allclose(result.force, real_force(settings)(x), rtol=1e-12, atol=1e-12)
    assert not force_and_jacobian(np.zeros((5, 2)), settings).jacobian.any()


def test_positions_of_another_shape_or_not_finite_are_refused():
    with pytest.raises(SettingsError, match="n, dim"):
        force_and_jacobian(np.zeros((4, 2)), ParticleSettings(n=5))
    with pytest.raises(ValueError, match="not finite"):
        force_and_jacobian(np.full((5, 2), np.nan), ParticleSettings(n=5))


# ------------------------------------------------------------ what normalisation leaves


def normal(x, variance):
    blocks = to_blocks(x[None])
    normalise_blocks(
        blocks,
        len(x),
        PARTICLE_CHOICES["variance"].index(variance),
        tuple(range(x.shape[-1])),
    )
    return from_blocks(blocks, 1, *x.shape)[0]


@pytest.mark.parametrize("rule", ["force", "direction", "particle"])
def test_the_field_that_a_step_follows_has_this_derivative(rule):
    settings = ParticleSettings(n=6, step_rule=rule)
    x = scattered(6, 2)
    force = real_force(settings)

    def along(y):
        f = force(y)
        if rule == "direction":
            return f * np.sqrt(6) / np.linalg.norm(f)
        return (
            f / np.linalg.norm(f, axis=-1, keepdims=True) if rule == "particle" else f
        )

    result = force_jacobian.step_rule_field(force_and_jacobian(x, settings), settings)
    assert_allclose(result.force, along(x), rtol=1e-10)
    close(result.jacobian, differences(along, x), 1e-6)


@pytest.mark.parametrize("variance", ["overall", "axis", "none"])
@pytest.mark.parametrize("dim", [2, 3])
def test_the_constrained_field_is_that_of_a_short_real_step(variance, dim):
    """The map of one step, x -> normalise(x + h F), is 1 + h G' on the directions left,
    as h goes to 0."""
    settings = ParticleSettings(n=6, dim=dim, variance=variance, step_size=1e-6)
    x = normal(scattered(6, dim), variance)
    step = real_step(settings)

    def rate(y):
        return (step(y) - normal(y, variance)) / settings.step_size

    result = constrained_field(
        x,
        force_jacobian.step_rule_field(force_and_jacobian(x, settings), settings),
        settings,
    )
    assert_allclose(result.force, rate(x), atol=1e-4 * np.linalg.norm(result.force))
    basis = free_directions(x, settings)
    close(result.jacobian, basis.T @ differences(rate, x, 1e-4) @ basis, 1e-3)


@pytest.mark.parametrize(
    ("variance", "dim", "modes"),
    [("overall", 2, 12 - 4), ("overall", 3, 18 - 7), ("axis", 3, 12), ("none", 2, 9)],
)
def test_constraints_and_common_rotations_are_left_out(variance, dim, modes):
    x = normal(scattered(6, dim), variance)
    basis = free_directions(x, ParticleSettings(n=6, dim=dim, variance=variance))
    assert basis.shape == (6 * dim, modes)
    assert_allclose(basis.T @ basis, np.eye(modes), atol=1e-13)
    assert_allclose(basis.reshape(6, dim, modes).sum(axis=0), 0, atol=1e-13)
    if variance == "overall":
        assert_allclose(x.ravel() @ basis, 0, atol=1e-13)


@pytest.mark.parametrize("variance", ["overall", "none"])
def test_few_particles_in_many_dimensions_have_all_modes_of_their_shape(
    variance, generator
):
    """Four points span three axes, whatever space they are in: six distances, one of
    them kept as the size."""
    flat = normal(generator.standard_normal((4, 3)), variance)
    flat -= flat.mean(axis=0)
    turn = np.linalg.qr(generator.standard_normal((8, 8)))[0]
    settings = ParticleSettings(n=4, dim=8, variance=variance)
    x = np.pad(flat, ((0, 0), (0, 5))) @ turn
    basis = free_directions(x, settings)
    assert basis.shape == (32, 6 - (variance == "overall"))
    # each of them changes a distance, and together they change them independently
    first, second = np.triu_indices(4, 1)
    moves = basis.reshape(4, 8, -1)
    stretch = ((x[first] - x[second])[..., None] * (moves[first] - moves[second])).sum(
        axis=1
    )
    assert np.linalg.matrix_rank(stretch, tol=1e-6) == basis.shape[1]
    field = force_jacobian.step_rule_field(force_and_jacobian(x, settings), settings)
    assert np.isfinite(constrained_field(x, field, settings).jacobian).all()


def test_flat_arrangements_have_more_modes(generator):
    """A plane has all three turns, a line two: 12 - 3 - 3 - 1."""
    x = generator.standard_normal((4, 3))
    x -= x.mean(axis=0)
    for flat, modes in (([1, 1, 1], 5), ([1, 1, 0], 5), ([1, 0, 0], 6)):
        basis = free_directions(x * flat, ParticleSettings(n=4, dim=3))
        assert basis.shape == (12, modes)


@pytest.fixture(scope="module")
def rested():
    """Runs, a few of which have come to rest, their spectra in the last frame, and
    which runs are at rest."""
    trajectory = simulate(RESTED, runs=12, steps=4000, every=1000)
    spectra = force_spectra(trajectory, [4])
    still = np.flatnonzero(spectra["rest"].values[:, 0] < 1e-9)
    assert len(still) >= 3
    return trajectory, spectra, still


def test_at_rest_the_modes_are_those_of_the_real_step(rested):
    trajectory, spectra, still = rested
    step = real_step(RESTED)
    for run in still[:3]:
        x = trajectory["embedding"].values[run, -1]
        basis = free_directions(x, RESTED)
        real = np.linalg.eigvals(basis.T @ differences(step, x) @ basis)
        pull = (x * force_and_jacobian(x, RESTED).force).sum() / x.size
        growth, rotation = (
            spectra[f"{name}_rate"].values[run, 0] for name in ("growth", "rotation")
        )
        expected = 1 + RESTED.step_size * (growth + 1j * rotation) / (
            1 + RESTED.step_size * pull
        )
        assert_allclose(np.sort_complex(real), np.sort_complex(expected), atol=1e-6)
        assert growth[0] < 0  # it got there, so nothing grows


def test_particles_in_one_point_and_diverged_runs_have_no_modes(rested):
    field = force_and_jacobian(np.zeros((7, 2)), RESTED)
    assert np.isnan(constrained_field(np.zeros((7, 2)), field, RESTED).jacobian).all()
    lost = rested[0].copy(deep=True)
    lost["last_step"].values[3] = 1000
    result = force_spectra(lost, [0, 1, 2])
    assert np.isfinite(result["growth_rate"].values[3, :2]).all()
    for name in result.data_vars:
        assert np.isnan(result[name].values[3, 2]).all()
        assert np.isfinite(result[name].values[2]).all()
