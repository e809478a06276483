"""One integrator step of the particles as compiled kernels: balance the forces, move,
normalise (CA section 6).

All kernels act on a block of eight runs, one run per SIMD lane. The equation is in
`dynamics.particles.particle_system`."""

from typing import NamedTuple, get_args

import numpy as np
from numba import prange

from dynamics import settings
from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.simd import (
    LANES_64,
    copy_numbers,
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
    FIELD_COUNT,
    LIKE_ALIGNMENT,
    REPULSION,
    UNLIKE_ALIGNMENT,
    force_workspace,
    inverse_length,
    token_fields_across_runs,
    token_fields_within_run,
)
from dynamics.settings import BalanceRule, StepRule, VarianceRule

_SQUARED_LIMIT = 1e76
"""Squared norm of the force, or of all positions, from which a run counts as
diverged."""

TRACK_ROWS = 4
NOT_DIVERGED, LAST_STEP, FORCE_NORM, MOVE_NORM = range(TRACK_ROWS)
"""Rows of the array `track` (row, lane) that describes the state of each run; all
float64."""

# Settings that are strings are passed to the kernels as indices into
# `settings.PARTICLE_CHOICES`.
_BALANCE_BY_MAGNITUDE, _BALANCE_BY_COUNT = map(
    get_args(BalanceRule).index, ("magnitude", "count")
)
_STEP_ALONG_DIRECTION, _STEP_PER_PARTICLE = map(
    get_args(StepRule).index, ("direction", "particle")
)
_SCALE_OVERALL, _SCALE_PER_AXIS = map(get_args(VarianceRule).index, ("overall", "axis"))

_ROUNDING = (16 * np.finfo(np.float64).eps) ** 2
"""Rounding error of subtracting the mean, relative to the squared mean: a smaller
spread counts as zero."""


class IntegratorParameters(NamedTuple):
    """`ParticleSettings` in the form that kernels take: strings as indices into
    `settings.PARTICLE_CHOICES`."""

    fa: float
    ga: float
    gr: float
    step_size: float
    step_rule: int
    repulsion_balance: int
    alignment_balance: int
    variance: int


# ---------------------------------------------------- one step of a block of eight runs


@kernel_function
def _balance_weight(rule, magnitude, like, unlike, pairs):
    """Weight of an unlike field for each lane: ratio of the summed magnitudes, or of
    the numbers of pairs, or 1.

    A ratio is 0 where there are no like pairs or no unlike pairs.
    """
    if rule == _BALANCE_BY_MAGNITUDE:
        denominator = load_scalars(magnitude[unlike], 0)
        return where_above(
            denominator, 0.0, load_scalars(magnitude[like], 0) / denominator
        )
    if rule == _BALANCE_BY_COUNT:
        return scalars(pairs.like / pairs.unlike if pairs.unlike > 0 else 0.0)
    return scalars(1.0)


@kernel_function
def _sum_balanced_fields(force, magnitude, pairs, params, axes):
    """Overwrite the attraction field with the balanced sum of all fields; return its
    squared norm for each lane."""
    repulsion = _balance_weight(
        params.repulsion_balance, magnitude, ATTRACTION, REPULSION, pairs
    ) * scalars(params.gr)
    unlike = _balance_weight(
        params.alignment_balance, magnitude, LIKE_ALIGNMENT, UNLIKE_ALIGNMENT, pairs
    ) * scalars(params.fa)
    square = scalars(0.0)
    for i in range(pairs.n):
        total = load_vectors(force[ATTRACTION], i, axes) * scalars(params.ga)
        total += load_vectors(force[REPULSION], i, axes) * repulsion
        total += load_vectors(force[LIKE_ALIGNMENT], i, axes) * scalars(params.fa)
        total += load_vectors(force[UNLIKE_ALIGNMENT], i, axes) * unlike
        square += dot(total, total)
        store_vectors(force[ATTRACTION], i, total)
    return square


@kernel_function
def _move(x, force, square, params, n, moved, axes):
    """Write to `moved` the positions x after a step along the force, by the step rule
    of the settings."""
    norm = square_root(square)
    scale = scalars(params.step_size)
    if params.step_rule == _STEP_ALONG_DIRECTION:
        scale = where_above(norm, 0.0, scale * (scalars(np.sqrt(float(n))) / norm))
    for i in range(n):
        f = load_vectors(force, i, axes)
        if params.step_rule == _STEP_PER_PARTICLE:
            f = f * inverse_length(f)
        store_vectors(moved, i, load_vectors(x, i, axes) + f * scale)


@kernel_function
def _normalise_block(x, n, variance, axes):
    """Subtract the mean and divide by the standard deviation, in place; return the
    squared norm before scaling.

    Particles whose spread is zero, up to the rounding of their mean, are put at the
    origin."""
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
            store_vectors(
                x, i, where_above(enough, 0.0, load_vectors(x, i, axes) / spread)
            )
    elif variance == _SCALE_PER_AXIS:
        spreads = square_root(squares / scalars(float(n)))
        for i in range(n):
            store_vectors(
                x,
                i,
                where_above(squares - least, 0.0, load_vectors(x, i, axes) / spreads),
            )
    return total


