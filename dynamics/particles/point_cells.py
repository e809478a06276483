"""Points in the plane sorted into cells of a regular grid, and direct sums over all
points nearer than a distance.

Rows of cells follow each other along the first axis, the cells of a row along the
second. The points of a row are neighbours in memory. Everything depends only on the
points, in a fixed order, for any number of threads."""

from typing import NamedTuple

import numpy as np
from numba import prange

from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.simd import (
    LANES_64,
    broadcast_vectors,
    dot,
    load_scalars,
    load_vectors,
    multiply_add,
    scalars,
    square_root,
    store_scalars,
    store_vectors,
    where_above,
)
from dynamics.particles.force_terms import TINY
from dynamics.particles.split_kernels import Splitting

AXES = (0, 1)
"""The axes of the plane, over which loops on SIMD lanes are unrolled."""
REACH = 2
"""Number of rows above and below the row of a point that can contain points nearer than
the cutoff."""
COLUMNS = 8
"""Number of cells of a row along the cutoff."""
SMALL_BOX = 0.7
"""The principal axes are used if the bounding box along them has less than this
fraction of the area of the other."""


class PointCells(NamedTuple):
    """Points sorted into cells. Created by `sort_for_near_sums`."""

    order: np.ndarray
    """(point,) For each point in the order of cells, its index in the original
    array."""
    points: np.ndarray
    """(point, 2) Points in the order of cells."""
    starts: np.ndarray
    """(cell + 1,) First point of each cell."""
    groups: np.ndarray
    """(group, 3) Row, first point and end of each group of up to eight points of a row
    and of a region."""
    shape: np.ndarray
    """(2,) Number of rows, the empty ones before and after the points included, and of
    cells in a row."""
    low: np.ndarray
    """(2,) Smallest coordinates."""
    high: np.ndarray
    """(2,) Largest coordinates."""
    sides: np.ndarray
    """(2,) Sides of a cell."""
    regions: np.ndarray
    """(point,) Number of the dense region of each point, 0 for none."""
    spans: np.ndarray
    """(region, row, 2) First point and end of each region in each row."""

    def slabs(self, thickness: float) -> np.ndarray:
        """Bounds of the points in slabs of rows at least `thickness` thick."""
        rows = int(np.ceil(thickness / self.sides[0]))
        first = np.minimum(np.arange(0, self.shape[0] + rows, rows), self.shape[0])
        return self.starts[first * self.shape[1]]


@cached_kernel()
def _sort_into_cells(points, low, sides, shape):
    """Order of the points by cell, and the first point of each cell."""
    count = len(points)
    cells = np.empty(count, np.int64)
    for point in range(count):
        row = REACH + np.int64((points[point, 0] - low[0]) / sides[0])
        column = np.int64((points[point, 1] - low[1]) / sides[1])
        cells[point] = row * shape[1] + column
    starts = np.zeros(shape.prod() + 1, np.int64)
    for cell in cells:
        starts[cell + 1] += 1
    for number in range(len(starts) - 1):
        starts[number + 1] += starts[number]
    order = np.empty(count, np.int64)
    following = starts.copy()
    for point in range(count):
        order[following[cells[point]]] = point
        following[cells[point]] += 1
    return order, starts


