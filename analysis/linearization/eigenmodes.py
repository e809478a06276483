"""Eigenmodes of a linearised flow, of networks and of particles: how fast each grows
and rotates.

Near a state x that follows dx/dt = G(x), a small displacement v follows dv/dt = (dG/dx)
v. An eigenvalue of dG/dx is a mode: its real part is the growth rate, its imaginary
part the rotation rate. For the gradient flow of a network's loss dG/dx is minus the
Hessian, and nothing rotates; the force on particles is not the gradient of a potential,
and modes may rotate. A mode grows, or decays, if its growth rate is above, or below,
zero by more than `NULL_MODE_TOLERANCE` times the largest rate of the frame; all others
are null modes, such as a rotation of all particles.

Where G is not 0 the modes are those of the motion relative to neighbouring
trajectories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NULL_MODE_TOLERANCE = 1e-6
"""Fraction of a frame's largest rate up to which a growth rate counts as zero."""

NONE, STABLE, SADDLE, UNSTABLE = -1, 0, 1, 2
STABILITY_KINDS = {
    "none": NONE,
    "stable": STABLE,
    "saddle": SADDLE,
    "unstable": UNSTABLE,
}
"""Stable: no mode grows; saddle: some grow and some decay; unstable: some grow and none
decays; none: no mode."""


class Eigenmodes(NamedTuple):
    """Modes of frames, (..., mode) each, by descending growth rate and then by
    descending rotation rate.

    Frames with fewer modes than others are padded with NaN at the end.
    """

    growth: np.ndarray
    rotation: np.ndarray


class StateModes(NamedTuple):
    """What the modes of a single state say about small displacements of it."""

    growing: float
    """Number of growing modes; NaN if only the fastest mode is known."""
    rate: float
    """Growth rate of the fastest mode; NaN where the flow has no derivative."""
    fastest: dict[str, np.ndarray]
    """The direction of the fastest mode: the real part of its eigenvector, of length 1
    over all variables of the state, as arrays by their names."""

    @property
    def grows(self) -> bool:
        """Whether the fastest mode grows."""
        return self.rate > 0 and self.growing != 0


def sorted_eigenmodes(rates: np.ndarray) -> Eigenmodes:
    """Modes from the eigenvalues (..., mode), complex or real, of a linearised flow;
    NaN for no value.

    Examples
    --------
    >>> sorted_eigenmodes([-1 - 2j, 3, -1 + 2j]).growth
    array([ 3., -1., -1.])
    """
    rates = np.asarray(rates)
    order = np.lexsort((-rates.imag, -rates.real), axis=-1)
    ordered = np.take_along_axis(rates, order, axis=-1)
    return Eigenmodes(ordered.real.astype(np.float64), ordered.imag.astype(np.float64))


def _null_rate(modes: Eigenmodes) -> np.ndarray:
    """The growth rate up to which a mode of each frame is null: (..., mode) -> (...,
    1)."""
    rates = np.hypot(modes.growth, modes.rotation)
    return NULL_MODE_TOLERANCE * np.where(np.isfinite(rates), rates, 0.0).max(
        axis=-1, initial=0.0, keepdims=True
    )


def count_growing(modes: Eigenmodes) -> np.ndarray:
    """The number of growing modes of each frame: (..., mode) -> (...), NaN for frames
    without a value."""
    count = (modes.growth > _null_rate(modes)).sum(axis=-1).astype(np.float64)
    return np.where(np.isfinite(modes.growth).any(axis=-1), count, np.nan)


def stability_kinds(modes: Eigenmodes) -> np.ndarray:
    """The value of `STABILITY_KINDS` of each frame: (..., mode) -> (...) int8. Both
    ends of a spectrum suffice."""
    null = _null_rate(modes)
    grow = (modes.growth > null).any(axis=-1)
    decay = (modes.growth < -null).any(axis=-1)
    kind = np.where(grow, np.where(decay, SADDLE, UNSTABLE), STABLE)
    return np.where(np.isfinite(modes.growth).any(axis=-1), kind, NONE).astype(np.int8)
