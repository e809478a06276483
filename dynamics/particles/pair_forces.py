r"""Sums of the forces of a law over all pairs of pair sums.

A law is a tuple of `dynamics.forces.Force`; that module has the formulas. Pairs are
grouped by residue class (i + j mod N), so that the inner loops contain no branch.
There are two ways to sum, for many runs and for few, with bitwise identical results:
the force on a pair sum is added up over the others in ascending order, and each term is
rounded separately. The magnitude of a force is the same for both pair sums, and is
stored with the later of the two.

- Across runs: each SIMD lane is a run. Each pair of pair sums is visited once and used
  for both.
- Within a run: each SIMD lane is a pair sum. Each pair of pair sums is visited from both
  sides, which is twice the work, but no two lanes write to the same memory, so a single
  run can be spread over threads.

Alignment in the plane depends only on the order of the angles, which sorting gives in
O(P log P). This is not used: alignment takes 5 to 10% of the time of the whole sum, and
sorting with prefix sums took longer than that for every N up to 113 and lost four
digits."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import get_num_threads, prange

from dynamics import strengths
from dynamics.forces import CA, Force, bare_forces
from dynamics.kernels import lane_functions, simd
from dynamics.kernels.compiling import (
    cached_kernel,
    kernel_function,
    numba_threads,
    variant_function,
)
from dynamics.kernels.simd import (
    LANES_64,
    add_scalars,
    add_vectors,
    broadcast_vectors,
    dot,
    lane_numbers,
    load_scalars,
    load_vectors,
    repeat_axes,
    scalars,
    square_root,
    store_vectors,
    where_above,
)
from dynamics.particles import force_terms, pair_list
from dynamics.particles.force_terms import TINY, law_terms
from dynamics.particles.pair_list import PairList, group_pairs
from dynamics.settings import SettingsError

RELATIVE_COST_WITHIN_RUN = 1.6
"""Measured time per pair of pair sums of the sum within a run, relative to the sum
across runs."""
MIN_WORK_FOR_THREADS = 20_000
"""Work of a run (groups of eight pair sums times pair sums) from which several threads
are faster; about N = 28."""

FIELD_NAMES = tuple(force.name for force in CA)
"""Names of the four forces of CA, in their order."""

MODULES = (simd, lane_functions, pair_list, force_terms, strengths)
"""Modules that are compiled into the kernels of a law."""


@kernel_function
def inverse_length(vectors):
    """1 / length of each lane's vector; 0 for a vector of zero length."""
    square = dot(vectors, vectors)
    return where_above(square, TINY, scalars(1.0) / square_root(square))


# ------------------------------------------------ forces between one kind of pairs


class PairSums(NamedTuple):
    """Compiled sums of the forces between one kind of pairs, like or unlike, in one
    dimension."""

    width: int
    """Number of forces."""
    targets: np.ndarray
    """(force,) The place of each force in the law; empty if there is none, and the sums
    are of one force that is zero."""
    across_runs: Callable[..., Any]
    within_run: Callable[..., Any]