@cached_kernel()
def _group_rows(starts, columns, regions):
    """Row, first point and end of each group of up to eight points of a row and of a
    region."""
    groups = np.empty((len(regions), 3), np.int64)
    group = 0
    for row in range((len(starts) - 1) // columns):
        start, end = starts[row * columns], starts[(row + 1) * columns]
        while start < end:
            stop = start + 1
            while stop < min(start + LANES_64, end) and regions[stop] == regions[start]:
                stop += 1
            groups[group] = row, start, stop
            start = stop
            group += 1
    return groups[:group].copy()


def bounding_box(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest coordinates (2,) of points (point, 2)."""
    return np.array([column.min() for column in points.T]), np.array(
        [column.max() for column in points.T]
    )


@cached_kernel()
def turn(vectors, axes):
    """Components along orthonormal axes, the columns of (2, 2), of vectors
    (point, 2)."""
    turned = np.empty_like(vectors)
    for point in range(len(vectors)):
        for axis in range(2):
            turned[point, axis] = (
                vectors[point, 0] * axes[0, axis] + vectors[point, 1] * axes[1, axis]
            )
    return turned


@cached_kernel()
def _second_moments(points, centre, scale):
    """Sums of products of the coordinates (2, 2) of points relative to a centre, in
    units of a scale."""
    moments = np.zeros((2, 2))
    for point in range(len(points)):
        x = (points[point, 0] - centre[0]) / scale
        y = (points[point, 1] - centre[1]) / scale
        moments[0, 0] += x * x
        moments[0, 1] += x * y
        moments[1, 1] += y * y
    moments[1, 0] = moments[0, 1]
    return moments


def axes_of_small_box(points: np.ndarray) -> np.ndarray:
    """The principal axes (2, 2) of points (point, 2) if the bounding box along them is
    much smaller than that along the given axes, otherwise the given axes. In a large
    box around a narrow cloud most cells would be empty."""
    low, high = bounding_box(points)
    principal = np.linalg.eigh(
        _second_moments(points, (low + high) / 2, (high - low).max() or 1.0)
    )[1]
    lowest, highest = bounding_box(turn(points, principal))
    return (
        principal
        if np.prod(highest - lowest) < SMALL_BOX * np.prod(high - low)
        else np.eye(2)
    )


def sort_for_near_sums(points: np.ndarray, cutoff: float) -> PointCells:
    """Sort points (point, 2), at least one, into cells for `near_sums`, with empty rows
    before and after them."""
    low, high = bounding_box(points)
    sides = np.array([cutoff / REACH * (1 + 1e-9), cutoff / COLUMNS])
    shape = ((high - low) / sides).astype(np.int64) + 1
    shape[0] += 2 * REACH
    order, starts = _sort_into_cells(points, low, sides, shape)
    regions = np.zeros(len(points), np.int64)
    return PointCells(
        order,
        np.take(points, order, axis=0),
        starts,
        _group_rows(starts, shape[1], regions),
        shape,
        low,
        high,
        sides,
        regions,
        np.zeros((1, shape[0], 2), np.int64),
    )


def with_regions(cells: PointCells, boxes: list[tuple[slice, slice]]) -> PointCells:
    """Cells with regions, disjoint boxes of rows and columns of cells: points of the
    same region are left out of `near_sums`."""
    labels = np.zeros(cells.shape, np.int64)
    spans = np.zeros((len(boxes) + 1, cells.shape[0], 2), np.int64)
    first = cells.starts[:-1].reshape(cells.shape)
    end = cells.starts[1:].reshape(cells.shape)
    for number, (rows, columns) in enumerate(boxes, 1):
        labels[rows, columns] = number
        spans[number, rows, 0] = first[rows, columns][:, 0]
        spans[number, rows, 1] = end[rows, columns][:, -1]
    regions = np.repeat(labels.reshape(-1), np.diff(cells.starts))
    return cells._replace(
        groups=_group_rows(cells.starts, cells.shape[1], regions),
        regions=regions,
        spans=spans,
    )


def _reach_along_rows(cells: PointCells, cutoff: float) -> np.ndarray:
    """Largest distance (row,) along the second axis between points of two rows that are
    nearer than the cutoff, for rows from `REACH` before to `REACH` after."""
    apart = np.abs(np.arange(-REACH, REACH + 1))
    gap = np.maximum(apart - 1, 0) * cells.sides[0]
    return np.sqrt(cutoff**2 * (1 + 1e-8) - gap**2)


@kernel_function
def _polynomial(coefficients, u, terms):
    """Value of a polynomial, highest power first. `terms` is a tuple of that length, so
    that the loop is unrolled."""
    value = scalars(coefficients[0])
    for k in range(1, len(terms)):
        value = multiply_add(value, u, scalars(coefficients[k]))
    return value


@kernel_function
def _pair_force(x, label, points, labels, k, square_cutoff, smooth_force, terms):
    """Offset of eight points from point k, the factor of its force, and the terms that
    its strength needs."""
    difference = x - broadcast_vectors(points, k, AXES)
    square = dot(difference, difference)
    other = label - scalars(labels[k])
    inverse = where_above(square, TINY, scalars(1.0) / square)
    inverse = where_above(other * other, 0.0, inverse)
    u = multiply_add(square, scalars(2.0 / square_cutoff), scalars(-1.0))
    inside = scalars(square_cutoff) - square
    return (
        difference,
        where_above(inside, 0.0, inverse - _polynomial(smooth_force, u, terms)),
        inverse,
        u,
        inside,
    )


@cached_kernel(simd, parallel=True)
def _near_sums(
    points,
    labels,
    cells,
    reach,
    square_cutoff,
    smooth_force,
    smooth_inverse,
    terms,
):
    """See `near_sums`; points are flat; field (point, 2) and strength (point,) are in
    the order of cells."""
    count = len(cells.points)
    columns = cells.shape[1]
    field = np.empty((count, 2))
    strength = np.empty(count)
    for number in prange(len(cells.groups)):
        group = np.int64(number)
        row = cells.groups[group, 0]
        start = cells.groups[group, 1]
        used = cells.groups[group, 2] - start
        region = cells.regions[start]
        lanes = np.zeros(2 * LANES_64)
        label = np.zeros(LANES_64)
        power = np.zeros(LANES_64)
        least = np.inf
        most = -np.inf
        for k in range(used):
            label[k] = labels[start + k]
            for axis in range(2):
                lanes[axis * LANES_64 + k] = points[2 * (start + k) + axis]
            least = min(least, cells.points[start + k, 1])
            most = max(most, cells.points[start + k, 1])
        x = load_vectors(lanes, 0, AXES)
        own = load_scalars(label, 0)
        force = x - x
        total = scalars(0.0)
        for step in range(-REACH, REACH + 1):
            other = row + step
            low = (least - reach[step + REACH] - cells.low[1]) / cells.sides[1]
            high = (most + reach[step + REACH] - cells.low[1]) / cells.sides[1]
            low_column = min(np.int64(max(low, 0.0)), columns - 1)
            high_column = max(np.int64(min(high, columns - 1.0)), 0)
            begin = cells.starts[other * columns + low_column]
            end = cells.starts[other * columns + high_column + 1]
            left, right = cells.spans[region, other]
            for first, stop in ((begin, min(end, left)), (max(begin, right), end)):
                part = scalars(0.0)
                for k in range(first, stop):
                    difference, factor, inverse, u, inside = _pair_force(
                        x,
                        own,
                        points,
                        labels,
                        k,
                        square_cutoff,
                        smooth_force,
                        terms,
                    )
                    force = multiply_add(difference, factor, force)
                    if step >= 0:
                        part += where_above(
                            inside,
                            0.0,
                            square_root(inverse)
                            - _polynomial(smooth_inverse, u, terms),
                        )
                total += part * scalars(1.0 if step == 0 else 2.0)
        store_vectors(lanes, 0, force)
        store_scalars(power, 0, total)
        for k in range(used):
            strength[start + k] = power[k]
            for axis in range(2):
                field[start + k, axis] = lanes[axis * LANES_64 + k]
    return field, strength


def near_sums(
    cells: PointCells,
    points: np.ndarray,
    labels: np.ndarray,
    cutoff: float,
    constants: Splitting,
) -> tuple[np.ndarray, float]:
    """What the smooth kernels lack: field (point, 2) on each point, and the sum over
    all ordered pairs.

    cells: points sorted for the cutoff, perhaps turned. points: (point, 2) the points
    themselves, in the order of cells, from which differences are taken, as turning
    would cost digits of small ones. labels: (point,) in this order. Points of equal
    label do not act on each other, nor do points that coincide: of such pairs nearer
    than the cutoff, the smooth part is subtracted. Pairs of points of the same region
    are left out."""
    field, strength = _near_sums(
        points.reshape(-1),
        labels.astype(np.float64),
        cells,
        _reach_along_rows(cells, cutoff),
        cutoff**2,
        constants.force / cutoff**2,
        constants.inverse / cutoff,
        tuple(range(len(constants.force))),
    )
    return field, float(strength.sum())
