"""Alignment of points in three or more dimensions by all points in their half-space.

The directions of the points are sorted into cells. For a group of eight points, cells
that are wholly in the half-spaces of all eight count by the sum of their directions,
and those outside not at all. Points of all other cells are tested one by one, as in a
direct sum."""

import numpy as np
from numba import prange

from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.simd import (
    LANES_64,
    broadcast_vectors,
    load_vectors,
    scalars,
    store_scalars,
    store_vectors,
)
from dynamics.particles import pair_forces
from dynamics.particles.pair_forces import alignment_force, in_half_plane
from dynamics.particles.point_cells import sort_points

MARGIN = 1e-9
"""Distance from the border of the half-space up to which the scalar product decides."""


@kernel_function
def _centre_and_radius(directions, first, last, centre):
    """Write the mean of the directions first to last - 1; return the largest distance
    from it."""
    centre[:] = 0.0
    for point in range(first, last):
        for axis in range(len(centre)):
            centre[axis] += directions[point, axis] / (last - first)
    largest = 0.0
    for point in range(first, last):
        square = 0.0
        for axis in range(len(centre)):
            square += (directions[point, axis] - centre[axis]) ** 2
        largest = max(largest, square)
    return np.sqrt(largest)


@cached_kernel(pair_forces, simd, parallel=True)
def _sum_in_cells(points, directions, cells, filled, axes):
    """See `half_space_sums`. Points and directions are in the order of cells, of which
    `filled` are not empty."""
    count, dim = directions.shape
    centres = np.empty((len(filled), dim))
    radii = np.empty(len(filled))
    totals = np.zeros((len(filled), dim))
    for number in range(len(filled)):
        first, last = cells.starts[filled[number]], cells.starts[filled[number] + 1]
        radii[number] = _centre_and_radius(directions, first, last, centres[number])
        totals[number] = centres[number] * (last - first)
    aligned = np.empty((count, dim))
    partners = np.empty(count)
    flat_points, flat_directions = points.reshape(-1), directions.reshape(-1)
    for number in prange(len(cells.groups)):
        group = np.int64(number)
        start = cells.groups[group, 1]
        used = cells.groups[group, 2] - start
        lanes = np.zeros(dim * LANES_64)
        sums = np.empty(LANES_64)
        centre = np.empty(dim)
        whole = np.zeros(dim + 1)
        for k in range(used):
            for axis in range(dim):
                lanes[axis * LANES_64 + k] = points[start + k, axis]
        x = load_vectors(lanes, 0, axes)
        radius = _centre_and_radius(directions, start, start + used, centre) + MARGIN
        total = x - x
        partner_count = scalars(0.0)
        for cell in range(len(filled)):
            product = 0.0
            for axis in range(dim):
                product += centre[axis] * centres[cell, axis]
            if product > radius + radii[cell]:
                whole[dim] += (
                    cells.starts[filled[cell] + 1] - cells.starts[filled[cell]]
                )
                for axis in range(dim):
                    whole[axis] += totals[cell, axis]
            elif product >= -radius - radii[cell]:
                for k in range(
                    cells.starts[filled[cell]], cells.starts[filled[cell] + 1]
                ):
                    other = broadcast_vectors(flat_points, k, axes)
                    total += alignment_force(
                        x, other, broadcast_vectors(flat_directions, k, axes)
                    )
                    partner_count += in_half_plane(x, other)
        store_vectors(lanes, 0, total)
        store_scalars(sums, 0, partner_count)
        for k in range(used):
            partners[start + k] = sums[k] + whole[dim]
            for axis in range(dim):
                aligned[start + k, axis] = lanes[axis * LANES_64 + k] + whole[axis]
    return aligned, partners


def half_space_sums(
    points: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the directions (point, axis) of all points in the half-space of each
    point, itself included; their number.

    points: (point, axis), at least one, none at the origin; directions: their
    directions."""
    count, dim = points.shape
    cells_wanted = 0.25 * count**0.75
    side = min(1.0, (2 * np.pi * dim / cells_wanted) ** (1 / (dim - 1)))
    cells = sort_points(directions, np.full(dim, side), 0)
    filled = np.flatnonzero(np.diff(cells.starts))
    sums = _sum_in_cells(
        points[cells.order], cells.points, cells, filled, tuple(range(dim))
    )
    aligned = np.empty_like(points)
    partners = np.empty(count)
    aligned[cells.order], partners[cells.order] = sums
    return aligned, partners
