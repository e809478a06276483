r"""The pair forces of CA: repulsion, attraction and alignment of pair sums, and their sums over all pairs.

A pair of tokens i <= j has the pair sum x_ij = x_i + x_j. A pair sum x_kl acts on x_ij by one of four
fields (CA equations 2-4; section 6 adds them up to its law of four cases). With r = \|x_ij - x_kl\|:

    like attraction     i+j == k+l (mod N)                    (x_kl - x_ij) / r
    unlike repulsion    i+j != k+l                            (x_ij - x_kl) / r²
    like alignment      i+j == k+l  and  x_ij . x_kl > 0       x_kl / \|x_kl\|
    unlike alignment    i+j != k+l  and  x_ij . x_kl > 0      -x_kl / \|x_kl\|

and the sum over kl moves both particles i and j. Everything here is at g_a = g_r = f_a = 1.

Where the law has no value it is 0: two coincident pair sums (r² <= `TINY`) neither attract nor repel
each other, and a pair sum at the origin (\|x_kl\|² <= `TINY`) neither aligns others nor is aligned.

In the plane alignment needs only the order of the angles, and sorting gives it in O(P log P). It is not
done: beside the root and the quotient of the repulsion, alignment here costs 5 to 10% of the whole sum, and
a sort with its prefix sums took longer than that for every N up to 113, and lost four digits.

Pairs are grouped by residue class, so that the inner loops have no branch. There are two ways to sum,
for many runs and for few, with the same bits: in both, the force on a pair sum is added up over the
others in ascending order, each term rounded on its own. A magnitude is the same seen from both ends
and is kept by the later of the two.

- across runs: a lane is a run. Each pair of pair sums is visited once and used for both (action and
  reaction). `fields_across`.
- within a run: a lane is a pair sum. Each is visited from both sides, twice the work, but no two lanes
  write to the same place, so that a single run can be spread over threads. `fields_within`.
"""

from typing import NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange

from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel, numba_threads
from dynamics.kernels.simd import (
    LANES_64,
    add_scalars,
    add_vectors,
    broadcast_vectors,
    dot,
    lane_numbers,
    load_scalars,
    load_vectors,
    scalars,
    square_root,
    store_scalars,
    store_vectors,
    where_above,
)
from dynamics.particles import pair_list
from dynamics.particles.pair_list import PairList, group_pairs
from dynamics.settings import SettingsError

TINY = 1e-280
"""Squared lengths up to this count as zero; above it every field is finite."""

RELATIVE_COST_WITHIN_RUN = 1.6
"""Measured time of a pair of pair sums within a run, visited from both sides, over that across runs."""
MIN_WORK_FOR_THREADS = 20_000
"""Groups of eight pair sums times pair sums of a run that repay spreading it over threads (N = 28 or so)."""

FIELD_NAMES = ("like_attraction", "unlike_repulsion", "like_alignment", "unlike_alignment")
ATTRACTION, REPULSION, LIKE_ALIGNMENT, UNLIKE_ALIGNMENT = range(4)


# ------------------------------------------------------------------------------------------ the pair laws


@njit(error_model="numpy")
def inverse_length(vectors):
    """1 / length, (lane,); 0 for a vector of no length."""
    square = dot(vectors, vectors)
    return where_above(square, TINY, scalars(1.0) / square_root(square))


@njit(error_model="numpy")
def repulsion_force(x_ij, x_kl):
    """Force on x_ij, (x_ij - x_kl) / r², and its magnitude 1/r (CA eq 2, g_r = 1). On x_kl: the opposite."""
    difference = x_ij - x_kl
    square = dot(difference, difference)
    inverse_square = where_above(square, TINY, scalars(1.0) / square)
    return difference * inverse_square, square_root(inverse_square)


@njit(error_model="numpy")
def attraction_force(x_ij, x_kl):
    """Force on x_ij, (x_kl - x_ij) / r, and its magnitude 1 (CA eq 3, g_a = 1). On x_kl: the opposite."""
    difference = x_kl - x_ij
    inverse = inverse_length(difference)
    return difference * inverse, where_above(inverse, 0.0, scalars(1.0))


