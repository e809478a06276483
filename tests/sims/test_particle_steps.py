"""The warning that the step size of particles is too large."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from analysis.structures import last_step_movements
from dynamics import ModularSettings, ParticleSettings, TrajectoryError, simulate
from sims.command_line.particle_steps import last_movement


@settings(max_examples=12)
@given(
    n=st.integers(2, 13),
    dim=st.integers(1, 3),
    step_size=st.sampled_from([0.001, 0.02]),
    variance=st.sampled_from(["overall", "axis", "none"]),
    seed=st.integers(0, 99),
)
def test_the_movement_is_that_between_the_last_two_steps(
    n, dim, step_size, variance, seed
):
    particles = ParticleSettings(
        n=n, dim=dim, step_size=step_size, variance=variance, diagonal="none"
    )
    trajectory = simulate(particles, runs=2, steps=4, every=1, seed=seed)
    x = trajectory["embedding"].values.astype(float)
    size = np.linalg.norm(x[:, -1] - x[:, -1].mean(axis=1, keepdims=True), axis=(1, 2))
    pushed = np.linalg.norm(x[:, -1] - x[:, -2], axis=(1, 2)) / size
    moved = last_step_movements(trajectory)
    assert moved.shape == (2,)
    assert_allclose(moved, pushed, rtol=1e-4, atol=1e-5)
    assert last_movement(trajectory) == pytest.approx(np.median(moved))
    metrics = simulate(particles, runs=2, steps=4, every=1, seed=seed, record="metrics")
    if variance == "none":
        assert np.isnan(last_movement(metrics))
    else:
        assert last_movement(metrics) == pytest.approx(np.median(moved), rel=1e-4)


def test_other_systems_noise_and_diverged_runs_have_no_movement():
    noisy = simulate(ParticleSettings(n=31, temperature=0.1), runs=1, steps=2)
    assert np.isnan(last_movement(noisy))
    network = simulate(ModularSettings(n=5), runs=1, steps=2)
    assert np.isnan(last_movement(network))
    particles = simulate(ParticleSettings(n=31), runs=2, steps=2)
    particles["status"][:] = 2
    particles["last_step"][:] = 1
    assert np.isnan(last_step_movements(particles)).all()
    assert np.isnan(last_movement(particles))
    with pytest.raises(TrajectoryError, match="update_norm"):
        last_step_movements(particles.drop_vars("update_norm"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--n 59 --fa 2", "try --step-size 0.00025"),
        ("--n 59 --fa 2 --record metrics", "try --step-size 0.00025"),
        ("--n 7 --step-size 0.3", "try --step-size 0.018"),
        ("--n 2 --step-size 5", "try --step-size 0.22"),
        ("--n 17 --fa 2", ""),
        ("--n 59 --fa 2 --step-size 2.5e-4", ""),
    ],
)
def test_the_command_says_that_steps_are_large(output_of, words, expected):
    printed = output_of(f"sims.particles {words} --runs 3 --steps 40 --out p.nc")
    assert ("step size   " in printed) == bool(expected)
    assert expected in printed


def test_a_sweep_says_at_how_many_points(output_of):
    printed = output_of("sims.sweep particles --n 5 59 --runs 2 --steps 40")
    assert "step size   is large at 1 of 2 points" in printed
