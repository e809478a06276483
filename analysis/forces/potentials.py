r"""Potentials of forces along the difference of two pair sums.

A force strength(r) (x_ij - x_kl) / r is minus the gradient, by x_ij, of

    U(r) = - integral of strength from 1 to r

A balance by magnitude is a function of all positions, with which the sum of such forces
has no potential."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.integrate import quad

from dynamics.forces import Force
from dynamics.settings import SettingsError
from dynamics.strengths import scalar_function

_TOLERANCE = 1e-12
_INTERVALS = 400


def potential(force: Force, distance: np.ndarray) -> np.ndarray:
    """The potential of a force along the difference of two pair sums, with a constant
    of 1 and without balance.

    Parameters
    ----------
    force : Force
    distance : array_like
        Distances above 0, of any shape.

    Returns
    -------
    numpy.ndarray
        Minus the integral of the strength from 1 to each distance. Dimensionless.

    Raises
    ------
    SettingsError
        For a force along the other pair sum, which has no potential, and for other
        distances.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import potential
    >>> from dynamics.forces import Force
    >>> gravity = Force("gravity", "all", "difference", "-1/r**2")
    >>> potential(gravity, np.array([0.5, 1.0, 2.0]))
    array([-1. ,  0. ,  0.5])
    """
    if not force.is_radial:
        allowed = "a force along the difference, which has a potential"
        raise SettingsError("force", force.name, allowed)
    distances = np.asarray(distance, dtype=np.float64)
    if not ((distances > 0) & np.isfinite(distances)).all():
        raise SettingsError("distance", distances, "numbers above 0")
    strength = scalar_function(force.expression)
    points, places = np.unique([1.0, *distances.ravel()], return_inverse=True)
    integrals = np.array(
        [
            quad(strength, start, end, epsabs=0, epsrel=_TOLERANCE, limit=_INTERVALS)[0]
            for start, end in itertools.pairwise(points)
        ]
    )
    one, *others = places
    below = np.cumsum(integrals[:one][::-1])[::-1]
    above = np.cumsum(integrals[one:])
    values = np.concatenate([below, [0.0], -above])
    return values[others].reshape(distances.shape)
