"""Perfect grids: all arrangements of N tokens on a lattice whose sums respect addition
modulo N.

In a perfect grid, "the vector sums of all pairs of embeddings also form a perfect grid
where pair sums are grouped together based on their modular sum" (CA appendix A.2).
Token i is at x_i = c + L g_i, with g_i in Z² and L any linear map, such that

    the numbers respect addition:  i = a g_i1 + b g_i2 (mod N), with some a, b that reach all of Z_N;
    there are no holes:            every point of Z² in the convex hull of the g_i is one of them.

Then pairs whose sums coincide have the same modular sum for any L, and neighbours on a
line differ by the same number everywhere. The tokens of a grid with holes respect
addition, too: they are displaced to other points of their class by vectors of the
kernel {g : a g_1 + b g_2 = 0 (mod N)}. However, such a grid fits any embedding if its
lattice is fine enough, which the second condition excludes. The definition cannot
require that all pair sums are perfect (CA algorithm 2): no other pair has the same sum
as a corner with itself, so every grid has an imperfection at each of its corners.

Up to L, c and relabellings i -> u i + s of the tokens the number of perfect grids is
finite: 114 for N = 17. They are constructed line by line. By Pick's theorem the convex
hull of N points without holes has an area below N, so there is a direction in which the
points are on at most 1 + sqrt(8 N / 3) lines (L. Fejes Tóth and Makai, Studia Sci.
Math. Hungar. 9 (1974), 191). Windows with an empty line between two others in every
such direction are not searched. The first line starts at 0, and the other axis is
chosen such that the second line does, too."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from analysis.structures.procrustes import relabellings
from dynamics.progress import progress_bar

MAX_GRID_TOKENS = 23
"""Largest number of tokens; with more there are too many grids to compare with every
frame."""

_Line = tuple[int, int]
"""First and last point of the tokens on a line of the lattice, both included."""


class PerfectGrids(NamedTuple):
    """Perfect grids of N tokens, each with its own labelling; linear images of a grid
    are the same grid."""

    basis: (
        np.ndarray
    )  # (grid, token, 2), orthonormal columns; the second is zero for a single line
    places: np.ndarray  # (grid, token, 2) int16, the g_i
    kind: np.ndarray  # (grid,), the same for grids that differ by a relabelling
    lines: np.ndarray  # (grid,), number of lines in the direction with the fewest
    progression: (
        np.ndarray
    )  # (grid,), neighbours on these lines differ by this number, from 1 to N/2
    kernel: np.ndarray  # (kind, vector, 2) int16, vectors of up to N/2 along both axes, padded with zeros


@functools.lru_cache(maxsize=4)
def perfect_grids(n: int) -> PerfectGrids:
    """Every perfect grid of N tokens, in every labelling.

    Parameters
    ----------
    n : int
        Number of tokens, from 3 to 23.

    Returns
    -------
    PerfectGrids

    Raises
    ------
    ValueError
        For another number of tokens.

    Examples
    --------
    >>> from analysis.structures import perfect_grids
    >>> perfect_grids(5).basis.shape
    (35, 5, 2)
    """
    if not 3 <= n <= MAX_GRID_TOKENS:
        raise ValueError(
            f"n: found {n} tokens, grids are known for 3 to {MAX_GRID_TOKENS}"
        )
    unit, _, images = relabellings(n, shifts=True)
    seen: set[bytes] = set()
    result: list[tuple[np.ndarray, np.ndarray, int, int, int]] = []
    kernels: list[np.ndarray] = []
    windows = progress_bar(lattice_windows(n), desc="grids", unit="window", delay=2)
    for points, step, across, lines in windows:
        basis = orthonormal_basis(points)
        if _keys(basis[None])[0] in seen:
            continue
        bases = np.empty((len(images), n, 2))
        places = np.empty((len(images), n, 2), np.int16)
        bases[np.arange(len(images))[:, None], images] = basis
        places[np.arange(len(images))[:, None], images] = points
        for basis, place, key, u in zip(bases, places, _keys(bases), unit, strict=True):
            if key not in seen:
                seen.add(key)
                progression = step * u % n
                result.append(
                    (
                        basis,
                        place,
                        len(kernels),
                        lines,
                        min(progression, n - progression),
                    )
                )
        kernels.append(_kernel(n, step, across, lines))
    basis, places, kind, line_counts, progressions = (
        np.array(part) for part in zip(*result, strict=True)
    )
    most = max(map(len, kernels))
    padded = np.array(
        [np.pad(kernel, ((0, most - len(kernel)), (0, 0))) for kernel in kernels]
    )
    return PerfectGrids(basis, places, kind, line_counts, progressions, padded)


def lattice_windows(n: int) -> Iterator[tuple[np.ndarray, int, int, int]]:
    """Generate windows without holes, at least one of each up to relabelling, in order
    of the number of lines.

    Yields the points (token, 2), the differences of tokens along a line and across
    lines, and the number of lines."""
    most = 1 + math.isqrt(8 * n // 3)
    steps = [
        step for step in range(1, n) if n % step == 0
    ]  # any other step is one of these times a unit
    for count in range(1, most + 1):
        for step in steps:
            for across in range(n if count > 1 else 1):
                if math.gcd(step, across, n) == 1:
                    for window in _stacked(n, count, step, across, ()):
                        yield _places(window, n, step, across), step, across, count


def _stacked(
    n: int, count: int, step: int, across: int, lines: tuple[_Line, ...]
) -> Iterator[tuple[_Line, ...]]:
    """Windows of `count` lines that begin with `lines` and in which no number occurs
    twice."""
    used = {
        (step * place + across * m) % n
        for m, (low, high) in enumerate(lines)
        for place in range(low, high + 1)
    }
    m = len(lines)
    left = n - len(used)
    if m == count:
        if not left:
            yield lines
        return
    for low, longest in _begins(lines, left):
        high = low - 1
        while (
            high - low + 1 < longest
            and (step * (high + 1) + across * m) % n not in used
        ):
            high += 1
            if (step * (high - low) % n == 0 and high > low) or not has_no_holes(
                (*lines, (low, high))
            ):
                break
            remaining = left - (high - low + 1)
            ahead = count - m - 1
            if remaining >= ahead and (ahead or not remaining):
                yield from _stacked(n, count, step, across, (*lines, (low, high)))


def _begins(lines: tuple[_Line, ...], left: int) -> Iterator[tuple[int, int]]:
    """Possible first points of the next line, each with the largest number of tokens on
    that line."""
    if len(lines) < 2:
        yield 0, left
        return
    (low, high), (last_low, last_high) = lines[-2:]
    for begin in range(2 * last_low - low - 1, 2 * last_high - high + 2):
        yield begin, min(left, 2 * last_high - high + 2 - begin)


def has_no_holes(lines: tuple[_Line, ...]) -> bool:
    """Whether lines of lattice points, one above the other, contain all lattice points
    of their convex hull."""
    for a, (low_a, high_a) in enumerate(lines):
        for b in range(a + 2, len(lines)):
            low_b, high_b = lines[b]
            for m in range(a + 1, b):
                low = low_a * (b - m) + low_b * (m - a)
                high = high_a * (b - m) + high_b * (m - a)
                if lines[m][0] * (b - a) >= low + (b - a) or lines[m][1] * (
                    b - a
                ) <= high - (b - a):
                    return False
    return True


def _places(lines: tuple[_Line, ...], n: int, step: int, across: int) -> np.ndarray:
    """The point of each token on the lattice, (token, 2)."""
    places = np.empty((n, 2))
    for m, (low, high) in enumerate(lines):
        for place in range(low, high + 1):
            places[(step * place + across * m) % n] = m, place
    return places


def _kernel(n: int, step: int, across: int, lines: int) -> np.ndarray:
    """Vectors between points of the same number, (vector, 2) int16; none for a single
    line."""
    reach = np.arange(-(n // 2) - 1, n // 2 + 2)
    m, place = (item.ravel() for item in np.meshgrid(reach, reach, indexing="ij"))
    same = ((across * m + step * place) % n == 0) & (lines > 1)
    return np.stack([m[same], place[same]], axis=-1).astype(np.int16)


def orthonormal_basis(places: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span the centred points (token, 2); the second is zero
    for points on a line."""
    u, size, _ = np.linalg.svd(places - places.mean(axis=0), full_matrices=False)
    return u * (size > 1e-9 * size[0])


def _keys(bases: np.ndarray) -> list[bytes]:
    """Keys that are equal if two bases (grid, token, 2) span the same plane."""
    planes = bases @ bases.mT
    return [np.round(plane * 1e6).astype(np.int64).tobytes() for plane in planes]
