r"""Alignment of points in the plane by all points in their half-plane, from the order
of their angles.

The points w with z . w > 0 are those whose angle differs from that of z by less than a
quarter turn. The sum of their directions is a difference of two prefix sums over the
sorted angles. The prefix sums are compensated: the rounding error of each addition is
summed as well. Points whose angle is within `MARGIN` of a quarter turn are tested one
by one, so that the same points count as in a direct sum."""

import numpy as np
from numba import prange

from dynamics.kernels.compiling import cached_kernel, kernel_function

MARGIN = 1e-9
"""Angle to the border of the half-plane up to which the scalar product decides."""
ANGLE_BITS = 34
"""Bits of the angle in the keys by which points are sorted; they resolve two fifths of
the margin."""
INDEX_BITS = 28
"""Bits of the index of a point in these keys."""
CHUNK = 512
"""Points that one thread goes through in order."""


def have_direction(directions: np.ndarray) -> np.ndarray:
    """Which points (point,) have a direction (point, 2); that of a point at the origin
    is zero."""
    return (directions[:, 0] != 0) | (directions[:, 1] != 0)


@kernel_function
def _first_from(angles, value, start):
    """Number of sorted angles below `value`, from `start` on, counting on through a
    second turn."""
    count = len(angles)
    while start < 2 * count and angles[start if start < count else start - count] < (
        value if start < count else value - 2 * np.pi
    ):
        start += 1
    return start


@cached_kernel()
def _prefix_sums(directions, order):
    """Sums (point + 1, axis) of the first directions in an order, and their rounding
    errors."""
    sums = np.zeros((len(order) + 1, 2))
    errors = np.zeros((len(order) + 1, 2))
    for k in range(len(order)):
        for axis in range(2):
            before = sums[k, axis]
            added = directions[order[k], axis]
            after = before + added
            part = after - before
            sums[k + 1, axis] = after
            errors[k + 1, axis] = errors[k, axis] + (
                (before - (after - part)) + (added - part)
            )
    return sums, errors


@kernel_function
def _arc_sum(sums, errors, first, last, axis):
    """Sum of the directions first to last - 1; numbers from the number of points on are
    those of a second turn."""
    count = len(sums) - 1
    total = 0.0
    error = 0.0
    if last >= count:
        total = sums[count, axis]
        error = errors[count, axis]
        last = last - count
    if first >= count:
        total = total - sums[count, axis]
        error = error - errors[count, axis]
        first = first - count
    return (total + (sums[last, axis] - sums[first, axis])) + (
        error + (errors[last, axis] - errors[first, axis])
    )


@cached_kernel(parallel=True)
def _sorted_sums(points, directions, order, angles, sums, errors):
    """Sum of directions (point, 2) in the half-plane of each point, and their number
    (point,); angles are sorted."""
    count = np.int64(len(order))
    aligned = np.zeros(points.shape)
    partners = np.zeros(len(points))
    for chunk in prange(-(-count // CHUNK)):
        begin = np.int64(chunk) * CHUNK
        turned = angles[begin] - np.pi / 2 - MARGIN < -np.pi
        start = angles[begin] - np.pi / 2 - 2 * MARGIN + (2 * np.pi if turned else 0.0)
        before = first = np.searchsorted(angles, start)
        opposite = start + np.pi
        if opposite > np.pi:
            last = after = count + np.searchsorted(angles, opposite - 2 * np.pi)
        else:
            last = after = np.searchsorted(angles, opposite)
        for k in range(begin, min(begin + CHUNK, count)):
            low = angles[k] - np.pi / 2
            high = angles[k] + np.pi / 2
            if turned and low - MARGIN >= -np.pi:
                turned = False
                before = max(before - count, 0)
                first = max(first - count, 0)
                last = last - count
                after = after - count
            if turned:
                low += 2 * np.pi
                high += 2 * np.pi
            before = _first_from(angles, low - MARGIN, before)
            last = _first_from(angles, high - MARGIN, last)
            first = _first_from(angles, low + MARGIN, max(before, first))
            after = _first_from(angles, high + MARGIN, max(last, after))
            x = _arc_sum(sums, errors, first, last, 0)
            y = _arc_sum(sums, errors, first, last, 1)
            summed = last - first
            for start, stop in ((before, first), (last, after)):
                for entry in range(start, stop):
                    other = entry if entry < count else entry - count
                    if (
                        points[order[k], 0] * points[order[other], 0]
                        + points[order[k], 1] * points[order[other], 1]
                        > 0.0
                    ):
                        x = x + directions[order[other], 0]
                        y = y + directions[order[other], 1]
                        summed += 1
            aligned[order[k], 0] = x
            aligned[order[k], 1] = y
            partners[order[k]] = summed
    return aligned, partners


def half_plane_sums(
    points: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the directions (point, 2) of all points in the half-plane of each point,
    itself included; their number.

    points: (point, 2); directions: their directions. A point at the origin neither has
    a half-plane nor is in one."""
    angles = np.arctan2(points[:, 1], points[:, 0])
    index = np.flatnonzero(have_direction(directions))
    steps = (angles[index] + np.pi) * (2**ANGLE_BITS / (2 * np.pi))
    keys = steps.astype(np.int64) << INDEX_BITS
    # a key occurs once, so that every method of sorting gives this order
    order = np.sort(keys | index) & (2**INDEX_BITS - 1)
    sums, errors = _prefix_sums(directions, order)
    return _sorted_sums(points, directions, order, angles[order], sums, errors)
