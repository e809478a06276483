"""The four pair-force fields by fast summation, for one or two dimensions.

Direct sums over the P = N(N+1)/2 pair sums take P² steps. Here an unlike field is the field of all pair sums less that
of the like ones: repulsion of all by the fast multipole method (`plane_multipoles`), alignment of all from the order of
the angles (`half_planes`), and like fields directly (`like_sums`), which takes N³/4 steps. Attraction and both
alignments are those of direct sums up to rounding. The error of the repulsion is below the accuracy, relative to the
largest force.

The result depends on the positions alone, bit for bit, for any number of threads.
"""

import numpy as np
from numba import get_num_threads

from dynamics.kernels.compiling import numba_threads
from dynamics.particles import plane_multipoles
from dynamics.particles.half_planes import half_plane_sums
from dynamics.particles.like_sums import like_sums
from dynamics.particles.pair_forces import (
    ATTRACTION,
    LIKE_ALIGNMENT,
    REPULSION,
    TINY,
    UNLIKE_ALIGNMENT,
    ForceFields,
)
from dynamics.particles.pair_list import PairList
from dynamics.particles.point_tree import build_tree

RELATIVE_GAP = 1e-9
"""Distance up to which like pair sums are left out of the repulsion of all, relative to the largest pair sum:
subtracting their repulsion would lose the digits of all others."""

MIN_PAIRS_FOR_THREADS = 20_000
"""Number of pair sums from which several threads are faster; N = 200."""
BYTES_PER_PAIR = 500
"""Memory for arrays over pair sums, measured."""


def working_bytes(n: int, accuracy: float) -> int:
    """Estimated memory in bytes that `fast_fields` needs for N tokens."""
    return n * (n + 1) // 2 * BYTES_PER_PAIR + plane_multipoles.expansion_bytes(n * (n + 1) // 2, accuracy)


def fast_fields(x: np.ndarray, pairs: PairList, accuracy: float) -> ForceFields:
    """The fields (field, token, axis) of one embedding (token, axis) and their magnitudes (field,).

    accuracy: largest error relative to the largest force on a token, and of the magnitudes relative to themselves.
    """
    n, dim = x.shape
    points = np.zeros((len(pairs.first), 2))  # on a line, the second axis is 0
    points[:, :dim] = x[pairs.first] + x[pairs.second]
    square = points[:, 0] * points[:, 0] + points[:, 1] * points[:, 1]
    points[~(square > TINY)] = 0.0
    force, magnitude = np.zeros((4, n, dim)), np.zeros(4)
    if len(points) == 0:
        return ForceFields(force, magnitude)
    length = np.sqrt(np.maximum(square, TINY))[:, None]
    directions = points * (1.0 / length)
    labels = np.repeat(np.arange(n), np.diff(pairs.bounds))
    gap = RELATIVE_GAP * float(np.sqrt(square.max()))
    with numba_threads(get_num_threads() if len(points) > MIN_PAIRS_FOR_THREADS else 1):
        like, like_magnitude = like_sums(points, directions, pairs, gap, (0, 1))
        repulsion, strength = plane_multipoles.repulsion_sums(build_tree(points, gap), labels, accuracy)
        alignment, partners = half_plane_sums(points, directions)
    attraction, like_repulsion, like_alignment = like

    itself = (directions != 0).any(axis=1)
    fields = {
        ATTRACTION: attraction,
        REPULSION: repulsion - like_repulsion,
        LIKE_ALIGNMENT: like_alignment - directions,
        UNLIKE_ALIGNMENT: like_alignment - alignment,
    }
    for field, values in fields.items():
        force[field] = _sum_onto_tokens(values[:, :dim], pairs)
    attracting, repelling, aligning = like_magnitude.sum(axis=1)
    magnitude[:] = attracting, strength - repelling, aligning - itself.sum(), partners.sum() - aligning
    return ForceFields(force, magnitude)


def _sum_onto_tokens(values: np.ndarray, pairs: PairList) -> np.ndarray:
    """Sum (token, axis) of the values (pair, axis) of all pairs of each token."""
    second = np.where(pairs.twice | (pairs.first != pairs.second), 1.0, 0.0)
    columns = [
        np.bincount(pairs.first, column, pairs.n) + np.bincount(pairs.second, column * second, pairs.n)
        for column in values.T
    ]
    return np.stack(columns, axis=-1)
