"""One step of the particles, as kernels: balance the forces, move, normalise (CA section 6).

Everything acts on a block of eight runs, a run a lane; particles.py has the equation.
"""

from typing import NamedTuple, get_args

import numpy as np
from numba import njit, prange

from dynamics import settings
from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel
from dynamics.kernels.simd import (
    LANES_64,
    dot,
    load_scalars,
    load_vectors,
    scalars,
    square_root,
    store_scalars,
    store_vectors,
    where_above,
)
from dynamics.particles import pair_forces, pair_list
from dynamics.particles.pair_forces import (
    ATTRACTION,
    LIKE_ALIGNMENT,
    REPULSION,
    UNLIKE_ALIGNMENT,
    force_workspace,
    inverse_length,
    token_fields_across_runs,
    token_fields_within_run,
)
from dynamics.settings import BalanceRule, StepRule, VarianceRule

_SQUARED_LIMIT = 1e76  # square of the largest force norm and of the largest distance from the origin

NOT_DIVERGED, LAST_STEP, FORCE_NORM, MOVE_NORM = range(4)
"""Rows of what is tracked of each run, (row, lane): all as float64, since that is what lanes hold."""

# Kernels know the open choices by their places in `settings.CHOICES`.
_BALANCE_BY_MAGNITUDE, _BALANCE_BY_COUNT, _UNBALANCED = map(get_args(BalanceRule).index, ("magnitude", "count", "none"))
_STEP_ALONG_FORCE, _STEP_ALONG_DIRECTION, _STEP_PER_PARTICLE = map(
    get_args(StepRule).index, ("force", "direction", "particle")
)
_SCALE_OVERALL, _SCALE_PER_AXIS, _UNSCALED = map(get_args(VarianceRule).index, ("overall", "axis", "none"))

_ROUNDING = (16 * np.finfo(np.float64).eps) ** 2
"""Share of the squared mean that rounding leaves when the mean is taken away: less spread than that is none."""


class IntegratorParameters(NamedTuple):
    """`ParticleSettings` as compiled kernels take them: choices are places in `settings.CHOICES`."""

    fa: float
    ga: float
    gr: float
    step_size: float
    step_rule: int
    repulsion_balance: int
    alignment_balance: int
    variance: int


# ------------------------------------------------------------------- one step of a block of eight runs


@njit(error_model="numpy")
def _balance_weight(rule, magnitude, like, unlike, pairs):
    """Weight of an unlike field: ratio of summed magnitudes, or of the numbers of pairs, or 1; (lane,).

    Where there is nothing like to balance against, or nothing unlike, a ratio is 0.
    """
    if rule == _BALANCE_BY_MAGNITUDE:
        denominator = load_scalars(magnitude[unlike], 0)
        return where_above(denominator, 0.0, load_scalars(magnitude[like], 0) / denominator)
    if rule == _BALANCE_BY_COUNT:
        return scalars(pairs.like / pairs.unlike if pairs.unlike > 0 else 0.0)
    return scalars(1.0)


@njit(error_model="numpy")
def _sum_balanced_fields(force, magnitude, pairs, law, axes):
    """Overwrite the attraction field with the balanced sum of all fields; its squared norm, (lane,)."""
    repulsion = _balance_weight(law.repulsion_balance, magnitude, ATTRACTION, REPULSION, pairs) * scalars(law.gr)
    unlike = _balance_weight(law.alignment_balance, magnitude, LIKE_ALIGNMENT, UNLIKE_ALIGNMENT, pairs) * scalars(
        law.fa
    )
    square = scalars(0.0)
    for i in range(pairs.n):
        total = load_vectors(force[ATTRACTION], i, axes) * scalars(law.ga)
        total += load_vectors(force[REPULSION], i, axes) * repulsion
        total += load_vectors(force[LIKE_ALIGNMENT], i, axes) * scalars(law.fa)
        total += load_vectors(force[UNLIKE_ALIGNMENT], i, axes) * unlike
        square += dot(total, total)
        store_vectors(force[ATTRACTION], i, total)
    return square


@njit(error_model="numpy")
def _move(x, force, square, law, n, moved, axes):
    """moved = x + step along the force by the rule of the law."""
    norm = square_root(square)
    scale = scalars(law.step_size)
    if law.step_rule == _STEP_ALONG_DIRECTION:
        scale = where_above(norm, 0.0, scale * (scalars(np.sqrt(float(n))) / norm))
    for i in range(n):
        f = load_vectors(force, i, axes)
        if law.step_rule == _STEP_PER_PARTICLE:
            f = f * inverse_length(f)
        store_vectors(moved, i, load_vectors(x, i, axes) + f * scale)


