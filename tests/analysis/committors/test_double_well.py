"""The committor of a particle in a double well with noise, whose closed form is an
integral.

    dx = -U'(x) dt + sqrt(2) dW,   U = (x² - 1)²,   absorbed at x = -1 and x = 1

    q(x) = integral of exp(U) from -1 to x over that from -1 to 1

Between steps of length h the particle can cross the boundary and return. The walls of a
walk in steps lie 0.5826 sqrt(2 h) further inside (Broadie, Glasserman and Kou, Math.
Finance 7 (1997), 325)."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from scipy.integrate import quad

from analysis import committor
from dynamics import SettingsError, branch_copies, register, simulate
from dynamics.training.minibatches import shuffle_keys
from tests.dynamics.test_external_systems import Noise, NoiseSettings

PLACES = 20


@dataclasses.dataclass(frozen=True)
class WellSettings(NoiseSettings):
    """One particle that begins at one of twenty places, by its seed."""

    system: ClassVar[str] = "double-well"
    default_steps: ClassVar[int] = 6000
    time_step: ClassVar[float] = 5e-4
    batch: int = 1
    """The noise is that of mini-batches."""


@dataclasses.dataclass(frozen=True)
class WellState:
    step: int
    last_step: np.ndarray
    x: np.ndarray
    batch_seeds: np.ndarray


def normal_numbers(seeds, step):
    """Normal numbers (run,) by the seeds and the step alone (Box and Muller)."""
    first, second = (
        (shuffle_keys(seeds, np.array([step]), np.array([index]), 1) >> 1) / 2**62
        for index in (0, 1)
    )
    return np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)


class DoubleWell(Noise):
    shape = (1, 1)

    def initial(self, seeds):
        x = np.linspace(-0.9, 0.9, PLACES)[seeds % PLACES]
        return WellState(0, np.zeros(len(seeds), np.int64), x, np.array(seeds))

    def advance(self, state, steps):
        h, x = self.settings.time_step, state.x
        wall = 1 - 0.5826 * np.sqrt(2 * h)
        for step in range(state.step, state.step + steps):
            noise = normal_numbers(state.batch_seeds, step)
            moved = x - 4 * h * x * (x * x - 1) + np.sqrt(2 * h) * noise
            x = np.where(np.abs(x) < wall, moved, x)
        return dataclasses.replace(
            state, step=state.step + steps, last_step=state.last_step + steps, x=x
        )

    def observe(self, state):
        zeros = np.zeros((len(state.x), 1), np.float32)
        x = state.x[:, None, None]
        return {"embedding": x, "gradient_norm": zeros, "update_norm": zeros}

    def restore(self, arrays):
        return WellState(**{**arrays, "step": int(arrays["step"])})


@pytest.fixture(autouse=True)
def registered(restored_registries):
    """The systems are known while a test of this module runs."""
    register(WellSettings, DoubleWell)


def ends_right(ends):
    return ends["embedding"].isel(step=-1, token=0, axis=0).values > 0


@pytest.mark.slow
def test_committors_of_a_double_well_are_those_of_the_integral():
    source = simulate(WellSettings(), runs=PLACES, every=6000)
    result = committor(source, ends_right, [0], 200, 0.0, reshuffle=True)

    def weight(end):
        return quad(lambda x: np.exp((x * x - 1) ** 2), -1, end)[0]

    expected = [weight(x) / weight(1) for x in np.linspace(-0.9, 0.9, PLACES)]
    at = result.isel(step=0, displacement=0)
    assert (at["committor_low"] <= expected).all()
    assert (at["committor_high"] >= expected).all()


def test_a_state_without_its_variables_is_not_displaced():
    source = simulate(WellSettings(), runs=2, steps=4)
    with pytest.raises(SettingsError, match="displace: found 0.1"):
        branch_copies(source, 2, 3, 0.1)