def _pair_sums(
    forces: tuple[Force, ...], kind: Literal["like", "unlike"], dim: int
) -> PairSums:
    """The compiled sums of the forces of a law between one kind of pairs.

    Arrays: sums and units, the pair sums and their directions (pair x axis x lane);
    fields (pair x force x axis x lane) and magnitudes (pair x force x lane)."""
    targets = [place for place, force in enumerate(forces) if force.acts_between(kind)]
    width = max(1, len(targets))
    terms = law_terms(forces, kind)
    variant = f"{variant_name(forces, dim)} {kind}"
    axes = tuple(range(dim))
    field_axes = tuple(range(width * dim))
    numbers = tuple(range(width))
    is_like = kind == "like"

    @variant_function(variant)
    def across_runs(bounds, sums, units, fields, magnitudes):
        """Lanes are runs. Each pair of pair sums is visited once; its forces are added
        to what is on both."""
        for c in range(bounds.size - 1):
            first, end = bounds[c], bounds[c + 1]
            others = range(first, end) if is_like else range(end, bounds[-1])
            for kl in others:
                x_kl = load_vectors(sums, kl, axes)
                unit_kl = load_vectors(units, kl, axes)
                total = load_vectors(fields, kl, field_axes)
                strength = load_vectors(magnitudes, kl, numbers)
                for ij in range(first, min(kl, end)):
                    x_ij = load_vectors(sums, ij, axes)
                    unit_ij = load_vectors(units, ij, axes)
                    on_ij, on_kl, magnitude = terms(x_ij, x_kl, unit_ij, unit_kl)
                    add_vectors(fields, ij, on_ij, field_axes)
                    total += on_kl
                    strength += magnitude
                store_vectors(fields, kl, total)
                store_vectors(magnitudes, kl, strength)

    @variant_function(variant)
    def within_run(
        place, group_sums, group_units, points, directions, earlier, later, out
    ):
        """Lanes are the pair sums of a group, and points (pair x axis) those of one
        run. The forces on the group by the pair sums in two ranges, of which the second
        comes after all of the group, so that magnitudes are not needed."""
        group, start = place
        x_ij = load_vectors(group_sums, group, axes)
        unit_ij = load_vectors(group_units, group, axes)
        order = lane_numbers() + scalars(float(start))
        fields, magnitudes = out
        total = repeat_axes(scalars(0.0), field_axes)
        strength = repeat_axes(scalars(0.0), numbers)
        for kl in range(earlier[0], earlier[1]):
            x_kl = broadcast_vectors(points, kl, axes)
            unit_kl = broadcast_vectors(directions, kl, axes)
            on_ij, _, magnitude = terms(x_ij, x_kl, unit_ij, unit_kl)
            if is_like:
                # positive where ij comes after kl, 0 where it is kl itself
                after = order - scalars(float(kl))
                on_ij = where_above(after * after, 0.5, on_ij)
                magnitude = where_above(after, 0.5, magnitude)
            total += on_ij
            strength += magnitude
        for kl in range(later[0], later[1]):
            x_kl = broadcast_vectors(points, kl, axes)
            unit_kl = broadcast_vectors(directions, kl, axes)
            total += terms(x_ij, x_kl, unit_ij, unit_kl)[0]
        store_vectors(fields, group, total)
        store_vectors(magnitudes, group, strength)

    return PairSums(width, np.array(targets, np.int64), across_runs, within_run)


# ------------------------------------------------------------- copies of one run


@kernel_function
def _gather_lane(sums, units, lane, points, directions):
    """Copy the pair sums and directions of one run: (pair x axis x lane) to (pair x
    axis)."""
    for k in range(points.size):
        points[k] = sums[k * LANES_64 + lane]
        directions[k] = units[k * LANES_64 + lane]


@kernel_function
def _pad_group(points, start, last, padded, group, axes):
    """Copy the vectors of pair sums start to start + 7 of one run to lanes; lanes for
    pair sums from `last` on stay zero."""
    dim = len(axes)
    base = group * dim * LANES_64
    for lane in range(min(LANES_64, last - start)):
        for axis in axes:
            padded[base + axis * LANES_64 + lane] = points[(start + lane) * dim + axis]


@kernel_function
def _scatter_group(place, out, into, width):
    """Copy what is stored of pair sums start to start + 7 of one run, `width` numbers
    each, to that run's lane.

    place: group, start, end of the class, lane."""
    group, start, last, lane = place
    for k in range(min(LANES_64, last - start)):
        for number in range(width):
            value = out[(group * width + number) * LANES_64 + k]
            into[((start + k) * width + number) * LANES_64 + lane] = value


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
def _start_sums(x, pairs, work, axes):
    """Store the pair sums, and set the sums of forces to zero."""
    sums, units, like, unlike = work
    _store_pair_sums(x, pairs, sums, units, axes)
    like[0][:] = 0.0
    like[1][:] = 0.0
    unlike[0][:] = 0.0
    unlike[1][:] = 0.0


@kernel_function
def _sum_onto_tokens(pairs, on_pairs, targets, width, force, magnitude, axes):
    """Add the fields on each pair sum to both its tokens, and sum the magnitudes.

    on_pairs: fields (pair x width x axis x lane) and magnitudes (pair x width x lane)
    of the forces with places `targets` in the law. Adds to force (force, token x axis x
    lane) and magnitude (force, lane). The magnitude is summed over ordered pairs of
    pairs, hence the factor 2."""
    fields, magnitudes = on_pairs
    for term in range(len(targets)):
        field = targets[term]
        for ij in range(len(pairs.first)):
            place = ij * width + term
            value = load_vectors(fields, place, axes)
            add_vectors(force[field], pairs.first[ij], value, axes)
            if pairs.twice or pairs.first[ij] != pairs.second[ij]:
                add_vectors(force[field], pairs.second[ij], value, axes)
            size = load_scalars(magnitudes, place) * scalars(2.0)
            add_scalars(magnitude[field], 0, size)