@njit(error_model="numpy")
def _normalise_block(x, n, variance, axes):
    """Zero mean and unit spread, in place; gives the squared norm before scaling, (lane,).

    Particles without spread, up to the rounding of their mean, are put to the origin.
    """
    mean = load_vectors(x, 0, axes)
    for i in range(1, n):
        mean += load_vectors(x, i, axes)
    mean = mean / scalars(float(n))
    squares = mean - mean
    total = scalars(0.0)
    for i in range(n):
        centred = load_vectors(x, i, axes) - mean
        squares += centred * centred
        total += dot(centred, centred)
        store_vectors(x, i, centred)
    least = mean * mean * scalars(n * _ROUNDING)
    if variance == _SCALE_OVERALL:
        spread = square_root(total / scalars(float(n * len(axes))))
        enough = total - dot(mean, mean) * scalars(n * _ROUNDING)
        for i in range(n):
            store_vectors(x, i, where_above(enough, 0.0, load_vectors(x, i, axes) / spread))
    elif variance == _SCALE_PER_AXIS:
        spreads = square_root(squares / scalars(float(n)))
        for i in range(n):
            store_vectors(x, i, where_above(squares - least, 0.0, load_vectors(x, i, axes) / spreads))
    return total


@njit(error_model="numpy")
def _accept_move(x, moved, n, alive, axes):
    """Take the moved positions in the lanes still alive; the squared distance moved, (lane,)."""
    square = scalars(0.0)
    dead = scalars(1.0) - alive
    for i in range(n):
        before, after = load_vectors(x, i, axes), load_vectors(moved, i, axes)
        step = after - before
        square += where_above(alive, 0.5, dot(step, step))
        store_vectors(x, i, where_above(alive, 0.5, after) + where_above(dead, 0.5, before))
    return square


@njit(error_model="numpy")
def _apply_forces(x, force, magnitude, moved, track, moving, pairs, law, axes):
    """From the fields at x to the total force, left in force[0], and if moving one step along it, in place.

    Eight runs at once; those that diverge stay where they were.
    """
    square = _sum_balanced_fields(force, magnitude, pairs, law, axes)
    if not moving:
        store_scalars(track[FORCE_NORM], 0, square_root(square))
        return
    _move(x, force[ATTRACTION], square, law, pairs.n, moved, axes)
    total = _normalise_block(moved, pairs.n, law.variance, axes)
    limit = scalars(_SQUARED_LIMIT)
    finite = where_above(limit - square, 0.0, where_above(limit - total, 0.0, scalars(1.0)))
    alive = load_scalars(track[NOT_DIVERGED], 0) * finite
    displacement = _accept_move(x, moved, pairs.n, alive, axes)
    store_scalars(track[NOT_DIVERGED], 0, alive)
    store_scalars(track[LAST_STEP], 0, load_scalars(track[LAST_STEP], 0) + alive)
    _store_norm(track[FORCE_NORM], alive, square)
    _store_norm(track[MOVE_NORM], alive, displacement)


@njit(error_model="numpy")
def _store_norm(row, alive, square):
    """Write the norm in the lanes still alive."""
    dead = scalars(1.0) - alive
    store_scalars(row, 0, where_above(alive, 0.5, square_root(square)) + where_above(dead, 0.5, load_scalars(row, 0)))


# ------------------------------------------------------------------------------- entries called from Python


@cached_kernel(pair_forces, pair_list, simd, settings, parallel=True)
def advance_blocks(blocks, runs, across, number, track, pairs, law, axes):
    """`number` steps in place; gives the total force before the last of them, or with none that at x."""
    size, count = blocks.shape[1], len(blocks)
    total = np.empty((count, size))
    if across:
        for block in prange(count):
            work, force, magnitude = force_workspace(pairs, axes), np.empty((4, size)), np.empty((4, LANES_64))
            moved = np.empty(size)
            x = blocks[block]
            for _ in range(max(number, 1)):
                token_fields_across_runs(x, pairs, work, force, magnitude, axes)
                _apply_forces(x, force, magnitude, moved, track[block], number > 0, pairs, law, axes)
            total[block] = force[ATTRACTION]
    else:
        work, force, magnitude = force_workspace(pairs, axes), np.empty((4, size)), np.empty((4, LANES_64))
        moved = np.empty(size)
        for block in range(count):
            x = blocks[block]
            for _ in range(max(number, 1)):
                token_fields_within_run(x, min(LANES_64, runs - block * LANES_64), pairs, work, force, magnitude, axes)
                _apply_forces(x, force, magnitude, moved, track[block], number > 0, pairs, law, axes)
            total[block] = force[ATTRACTION]
    return total


@cached_kernel(pair_forces, pair_list, simd, settings)
def normalise_blocks(blocks, n, variance, axes):
    for block in range(len(blocks)):
        _normalise_block(blocks[block], n, variance, axes)
