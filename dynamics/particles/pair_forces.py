r"""The pair forces of CA: repulsion, attraction and alignment between pair sums, summed
over all pairs.

A pair of tokens i <= j has the pair sum x_ij = x_i + x_j. Another pair sum x_kl acts on
x_ij through four fields (CA equations 2-4, combined in CA section 6). With r = \|x_ij -
x_kl\|:

    like attraction     i+j == k+l (mod N)                    (x_kl - x_ij) / r
    unlike repulsion    i+j != k+l                            (x_ij - x_kl) / r²
    like alignment      i+j == k+l  and  x_ij . x_kl > 0       x_kl / \|x_kl\|
    unlike alignment    i+j != k+l  and  x_ij . x_kl > 0      -x_kl / \|x_kl\|

The sum over kl is the force on both particles i and j. All fields are computed with g_a
= g_r = f_a = 1.

Where a field is undefined it is 0: two coincident pair sums (r² <= `TINY`) neither
attract nor repel each other, and a pair sum at the origin (\|x_kl\|² <= `TINY`) neither
aligns others nor is aligned.

Pairs are grouped by residue class (i + j mod N), so that the inner loops contain no
branch. There are two ways to sum, for many runs and for few, with bitwise identical
results: the force on a pair sum is added up over the others in ascending order, and
each term is rounded separately. The magnitude of a field is the same for both pair
sums, and is stored with the later of the two.

- Across runs (`_pair_fields_across_runs`): each SIMD lane is a run. Each pair of pair
  sums is visited once and used for both (action and reaction).
- Within a run (`_pair_fields_within_run`): each SIMD lane is a pair sum. Each pair of
  pair sums is visited from both sides, which is twice the work, but no two lanes write
  to the same memory, so a single run can be spread over threads.

Alignment in the plane depends only on the order of the angles, which sorting gives in
O(P log P). This is not used: alignment takes 5 to 10% of the time of the whole sum, and
sorting with prefix sums took longer than that for every N up to 113 and lost four
digits."""

from typing import NamedTuple

import numpy as np
from numba import get_num_threads, prange

from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel, kernel_function, numba_threads
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
"""Measured time per pair of pair sums of the sum within a run, relative to the sum
across runs."""
MIN_WORK_FOR_THREADS = 20_000
"""Work of a run (groups of eight pair sums times pair sums) from which several threads
are faster; about N = 28."""

FIELD_NAMES = (
    "like_attraction",
    "unlike_repulsion",
    "like_alignment",
    "unlike_alignment",
)
"""The four fields in the order of the field axis of all arrays here."""
FIELD_COUNT = len(FIELD_NAMES)
ATTRACTION, REPULSION, LIKE_ALIGNMENT, UNLIKE_ALIGNMENT = range(FIELD_COUNT)


# ---------------------------------------------------------- force between two pair sums


@kernel_function
def inverse_length(vectors):
    """1 / length of each lane's vector; 0 for a vector of zero length."""
    square = dot(vectors, vectors)
    return where_above(square, TINY, scalars(1.0) / square_root(square))


@kernel_function
def repulsion_force(x_ij, x_kl):
    """Repulsion of x_ij by x_kl, (x_ij - x_kl) / r², and its magnitude 1/r (CA eq 2,
    g_r = 1)."""
    difference = x_ij - x_kl
    square = dot(difference, difference)
    inverse_square = where_above(square, TINY, scalars(1.0) / square)
    return difference * inverse_square, square_root(inverse_square)


@kernel_function
def attraction_force(x_ij, x_kl):
    """Attraction of x_ij by x_kl, (x_kl - x_ij) / r, and its magnitude 1 (CA eq 3, g_a
    = 1)."""
    difference = x_kl - x_ij
    inverse = inverse_length(difference)
    return difference * inverse, where_above(inverse, 0.0, scalars(1.0))


@kernel_function
def alignment_force(x_ij, x_kl, unit_kl):
    """Alignment of x_ij by a like x_kl: x_kl / |x_kl| if x_ij . x_kl > 0, else 0 (CA eq
    4, f_a = 1)."""
    return where_above(dot(x_ij, x_kl), 0.0, unit_kl)