@njit(error_model="numpy")
def alignment_force(x_ij, x_kl, unit_kl):
    """Force on x_ij, x_kl / |x_kl| in the half-plane x_ij . x_kl > 0 (CA eq 4, f_a = 1, the like case)."""
    return where_above(dot(x_ij, x_kl), 0.0, unit_kl)


@njit(error_model="numpy")
def in_half_plane(x_ij, x_kl):
    """1 where x_ij . x_kl > 0, else 0: the magnitude of alignment. The same seen from x_kl."""
    return where_above(dot(x_ij, x_kl), 0.0, scalars(1.0))


# ----------------------------------------------------------------------------------- sums over many runs


@njit(error_model="numpy")
def _add_like_fields_across_runs(sums, units, bounds, fields, magnitudes, axes):
    """Add both like fields, a run a lane: every two pair sums of one class once."""
    for c in range(bounds.size - 1):
        for kl in range(bounds[c], bounds[c + 1]):
            x_kl = load_vectors(sums, kl, axes)
            unit_kl = load_vectors(units, kl, axes)
            attracted = load_vectors(fields[ATTRACTION], kl, axes)
            aligned = load_vectors(fields[LIKE_ALIGNMENT], kl, axes)
            strength = load_scalars(magnitudes[ATTRACTION], kl)
            partners = load_scalars(magnitudes[LIKE_ALIGNMENT], kl)
            for ij in range(bounds[c], kl):
                x_ij = load_vectors(sums, ij, axes)
                force, magnitude = attraction_force(x_ij, x_kl)
                add_vectors(fields[ATTRACTION], ij, force, axes)
                attracted -= force
                strength += magnitude
                add_vectors(fields[LIKE_ALIGNMENT], ij, alignment_force(x_ij, x_kl, unit_kl), axes)
                aligned += alignment_force(x_kl, x_ij, load_vectors(units, ij, axes))
                partners += in_half_plane(x_ij, x_kl)
            store_vectors(fields[ATTRACTION], kl, attracted)
            store_vectors(fields[LIKE_ALIGNMENT], kl, aligned)
            store_scalars(magnitudes[ATTRACTION], kl, strength)
            store_scalars(magnitudes[LIKE_ALIGNMENT], kl, partners)


@njit(error_model="numpy")
def _add_unlike_fields_across_runs(sums, units, bounds, fields, magnitudes, axes):
    """Add both unlike fields, a run a lane: every two pair sums of different class once."""
    for c in range(bounds.size - 1):
        for kl in range(bounds[c + 1], bounds[-1]):
            x_kl = load_vectors(sums, kl, axes)
            unit_kl = load_vectors(units, kl, axes)
            repelled = load_vectors(fields[REPULSION], kl, axes)
            aligned = load_vectors(fields[UNLIKE_ALIGNMENT], kl, axes)
            strength = load_scalars(magnitudes[REPULSION], kl)
            partners = load_scalars(magnitudes[UNLIKE_ALIGNMENT], kl)
            for ij in range(bounds[c], bounds[c + 1]):
                x_ij = load_vectors(sums, ij, axes)
                force, magnitude = repulsion_force(x_ij, x_kl)
                add_vectors(fields[REPULSION], ij, force, axes)
                repelled -= force
                strength += magnitude
                _subtract_vectors(fields[UNLIKE_ALIGNMENT], ij, alignment_force(x_ij, x_kl, unit_kl), axes)
                aligned -= alignment_force(x_kl, x_ij, load_vectors(units, ij, axes))
                partners += in_half_plane(x_ij, x_kl)
            store_vectors(fields[REPULSION], kl, repelled)
            store_vectors(fields[UNLIKE_ALIGNMENT], kl, aligned)
            store_scalars(magnitudes[REPULSION], kl, strength)
            store_scalars(magnitudes[UNLIKE_ALIGNMENT], kl, partners)


@njit(error_model="numpy")
def _subtract_vectors(array, group, value, axes):
    """array[group] -= value."""
    store_vectors(array, group, load_vectors(array, group, axes) - value)


@njit(error_model="numpy")
def _pair_fields_across_runs(sums, units, bounds, fields, magnitudes, axes):
    """All four fields on every pair sum, a run a lane.

    sums, units (pair, axis, lane) flat; bounds (class + 1); writes fields (field, pair, axis, lane) and
    magnitudes (field, pair, lane), each of the last two with all axes but the first flat.
    """
    fields[:] = 0.0
    magnitudes[:] = 0.0
    _add_like_fields_across_runs(sums, units, bounds, fields, magnitudes, axes)
    _add_unlike_fields_across_runs(sums, units, bounds, fields, magnitudes, axes)


