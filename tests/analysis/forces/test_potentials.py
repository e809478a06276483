"""Potentials of forces against their closed forms and finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.forces import potential
from dynamics.forces import CA, Force
from dynamics.settings import SettingsError
from dynamics.strengths import evaluate


def radial(strength):
    return Force("force", "all", "difference", strength)


@pytest.mark.parametrize("power", [0, 1, 2, 3, 7])
def test_powers_have_their_closed_form(power):
    r = np.geomspace(0.03, 30, 11).reshape(11, 1)
    expected = -np.log(r) if power == 1 else (r ** (1.0 - power) - 1) / (power - 1)
    assert_allclose(potential(radial(f"1/r**{power}"), r), expected, rtol=1e-9)


@pytest.mark.parametrize(
    "strength",
    [
        "-1",
        "exp(-r)/r",
        "where(r < 1.2, 1 - r, -0.2*exp(1.2 - r))",
        "interp(log(r), [-2, -0.5, 1], [2, -1, 0.25])",
        "sqrt(r)/(1 + r**2) - 0.3",
    ],
)
def test_minus_the_slope_of_the_potential_is_the_strength(strength):
    force = radial(strength)
    r = np.array([0.2, 0.55, 0.95, 1.0, 1.7, 2.9])
    step = 1e-4
    one, two = (
        (potential(force, r + k * step) - potential(force, r - k * step)) / (2 * k)
        for k in (1, 2)
    )
    slope = (4 * one - two) / 3 / step
    assert_allclose(-slope, evaluate(force.expression, r), rtol=1e-7, atol=1e-8)


def test_other_forces_and_distances_are_refused():
    with pytest.raises(SettingsError, match="force: found like_alignment"):
        potential(CA[2], np.ones(2))
    with pytest.raises(SettingsError, match="distance"):
        potential(CA[0], np.array([0.0, 1.0]))
