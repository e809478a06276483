"""One integrator step of the particles as compiled kernels: balance the forces, move,
normalise (CA section 6).

All kernels act on a block of eight runs, one run per SIMD lane. The equation is in
`dynamics.particles.particle_system`."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import numpy as np
from numba import prange

from dynamics import settings
from dynamics.forces import BalanceRule, Force, bare_forces
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
    field_kernels,
    inverse_length,
    variant_name,
)
from dynamics.particles.pair_list import PairList
from dynamics.settings import ParticleSettings, StepRule, VarianceRule

SQUARED_LIMIT = 1e76
"""Squared norm of the force, or of all positions, from which a run counts as
diverged."""

TRACK_ROWS = 4
NOT_DIVERGED, LAST_STEP, FORCE_NORM, MOVE_NORM = range(TRACK_ROWS)
"""Rows of the array `track` (row, lane) that describes the state of each run; all
float64."""

# Settings that are strings are passed to the kernels as indices into their choices.
_BALANCE_RULES = get_args(BalanceRule)
BALANCE_BY_MAGNITUDE, BALANCE_BY_COUNT = map(
    _BALANCE_RULES.index, ("magnitude", "count")
)
_STEP_RULES = get_args(StepRule)
STEP_ALONG_DIRECTION, STEP_PER_PARTICLE = map(
    _STEP_RULES.index, ("direction", "particle")
)
_VARIANCE_RULES = get_args(VarianceRule)
SCALE_OVERALL, SCALE_PER_AXIS = map(_VARIANCE_RULES.index, ("overall", "axis"))

ROUNDING = (16 * np.finfo(np.float64).eps) ** 2
"""Rounding error of subtracting the mean, relative to the squared mean: a smaller
spread counts as zero."""


class IntegratorParameters(NamedTuple):
    """`ParticleSettings` in the form that kernels take."""

    step_size: float
    step_rule: int
    variance: int
    constants: np.ndarray
    """(force,) The constant of each force of the law."""
    balances: np.ndarray
    """(force,) Its balance rule."""
    against: np.ndarray
    """(force,) The place of the force that it is balanced with; its own without one."""
    counts: np.ndarray
    """(force,) Number of pairs of pairs that it acts between."""


def integrator_parameters(
    settings: ParticleSettings, pairs: PairList
) -> IntegratorParameters:
    """The parameters of the settings' law, acting between these pairs."""
    forces = settings.forces
    places = {force.name: place for place, force in enumerate(forces)}
    rules = [settings.balance_of(force) for force in forces]
    sizes = {
        "like": pairs.like,
        "unlike": pairs.unlike,
        "all": pairs.like + pairs.unlike,
    }
    return IntegratorParameters(
        step_size=settings.step_size,
        step_rule=_STEP_RULES.index(settings.step_rule),
        variance=_VARIANCE_RULES.index(settings.variance),
        constants=np.array([settings.constant_of(force) for force in forces]),
        balances=np.array([_BALANCE_RULES.index(rule) for rule in rules]),
        against=np.array([places[force.against or force.name] for force in forces]),
        counts=np.array([float(sizes[force.pairs]) for force in forces]),
    )


def field_weights(
    magnitude: np.ndarray, settings: ParticleSettings, pairs: PairList
) -> np.ndarray:
    """The factor of each field of the settings' law in the total force, its constant
    times its balance: (force, ...), from the summed magnitudes of `ForceFields`."""
    count = len(magnitude)
    rows = magnitude.reshape(count, -1).T[..., None]
    blocks = pair_forces.to_blocks(rows).reshape(-1, count, LANES_64)
    factors = field_factors(blocks, integrator_parameters(settings, pairs))
    of_rows = pair_forces.from_blocks(factors, len(rows), 1, 1)
    return of_rows[..., 0, 0].T.reshape(magnitude.shape)


# ---------------------------------------------------- one step of a block of eight runs


@kernel_function
def _balance_weight(field, magnitude, params):
    """Weight of a force for each lane: ratio of the summed magnitudes, or of the
    numbers of pairs, or 1.

    A ratio is 0 if its denominator is.
    """
    against = params.against[field]
    if params.balances[field] == BALANCE_BY_MAGNITUDE:
        denominator = load_scalars(magnitude[field], 0)
        return where_above(
            denominator, 0.0, load_scalars(magnitude[against], 0) / denominator
        )
    if params.balances[field] == BALANCE_BY_COUNT:
        count = params.counts[field]
        return scalars(params.counts[against] / count if count > 0 else 0.0)
    return scalars(1.0)


@kernel_function
def _store_factors(magnitude, params, factors):
    """Store the constant times the weight of each force, (force x lane)."""
    for field in range(len(magnitude)):
        weight = _balance_weight(field, magnitude, params)
        store_scalars(factors, field, weight * scalars(params.constants[field]))


@kernel_function
def _sum_balanced_fields(force, magnitude, factors, pairs, params, axes):
    """Overwrite the first field with the balanced sum of all fields; return its squared
    norm for each lane. factors: (field x lane), overwritten."""
    _store_factors(magnitude, params, factors)
    square = scalars(0.0)
    for i in range(pairs.n):
        total = load_vectors(force[0], i, axes) * load_scalars(factors, 0)
        for field in range(1, len(force)):
            factor = load_scalars(factors, field)
            total += load_vectors(force[field], i, axes) * factor
        square += dot(total, total)
        store_vectors(force[0], i, total)
    return square