# ------------------------------------------------------------- kernels of one law


class FieldKernels(NamedTuple):
    """Compiled sums of the forces of one law in one dimension."""

    workspace: Callable[..., Any]
    """workspace(pairs): memory for a block of eight runs."""
    across_runs: Callable[..., Any]
    """across_runs(x, pairs, work, force, magnitude): the forces (force, token x
    axis x lane) on every token of a block x, and their magnitudes (force, lane); on the
    calling thread."""
    within_run: Callable[..., Any]
    """within_run(x, runs, pairs, work, force, magnitude): the same for the first `runs`
    lanes, on all threads."""
    evaluate: Callable[..., Any]
    """evaluate(blocks, runs, across, pairs): forces (block, force, ...) and magnitudes
    (block, force, lane) of all blocks."""


def field_kernels(forces: tuple[Force, ...], dim: int) -> FieldKernels:
    """The compiled sums of the forces in a dimension. Constants and balance of the
    forces do not matter."""
    return _field_kernels(bare_forces(forces), dim)


def variant_name(forces: tuple[Force, ...], dim: int) -> str:
    """Text that determines the kernels of a law."""
    strengths_of = [(force.pairs, force.along, force.strength) for force in forces]
    return f"{strengths_of} {dim}"


@functools.lru_cache(maxsize=64)
def _field_kernels(forces: tuple[Force, ...], dim: int) -> FieldKernels:
    variant = variant_name(forces, dim)
    force_count = len(forces)
    axes = tuple(range(dim))
    like = _pair_sums(forces, "like", dim)
    unlike = _pair_sums(forces, "unlike", dim)
    like_across, like_within = like.across_runs, like.within_run
    unlike_across, unlike_within = unlike.across_runs, unlike.within_run
    like_width, unlike_width = like.width, unlike.width
    like_targets, unlike_targets = like.targets, unlike.targets

    @variant_function(variant)
    def workspace(pairs):
        size = len(pairs.first) * LANES_64
        return (
            np.empty(size * dim),
            np.empty(size * dim),
            (np.empty(size * like_width * dim), np.empty(size * like_width)),
            (np.empty(size * unlike_width * dim), np.empty(size * unlike_width)),
        )

    @variant_function(variant)
    def sum_onto_tokens(pairs, work, force, magnitude):
        force[:] = 0.0
        magnitude[:] = 0.0
        _sum_onto_tokens(
            pairs, work[2], like_targets, like_width, force, magnitude, axes
        )
        _sum_onto_tokens(
            pairs, work[3], unlike_targets, unlike_width, force, magnitude, axes
        )

    @cached_kernel(*MODULES, variant=variant)
    def across_runs(x, pairs, work, force, magnitude):
        sums, units, (fields, sizes), (unlike_fields, unlike_sizes) = work
        _start_sums(x, pairs, work, axes)
        like_across(pairs.bounds, sums, units, fields, sizes)
        unlike_across(pairs.bounds, sums, units, unlike_fields, unlike_sizes)
        sum_onto_tokens(pairs, work, force, magnitude)

    @variant_function(variant, parallel=True)
    def fields_of_each_run(pairs, runs, work):
        sums, units, (fields, sizes), (unlike_fields, unlike_sizes) = work
        count = len(pairs.first)
        groups = pairs.groups
        size = len(groups) * LANES_64
        points = np.empty(count * dim)
        directions = np.empty(count * dim)
        group_sums = np.zeros(size * dim)
        group_units = np.zeros(size * dim)
        on_like = (np.empty(size * like_width * dim), np.empty(size * like_width))
        on_unlike = (np.empty(size * unlike_width * dim), np.empty(size * unlike_width))
        for lane in range(runs):
            _gather_lane(sums, units, lane, points, directions)
            for number in prange(len(groups)):
                # prange counts by unsigned integers, with which all would be compiled
                # again
                group = np.int64(number)
                first = pairs.bounds[groups[group, 0]]
                last = pairs.bounds[groups[group, 0] + 1]
                start = groups[group, 1]
                place = (group, start)
                _pad_group(points, start, last, group_sums, group, axes)
                _pad_group(directions, start, last, group_units, group, axes)
                like_within(
                    place,
                    group_sums,
                    group_units,
                    points,
                    directions,
                    (first, last),
                    (last, last),
                    on_like,
                )
                unlike_within(
                    place,
                    group_sums,
                    group_units,
                    points,
                    directions,
                    (0, first),
                    (last, count),
                    on_unlike,
                )
                used = (group, start, last, lane)
                _scatter_group(used, on_like[0], fields, like_width * dim)
                _scatter_group(used, on_like[1], sizes, like_width)
                _scatter_group(used, on_unlike[0], unlike_fields, unlike_width * dim)
                _scatter_group(used, on_unlike[1], unlike_sizes, unlike_width)

    @cached_kernel(*MODULES, variant=variant)
    def within_run(x, runs, pairs, work, force, magnitude):
        _start_sums(x, pairs, work, axes)
        fields_of_each_run(pairs, runs, work)
        sum_onto_tokens(pairs, work, force, magnitude)

    @cached_kernel(*MODULES, variant=variant, parallel=True)
    def evaluate(blocks, runs, across, pairs):
        force = np.empty((len(blocks), force_count, blocks.shape[1]))
        magnitude = np.empty((len(blocks), force_count, LANES_64))
        if across:
            for block in prange(len(blocks)):
                across_runs(
                    blocks[block],
                    pairs,
                    workspace(pairs),
                    force[block],
                    magnitude[block],
                )
        else:
            work = workspace(pairs)
            for block in range(len(blocks)):
                left = min(LANES_64, runs - block * LANES_64)
                within_run(
                    blocks[block], left, pairs, work, force[block], magnitude[block]
                )
        return force, magnitude

    return FieldKernels(workspace, across_runs, within_run, evaluate)


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


