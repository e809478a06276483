r"""Alignment of points in the plane by all points in their half-plane, from the order of their angles.

The points w with z . w > 0 are those whose angle differs from that of z by less than a quarter turn. The sum of their
directions is a difference of two prefix sums over the sorted angles. The prefix sums are compensated: the rounding
error of each addition is summed as well. Points whose angle is within `MARGIN` of a quarter turn are tested one by one,
so that the same points count as in a direct sum.
"""

import numpy as np
from numba import prange

from dynamics.kernels.compiling import cached_kernel, kernel_function

MARGIN = 1e-9
"""Angle to the border of the half-plane up to which the scalar product decides."""


@kernel_function
def _first_from(angles, value):
    """Number of sorted angles below `value`, counting on through a second turn."""
    if value <= np.pi:
        return np.searchsorted(angles, value)
    return len(angles) + np.searchsorted(angles, value - 2 * np.pi)


@cached_kernel()
def _prefix_sums(directions):
    """Sums (point + 1, axis) of the first directions and their rounding errors, in the same order."""
    sums, errors = np.zeros((len(directions) + 1, 2)), np.zeros((len(directions) + 1, 2))
    for k in range(len(directions)):
        for axis in range(2):
            before, added = sums[k, axis], directions[k, axis]
            after = before + added
            part = after - before
            sums[k + 1, axis] = after
            errors[k + 1, axis] = errors[k, axis] + ((before - (after - part)) + (added - part))
    return sums, errors


@kernel_function
def _arc_sum(sums, errors, first, last, axis):
    """Sum of the directions first to last - 1; numbers from the number of points on are those of a second turn."""
    count = len(sums) - 1
    total, error = 0.0, 0.0
    if last >= count:
        total, error, last = sums[count, axis], errors[count, axis], last - count
    if first >= count:
        total, error, first = total - sums[count, axis], error - errors[count, axis], first - count
    return (total + (sums[last, axis] - sums[first, axis])) + (error + (errors[last, axis] - errors[first, axis]))


@cached_kernel(parallel=True)
def _sorted_sums(points, directions, angles, sums, errors):
    """Sum of directions (point, 2) in the half-plane of each point, and their number (point,); angles are sorted."""
    count = len(points)
    aligned, partners = np.empty((count, 2)), np.empty(count)
    for number in prange(count):
        k = np.int64(number)
        low, high = angles[k] - np.pi / 2, angles[k] + np.pi / 2
        if low - MARGIN < -np.pi:
            low, high = low + 2 * np.pi, high + 2 * np.pi
        first, last = _first_from(angles, low + MARGIN), _first_from(angles, high - MARGIN)
        x, y, found = _arc_sum(sums, errors, first, last, 0), _arc_sum(sums, errors, first, last, 1), last - first
        for begin, end in ((_first_from(angles, low - MARGIN), first), (last, _first_from(angles, high + MARGIN))):
            for entry in range(begin, end):
                other = entry if entry < count else entry - count
                if points[k, 0] * points[other, 0] + points[k, 1] * points[other, 1] > 0.0:
                    x, y, found = x + directions[other, 0], y + directions[other, 1], found + 1
        aligned[k, 0], aligned[k, 1], partners[k] = x, y, found
    return aligned, partners


def half_plane_sums(points: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the directions (point, 2) of all points in the half-plane of each point, itself included; their number.

    points: (point, 2); directions: their directions. A point at the origin neither has a half-plane nor is in one.
    """
    aligned, partners = np.zeros_like(points), np.zeros(len(points))
    angles = np.arctan2(points[:, 1], points[:, 0])
    order = np.argsort(angles, kind="stable")
    order = order[(directions[order] != 0).any(axis=1)]
    sums, errors = _prefix_sums(directions[order])
    aligned[order], partners[order] = _sorted_sums(points[order], directions[order], angles[order], sums, errors)
    return aligned, partners
