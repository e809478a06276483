"""Distance of embeddings from the nearest perfect circle, perfect grid and grid.

All are full Procrustes distances (`analysis.structures.procrustes`), from 0 to 1,
minimised over all labellings of the structure. If all tokens are in one point, every
distance is 1.

A perfect circle of frequency k has token i at R (cos 2 pi k i / N, sin 2 pi k i / N) in
some plane, with k coprime to N, since otherwise tokens coincide. The sums of pairs of
equal modular sum then lie on a line through its centre (CA section 5.2). With c_k the
Fourier coefficient of the centred embedding of norm 1 (`analysis.structures.fourier`),
a vector with real part a and imaginary part b, the overlap with the nearest of these
circles is

    (sigma_1 + sigma_2) / sqrt(N),  (sigma_1 + sigma_2)² = |a|² + |b|² + 2 sqrt(|a|² |b|² - (a . b)²),

where sigma are the singular values of the matrix of columns a and b, and the distance
is sqrt(1 - overlap²). CA algorithm 1 depends only on the norms and not on the order of
the tokens, so its circles need not be perfect circles.

Perfect grids are those of `analysis.structures.lattices` and their images under all
linear maps, which are perfect grids as well. The distance from a grid is that from the
plane that its coordinates span, and the nearest grid is found by comparison with all
grids.

A grid may have holes: its tokens are on a lattice whose points are numbered, and each
token may be at any point of its class. From each of the `GRID_SEARCH_STARTS` nearest
perfect grids a search repeatedly moves every token to the nearest point of its class
and refits the linear map, until the distance no longer decreases. The least distance
reached is an upper bound of the distance from the nearest grid. Since some lattice fits
any embedding to some extent, it has to be compared with the distance of random
embeddings."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import prange

from analysis.structures.embedding_arrays import centred_unit_norm
from analysis.structures.fourier import fourier_frequencies
from analysis.structures.lattices import PerfectGrids, perfect_grids
from dynamics.kernels.compiling import cached_kernel, kernel_function

_BLOCK_BYTES = 64 << 20

GRID_SEARCH_STARTS = 100
"""Number of perfect grids from which a grid with holes is searched. For grids of 17
tokens, of which one, two or three were moved to other points of their class, the search
finds 96, 87 and 81 in 100; with 300 starts, 99, 95 and 95."""


class NearestStructure(NamedTuple):
    """The nearest structure of each embedding, each (...)."""

    distance: np.ndarray
    which: np.ndarray
    """Frequency of the circle; index of the grid in `perfect_grids(N)`, or of the grid
    from which its search started."""


def nearest_circle(embedding: np.ndarray) -> NearestStructure:
    """Distance from the nearest perfect circle, and its frequency.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)
        At least three tokens.

    Returns
    -------
    NearestStructure
        Two arrays (...).

    Raises
    ------
    ValueError
        For fewer than three tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import nearest_circle
    >>> angle = 2 * np.pi * 2 * np.arange(7) / 7
    >>> nearest = nearest_circle(np.stack([np.cos(angle), np.sin(angle)], axis=-1))
    >>> round(float(nearest.distance), 6), int(nearest.which)
    (0.0, 2)
    """
    x = centred_unit_norm(embedding)
    n = x.shape[-2]
    if n < 3:
        raise ValueError(f"embedding: found {n} tokens, expected at least 3")
    coprime = np.array([k for k in fourier_frequencies(n) if math.gcd(int(k), n) == 1])
    coefficients = np.fft.fft(x, axis=-2)[..., coprime, :]
    a, b = coefficients.real, coefficients.imag
    squares = (a * a).sum(axis=-1), (b * b).sum(axis=-1)
    area = np.sqrt(np.maximum(squares[0] * squares[1] - (a * b).sum(axis=-1) ** 2, 0.0))
    overlap = (squares[0] + squares[1] + 2 * area) / n  # squared, (..., frequency)
    best = overlap.argmax(axis=-1)
    return NearestStructure(_distance(overlap.max(axis=-1)), coprime[best])


def nearest_perfect_grid(embedding: np.ndarray) -> NearestStructure:
    """Distance from the nearest perfect grid, and its index in `perfect_grids(N)`.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)
        From 3 to 23 tokens.

    Returns
    -------
    NearestStructure
        Two arrays (...).

    Raises
    ------
    ValueError
        For other numbers of tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import nearest_perfect_grid
    >>> row = np.arange(5.0)[:, None]  # five tokens in one line
    >>> round(float(nearest_perfect_grid(row).distance), 6)
    0.0
    """
    x = centred_unit_norm(embedding)
    lead, (n, dim) = x.shape[:-2], x.shape[-2:]
    grids = perfect_grids(n)
    frames = x.reshape(-1, n, dim)
    which = _nearest(frames, grids, 1)[:, 0]
    overlap = ((frames.mT @ grids.basis[which]) ** 2).sum(axis=(-2, -1))
    return NearestStructure(_distance(overlap).reshape(lead), which.reshape(lead))


def nearest_grid(embedding: np.ndarray) -> NearestStructure:
    """Distance from the nearest grid that a search finds, which may have holes.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)
        From 3 to 23 tokens.

    Returns
    -------
    NearestStructure
        Two arrays (...): distance, and the index in `perfect_grids(N)` of the grid from
        which the search started.

    Raises
    ------
    ValueError
        For other numbers of tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import nearest_grid, nearest_perfect_grid
    >>> x = np.random.default_rng(0).standard_normal((5, 2))
    >>> bool(nearest_grid(x).distance <= nearest_perfect_grid(x).distance)
    True
    """
    x = centred_unit_norm(embedding)
    lead, (n, dim) = x.shape[:-2], x.shape[-2:]
    grids = perfect_grids(n)
    frames = x.reshape(-1, n, dim)
    begun = _nearest(frames, grids, GRID_SEARCH_STARTS)
    rest = grid_residuals(
        np.ascontiguousarray(frames), begun, grids.places, grids.kind, grids.kernel
    )
    held = (
        frames[:, None].mT @ grids.basis[begun]
    ) ** 2  # of the start itself, since the search skips single lines
    rest = np.minimum(rest, 1 - held.sum(axis=(-2, -1)))
    best = rest.argmin(axis=1)[:, None]
    distance = _distance(1 - np.take_along_axis(rest, best, axis=1))
    return NearestStructure(
        distance.reshape(lead), np.take_along_axis(begun, best, axis=1).reshape(lead)
    )


@kernel_function
def _grid_residual(x, places, kernel):
    """The squared distance of x (token, axis), centred and of norm 1, from the grid
    that a search reaches.

    places (token, 2) are the starting points of the lattice; kernel (vector, 2) are
    moves between points of a class."""
    tokens, dim = x.shape
    g = places.astype(np.float64)
    linear = np.empty((2, dim))
    product = np.empty((2, dim))
    least = 1.0
    while True:
        u, v = g[:, 0].mean(), g[:, 1].mean()
        uu = ((g[:, 0] - u) ** 2).sum()
        vv = ((g[:, 1] - v) ** 2).sum()
        uv = ((g[:, 0] - u) * (g[:, 1] - v)).sum()
        det = uu * vv - uv * uv
        if det <= 1e-9 * uu * vv:  # on a line
            return least
        rest = 1.0
        for axis in range(dim):
            product[0, axis] = ((g[:, 0] - u) * x[:, axis]).sum()
            product[1, axis] = ((g[:, 1] - v) * x[:, axis]).sum()
            linear[0, axis] = (vv * product[0, axis] - uv * product[1, axis]) / det
            linear[1, axis] = (uu * product[1, axis] - uv * product[0, axis]) / det
            rest -= (
                linear[0, axis] * product[0, axis] + linear[1, axis] * product[1, axis]
            )
        if rest >= least - 1e-12:
            return least
        least = rest
        for token in range(tokens):
            nearest = np.inf
            move = 0
            for at in range(len(kernel)):
                square = 0.0
                for axis in range(dim):
                    along = (g[token, 0] - u + kernel[at, 0]) * linear[0, axis]
                    along += (g[token, 1] - v + kernel[at, 1]) * linear[1, axis]
                    square += (x[token, axis] - along) ** 2
                if square < nearest:
                    nearest = square
                    move = at
            g[token, 0] += kernel[move, 0]
            g[token, 1] += kernel[move, 1]


@cached_kernel(parallel=True)
def grid_residuals(frames, begun, places, kind, kernel):
    """`_grid_residual` of frames (frame, token, axis) from each of the grids begun
    (frame, start): (frame, start)."""
    rest = np.empty(begun.shape)
    for frame in prange(len(frames)):
        for start in range(begun.shape[1]):
            grid = begun[frame, start]
            rest[frame, start] = _grid_residual(
                frames[frame], places[grid], kernel[kind[grid]]
            )
    return rest


def _nearest(frames: np.ndarray, grids: PerfectGrids, count: int) -> np.ndarray:
    """The grids whose planes are nearest to each of the frames (frame, token, axis):
    (frame, count), unsorted.

    The squared norm of the projection of x by P is tr(P x x^T), the trace of a product
    of symmetric matrices. It is computed for all frames and grids by one matrix product
    of the entries on and below their diagonals, in single precision, which
    distinguishes distances to seven digits."""
    n = frames.shape[1]
    rows, columns = np.tril_indices(n)
    weight = np.where(rows == columns, 1, 2).astype(np.float32)
    planes = np.empty((len(rows), len(grids.basis)), np.float32)
    for start in range(0, len(grids.basis), 4096):
        basis = grids.basis[start : start + 4096]
        planes[:, start : start + 4096] = (basis @ basis.mT)[:, rows, columns].T
    count = min(count, len(grids.basis))
    which = np.empty((len(frames), count), np.int64)
    block = max(1, _BLOCK_BYTES // (4 * len(grids.basis)))
    for start in range(0, len(frames), block):
        some = frames[start : start + block]
        squares = (some @ some.mT)[:, rows, columns].astype(np.float32) * weight
        held = squares @ planes
        order = (
            np.argpartition(held, -count, axis=1)[:, -count:]
            if count > 1
            else held.argmax(axis=1)[:, None]
        )
        which[start : start + block] = order
    return which


def _distance(squared_overlap: np.ndarray) -> np.ndarray:
    return np.sqrt(np.clip(1 - squared_overlap, 0.0, 1.0))