@kernel_function
def _move(x, force, square, params, noise, n, moved, axes):
    """Write to `moved` the positions x after a step along the force, by the step rule
    of the settings, and by the noise, if there is any."""
    norm = square_root(square)
    scale = scalars(params.step_size)
    if params.step_rule == STEP_ALONG_DIRECTION:
        scale = where_above(norm, 0.0, scale * (scalars(np.sqrt(float(n))) / norm))
    for i in range(n):
        f = load_vectors(force, i, axes)
        if params.step_rule == STEP_PER_PARTICLE:
            f = f * inverse_length(f)
        position = load_vectors(x, i, axes) + f * scale
        if noise.size > 0:
            position += load_vectors(noise, i, axes)
        store_vectors(moved, i, position)


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
    least = mean * mean * scalars(n * ROUNDING)
    if variance == SCALE_OVERALL:
        spread = square_root(total / scalars(float(n * len(axes))))
        enough = total - dot(mean, mean) * scalars(n * ROUNDING)
        for i in range(n):
            store_vectors(
                x, i, where_above(enough, 0.0, load_vectors(x, i, axes) / spread)
            )
    elif variance == SCALE_PER_AXIS:
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
def _apply_forces(
    x, force, magnitude, working, track, moving, noise, pairs, params, axes
):
    """Write the total force at x to force[0] and, if `moving`, take one step along it
    in place.

    working: arrays for the positions after the step and for the factors of the fields.
    Runs that diverge in this step keep their positions.
    """
    moved, factors = working
    square = _sum_balanced_fields(force, magnitude, factors, pairs, params, axes)
    if not moving:
        store_scalars(track[FORCE_NORM], 0, square_root(square))
        return
    _move(x, force[0], square, params, noise, pairs.n, moved, axes)
    total = _normalise_block(moved, pairs.n, params.variance, axes)
    limit = scalars(SQUARED_LIMIT)
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


@kernel_function
def _noise_of_step(noise, step):
    """The displacements of a step, of noise (step, token x axis x lane); nothing
    without noise."""
    return noise[step] if len(noise) > 0 else noise.reshape(-1)


def advance_kernel(forces: tuple[Force, ...], dim: int) -> Callable[..., Any]:
    """The compiled function `advance` that takes steps under a law. Constants and
    balance of the forces do not matter; they are among its parameters."""
    return _advance_kernel(bare_forces(forces), dim)


@functools.lru_cache(maxsize=64)
def _advance_kernel(forces: tuple[Force, ...], dim: int) -> Callable[..., Any]:
    fields = field_kernels(forces, dim)
    workspace = fields.workspace
    across_runs = fields.across_runs
    within_run = fields.within_run
    axes = tuple(range(dim))
    force_count = len(forces)
    modules = (*pair_forces.MODULES, pair_forces, settings)

    @cached_kernel(*modules, variant=variant_name(forces, dim), parallel=True)
    def advance(blocks, runs, across, number, track, noise, pairs, params):
        """Take `number` steps in place; return the total force before the last step, or
        at x if `number` is 0.

        blocks: (block, token x axis x lane); track: (block, row, lane), updated in
        place; noise: (block, step, token x axis x lane) displacements in each step,
        without steps if there is none."""
        size = blocks.shape[1]
        count = len(blocks)
        total = np.empty((count, size))
        if across:
            for block in prange(count):
                work = workspace(pairs)
                force = np.empty((force_count, size))
                magnitude = np.empty((force_count, LANES_64))
                working = (np.empty(size), np.empty(force_count * LANES_64))
                x = blocks[block]
                for step in range(max(number, 1)):
                    across_runs(x, pairs, work, force, magnitude)
                    _apply_forces(
                        x,
                        force,
                        magnitude,
                        working,
                        track[block],
                        number > 0,
                        _noise_of_step(noise[block], step),
                        pairs,
                        params,
                        axes,
                    )
                copy_numbers(force[0], total[block])
        else:
            work = workspace(pairs)
            force = np.empty((force_count, size))
            magnitude = np.empty((force_count, LANES_64))
            working = (np.empty(size), np.empty(force_count * LANES_64))
            for block in range(count):
                x = blocks[block]
                left = min(LANES_64, runs - block * LANES_64)
                for step in range(max(number, 1)):
                    within_run(x, left, pairs, work, force, magnitude)
                    _apply_forces(
                        x,
                        force,
                        magnitude,
                        working,
                        track[block],
                        number > 0,
                        _noise_of_step(noise[block], step),
                        pairs,
                        params,
                        axes,
                    )
                copy_numbers(force[0], total[block])
        return total

    return advance


@cached_kernel(pair_forces, pair_list, simd, settings)
def apply_fields(blocks, force, magnitude, track, moving, noise, pairs, params, axes):
    """Take one step in place along fields that are given, if `moving`, and write the
    total force to force[:, 0].

    force: (block, field, token x axis x lane); magnitude: (block, field, lane); track:
    (block, row, lane); noise: (block, step, token x axis x lane), of which the first
    step is used."""
    working = (np.empty(blocks.shape[1]), np.empty(force.shape[1] * LANES_64))
    for block in range(len(blocks)):
        _apply_forces(
            blocks[block],
            force[block],
            magnitude[block],
            working,
            track[block],
            moving,
            _noise_of_step(noise[block], 0),
            pairs,
            params,
            axes,
        )


@cached_kernel(pair_forces, pair_list, simd, settings)
def normalise_blocks(blocks, n, variance, axes):
    """Normalise the positions of all blocks (block, token x axis x lane) in place."""
    for block in range(len(blocks)):
        _normalise_block(blocks[block], n, variance, axes)


@cached_kernel(pair_forces, pair_list, simd, settings)
def field_factors(magnitude, params):
    """The factors with which the fields add up to the total force: constant times
    weight. magnitude, and the result: (block, force, lane)."""
    factors = np.empty(magnitude.shape)
    for block in range(len(magnitude)):
        _store_factors(magnitude[block], params, factors[block].reshape(-1))
    return factors