@kernel_function
def in_half_plane(x_ij, x_kl):
    """The magnitude of the alignment of x_ij by x_kl: 1 if x_ij . x_kl > 0, else 0."""
    return where_above(dot(x_ij, x_kl), 0.0, scalars(1.0))


# ------------------------------------------------------ sum across runs: lanes are runs


@kernel_function
def _add_like_fields_across_runs(sums, units, bounds, fields, magnitudes, axes):
    """Add both like fields. Each pair of pair sums of the same class is visited once
    and used for both."""
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
                add_vectors(
                    fields[LIKE_ALIGNMENT],
                    ij,
                    alignment_force(x_ij, x_kl, unit_kl),
                    axes,
                )
                aligned += alignment_force(x_kl, x_ij, load_vectors(units, ij, axes))
                partners += in_half_plane(x_ij, x_kl)
            store_vectors(fields[ATTRACTION], kl, attracted)
            store_vectors(fields[LIKE_ALIGNMENT], kl, aligned)
            store_scalars(magnitudes[ATTRACTION], kl, strength)
            store_scalars(magnitudes[LIKE_ALIGNMENT], kl, partners)


@kernel_function
def _add_unlike_fields_across_runs(sums, units, bounds, fields, magnitudes, axes):
    """Add both unlike fields. Each pair of pair sums of different classes is visited
    once and used for both."""
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
                _subtract_vectors(
                    fields[UNLIKE_ALIGNMENT],
                    ij,
                    alignment_force(x_ij, x_kl, unit_kl),
                    axes,
                )
                aligned -= alignment_force(x_kl, x_ij, load_vectors(units, ij, axes))
                partners += in_half_plane(x_ij, x_kl)
            store_vectors(fields[REPULSION], kl, repelled)
            store_vectors(fields[UNLIKE_ALIGNMENT], kl, aligned)
            store_scalars(magnitudes[REPULSION], kl, strength)
            store_scalars(magnitudes[UNLIKE_ALIGNMENT], kl, partners)


@kernel_function
def _subtract_vectors(array, group, value, axes):
    """array[group] -= value."""
    store_vectors(array, group, load_vectors(array, group, axes) - value)


@kernel_function
def _pair_fields_across_runs(sums, units, bounds, fields, magnitudes, axes):
    """All four fields on every pair sum of a block of eight runs; lanes are runs.

    sums and units, the pair sums and their directions: (pair x axis x lane); bounds:
    (class + 1). Writes fields (field, pair x axis x lane) and magnitudes (field, pair x
    lane)."""
    fields[:] = 0.0
    magnitudes[:] = 0.0
    _add_like_fields_across_runs(sums, units, bounds, fields, magnitudes, axes)
    _add_unlike_fields_across_runs(sums, units, bounds, fields, magnitudes, axes)


# ------------------------------------------------ sum within a run: lanes are pair sums


@kernel_function
def _like_fields_within_run(
    group, x_ij, numbers, points, directions, first, last, out, out_magnitudes, axes
):
    """Both like fields on eight pair sums of a class, which are the pair sums first to
    last - 1."""
    attracted = x_ij - x_ij
    aligned = x_ij - x_ij
    strength = scalars(0.0)
    partners = scalars(0.0)
    for kl in range(first, last):
        x_kl = broadcast_vectors(points, kl, axes)
        force, magnitude = attraction_force(x_ij, x_kl)
        attracted += force
        later = numbers - scalars(
            float(kl)
        )  # positive where ij comes after kl, 0 where it is kl itself
        strength += where_above(later, 0.5, magnitude)
        partners += where_above(later, 0.5, in_half_plane(x_ij, x_kl))
        aligned += where_above(
            later * later,
            0.5,
            alignment_force(x_ij, x_kl, broadcast_vectors(directions, kl, axes)),
        )
    store_vectors(out[ATTRACTION], group, attracted)
    store_vectors(out[LIKE_ALIGNMENT], group, aligned)
    store_scalars(out_magnitudes[ATTRACTION], group, strength)
    store_scalars(out_magnitudes[LIKE_ALIGNMENT], group, partners)


