"""A balanced tree of points in the plane, and the pairs of its cells that are far from each other.

Every cell is split at the median along the longer side of its bounding box, so that all cells of a level hold the same
number of points, to within one. Cell j of level l holds the points P j / 2^l to P (j + 1) / 2^l - 1 in the order of the
tree, and is number 2^l - 1 + j. A cell is described by the centre of its bounding box and the radius around it.

Two cells A and B are far from each other if the larger radius is at most `OPENING` times the distance of the smaller
cell from the centre of the larger, |c_A - c_B| less the smaller radius; expansions converge as powers of this ratio.
From the root downwards, a pair of cells of one level that is not far is divided into the pairs of their children; each
cell keeps a list of the cells that are not far from it. Everything depends only on the points, in a fixed order, for
any number of threads.
"""

from typing import NamedTuple

import numpy as np
from numba import prange

from dynamics.kernels.compiling import cached_kernel, kernel_function

OPENING = 0.5
"""Largest ratio of the radius of a cell to the distance of a far cell from its centre."""
LEAF_POINTS = 96
"""Largest number of points in a cell of the last level."""


class PointTree(NamedTuple):
    """Cells of points in the plane, in the form that compiled kernels take. Created by `build_tree`."""

    order: np.ndarray
    """(point,) For each point in the order of the tree, its index in the original array."""
    points: np.ndarray
    """(point, 2) Points in the order of the tree."""
    depth: int
    """Level of the leaves; the root is level 0."""
    centre: np.ndarray
    """(cell, 2)"""
    radius: np.ndarray
    """(cell,) Largest distance of a point of the cell from its centre."""
    gap: float
    """Far cells are at least so far apart that no two of their points are nearer than this."""


@kernel_function
def cell_range(count, level, j):
    """First point of cell j of a level, and the one after the last."""
    return (count * j) >> level, (count * (j + 1)) >> level


@kernel_function
def _select(order, points, axis, first, last, middle):
    """Rearrange order[first:last]: no point before `middle` is above it along the axis, and none after it is below."""
    left, right = first, last - 1
    while left < right:
        pivot = points[order[(left + right) // 2], axis]
        i, j = left, right
        while i <= j:
            while points[order[i], axis] < pivot:
                i += 1
            while points[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@kernel_function
def _bounding_box(points, order, first, last):
    """Smallest and largest coordinates of the points order[first:last]: (low, high) for each axis."""
    low_x = high_x = points[order[first], 0]
    low_y = high_y = points[order[first], 1]
    for k in range(first, last):
        x, y = points[order[k], 0], points[order[k], 1]
        low_x, high_x = min(low_x, x), max(high_x, x)
        low_y, high_y = min(low_y, y), max(high_y, y)
    return low_x, high_x, low_y, high_y


@cached_kernel(parallel=True)
def _build_cells(points, depth, order, centre, radius):
    """Reorder `order` so that the points of each cell are neighbours; compute the centre and radius of each cell."""
    count = len(points)
    for level in range(depth + 1):
        for number in prange(1 << level):
            j = np.int64(number)
            first, last = cell_range(count, level, j)
            low_x, high_x, low_y, high_y = _bounding_box(points, order, first, last)
            cell = (1 << level) - 1 + j
            centre[cell, 0], centre[cell, 1] = 0.5 * (low_x + high_x), 0.5 * (low_y + high_y)
            square = 0.0
            for k in range(first, last):
                x, y = points[order[k], 0] - centre[cell, 0], points[order[k], 1] - centre[cell, 1]
                square = max(square, x * x + y * y)
            radius[cell] = np.sqrt(square)
            if level < depth:
                middle = (count * (2 * j + 1)) >> (level + 1)
                _select(order, points, 0 if high_x - low_x >= high_y - low_y else 1, first, last, middle)


def tree_depth(count: int) -> int:
    """Level of the leaves of a tree of `count` points."""
    return max(0, int(np.ceil(np.log2(count / LEAF_POINTS))))


def build_tree(points: np.ndarray, gap: float = 0.0) -> PointTree:
    """The tree of points (point, 2), at least one, in which far cells are further than `gap` from each other."""
    count = len(points)
    depth = tree_depth(count)
    cells = (2 << depth) - 1
    order = np.arange(count)
    centre, radius = np.empty((cells, 2)), np.empty(cells)
    _build_cells(points, depth, order, centre, radius)
    return PointTree(order, points[order], depth, centre, radius, gap)


APART, NEAR, COINCIDENT = range(3)


@kernel_function
def compare_cells(tree, a, b):
    """Whether cells a and b are far from each other, near, or each a single point that is the same."""
    x, y = tree.centre[a, 0] - tree.centre[b, 0], tree.centre[a, 1] - tree.centre[b, 1]
    distance = np.sqrt(x * x + y * y)
    small, large = min(tree.radius[a], tree.radius[b]), max(tree.radius[a], tree.radius[b])
    if distance == 0.0 and large == 0.0:
        return COINCIDENT
    return APART if large <= OPENING * (distance - small) and distance - large - small > tree.gap else NEAR


@cached_kernel(parallel=True)
def near_cells(tree, level, parents, starts):
    """The cells of a level that are near each cell j: cells[starts[j] : starts[j + 1]], from the lists of its parents.

    Cells are given by their number within the level. The lists of level - 1 are `parents` and `starts`.
    """
    size = 1 << level
    offset = size - 1
    bounds = np.zeros(size + 1, np.int64)
    for number in prange(size):
        j = np.int64(number)
        for entry in range(starts[j >> 1], starts[(j >> 1) + 1]):
            for other in range(2 * parents[entry], 2 * parents[entry] + 2):
                bounds[j + 1] += compare_cells(tree, offset + j, offset + other) == NEAR
    for before in range(size):
        bounds[before + 1] += bounds[before]
    cells = np.empty(bounds[-1], np.int64)
    for number in prange(size):
        j = np.int64(number)
        k = bounds[j]
        for entry in range(starts[j >> 1], starts[(j >> 1) + 1]):
            for other in range(2 * parents[entry], 2 * parents[entry] + 2):
                if compare_cells(tree, offset + j, offset + other) == NEAR:
                    cells[k] = other
                    k += 1
    return cells, bounds
