"""Growing modes of the states whose copies are continued, against the growth of small
differences in a step, and committors along the fastest of them."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis import committor
from analysis.committors import count_growing_modes, transition_states
from analysis.committors.growing_modes import exact_states, growing_directions
from analysis.linearization import linearize_trajectory, loss_curvature, state_modes
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    TransformerSettings,
    branch_copies,
    simulate,
)

SETTINGS = ParticleSettings(n=7, fa=2.0)
DESCENT = ModularSettings(n=5, hidden=4, optimizer="sgd", lr=0.1, weight_decay=0.0)


def first_outcome(ends):
    """Whether the first particle ends at positive x."""
    return ends["embedding"].isel(step=-1, token=0, axis=0).values > 0


def growth_in_a_step(source, step, size):
    """How much a difference along the fastest mode of each run grows along it in one
    step, and the modes."""
    starts = {run: [step] for run in range(source.sizes["run"])}
    directions, modes = growing_directions(source, starts)
    copies = branch_copies(
        source, step, 1, [0.0, size], direction=directions, until=step + 1
    )
    growth = []
    for run in starts:
        pairs = copies.isel(run=copies["of_run"].values == run)
        products = lengths = 0.0
        for name, direction in directions.items():
            values = pairs[name].transpose("run", "step", ...).values.astype(float)
            moved = (values[1, -1] - values[0, -1]) / size
            products += (moved * direction[run]).sum()
            lengths += (direction[run] ** 2).sum()
        growth.append(products / lengths)
    return np.array(growth), [modes[run] for run in starts]


@pytest.mark.parametrize("variance", ["none", "overall", "axis"])
def test_differences_of_particles_grow_along_the_fastest_mode_at_its_rate(variance):
    settings = dataclasses.replace(SETTINGS, step_size=1e-5, variance=variance)
    source = simulate(settings, runs=6, steps=4)
    spectra = linearize_trajectory(source, [2], quiet=True).isel(step=0, mode=0)
    is_tested = (spectra["growth_rate"] > 1) & (spectra["rotation_rate"] == 0)
    runs = np.flatnonzero(is_tested)
    assert len(runs) > 2
    growth, modes = growth_in_a_step(source.isel(run=runs), 2, 1e-7)
    rates = np.array([state.rate for state in modes])
    assert_allclose((growth - 1) / 1e-5, rates, rtol=1e-3)


def test_differences_under_gradient_descent_grow_along_the_lowest_eigenvector():
    source = simulate(DESCENT, runs=4, steps=20, every=5)
    growth, modes = growth_in_a_step(source, 10, 1e-3)
    expected = np.array([state.rate for state in modes])
    assert (expected > 0.05).all()
    assert_allclose((growth - 1) / DESCENT.lr, expected, rtol=0.02)


@pytest.mark.parametrize("settings", [SETTINGS, DESCENT])
def test_numbers_and_rates_are_those_of_the_whole_spectrum(settings):
    source = simulate(settings, runs=3, steps=20, every=5)
    modes = list(state_modes(source.isel(step=[2])))
    expected = linearize_trajectory(source, [2], quiet=True).isel(step=0)
    assert_array_equal([state.growing for state in modes], expected["growing_modes"])
    rates = expected["growth_rate"].isel(mode=0)
    if settings is DESCENT:
        rates = expected["growth_rate"].max("mode")
    assert_allclose([state.rate for state in modes], rates, rtol=1e-9)
    for state in modes:
        squares = sum((array**2).sum() for array in state.fastest.values())
        assert squares == pytest.approx(1)


def test_large_networks_have_the_fastest_mode_alone(monkeypatch):
    from analysis.linearization import network_curvature

    source = simulate(DESCENT, runs=2, steps=20, every=5)
    dense = list(state_modes(source.isel(step=[2])))
    monkeypatch.setattr(network_curvature, "_MAX_DENSE", 10)
    for state, other in zip(state_modes(source.isel(step=[2])), dense, strict=True):
        assert np.isnan(state.growing)
        assert state.rate == pytest.approx(other.rate)
        products = sum(
            (array * other.fastest[name]).sum() for name, array in state.fastest.items()
        )
        assert abs(products) == pytest.approx(1)
        assert state.grows


def test_displacements_have_the_mean_length_of_those_in_all_directions():
    source = simulate(DESCENT, runs=2, steps=20, every=5)
    directions, _ = growing_directions(source, {1: [10]})
    begin = source.isel(run=1).sel(step=10)
    everywhere = branch_copies(source, {1: [10]}, 400, 1e-3, until=10)
    squares = 0.0
    for name, direction in directions.items():
        values = everywhere[name].isel(step=0).transpose("run", ...).values
        moved = (values - begin[name].values).astype(float) / 1e-3
        squares += (moved**2).reshape(400, -1).sum(axis=1).mean()
        assert not direction[0].any()
    length = sum((direction[1] ** 2).sum() for direction in directions.values())
    assert length == pytest.approx(squares, rel=0.1)

    # particles of standard deviation 1, before mean and scale are restored
    source = simulate(SETTINGS, runs=1, steps=20, every=5)
    directions, _ = growing_directions(source, {0: [10]})
    assert np.square(directions["embedding"]).sum() == pytest.approx(7 * 2)


def test_committors_along_the_growing_mode_are_those_along_its_direction():
    source = simulate(SETTINGS, runs=4, steps=60, every=5)
    options = {"copies": 30, "displace": [0.1, 1.0]}
    result = committor(source, first_outcome, [10], direction="growing", **options)
    directions, modes = growing_directions(source, {run: [10] for run in range(4)})
    expected = committor(source, first_outcome, [10], direction=directions, **options)
    assert_array_equal(result["successes"], expected["successes"])
    assert_array_equal(
        result["growing_modes"].values[:, 0], [modes[run].growing for run in range(4)]
    )
    assert result.attrs["states_without_growth"] == 0


def test_states_without_a_growing_mode_are_left_out():
    source = simulate(ParticleSettings(fa=2.0), runs=5, steps=100)
    options = {"direction": "growing", "bisections": 1}
    result = committor(source, "circle", [0, 80], 3, **options)
    growing = result["growing_modes"].sel(step=80)
    assert 0 < (growing == 0).sum() < 5
    trials = result["trials"].sel(step=80).isel(displacement=0)
    assert_array_equal(trials > 0, growing > 0)
    assert result.attrs["states_without_growth"] == (growing == 0).sum()
    assert np.isfinite(result["decision_step"]).all()
    runs = np.flatnonzero(growing == 0)
    with pytest.raises(SettingsError, match="no mode grows in those selected"):
        committor(source.isel(run=runs), "circle", [80], 3, direction="growing")


def begins_late(ends):
    """True for the runs themselves and for copies that begin at step 21 or later."""
    return ((ends["displacement"] == 0) | (ends["from_step"] >= 21)).values


def test_growing_modes_of_particles_are_counted():
    source = simulate(SETTINGS, runs=3, steps=100)

    def alternate(ends):
        return begins_late(ends) | (ends["of_run"].values == 1)

    result = committor(source, alternate, [0, 50], 4, bisections=2)
    counted = count_growing_modes(source, result, quiet=True)["growing_modes"]
    expected = linearize_trajectory(source, list(range(101)), quiet=True)
    expected = expected["growing_modes"].sel(step=result["step"])
    is_measured = result["trials"].isel(displacement=0) > 0
    assert (~is_measured).sum() == 2
    assert_array_equal(counted, expected.where(is_measured))


def test_other_systems_and_many_particles_have_no_numbers_of_modes(monkeypatch):
    from analysis.linearization import force_jacobian

    source = simulate(DESCENT, runs=1, steps=20, every=5)
    result = committor(source, "circle", [10], 2)
    assert count_growing_modes(source, result) is result
    monkeypatch.setattr(force_jacobian, "_MAX_PAIRS", 20)
    source = simulate(SETTINGS, runs=1, steps=20, every=5)
    result = committor(source, "circle", [10], 2)
    assert count_growing_modes(source, result) is result


def test_exact_states_have_the_seeds_of_their_runs():
    """So that the Hessian of a transition state is that of its own training pairs."""
    source = simulate(DESCENT, runs=4, seed=20, steps=20, every=5)
    states = exact_states(source, {3: 10, 1: 5})
    assert states["seed"].values.tolist() == [21, 23]
    curvature = loss_curvature(states, [0], quiet=True)["eigenvalue"]
    expected = loss_curvature(source, [1, 2], quiet=True)["eigenvalue"]
    assert_array_equal(curvature[0, 0], expected[1, 0])
    assert_array_equal(curvature[1, 0], expected[3, 1])

    result = committor(source, begins_late, [0, 10], 3)
    assert_array_equal(transition_states(source, result)["seed"], source["seed"])


def test_systems_without_modes_are_refused():
    settings = TransformerSettings(n=5, dim=4, heads=1)
    source = simulate(settings, runs=1, steps=4, every=2)
    with pytest.raises(SettingsError, match="direction: found growing.*transformer"):
        committor(source, "circle", [0], 2, direction="growing")
    with pytest.raises(SettingsError, match="direction: found falling"):
        committor(source, "circle", [0], 2, direction="falling")