@kernel_function
def _unlike_fields_within_run(
    group, x_ij, points, directions, first, last, pairs, out, out_magnitudes, axes
):
    """Both unlike fields on eight pair sums of a class, from all pair sums except first
    to last - 1."""
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
    for kl in range(
        last, pairs
    ):  # magnitudes are stored with the later pair sum, kl: no square root is needed
        x_kl = broadcast_vectors(points, kl, axes)
        repelled += repulsion_force(x_ij, x_kl)[0]
        aligned -= alignment_force(x_ij, x_kl, broadcast_vectors(directions, kl, axes))
    store_vectors(out[REPULSION], group, repelled)
    store_vectors(out[UNLIKE_ALIGNMENT], group, aligned)
    store_scalars(out_magnitudes[REPULSION], group, strength)
    store_scalars(out_magnitudes[UNLIKE_ALIGNMENT], group, partners)


@kernel_function
def _gather_lane(sums, units, lane, points, directions):
    """Copy the pair sums and directions of one run: (pair x axis x lane) to (pair x
    axis)."""
    for k in range(points.size):
        points[k] = sums[k * LANES_64 + lane]
        directions[k] = units[k * LANES_64 + lane]


@kernel_function
def _load_group(points, start, last, padded, group, axes):
    """Pair sums start to start + 7 of one run as lanes; lanes for pair sums from `last`
    on are zero."""
    dim = len(axes)
    base = group * dim * LANES_64
    for lane in range(min(LANES_64, last - start)):
        for axis in axes:
            padded[base + axis * LANES_64 + lane] = points[(start + lane) * dim + axis]
    return load_vectors(padded, group, axes)


@kernel_function
def _scatter_group(
    group, start, last, lane, out, out_magnitudes, fields, magnitudes, axes
):
    """Copy the fields on pair sums start to start + 7 of one run to that run's lane."""
    dim = len(axes)
    for field in range(FIELD_COUNT):
        for k in range(min(LANES_64, last - start)):
            magnitudes[field, (start + k) * LANES_64 + lane] = out_magnitudes[
                field, group * LANES_64 + k
            ]
            for axis in axes:
                value = out[field, (group * dim + axis) * LANES_64 + k]
                fields[field, ((start + k) * dim + axis) * LANES_64 + lane] = value


@kernel_function(parallel=True)
def _pair_fields_within_run(
    sums, units, bounds, groups, runs, fields, magnitudes, axes
):
    """The same as `_pair_fields_across_runs` for the first `runs` lanes, one run after
    the other, on all threads.

    groups: (group, 2), class and first pair sum of every eight pair sums of a class.
    """
    dim = len(axes)
    pairs = bounds[-1]
    points = np.empty(pairs * dim)
    directions = np.empty(pairs * dim)
    padded = np.zeros(len(groups) * dim * LANES_64)
    out = np.empty((FIELD_COUNT, len(groups) * dim * LANES_64))
    out_magnitudes = np.empty((FIELD_COUNT, len(groups) * LANES_64))
    for lane in range(runs):
        _gather_lane(sums, units, lane, points, directions)
        for number in prange(len(groups)):
            # prange counts by unsigned integers, with which all would be compiled again
            group = np.int64(number)
            first, last = bounds[groups[group, 0]], bounds[groups[group, 0] + 1]
            start = groups[group, 1]
            x_ij = _load_group(points, start, last, padded, group, axes)
            numbers = lane_numbers() + scalars(float(start))
            _like_fields_within_run(
                group,
                x_ij,
                numbers,
                points,
                directions,
                first,
                last,
                out,
                out_magnitudes,
                axes,
            )
            _unlike_fields_within_run(
                group,
                x_ij,
                points,
                directions,
                first,
                last,
                pairs,
                out,
                out_magnitudes,
                axes,
            )
            _scatter_group(
                group, start, last, lane, out, out_magnitudes, fields, magnitudes, axes
            )


# --------------------------------- from particles to pair sums, and fields to particles


@kernel_function
def _store_pair_sums(x, pairs, sums, units, axes):
    """Store the pair sum of every pair and its direction. x: (token x axis x lane)."""
    for ij in range(len(pairs.first)):
        x_ij = load_vectors(x, pairs.first[ij], axes) + load_vectors(
            x, pairs.second[ij], axes
        )
        x_ij = where_above(
            dot(x_ij, x_ij), TINY, x_ij
        )  # pair sums too short for a direction become exactly 0
        store_vectors(sums, ij, x_ij)
        store_vectors(units, ij, x_ij * inverse_length(x_ij))