# ----------------------------------------------------------------------------------- sums within one run


@njit(error_model="numpy")
def _like_fields_within_run(group, x_ij, numbers, points, directions, first, last, out, out_magnitudes, axes):
    """Both like fields on eight pair sums of a class, from the pair sums first..last-1 of that class."""
    attracted = x_ij - x_ij
    aligned = x_ij - x_ij
    strength = scalars(0.0)
    partners = scalars(0.0)
    for kl in range(first, last):
        x_kl = broadcast_vectors(points, kl, axes)
        force, magnitude = attraction_force(x_ij, x_kl)
        attracted += force
        later = numbers - scalars(float(kl))  # 0 in the lane of kl itself
        strength += where_above(later, 0.5, magnitude)
        partners += where_above(later, 0.5, in_half_plane(x_ij, x_kl))
        aligned += where_above(later * later, 0.5, alignment_force(x_ij, x_kl, broadcast_vectors(directions, kl, axes)))
    store_vectors(out[ATTRACTION], group, attracted)
    store_vectors(out[LIKE_ALIGNMENT], group, aligned)
    store_scalars(out_magnitudes[ATTRACTION], group, strength)
    store_scalars(out_magnitudes[LIKE_ALIGNMENT], group, partners)


@njit(error_model="numpy")
def _unlike_fields_within_run(group, x_ij, points, directions, first, last, pairs, out, out_magnitudes, axes):
    """Both unlike fields on eight pair sums of a class, from all pair sums but first..last-1."""
    repelled = x_ij - x_ij
    aligned = x_ij - x_ij
    strength = scalars(0.0)
    partners = scalars(0.0)
    for kl in range(first):
        x_kl = broadcast_vectors(points, kl, axes)
        force, magnitude = repulsion_force(x_ij, x_kl)
        repelled += force
        strength += magnitude
        aligned -= alignment_force(x_ij, x_kl, broadcast_vectors(directions, kl, axes))
        partners += in_half_plane(x_ij, x_kl)
    for kl in range(last, pairs):  # here the magnitudes are those of kl, and their roots are saved
        x_kl = broadcast_vectors(points, kl, axes)
        repelled += repulsion_force(x_ij, x_kl)[0]
        aligned -= alignment_force(x_ij, x_kl, broadcast_vectors(directions, kl, axes))
    store_vectors(out[REPULSION], group, repelled)
    store_vectors(out[UNLIKE_ALIGNMENT], group, aligned)
    store_scalars(out_magnitudes[REPULSION], group, strength)
    store_scalars(out_magnitudes[UNLIKE_ALIGNMENT], group, partners)


@njit(error_model="numpy")
def _gather_lane(sums, units, lane, points, directions):
    """One run out of its lane: (pair, axis, lane) -> (pair, axis), all flat."""
    for k in range(points.size):
        points[k] = sums[k * LANES_64 + lane]
        directions[k] = units[k * LANES_64 + lane]


@njit(error_model="numpy")
def _load_group(points, start, last, padded, group, axes):
    """Pair sums start..start+7 of one run, (axis, lane); lanes from `last` on hold zeros."""
    dim = len(axes)
    base = group * dim * LANES_64
    for lane in range(min(LANES_64, last - start)):
        for axis in axes:
            padded[base + axis * LANES_64 + lane] = points[(start + lane) * dim + axis]
    return load_vectors(padded, group, axes)


@njit(error_model="numpy")
def _scatter_group(group, start, last, lane, out, out_magnitudes, fields, magnitudes, axes):
    """Results for pair sums start..start+7 of one run into that run's lane."""
    dim = len(axes)
    for field in range(4):
        for k in range(min(LANES_64, last - start)):
            magnitudes[field, (start + k) * LANES_64 + lane] = out_magnitudes[field, group * LANES_64 + k]
            for axis in axes:
                value = out[field, (group * dim + axis) * LANES_64 + k]
                fields[field, ((start + k) * dim + axis) * LANES_64 + lane] = value


