"""Points sorted into cells of a regular grid, and direct sums over all points nearer
than a distance.

Cells are numbered along the last axis first. Cells with equal numbers along all other
axes form a row, whose points are neighbours in memory. Everything depends only on the
points, in a fixed order, for any number of threads."""

import itertools
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

TINY = 1e-280
"""Squared distances up to this count as zero, as in `pair_forces`."""
REACH = 2
"""Number of rows above and below the row of a point that can contain points nearer than
the cutoff."""
COLUMNS = 8
"""Number of cells of a row along the cutoff."""
SMALL_BOX = 0.7
"""The principal axes are used if the bounding box along them has less than this
fraction of the volume of the other."""


class PointCells(NamedTuple):
    """Points sorted into cells. Created by `sort_points`."""

    order: np.ndarray
    """(point,) For each point in the order of cells, its index in the original
    array."""
    points: np.ndarray
    """(point, axis) Points in the order of cells."""
    starts: np.ndarray
    """(cell + 1,) First point of each cell."""
    groups: np.ndarray
    """(group, 3) Row, first point and end of each group of up to eight points of a row
    and of a region."""
    shape: np.ndarray
    """(axis,) Number of cells, those of the empty rows on all sides included."""
    low: np.ndarray
    """(axis,) Smallest coordinates."""
    high: np.ndarray
    """(axis,) Largest coordinates."""
    sides: np.ndarray
    """(axis,) Sides of a cell."""
    regions: np.ndarray
    """(point,) Number of the dense region of each point, 0 for none."""
    spans: np.ndarray
    """(region, row, 2) First point and end of each region in each row."""

    def slabs(self, thickness: float) -> np.ndarray:
        """Bounds of the points in slabs along the first axis at least `thickness`
        thick; on a line, one slab."""
        if len(self.shape) == 1:
            return np.array([0, len(self.points)])
        rows = int(np.ceil(thickness / self.sides[0]))
        first = np.minimum(np.arange(0, self.shape[0] + rows, rows), self.shape[0])
        return self.starts[first * self.shape[1:].prod()]


@cached_kernel()
def _sort_into_cells(points, low, sides, shape, margin):
    """Order of the points by cell, and the first point of each cell."""
    count, dim = points.shape
    cells = np.empty(count, np.int64)
    for point in range(count):
        cell = 0
        for axis in range(dim):
            cell = (
                cell * shape[axis]
                + margin[axis]
                + np.int64((points[point, axis] - low[axis]) / sides[axis])
            )
        cells[point] = cell
    starts = np.zeros(shape.prod() + 1, np.int64)
    for cell in cells:
        starts[cell + 1] += 1
    for cell in range(len(starts) - 1):
        starts[cell + 1] += starts[cell]
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
    """Smallest and largest coordinates (axis,) of points (point, axis)."""
    return np.array([column.min() for column in points.T]), np.array(
        [column.max() for column in points.T]
    )


@cached_kernel()
def turn(vectors, axes):
    """Components along orthonormal axes, the columns of (axis, axis), of vectors
    (point, axis)."""
    turned = np.zeros_like(vectors)
    for point in range(len(vectors)):
        for axis in range(len(axes)):
            for given in range(len(axes)):
                turned[point, axis] += vectors[point, given] * axes[given, axis]
    return turned


@cached_kernel()
def _second_moments(points, centre, scale):
    """Sums of products of the coordinates (axis, axis) of points relative to a centre,
    in units of a scale."""
    moments = np.zeros((len(centre), len(centre)))
    for point in range(len(points)):
        for i in range(len(centre)):
            for j in range(len(centre)):
                moments[i, j] += (
                    (points[point, i] - centre[i])
                    / scale
                    * ((points[point, j] - centre[j]) / scale)
                )
    return moments


def axes_of_small_box(points: np.ndarray) -> np.ndarray:
    """The principal axes (axis, axis) of points (point, axis) if the bounding box along
    them is much smaller than that along the given axes, otherwise the given axes. In a
    large box around a narrow cloud most cells would be empty."""
    low, high = bounding_box(points)
    principal = np.linalg.eigh(
        _second_moments(points, (low + high) / 2, (high - low).max() or 1.0)
    )[1]
    lowest, highest = bounding_box(turn(points, principal))
    return (
        principal
        if np.prod(highest - lowest) < SMALL_BOX * np.prod(high - low)
        else np.eye(len(low))
    )


def sort_points(points: np.ndarray, sides: np.ndarray, margin: int) -> PointCells:
    """Sort points (point, axis), at least one, into cells of these sides, with empty
    rows around them."""
    low, high = bounding_box(points)
    margins = np.full(len(sides), margin)
    margins[-1] = 0
    shape = ((high - low) / sides).astype(np.int64) + 1 + 2 * margins
    order, starts = _sort_into_cells(points, low, sides, shape, margins)
    regions = np.zeros(len(points), np.int64)
    return PointCells(
        order,
        np.take(points, order, axis=0),
        starts,
        _group_rows(starts, shape[-1], regions),
        shape,
        low,
        high,
        sides,
        regions,
        np.zeros((1, shape[:-1].prod(), 2), np.int64),
    )


def with_regions(cells: PointCells, boxes: list[tuple[slice, ...]]) -> PointCells:
    """Cells with regions, disjoint boxes of cells: points of the same region are left
    out of `near_sums`."""
    labels = np.zeros(cells.shape, np.int64)
    spans = np.zeros((len(boxes) + 1, *cells.shape[:-1], 2), np.int64)
    first = cells.starts[:-1].reshape(labels.shape)
    end = cells.starts[1:].reshape(labels.shape)
    for number, box in enumerate(boxes, 1):
        labels[box] = number
        spans[number][box[:-1]] = np.stack(
            [first[box][..., 0], end[box][..., -1]], axis=-1
        )
    regions = np.repeat(labels.reshape(-1), np.diff(cells.starts))
    return cells._replace(
        groups=_group_rows(cells.starts, cells.shape[-1], regions),
        regions=regions,
        spans=spans.reshape(len(spans), -1, 2),
    )