class ForceFields(NamedTuple):
    """The fields of the forces of a law, each with a constant of 1."""

    force: np.ndarray
    """Force on every token: (force, ..., token, axis)."""
    magnitude: np.ndarray
    """Sum of the magnitudes over ordered pairs of pairs: (force, ...)."""


def force_fields(
    embedding: np.ndarray,
    pairs: PairList | None = None,
    law: tuple[Force, ...] = CA,
) -> ForceFields:
    """Compute the fields of the forces of a law on every token of one or more
    embeddings.

    Parameters
    ----------
    embedding : array_like
        Particle positions or token embeddings, (..., token, axis), dimensionless; any
        leading axes, such as run and step. Computed in float64.
    pairs : PairList, optional
        The pairs of tokens whose sums act on each other, from `group_pairs`. By default
        all pairs i <= j.
    law : tuple of Force, optional
        By default the four forces of CA: like attraction, unlike repulsion, like
        alignment and unlike alignment.

    Returns
    -------
    ForceFields
        ``force`` (force, ..., token, axis) and ``magnitude`` (force, ...), each with a
        constant of 1 and without balance.

    Raises
    ------
    SettingsError
        If the embedding has a wrong shape or contains values that are not finite, or if
        `pairs` is for another N.

    Notes
    -----
    CA equations 2-4. The formulas, and their values at coincident pair sums, are
    in `dynamics.forces`.

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
        return ForceFields(np.empty((len(law), *x.shape)), np.empty((len(law), *lead)))
    across, threads = summation_plan(runs, pairs)
    blocks = to_blocks(x.reshape(runs, n, dim))
    kernels = field_kernels(law, dim)
    with numba_threads(threads):
        force, magnitude = kernels.evaluate(blocks, runs, across, pairs)
    force = np.moveaxis(from_blocks(force, runs, n, dim), 1, 0)
    magnitude = np.moveaxis(magnitude, 0, 1).reshape(len(law), -1)[:, :runs]
    return ForceFields(
        np.ascontiguousarray(force).reshape(len(law), *lead, n, dim),
        magnitude.reshape(len(law), *lead),
    )
