"""One step of the particles, as kernels: balance the forces, move, normalise (CA section 6).

Everything acts on a block of eight runs, a run a lane; particles.py has the equation.
"""

from typing import NamedTuple, get_args

import numpy as np
from numba import njit, prange

from dynamics.kernels import simd
from dynamics.kernels.compiling import sources
from dynamics.kernels.simd import (
    WIDTH,
    dot,
    load_scalars,
    load_vectors,
    root,
    scalars,
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
    forces_across,
    forces_within,
    inverse_length,
    workspace,
)
from dynamics.settings import Balance, StepRule, Variance

LIMIT = 1e76  # square of the largest force norm and of the largest distance from the origin

ALIVE, LAST_STEP, FORCE_NORM, MOVE_NORM = range(4)
"""Rows of what is tracked of each run, (row, lane): all as float64, since that is what lanes hold."""

# Kernels know the open choices by their places in `settings.CHOICES`.
BY_MAGNITUDE, BY_COUNT, UNBALANCED = map(get_args(Balance).index, ("magnitude", "count", "none"))
ALONG_FORCE, ALONG_DIRECTION, EACH_ALONG_ITS_OWN = map(get_args(StepRule).index, ("force", "direction", "particle"))
OVERALL, BY_AXIS, UNSCALED = map(get_args(Variance).index, ("overall", "axis", "none"))

ROUNDING = (16 * np.finfo(np.float64).eps) ** 2
"""Share of the squared mean that rounding leaves when the mean is taken away: less spread than that is none."""


class Law(NamedTuple):
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
def balance(rule, magnitude, like, unlike, pairs):
    """Weight of an unlike field: ratio of summed magnitudes, or of the numbers of pairs, or 1; (lane,).

    Where there is nothing like to balance against, or nothing unlike, a ratio is 0.
    """
    if rule == BY_MAGNITUDE:
        denominator = load_scalars(magnitude[unlike], 0)
        return where_above(denominator, 0.0, load_scalars(magnitude[like], 0) / denominator)
    if rule == BY_COUNT:
        return scalars(pairs.like / pairs.unlike if pairs.unlike > 0 else 0.0)
    return scalars(1.0)


@njit(error_model="numpy")
def total_force(force, magnitude, pairs, law, axes):
    """Overwrite the attraction field with the balanced sum of all fields; its squared norm, (lane,)."""
    repulsion = balance(law.repulsion_balance, magnitude, ATTRACTION, REPULSION, pairs) * scalars(law.gr)
    unlike = balance(law.alignment_balance, magnitude, LIKE_ALIGNMENT, UNLIKE_ALIGNMENT, pairs) * scalars(law.fa)
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
def move(x, force, square, law, n, moved, axes):
    """moved = x + step along the force by the rule of the law."""
    norm = root(square)
    scale = scalars(law.step_size)
    if law.step_rule == ALONG_DIRECTION:
        scale = where_above(norm, 0.0, scale * (scalars(np.sqrt(float(n))) / norm))
    for i in range(n):
        f = load_vectors(force, i, axes)
        if law.step_rule == EACH_ALONG_ITS_OWN:
            f = f * inverse_length(f)
        store_vectors(moved, i, load_vectors(x, i, axes) + f * scale)


@njit(error_model="numpy")
def normalise(x, n, variance, axes):
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
    least = mean * mean * scalars(n * ROUNDING)
    if variance == OVERALL:
        spread = root(total / scalars(float(n * len(axes))))
        enough = total - dot(mean, mean) * scalars(n * ROUNDING)
        for i in range(n):
            store_vectors(x, i, where_above(enough, 0.0, load_vectors(x, i, axes) / spread))
    elif variance == BY_AXIS:
        spreads = root(squares / scalars(float(n)))
        for i in range(n):
            store_vectors(x, i, where_above(squares - least, 0.0, load_vectors(x, i, axes) / spreads))
    return total


@njit(error_model="numpy")
def accept(x, moved, n, alive, axes):
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
def use_forces(x, force, magnitude, moved, track, moving, pairs, law, axes):
    """From the fields at x to the total force, left in force[0], and if moving one step along it, in place.

    Eight runs at once; those that diverge stay where they were.
    """
    square = total_force(force, magnitude, pairs, law, axes)
    if not moving:
        store_scalars(track[FORCE_NORM], 0, root(square))
        return
    move(x, force[ATTRACTION], square, law, pairs.n, moved, axes)
    total = normalise(moved, pairs.n, law.variance, axes)
    limit = scalars(LIMIT)
    finite = where_above(limit - square, 0.0, where_above(limit - total, 0.0, scalars(1.0)))
    alive = load_scalars(track[ALIVE], 0) * finite
    displacement = accept(x, moved, pairs.n, alive, axes)
    store_scalars(track[ALIVE], 0, alive)
    store_scalars(track[LAST_STEP], 0, load_scalars(track[LAST_STEP], 0) + alive)
    keep_norm(track[FORCE_NORM], alive, square)
    keep_norm(track[MOVE_NORM], alive, displacement)


@njit(error_model="numpy")
def keep_norm(row, alive, square):
    """Write the norm in the lanes still alive."""
    dead = scalars(1.0) - alive
    store_scalars(row, 0, where_above(alive, 0.5, root(square)) + where_above(dead, 0.5, load_scalars(row, 0)))


# ------------------------------------------------------------------------------- entries called from Python


def _compile(digest: str):
    @njit(error_model="numpy", parallel=True, cache=True)
    def advance(blocks, runs, across, number, track, pairs, law, axes):
        """`number` steps in place; gives the total force before the last of them, or with none that at x."""
        digest  # noqa: B018 - see `compiling.sources`
        size, count = blocks.shape[1], len(blocks)
        total = np.empty((count, size))
        if across:
            for block in prange(count):
                work, force, magnitude = workspace(pairs, axes), np.empty((4, size)), np.empty((4, WIDTH))
                moved = np.empty(size)
                x = blocks[block]
                for _ in range(max(number, 1)):
                    forces_across(x, pairs, work, force, magnitude, axes)
                    use_forces(x, force, magnitude, moved, track[block], number > 0, pairs, law, axes)
                total[block] = force[ATTRACTION]
        else:
            work, force, magnitude = workspace(pairs, axes), np.empty((4, size)), np.empty((4, WIDTH))
            moved = np.empty(size)
            for block in range(count):
                x = blocks[block]
                for _ in range(max(number, 1)):
                    forces_within(x, min(WIDTH, runs - block * WIDTH), pairs, work, force, magnitude, axes)
                    use_forces(x, force, magnitude, moved, track[block], number > 0, pairs, law, axes)
                total[block] = force[ATTRACTION]
        return total

    @njit(error_model="numpy", cache=True)
    def normalise_blocks(blocks, n, variance, axes):
        digest  # noqa: B018
        for block in range(len(blocks)):
            normalise(blocks[block], n, variance, axes)

    return advance, normalise_blocks


advance, normalise_blocks = _compile(sources(__file__, pair_forces.__file__, pair_list.__file__, simd.__file__))