@njit(error_model="numpy", parallel=True)
def _pair_fields_within_run(sums, units, bounds, groups, runs, fields, magnitudes, axes):
    """As `fields_across` for the first `runs` lanes, each run by itself, its groups of eight over threads.

    groups (group, 2): class and first pair sum of every eight pair sums of one class.
    """
    dim = len(axes)
    pairs = bounds[-1]
    points = np.empty(pairs * dim)
    directions = np.empty(pairs * dim)
    padded = np.zeros(len(groups) * dim * LANES_64)
    out = np.empty((4, len(groups) * dim * LANES_64))
    out_magnitudes = np.empty((4, len(groups) * LANES_64))
    for lane in range(runs):
        _gather_lane(sums, units, lane, points, directions)
        for group in prange(len(groups)):
            first, last = bounds[groups[group, 0]], bounds[groups[group, 0] + 1]
            start = groups[group, 1]
            x_ij = _load_group(points, start, last, padded, group, axes)
            numbers = lane_numbers() + scalars(float(start))
            _like_fields_within_run(group, x_ij, numbers, points, directions, first, last, out, out_magnitudes, axes)
            _unlike_fields_within_run(group, x_ij, points, directions, first, last, pairs, out, out_magnitudes, axes)
            _scatter_group(group, start, last, lane, out, out_magnitudes, fields, magnitudes, axes)


# --------------------------------------------------------------------- from particles to fields and back


@njit(error_model="numpy")
def _store_pair_sums(x, pairs, sums, units, axes):
    """x_i + x_j of every pair and its direction; x flat (token, axis, lane)."""
    for ij in range(len(pairs.first)):
        x_ij = load_vectors(x, pairs.first[ij], axes) + load_vectors(x, pairs.second[ij], axes)
        x_ij = where_above(dot(x_ij, x_ij), TINY, x_ij)  # what counts as the origin is put there
        store_vectors(sums, ij, x_ij)
        store_vectors(units, ij, x_ij * inverse_length(x_ij))


@njit(error_model="numpy")
def _sum_onto_tokens(pairs, fields, magnitudes, force, magnitude, axes):
    """Fields on pair sums to fields on both their tokens, and the summed magnitudes.

    Writes force (field, token x axis x lane) and magnitude (field, lane), the latter over ordered pairs of
    pairs: of each two, only the later has it.
    """
    force[:] = 0.0
    magnitude[:] = 0.0
    for field in range(4):
        for ij in range(len(pairs.first)):
            value = load_vectors(fields[field], ij, axes)
            add_vectors(force[field], pairs.first[ij], value, axes)
            if pairs.twice or pairs.first[ij] != pairs.second[ij]:
                add_vectors(force[field], pairs.second[ij], value, axes)
            add_scalars(magnitude[field], 0, load_scalars(magnitudes[field], ij) * scalars(2.0))


@njit(error_model="numpy")
def force_workspace(pairs, axes):
    """Memory for one block of eight runs: pair sums, their directions, fields, magnitudes."""
    size = len(pairs.first) * len(axes) * LANES_64
    return np.empty(size), np.empty(size), np.empty((4, size)), np.empty((4, len(pairs.first) * LANES_64))


@njit(error_model="numpy")
def token_fields_across_runs(x, pairs, work, force, magnitude, axes):
    """The four fields on every token of a block of eight runs, on the calling thread."""
    sums, units, fields, magnitudes = work
    _store_pair_sums(x, pairs, sums, units, axes)
    _pair_fields_across_runs(sums, units, pairs.bounds, fields, magnitudes, axes)
    _sum_onto_tokens(pairs, fields, magnitudes, force, magnitude, axes)


@njit(error_model="numpy")
def token_fields_within_run(x, runs, pairs, work, force, magnitude, axes):
    """As `forces_across` for the first `runs` lanes of the block, spread over all threads."""
    sums, units, fields, magnitudes = work
    fields[:] = 0.0
    magnitudes[:] = 0.0
    _store_pair_sums(x, pairs, sums, units, axes)
    _pair_fields_within_run(sums, units, pairs.bounds, pairs.groups, runs, fields, magnitudes, axes)
    _sum_onto_tokens(pairs, fields, magnitudes, force, magnitude, axes)


# ------------------------------------------------------------------------------------- for use from Python


