"""The four forces of CA in the plane by fast summation. Other laws are summed directly.

Direct sums over the P = N(N+1)/2 pair sums take P² steps. Here an unlike field is the
field of all pair sums less that of the like ones, which are summed directly in N³/4
steps (`like_sums`). Repulsion is split into a smooth part, summed over all pairs by a
mesh and Fourier transforms (`mesh_sums`), and a part that is zero beyond a cutoff,
summed over the unlike pairs that are nearer (`point_cells`). In regions where pair sums
are dense, a finer mesh has its own smooth part and cutoff. For nearer like pairs the
smooth part is subtracted; the whole kernel is not, as pairs that nearly coincide would
lose digits. The alignment of all pairs follows from the order of the angles
(`half_planes`). Attraction and both alignments equal the direct sums up to rounding.
The error of the repulsion is below the accuracy, relative to the largest force.

The result depends on the positions alone, bit for bit, for any number of threads.
"""

from typing import NamedTuple

import numpy as np
from numba import get_num_threads

from dynamics.forces import CA
from dynamics.kernels.compiling import cached_kernel, numba_threads
from dynamics.particles import mesh_sums, pair_list
from dynamics.particles.force_terms import TINY
from dynamics.particles.half_planes import half_plane_sums, have_direction
from dynamics.particles.like_sums import like_sums
from dynamics.particles.pair_forces import ForceFields
from dynamics.particles.pair_list import PairList
from dynamics.particles.point_cells import (
    axes_of_small_box,
    near_sums,
    sort_for_near_sums,
    turn,
)
from dynamics.particles.split_kernels import splitting

MIN_PAIRS_FOR_THREADS = 20_000
"""Number of pair sums from which several threads are faster; N = 200."""
LEAST_BYTES = 2**24
"""Memory for few tokens."""
BYTES_PER_PAIR = 440
"""Memory in bytes for each pair sum, measured for N up to 1997."""
BYTES_PER_NODE = 20
"""Memory in bytes for each node of the mesh, measured for N up to 1997."""


def working_bytes(n: int, accuracy: float) -> int:
    """Estimated memory in bytes that `fast_fields` needs for N tokens, if they extend
    as far along both axes."""
    pairs = n * (n + 1) // 2
    nodes = mesh_sums.largest_square(pairs, splitting(accuracy))
    return LEAST_BYTES + pairs * BYTES_PER_PAIR + nodes * BYTES_PER_NODE


def fast_force_fields(
    embedding: np.ndarray, pairs: PairList, accuracy: float
) -> ForceFields:
    """`force_fields` of embeddings (..., token, 2), with the accuracy of
    `fast_fields`."""
    frames = embedding.reshape(-1, *embedding.shape[-2:])
    fields = [
        fast_fields(np.ascontiguousarray(x, np.float64), pairs, accuracy)
        for x in frames
    ]
    force = np.stack([item.force for item in fields], axis=1)
    magnitude = np.stack([item.magnitude for item in fields], axis=1)
    return ForceFields(
        force.reshape(len(CA), *embedding.shape),
        magnitude.reshape(len(CA), *embedding.shape[:-2]),
    )


def fast_fields(x: np.ndarray, pairs: PairList, accuracy: float) -> ForceFields:
    """The fields (field, token, 2) of one embedding (token, 2) and their magnitudes
    (field,).

    accuracy: largest error relative to the largest force on a token, and of the
    magnitudes relative to themselves."""
    force = np.zeros((len(CA), *x.shape))
    magnitude = np.zeros(len(CA))
    if len(pairs.first) == 0:
        return ForceFields(force, magnitude)
    points, directions = _pair_sums(x, pairs)
    with numba_threads(get_num_threads() if len(points) > MIN_PAIRS_FOR_THREADS else 1):
        repulsion = _smooth_and_near(points, pairs, accuracy, axes_of_small_box(x))
        like, like_magnitude = like_sums(
            points, directions, pairs, repulsion.regions, repulsion.square_cutoffs
        )
        alignment, partners = half_plane_sums(points, directions)
    attraction, like_repulsion, like_alignment = like

    itself = np.count_nonzero(have_direction(directions))
    fields = (
        attraction,
        repulsion.field - like_repulsion,
        like_alignment - directions,
        like_alignment - alignment,
    )
    for values, on_tokens in zip(fields, force, strict=True):
        _sum_onto_tokens(values, pairs, on_tokens)
    attracting, repelling, aligning = like_magnitude.sum(axis=1)
    repelling = repulsion.strength - repelling
    if repelling < repulsion.error:  # no unlike pair sums, or all coincide
        repelling = 0.0
    magnitude[:] = attracting, repelling, aligning - itself, partners.sum() - aligning
    return ForceFields(force, magnitude)