@kernel_function
def _accept_move(x, moved, n, active, axes):
    """Copy the moved positions in the lanes that have not diverged; return the squared
    displacement for each lane."""
    square = scalars(0.0)
    inactive = scalars(1.0) - active
    for i in range(n):
        before, after = load_vectors(x, i, axes), load_vectors(moved, i, axes)
        step = after - before
        square += where_above(active, 0.5, dot(step, step))
        store_vectors(
            x, i, where_above(active, 0.5, after) + where_above(inactive, 0.5, before)
        )
    return square


@kernel_function
def _apply_forces(x, force, magnitude, moved, track, moving, pairs, params, axes):
    """Write the total force at x to force[0] and, if `moving`, take one step along it
    in place.

    Runs that diverge in this step keep their positions.
    """
    square = _sum_balanced_fields(force, magnitude, pairs, params, axes)
    if not moving:
        store_scalars(track[FORCE_NORM], 0, square_root(square))
        return
    _move(x, force[ATTRACTION], square, params, pairs.n, moved, axes)
    total = _normalise_block(moved, pairs.n, params.variance, axes)
    limit = scalars(_SQUARED_LIMIT)
    finite = where_above(
        limit - square, 0.0, where_above(limit - total, 0.0, scalars(1.0))
    )
    active = load_scalars(track[NOT_DIVERGED], 0) * finite
    displacement = _accept_move(x, moved, pairs.n, active, axes)
    store_scalars(track[NOT_DIVERGED], 0, active)
    store_scalars(track[LAST_STEP], 0, load_scalars(track[LAST_STEP], 0) + active)
    _store_norm(track[FORCE_NORM], active, square)
    _store_norm(track[MOVE_NORM], active, displacement)


@kernel_function
def _store_norm(row, active, square):
    """Store the norm in the lanes that have not diverged."""
    before = where_above(scalars(1.0) - active, 0.5, load_scalars(row, 0))
    store_scalars(row, 0, where_above(active, 0.5, square_root(square)) + before)


# ----------------------------------------------------------- kernels called from Python


@cached_kernel(pair_forces, pair_list, simd, settings, parallel=True)
def advance_blocks(blocks, runs, across, number, track, pairs, params, axes):
    """Take `number` steps in place; return the total force before the last step, or at
    x if `number` is 0.

    blocks: (block, token x axis x lane); track: (block, row, lane), updated in place.
    """
    size = blocks.shape[1]
    count = len(blocks)
    total = np.empty((count, size))
    if across:
        for block in prange(count):
            work = force_workspace(pairs, axes)
            force = np.empty((FIELD_COUNT, size))
            magnitude = np.empty((FIELD_COUNT, LANES_64))
            moved = np.empty(size)
            x = blocks[block]
            for _ in range(max(number, 1)):
                token_fields_across_runs(x, pairs, work, force, magnitude, axes)
                _apply_forces(
                    x,
                    force,
                    magnitude,
                    moved,
                    track[block],
                    number > 0,
                    pairs,
                    params,
                    axes,
                )
            copy_numbers(force[ATTRACTION], total[block])
    else:
        work = force_workspace(pairs, axes)
        force = np.empty((FIELD_COUNT, size))
        magnitude = np.empty((FIELD_COUNT, LANES_64))
        moved = np.empty(size)
        for block in range(count):
            x = blocks[block]
            for _ in range(max(number, 1)):
                token_fields_within_run(
                    x,
                    min(LANES_64, runs - block * LANES_64),
                    pairs,
                    work,
                    force,
                    magnitude,
                    axes,
                )
                _apply_forces(
                    x,
                    force,
                    magnitude,
                    moved,
                    track[block],
                    number > 0,
                    pairs,
                    params,
                    axes,
                )
            copy_numbers(force[ATTRACTION], total[block])
    return total


@cached_kernel(pair_forces, pair_list, simd, settings)
def apply_fields(blocks, force, magnitude, track, moving, pairs, params, axes):
    """Take one step in place along fields that are given, if `moving`, and write the
    total force to force[:, 0].

    force: (block, field, token x axis x lane); magnitude: (block, field, lane); track:
    (block, row, lane)."""
    moved = np.empty(blocks.shape[1])
    for block in range(len(blocks)):
        _apply_forces(
            blocks[block],
            force[block],
            magnitude[block],
            moved,
            track[block],
            moving,
            pairs,
            params,
            axes,
        )


@cached_kernel(pair_forces, pair_list, simd, settings)
def normalise_blocks(blocks, n, variance, axes):
    """Normalise the positions of all blocks (block, token x axis x lane) in place."""
    for block in range(len(blocks)):
        _normalise_block(blocks[block], n, variance, axes)