def sort_for_near_sums(points: np.ndarray, cutoff: float) -> PointCells:
    """Sort points (point, axis), at least one, for `near_sums`."""
    sides = np.full(points.shape[1], cutoff / REACH * (1 + 1e-9))
    sides[-1] = cutoff / COLUMNS
    return sort_points(points, sides, REACH)


def _neighbouring_rows(
    cells: PointCells, cutoff: float
) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (row,) of the rows that can be nearer than the cutoff, and the reach
    (row,) along them."""
    outer = cells.shape[:-1]
    steps = np.array(
        list(itertools.product(range(-REACH, REACH + 1), repeat=len(outer))),
        dtype=np.int64,
    )
    gap = np.maximum(np.abs(steps) - 1, 0) * cells.sides[:-1]
    square = cutoff**2 * (1 + 1e-8) - (gap**2).sum(axis=1)
    strides = np.array(
        [outer[axis + 1 :].prod() for axis in range(len(outer))], dtype=np.int64
    )
    apart = square > 0
    return (steps @ strides)[apart], np.sqrt(square[apart])


@kernel_function
def _polynomial(coefficients, u, terms):
    """Value of a polynomial, highest power first. `terms` is a tuple of that length, so
    that the loop is unrolled."""
    value = scalars(coefficients[0])
    for k in range(1, len(terms)):
        value = multiply_add(value, u, scalars(coefficients[k]))
    return value


@kernel_function
def _pair_force(x, label, points, labels, k, square_cutoff, smooth_force, axes, terms):
    """Offset of eight points from point k, the factor of its force, and the terms that
    its strength needs."""
    difference = x - broadcast_vectors(points, k, axes)
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
    rows,
    reach,
    square_cutoff,
    smooth_force,
    smooth_inverse,
    axes,
    terms,
):
    """See `near_sums`; points are flat; field (point, axis) and strength (point,) are
    in the order of cells."""
    count, dim = cells.points.shape
    columns = cells.shape[-1]
    last = dim - 1
    field = np.empty((count, dim))
    strength = np.empty(count)
    for number in prange(len(cells.groups)):
        group = np.int64(number)
        row, start = cells.groups[group, 0], cells.groups[group, 1]
        used = cells.groups[group, 2] - start
        region = cells.regions[start]
        lanes = np.zeros(dim * LANES_64)
        label = np.zeros(LANES_64)
        power = np.zeros(LANES_64)
        least = np.inf
        most = -np.inf
        for k in range(used):
            label[k] = labels[start + k]
            for axis in range(dim):
                lanes[axis * LANES_64 + k] = points[(start + k) * dim + axis]
            least = min(least, cells.points[start + k, last])
            most = max(most, cells.points[start + k, last])
        x = load_vectors(lanes, 0, axes)
        own = load_scalars(label, 0)
        force = x - x
        total = scalars(0.0)
        for entry in range(len(rows)):
            other = (row + rows[entry]) * columns
            low = np.int64(
                max((least - reach[entry] - cells.low[last]) / cells.sides[last], 0.0)
            )
            high = np.int64(
                min(
                    (most + reach[entry] - cells.low[last]) / cells.sides[last],
                    columns - 1.0,
                )
            )
            begin = cells.starts[other + min(low, columns - 1)]
            end = cells.starts[other + max(high, 0) + 1]
            left, right = cells.spans[region, row + rows[entry]]
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
                        axes,
                        terms,
                    )
                    force = multiply_add(difference, factor, force)
                    if rows[entry] >= 0:
                        part += where_above(
                            inside,
                            0.0,
                            square_root(inverse)
                            - _polynomial(smooth_inverse, u, terms),
                        )
                total += part * scalars(1.0 if rows[entry] == 0 else 2.0)
        store_vectors(lanes, 0, force)
        store_scalars(power, 0, total)
        for k in range(used):
            strength[start + k] = power[k]
            for axis in range(dim):
                field[start + k, axis] = lanes[axis * LANES_64 + k]
    return field, strength


def near_sums(
    cells: PointCells,
    points: np.ndarray,
    labels: np.ndarray,
    square_cutoff: float,
    constants,
) -> tuple[np.ndarray, float]:
    """What the smooth kernels lack: field (point, axis) on each point, and the sum over
    all ordered pairs.

    cells: points sorted for the cutoff, perhaps turned. points: (point, axis) the
    points themselves, in the order of cells, from which differences are taken, as
    turning would cost digits of small ones. labels: (point,) in this order. Points of
    equal label do not act on each other, nor do points that coincide: of such pairs
    nearer than the cutoff, the smooth part is subtracted. Pairs of points of the same
    region are left out."""
    rows, reach = _neighbouring_rows(cells, np.sqrt(square_cutoff))
    axes = tuple(range(cells.points.shape[1]))
    terms = tuple(range(len(constants.force)))
    flat = points.reshape(-1)
    force = constants.force / square_cutoff
    inverse = constants.inverse / np.sqrt(square_cutoff)
    field, strength = _near_sums(
        flat,
        labels.astype(np.float64),
        cells,
        rows,
        reach,
        square_cutoff,
        force,
        inverse,
        axes,
        terms,
    )
    return field, float(strength.sum())
