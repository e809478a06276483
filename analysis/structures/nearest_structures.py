"""How far embeddings are from the nearest perfect circle, perfect grid, and grid.

All are full Procrustes distances (`analysis.structures.procrustes`), 0..1, whatever the place, size and orientation.
They are taken
over all labellings that the ideal has.

A perfect circle of frequency k has token i at R (cos 2 pi k i / N, sin 2 pi k i / N) in some plane; k is prime to N, as
otherwise tokens coincide. That is the regular polygon in whose order k tokens lie apart, and makes the sums of pairs of
one modular sum lie on a line through its centre (CA section 5.2). With c_k the Fourier coefficient of the centred
embedding of norm 1 (`analysis.structures.fourier`), a vector with real part a and imaginary part b, its overlap with
the nearest
of them is

    (sigma_1 + sigma_2) / sqrt(N),  (sigma_1 + sigma_2)² = |a|² + |b|² + 2 sqrt(|a|² |b|² - (a . b)²),

sigma being the singular values of the matrix of columns a and b, and its distance sqrt(1 - overlap²). A circle by CA
algorithm 1 need not be one: that asks for norms alone and not for order.

Perfect grids are those of `analysis.structures.lattices`, under all linear maps, which preserve what makes a grid. So
the
distance from one is that from the plane that its coordinates span, and the nearest is found by comparison with all.
Planes are lattices of two dimensions also where the embedding has more axes.

A grid may have holes: its tokens are on a lattice, numbered as its numbers are, but any of those of a class may be the
one that is there. From each of the `STARTS` nearest perfect grids one is sought in turn: every token moves to the place
of its class that is nearest to where it is, and the linear map is fitted anew, until neither helps. The least distance
reached bounds that from the nearest grid from above, and what the search finds for random embeddings tells what it is
worth: with free choice among places some lattice always fits a little.

Array functions take (..., token, axis). What is no embedding of finite real numbers raises ValueError. With all tokens
in one point every distance is 1.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from analysis.structures.fourier import centred_unit_norm, fourier_frequencies
from analysis.structures.lattices import PerfectGrids, perfect_grids
from dynamics.kernels.compiling import cached_kernel

AT_ONCE_BYTES = 64 << 20

GRID_SEARCH_STARTS = 100
"""Perfect grids from which a grid with holes is sought. Of planted ones of 17 tokens, one, two or three of which moved
to other places of their class, 96, 87 and 81 in 100 are found; from 300, 99, 95 and 95, in three times the time."""


class NearestStructure(NamedTuple):
    """The nearest ideal of each embedding, each (...)."""

    distance: np.ndarray
    which: np.ndarray
    """Of circles the frequency; of grids the place in `perfect_grids(N)`, of those with holes where they began."""


def nearest_circle(embedding: np.ndarray) -> NearestStructure:
    """The distance from the nearest perfect circle, and its frequency; the first of equally near ones.

    Raises ValueError for fewer than three tokens.
    """
    x = centred_unit_norm(embedding)
    n = x.shape[-2]
    if n < 3:
        raise ValueError(f"embedding: found {n} tokens, expected at least 3")
    kept = np.array([k for k in fourier_frequencies(n) if math.gcd(int(k), n) == 1])
    coefficients = np.fft.fft(x, axis=-2)[..., kept, :]
    a, b = coefficients.real, coefficients.imag
    squares = (a * a).sum(axis=-1), (b * b).sum(axis=-1)
    area = np.sqrt(np.maximum(squares[0] * squares[1] - (a * b).sum(axis=-1) ** 2, 0.0))
    overlap = (squares[0] + squares[1] + 2 * area) / n  # squared, (..., frequency)
    best = overlap.argmax(axis=-1)
    return NearestStructure(_distance(overlap.max(axis=-1)), kept[best])


def nearest_perfect_grid(embedding: np.ndarray) -> NearestStructure:
    """The distance from the nearest perfect grid, and its place in `perfect_grids(N)`.

    Raises ValueError for other numbers of tokens than `perfect_grids` has grids of.
    """
    x = centred_unit_norm(embedding)
    lead, (n, dim) = x.shape[:-2], x.shape[-2:]
    grids = perfect_grids(n)
    frames = x.reshape(-1, n, dim)
    which = _nearest(frames, grids, 1)[:, 0]
    overlap = ((frames.mT @ grids.basis[which]) ** 2).sum(axis=(-2, -1))
    return NearestStructure(_distance(overlap).reshape(lead), which.reshape(lead))


def nearest_grid(embedding: np.ndarray) -> NearestStructure:
    """The least distance from a grid that the search finds, and the perfect grid where that began.

    Raises ValueError for other numbers of tokens than `perfect_grids` has grids of.
    """
    x = centred_unit_norm(embedding)
    lead, (n, dim) = x.shape[:-2], x.shape[-2:]
    grids = perfect_grids(n)
    frames = x.reshape(-1, n, dim)
    begun = _nearest(frames, grids, GRID_SEARCH_STARTS)
    rest = grid_residuals(frames, begun, grids.places, grids.kind, grids.kernel)
    held = (frames[:, None].mT @ grids.basis[begun]) ** 2  # what a start holds itself, for lines, which do not move
    rest = np.minimum(rest, 1 - held.sum(axis=(-2, -1)))
    best = rest.argmin(axis=1)[:, None]
    distance = _distance(1 - np.take_along_axis(rest, best, axis=1))
    return NearestStructure(distance.reshape(lead), np.take_along_axis(begun, best, axis=1).reshape(lead))


@njit(error_model="numpy")
def _grid_residual(x, places, kernel):
    """What is left of x (token, axis), centred and of norm 1, by the grid that the search reaches from some places.

    places (token, 2); kernel (vector, 2): by what tokens may move.
    """
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
            rest -= linear[0, axis] * product[0, axis] + linear[1, axis] * product[1, axis]
        if rest >= least - 1e-12:
            return least
        least = rest
        for token in range(tokens):
            nearest, move = np.inf, 0
            for at in range(len(kernel)):
                square = 0.0
                for axis in range(dim):
                    along = (g[token, 0] - u + kernel[at, 0]) * linear[0, axis]
                    along += (g[token, 1] - v + kernel[at, 1]) * linear[1, axis]
                    square += (x[token, axis] - along) ** 2
                if square < nearest:
                    nearest, move = square, at
            g[token, 0] += kernel[move, 0]
            g[token, 1] += kernel[move, 1]


@cached_kernel(parallel=True)
def grid_residuals(frames, begun, places, kind, kernel):
    """`settle` of frames (frame, token, axis) from each of the grids begun (frame, start): (frame, start)."""
    rest = np.empty(begun.shape)
    for frame in prange(len(frames)):
        for start in range(begun.shape[1]):
            grid = begun[frame, start]
            rest[frame, start] = _grid_residual(frames[frame], places[grid], kernel[kind[grid]])
    return rest


def _nearest(frames: np.ndarray, grids: PerfectGrids, count: int) -> np.ndarray:
    """The grids whose planes hold most of each of the frames (frame, token, axis): (frame, count), in no order.

    What a plane of projector P holds of x is tr(P x x^T), a product of symmetric matrices: one matrix product of all
    frames with all grids, of what is on and below their diagonals. In single precision, which finds one that is nearest
    to seven digits.
    """
    n = frames.shape[1]
    rows, columns = np.tril_indices(n)
    weight = np.where(rows == columns, 1, 2).astype(np.float32)
    planes = np.empty((len(rows), len(grids.basis)), np.float32)
    for start in range(0, len(grids.basis), 4096):
        basis = grids.basis[start : start + 4096]
        planes[:, start : start + 4096] = (basis @ basis.mT)[:, rows, columns].T
    count = min(count, len(grids.basis))
    which = np.empty((len(frames), count), np.int64)
    at_once = max(1, AT_ONCE_BYTES // (4 * len(grids.basis)))
    for start in range(0, len(frames), at_once):
        some = frames[start : start + at_once]
        squares = (some @ some.mT)[:, rows, columns].astype(np.float32) * weight
        held = squares @ planes
        order = np.argpartition(held, -count, axis=1)[:, -count:] if count > 1 else held.argmax(axis=1)[:, None]
        which[start : start + at_once] = order
    return which


def _distance(squared_overlap: np.ndarray) -> np.ndarray:
    return np.sqrt(np.clip(1 - squared_overlap, 0.0, 1.0))
