"""The nearest other point of each of many points in O(P log P) operations, of equally
near points the first one.

The points are in the leaves of a k-d tree (Friedman, Bentley and Finkel, ACM
Transactions on Mathematical Software 3 (1977), 209): each node is divided at the median
of the axis along which it is widest, down to blocks of at most `_BLOCK` points. A
search begins in the block of the point and ascends to the root. It leaves out nodes
whose box is farther than the nearest point found so far, or as far if their lowest
index is larger. This changes no result: rounding is monotonic, so that the rounded
distance of a box does not exceed that of a point inside."""

from __future__ import annotations

import numpy as np
from numba import prange

from dynamics.kernels.compiling import cached_kernel, kernel_function

_BLOCK = 8
_DEPTH = 64
"""Largest number of nodes that wait for their search."""
_ROUNDING = 1e-15
"""Relative difference of squares whose roots may be equal."""


@kernel_function
def _select(key, order, begin, end, middle):
    """Sort order[begin:end] partly, so that the keys before `middle` are not larger
    than those after it (Hoare)."""
    left, right = begin, end - 1
    while left < right:
        pivot = key[order[(left + right) // 2]]
        low, high = left, right
        while low <= high:
            while key[order[low]] < pivot:
                low += 1
            while key[order[high]] > pivot:
                high -= 1
            if low <= high:
                order[low], order[high] = order[high], order[low]
                low, high = low + 1, high - 1
        if middle > high and middle < low:
            return
        if middle <= high:
            right = high
        else:
            left = low


@kernel_function
def _build_tree(points, order, low, high, first):
    """Write the order of points (axis, point) in the blocks, and the box, low and high
    (node, axis), and lowest index, first (node,), of each node. The root is node 1, and
    node k is divided into 2 k and 2 k + 1."""
    dim, count = points.shape
    leaves = len(first) // 2
    low[:] = np.inf
    high[:] = -np.inf
    first[:] = count
    size = leaves * _BLOCK
    level = 1
    while level <= leaves:
        for node in range(level, 2 * level):
            begin = (node - level) * size
            end = min(begin + size, count)
            for place in range(begin, end):
                first[node] = min(first[node], order[place])
                for axis in range(dim):
                    low[node, axis] = min(low[node, axis], points[axis, order[place]])
                    high[node, axis] = max(high[node, axis], points[axis, order[place]])
            if level < leaves and begin + size // 2 < end:
                widest = np.argmax(high[node] - low[node])
                _select(points[widest], order, begin, end, begin + size // 2)
        size = size // 2
        level = 2 * level


@kernel_function
def _square_distance(points, at, low, high, node):
    """The squared distance of a point from the box of a node; infinite if the box is
    empty."""
    square = 0.0
    for axis in range(len(points)):
        gap = max(
            low[node, axis] - points[axis, at], points[axis, at] - high[node, axis], 0.0
        )
        square += gap * gap
    return square


@kernel_function
def _nearest_other(points, at, leaf, order, low, high, first, waiting):
    """The index of the point nearest to point `at`, which is in the block of a leaf; -1
    if there is no other point."""
    dim, count = points.shape
    nearest = np.inf
    limit = np.inf
    result = count
    leaves = len(first) // 2
    waiting[0] = leaf
    size = 1
    ancestor = leaf
    while size:
        size -= 1
        node = waiting[size]
        square = _square_distance(points, at, low, high, node)
        if square <= limit and (first[node] < result or np.sqrt(square) < nearest):
            if node < leaves:
                waiting[size], waiting[size + 1] = 2 * node, 2 * node + 1
                size += 2
            else:
                begin = (node - leaves) * _BLOCK
                for place in range(begin, min(begin + _BLOCK, count)):
                    other = order[place]
                    square = 0.0
                    for axis in range(dim):
                        difference = points[axis, at] - points[axis, other]
                        square += difference * difference
                    if square <= limit and other != at:
                        distance = np.sqrt(square)
                        if distance < nearest or (
                            distance == nearest and other < result
                        ):
                            nearest = distance
                            limit = square * (1 + _ROUNDING)
                            result = other
        if size == 0 and ancestor > 1:
            waiting[0] = ancestor ^ 1
            size = 1
            ancestor //= 2
    return result if result < count else -1


@cached_kernel(parallel=True)
def nearest_other_points(points):
    """The nearest other point of each point, the first of equally near ones: (frame,
    axis, point) -> (frame, point).

    -1 if there is only one point.
    """
    frames, dim, count = points.shape
    leaves = 1
    while leaves * _BLOCK < count:
        leaves *= 2
    nearest = np.empty((frames, count), np.int64)
    for frame in prange(frames):
        order = np.arange(count)
        waiting = np.empty(_DEPTH, np.int64)
        low, high = np.empty((2 * leaves, dim)), np.empty((2 * leaves, dim))
        first = np.empty(2 * leaves, np.int64)
        _build_tree(points[frame], order, low, high, first)
        for place in range(count):
            leaf = leaves + place // _BLOCK
            at = order[place]
            nearest[frame, at] = _nearest_other(
                points[frame], at, leaf, order, low, high, first, waiting
            )
    return nearest
