"""Forces between pair sums as functions of their distance (CA section 5.1), against the
gradient at the pair sums.

Functions of one network take its pair sums (pair, axis), their classes (pair,), and
minus the gradient of each pair's own loss at its pair sum (pair, axis). A common shift
and scaling of the pair sums is removed from the gradient and from the forces, as
particles' normalisation does. All values are dimensionless."""

from __future__ import annotations

import numpy as np

from analysis.forces.directions import without_shift_and_scaling
from analysis.forces.force_audit import fit_force_fields
from analysis.statistics.division import ratio

REPULSIONS = tuple(float(power) for power in np.arange(-0.75, 4.01, 0.25))
"""Powers p of laws of repulsion 1 / r^p; the paper's is 1. Not -1: but for a shift and
a change of size, a repulsion of different classes that is proportional to the distance
equals such an attraction of the same class."""
ATTRACTIONS = tuple(float(power) for power in np.arange(-2, 3.01, 0.25))
"""Powers q of laws of attraction r^q; the paper's is 0."""
SOFT = 1e-9
"""Distances below this fraction of the pair sums' size count as zero, as in the
forces."""


def distance_law_fits(
    sums: np.ndarray, right: np.ndarray, force: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """R² of the paper's four fields with other powers of the distance: (repulsion,) and
    (attraction,)."""
    between = sums[:, None] - sums[None]
    r = np.linalg.norm(between, axis=-1)
    near = r <= SOFT * np.sqrt((sums**2).sum(axis=-1).mean())
    like = right[:, None] == right[None]
    safe = np.where(near, 1.0, r)
    unit = np.where(near[..., None], 0.0, between / safe[..., None])
    length = np.linalg.norm(sums, axis=-1, keepdims=True)
    toward = ratio(sums, length, 0.0)
    facing = (sums @ sums.T > 0) & ~np.eye(len(sums), dtype=bool)
    aligned = [(facing & like) @ toward, -((facing & ~like) @ toward)]
    repelled = [
        np.einsum("kl,kla->ka", np.where(like, 0.0, safe**-p), unit) for p in REPULSIONS
    ]
    attracted = [
        -np.einsum("kl,kla->ka", np.where(like & ~near, safe**q, 0.0), unit)
        for q in ATTRACTIONS
    ]
    y, along, push, pull = (
        without_shift_and_scaling(np.stack(fields), sums)
        for fields in ([force], aligned, repelled, attracted)
    )
    first = [push, pull[[ATTRACTIONS.index(0.0)]], along[:1], along[1:]]
    second = [push[[REPULSIONS.index(1.0)]], pull, along[:1], along[1:]]
    by_repulsion, by_attraction = (
        fit_force_fields(
            np.broadcast_to(y, shape),
            np.stack([np.broadcast_to(field, shape) for field in fields]),
        )
        for fields, shape in ((first, push.shape), (second, pull.shape))
    )
    return by_repulsion.r_squared, by_attraction.r_squared


def parabola_vertex(x: np.ndarray, y: np.ndarray) -> float:
    """Where a curve on an even grid is highest, by a parabola through its highest point
    and that one's neighbours."""
    best = int(y.argmax())
    if best in (0, len(y) - 1):
        return float(x[best])
    before, here, after = y[best - 1 : best + 2]
    bend = before - 2 * here + after
    return float(
        x[best] + (x[1] - x[0]) * (0.5 * (before - after) / bend if bend < 0 else 0.0)
    )