class _Repulsion(NamedTuple):
    """Repulsion of every pair sum by the unlike ones nearer than a cutoff, and by all
    beyond."""

    field: np.ndarray
    """(pair, 2) Force on each pair sum."""
    strength: float
    """Sum of 1/r over all ordered pairs of pair sums."""
    error: float
    """Largest error of the strength."""
    regions: np.ndarray
    """(pair,) Number of the dense region of each pair sum, 0 for none."""
    square_cutoffs: np.ndarray
    """(region,) Square of the cutoff between pair sums of each region, first that of
    all others."""


def _smooth_and_near(
    points: np.ndarray, pairs: PairList, accuracy: float, axes: np.ndarray
) -> _Repulsion:
    """Repulsion by the smooth part of all pair sums and by near unlike ones.

    The mesh and the cells are parallel to the columns of `axes`. A dense region has a finer
    mesh, which replaces the near sums between its points."""
    constants = splitting(accuracy)
    turned = turn(points, axes)
    classes = np.repeat(np.arange(pairs.n), np.diff(pairs.bounds))
    mesh = mesh_sums.select_mesh(turned, constants)
    cells = sort_for_near_sums(turned, mesh.cutoff)
    cells, finer = mesh_sums.select_regions(cells, mesh, constants)
    field = np.zeros_like(points)
    strength = 0.0
    error = 0.0
    regions = np.zeros(len(points))
    regions[cells.order] = cells.regions
    members = [np.arange(len(points))]
    members += [np.flatnonzero(regions == number + 1) for number in range(len(finer))]
    for index, level in zip(members, [mesh, *finer], strict=True):
        if level is not mesh:
            cells = sort_for_near_sums(turned[index], level.cutoff)
        order = index[cells.order]
        near, near_strength = near_sums(
            cells, points[order], classes[order], level.cutoff, constants
        )
        smooth, smooth_strength = mesh_sums.smooth_sums(
            cells, level, constants, accuracy
        )
        _add_in_original_order(order, near, turn(smooth, axes.T), field)
        strength += near_strength + smooth_strength
        error += accuracy * len(index) ** 2 / level.cutoff
    cutoffs = np.array([level.cutoff for level in (mesh, *finer)])
    return _Repulsion(field, strength, error, regions, cutoffs**2)


@cached_kernel()
def _add_in_original_order(order, first, second, total):
    """Add the sum of two arrays, whose points are in this order, to (point, 2)."""
    for k in range(len(order)):
        for axis in range(2):
            total[order[k], axis] += first[k, axis] + second[k, axis]


@cached_kernel(pair_list)
def _pair_sums(embedding, pairs):
    """The pair sums (pair, 2) and their directions; those too short for a direction are
    0."""
    count = len(pairs.first)
    points = np.zeros((count, 2))
    directions = np.zeros((count, 2))
    for ij in range(count):
        i = pairs.first[ij]
        j = pairs.second[ij]
        x_ij = embedding[i, 0] + embedding[j, 0]
        y_ij = embedding[i, 1] + embedding[j, 1]
        square = x_ij * x_ij + y_ij * y_ij
        if square > TINY:
            inverse = 1.0 / np.sqrt(square)
            points[ij] = x_ij, y_ij
            directions[ij] = x_ij * inverse, y_ij * inverse
    return points, directions


@cached_kernel(pair_list)
def _sum_onto_tokens(values, pairs, force):
    """Add the values (pair, 2) of all pairs to the force (token, 2) on each of their
    tokens."""
    for ij in range(len(pairs.first)):
        for axis in range(2):
            force[pairs.first[ij], axis] += values[ij, axis]
            if pairs.twice or pairs.first[ij] != pairs.second[ij]:
                force[pairs.second[ij], axis] += values[ij, axis]