@kernel_function
def _sum_onto_tokens(pairs, fields, magnitudes, force, magnitude, axes):
    """Add the fields on each pair sum to both its tokens, and sum the magnitudes.

    Writes force (field, token x axis x lane) and magnitude (field, lane). The magnitude
    is summed over ordered pairs of pairs, hence the factor 2."""
    force[:] = 0.0
    magnitude[:] = 0.0
    for field in range(FIELD_COUNT):
        for ij in range(len(pairs.first)):
            value = load_vectors(fields[field], ij, axes)
            add_vectors(force[field], pairs.first[ij], value, axes)
            if pairs.twice or pairs.first[ij] != pairs.second[ij]:
                add_vectors(force[field], pairs.second[ij], value, axes)
            add_scalars(
                magnitude[field], 0, load_scalars(magnitudes[field], ij) * scalars(2.0)
            )


@kernel_function
def force_workspace(pairs, axes):
    """Working memory for a block of eight runs: pair sums, their directions, fields,
    magnitudes."""
    size = len(pairs.first) * len(axes) * LANES_64
    return (
        np.empty(size),
        np.empty(size),
        np.empty((FIELD_COUNT, size)),
        np.empty((FIELD_COUNT, len(pairs.first) * LANES_64)),
    )


@cached_kernel(simd, pair_list)
def token_fields_across_runs(x, pairs, work, force, magnitude, axes):
    """The four fields on every token of a block of eight runs, computed on the calling
    thread."""
    sums, units, fields, magnitudes = work
    _store_pair_sums(x, pairs, sums, units, axes)
    _pair_fields_across_runs(sums, units, pairs.bounds, fields, magnitudes, axes)
    _sum_onto_tokens(pairs, fields, magnitudes, force, magnitude, axes)


@cached_kernel(simd, pair_list)
def token_fields_within_run(x, runs, pairs, work, force, magnitude, axes):
    """The same as `token_fields_across_runs` for the first `runs` lanes of the block,
    on all threads."""
    sums, units, fields, magnitudes = work
    fields[:] = 0.0
    magnitudes[:] = 0.0
    _store_pair_sums(x, pairs, sums, units, axes)
    _pair_fields_within_run(
        sums, units, pairs.bounds, pairs.groups, runs, fields, magnitudes, axes
    )
    _sum_onto_tokens(pairs, fields, magnitudes, force, magnitude, axes)


# ------------------------------------------------------------------ for use from Python