def to_blocks(x: np.ndarray) -> np.ndarray:
    """(run, token, axis) -> (block, token x axis x lane), eight runs a block, missing runs zero."""
    runs, n, dim = x.shape
    blocks = -(-runs // LANES_64)
    padded = np.zeros((blocks * LANES_64, n, dim))
    padded[:runs] = x
    return np.ascontiguousarray(np.moveaxis(padded.reshape(blocks, LANES_64, n, dim), 1, -1)).reshape(blocks, -1)


def from_blocks(blocks: np.ndarray, runs: int, n: int, dim: int) -> np.ndarray:
    """The inverse of `to_blocks`; a leading axis (field) may stand behind the block's."""
    lead = blocks.shape[1:-1]
    x = np.moveaxis(blocks.reshape(len(blocks), *lead, n, dim, LANES_64), -1, 1)
    return np.ascontiguousarray(x.reshape(-1, *lead, n, dim)[:runs])


def summation_plan(runs: int, pairs: PairList) -> tuple[bool, int]:
    """The faster way to sum, by estimate: whether across runs, and on how many threads.

    Across runs eight lanes and both sides of a pair serve at once, but a block of eight runs stays on one
    thread. Within a run threads meet after every run, which a small one does not repay.
    """
    blocks, threads = -(-runs // LANES_64), get_num_threads()
    size, groups = len(pairs.first), len(pairs.groups)
    within_threads = threads if size * groups > MIN_WORK_FOR_THREADS else 1
    across = -(-blocks // threads) * size
    within = RELATIVE_COST_WITHIN_RUN * runs * groups / within_threads
    return (True, min(blocks, threads)) if across <= within else (False, within_threads)


@cached_kernel(simd, pair_list, parallel=True)
def _evaluate(blocks, runs, across, pairs, axes):
    force = np.empty((len(blocks), 4, blocks.shape[1]))
    magnitude = np.empty((len(blocks), 4, LANES_64))
    if across:
        for block in prange(len(blocks)):
            token_fields_across_runs(
                blocks[block], pairs, force_workspace(pairs, axes), force[block], magnitude[block], axes
            )
    else:
        work = force_workspace(pairs, axes)
        for block in range(len(blocks)):
            left = min(LANES_64, runs - block * LANES_64)
            token_fields_within_run(blocks[block], left, pairs, work, force[block], magnitude[block], axes)
    return force, magnitude


class ForceFields(NamedTuple):
    """The four fields in the order of `FIELDS`, each at constant 1."""

    force: np.ndarray
    """(field, ..., token, axis)"""
    magnitude: np.ndarray
    """(field, ...) summed over ordered pairs of pairs"""


def force_fields(embedding: np.ndarray, pairs: PairList | None = None) -> ForceFields:
    """The four force fields on every token, from the pair sums of a list of pairs (default: all i <= j).

    embedding: (..., token, axis), finite, dimensionless; any leading axes, for instance run and step.
    Raises SettingsError.
    """
    x = np.asarray(embedding, dtype=np.float64)
    if x.ndim < 2 or x.shape[-2] < 1 or x.shape[-1] < 1:
        raise SettingsError("embedding", f"shape {x.shape}", "shape (..., token, axis)")
    lead, (n, dim) = x.shape[:-2], x.shape[-2:]
    pairs = group_pairs(n) if pairs is None else pairs
    if pairs.n != n:
        raise SettingsError("pairs", f"a list for N = {pairs.n}", f"a list for the embedding's N = {n}")
    if not (np.abs(x) < 1e100).all():  # NaN fails it too
        raise SettingsError("embedding", "a value that is not finite", "numbers below 1e100")
    runs = x.size // (n * dim)
    if runs == 0:
        return ForceFields(np.empty((4, *x.shape)), np.empty((4, *lead)))
    across, threads = summation_plan(runs, pairs)
    blocks = to_blocks(x.reshape(runs, n, dim))
    with numba_threads(threads):
        force, magnitude = _evaluate(blocks, runs, across, pairs, tuple(range(dim)))
    force = np.moveaxis(from_blocks(force, runs, n, dim), 1, 0)
    magnitude = np.moveaxis(magnitude, 0, 1).reshape(4, -1)[:, :runs]
    return ForceFields(np.ascontiguousarray(force).reshape(4, *lead, n, dim), magnitude.reshape(4, *lead))
