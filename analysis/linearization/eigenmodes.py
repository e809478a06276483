"""Modes of a linearised flow, of networks and of particles alike: how fast each grows and rotates.

Near a state x that follows dx/dt = G(x), a small displacement v follows dv/dt = (dG/dx) v. An eigenvalue of dG/dx is a
mode: its real part is the growth rate, its imaginary part the rotation rate. For the gradient flow of a network's
loss dG/dx is the negative Hessian, and nothing rotates; the particle law is not the gradient of anything, and modes
may spiral. A mode grows, or decays, if its growth rate is above, or below, zero by more than `TOLERANCE` of the largest
rate of the frame; what lies between is a null mode, such as a rotation of all particles that changes nothing.

Away from rest, where G is not 0, the modes are those of the motion relative to its neighbours'.
"""

from typing import NamedTuple

import numpy as np

NULL_MODE_TOLERANCE = 1e-6
"""Share of a frame's largest rate up to which a growth rate counts as zero."""

NONE, STABLE, SADDLE, UNSTABLE = -1, 0, 1, 2
STABILITY_KINDS = {"none": NONE, "stable": STABLE, "saddle": SADDLE, "unstable": UNSTABLE}
"""No mode grows; some grow and some decay; some grow and none decays. None: the frame has no value, or no mode."""


class Eigenmodes(NamedTuple):
    """The modes of each frame, by falling growth rate, conjugate ones by falling rotation rate: (..., mode) each.

    NaN behind the modes of frames that have fewer of them than others.
    """

    growth: np.ndarray
    rotation: np.ndarray


def sorted_eigenmodes(rates: np.ndarray) -> Eigenmodes:
    """Modes from the eigenvalues (..., mode) of a linearised flow, complex or real, NaN where there is no value."""
    rates = np.asarray(rates)
    order = np.lexsort((-rates.imag, -rates.real), axis=-1)
    ordered = np.take_along_axis(rates, order, axis=-1)
    return Eigenmodes(ordered.real.astype(np.float64), ordered.imag.astype(np.float64))


def null_rate(modes: Eigenmodes) -> np.ndarray:
    """The growth rate up to which a mode of each frame counts as null: (..., mode) -> (...)."""
    rates = np.hypot(modes.growth, modes.rotation)
    return NULL_MODE_TOLERANCE * np.where(np.isfinite(rates), rates, 0.0).max(axis=-1, initial=0.0)


def count_growing(modes: Eigenmodes) -> np.ndarray:
    """How many modes grow: (..., mode) -> (...), NaN where the frame has no value, or no mode."""
    count = (modes.growth > null_rate(modes)[..., None]).sum(axis=-1).astype(np.float64)
    return np.where(_known(modes), count, np.nan)


def stability_kinds(modes: Eigenmodes) -> np.ndarray:
    """The place of each frame in `KINDS`: (..., mode) -> (...) int8. Both ends of the spectrum are enough for it."""
    least = null_rate(modes)[..., None]
    grow, decay = (modes.growth > least).any(axis=-1), (modes.growth < -least).any(axis=-1)
    kind = np.where(grow, np.where(decay, SADDLE, UNSTABLE), STABLE)
    return np.where(_known(modes), kind, NONE).astype(np.int8)


def _known(modes: Eigenmodes) -> np.ndarray:
    return np.isfinite(modes.growth).any(axis=-1)