def to_blocks(x: np.ndarray) -> np.ndarray:
    """Rearrange (run, token, axis) to (block, token x axis x lane): eight runs per
    block, missing runs zero."""
    runs, n, dim = x.shape
    blocks = -(-runs // LANES_64)
    padded = np.zeros((blocks * LANES_64, n, dim))
    padded[:runs] = x
    return np.ascontiguousarray(
        np.moveaxis(padded.reshape(blocks, LANES_64, n, dim), 1, -1)
    ).reshape(blocks, -1)


def from_blocks(blocks: np.ndarray, runs: int, n: int, dim: int) -> np.ndarray:
    """The inverse of `to_blocks`; further axes, such as the field, may follow the block
    axis."""
    lead = blocks.shape[1:-1]
    x = np.moveaxis(blocks.reshape(len(blocks), *lead, n, dim, LANES_64), -1, 1)
    return np.ascontiguousarray(x.reshape(-1, *lead, n, dim)[:runs])


def summation_plan(runs: int, pairs: PairList) -> tuple[bool, int]:
    """The estimated faster way to sum: whether to sum across runs, and the number of
    threads.

    Across runs, a block of eight runs stays on one thread. Within a run, threads
    synchronise after every run, which takes longer than it saves for small N."""
    blocks = -(-runs // LANES_64)
    threads = get_num_threads()
    size, groups = len(pairs.first), len(pairs.groups)
    within_threads = threads if size * groups > MIN_WORK_FOR_THREADS else 1
    across = -(-blocks // threads) * size
    within = RELATIVE_COST_WITHIN_RUN * runs * groups / within_threads
    return (True, min(blocks, threads)) if across <= within else (False, within_threads)


@cached_kernel(simd, pair_list, parallel=True)
def _evaluate(blocks, runs, across, pairs, axes):
    """Force (block, field, token x axis x lane) and magnitude (block, field, lane) of
    all blocks."""
    force = np.empty((len(blocks), FIELD_COUNT, blocks.shape[1]))
    magnitude = np.empty((len(blocks), FIELD_COUNT, LANES_64))
    if across:
        for block in prange(len(blocks)):
            token_fields_across_runs(
                blocks[block],
                pairs,
                force_workspace(pairs, axes),
                force[block],
                magnitude[block],
                axes,
            )
    else:
        work = force_workspace(pairs, axes)
        for block in range(len(blocks)):
            left = min(LANES_64, runs - block * LANES_64)
            token_fields_within_run(
                blocks[block], left, pairs, work, force[block], magnitude[block], axes
            )
    return force, magnitude


class ForceFields(NamedTuple):
    """The four force fields in the order of `FIELD_NAMES`, each with its constant set
    to 1."""

    force: np.ndarray
    """Force on every token: (field, ..., token, axis)."""
    magnitude: np.ndarray
    """Sum of the magnitudes over ordered pairs of pairs: (field, ...)."""


def force_fields(embedding: np.ndarray, pairs: PairList | None = None) -> ForceFields:
    """Compute the four pair-force fields of CA on every token of one or more
    embeddings.

    Parameters
    ----------
    embedding : array_like
        Particle positions or token embeddings, (..., token, axis), dimensionless; any
        leading axes, such as run and step. Computed in float64.
    pairs : PairList, optional
        The pairs of tokens whose sums act on each other, from `group_pairs`. By default
        all pairs i <= j.

    Returns
    -------
    ForceFields
        ``force`` (field, ..., token, axis) and ``magnitude`` (field, ...). The fields
        are like attraction, unlike repulsion, like alignment and unlike alignment, each
        with its constant set to 1.

    Raises
    ------
    SettingsError
        If the embedding has a wrong shape or contains values that are not finite, or if
        `pairs` is for another N.

    Notes
    -----
    CA equations 2-4. The formulas, and their values at coincident pair sums, are
    in `dynamics.particles.pair_forces`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((7, 2))
    >>> force, magnitude = force_fields(x)
    >>> force.shape
    (4, 7, 2)
    >>> bool(np.allclose(force[0].sum(axis=0), 0))  # attraction is reciprocal
    True
    """
    x = np.asarray(embedding, dtype=np.float64)
    if x.ndim < 2 or x.shape[-2] < 1 or x.shape[-1] < 1:
        raise SettingsError("embedding", f"shape {x.shape}", "shape (..., token, axis)")
    lead, (n, dim) = x.shape[:-2], x.shape[-2:]
    pairs = group_pairs(n) if pairs is None else pairs
    if pairs.n != n:
        raise SettingsError(
            "pairs", f"a list for N = {pairs.n}", f"a list for the embedding's N = {n}"
        )
    if not (np.abs(x) < 1e100).all():  # also false for NaN
        raise SettingsError(
            "embedding", "a value that is not finite", "numbers below 1e100"
        )
    runs = x.size // (n * dim)
    if runs == 0:
        return ForceFields(
            np.empty((FIELD_COUNT, *x.shape)), np.empty((FIELD_COUNT, *lead))
        )
    across, threads = summation_plan(runs, pairs)
    blocks = to_blocks(x.reshape(runs, n, dim))
    with numba_threads(threads):
        force, magnitude = _evaluate(blocks, runs, across, pairs, tuple(range(dim)))
    force = np.moveaxis(from_blocks(force, runs, n, dim), 1, 0)
    magnitude = np.moveaxis(magnitude, 0, 1).reshape(FIELD_COUNT, -1)[:, :runs]
    return ForceFields(
        np.ascontiguousarray(force).reshape(FIELD_COUNT, *lead, n, dim),
        magnitude.reshape(FIELD_COUNT, *lead),
    )
