"""Baselines for the force kernels: the plain double loop compiled with Numba, and
vectorised NumPy."""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import njit, prange

sys.path.insert(
    0, str(Path(__file__).parent.parent)
)  # for tests.naive, which no package installs

from tests import naive

_plain = njit(naive.fields)


@njit(parallel=True)
def plain_fields(x, first, second, n):
    """The double loop of tests/naive.py for an ensemble (run, token, axis), parallel
    over runs."""
    force = np.empty((len(x), 4, x.shape[1], x.shape[2]))
    magnitude = np.empty((len(x), 4))
    for run in prange(len(x)):
        force[run], magnitude[run] = _plain(x[run], first, second, n, True)
    return force, magnitude


def numpy_fields(
    x: np.ndarray, first: np.ndarray, second: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """The four fields of one embedding (token, axis), computed with (pair, pair)
    arrays."""
    sums = x[first] + x[second]
    residue = (first + second) % n
    like = residue[:, None] == residue
    np.fill_diagonal(like, False)
    unlike = residue[:, None] != residue
    difference = sums[:, None] - sums
    square = (difference**2).sum(axis=-1)
    inverse = np.divide(
        1.0, np.sqrt(square), out=np.zeros_like(square), where=square > naive.TINY
    )
    norm = np.linalg.norm(sums, axis=1, keepdims=True)
    unit = np.divide(sums, norm, out=np.zeros_like(sums), where=norm**2 > naive.TINY)
    near = sums @ sums.T > 0
    on_pairs = [
        -np.einsum("pq,pqa->pa", like * inverse, difference),
        np.einsum("pq,pqa->pa", unlike * inverse**2, difference),
        (like & near) @ unit,
        -((unlike & near) @ unit),
    ]
    force = np.zeros((4, *x.shape))
    for field, values in enumerate(on_pairs):
        np.add.at(force[field], first, values)
        np.add.at(force[field], second, values)
    sizes = [
        (like * (inverse > 0)).sum(),
        (unlike * inverse).sum(),
        (like & near).sum(),
        (unlike & near).sum(),
    ]
    return force, np.array(sizes, dtype=np.float64)


def speed_up(
    baseline: Callable[[], object], fast: Callable[[], object], repeats: int = 5
) -> float:
    """Median ratio of the times of two functions, called alternately in this process
    after one call of each."""
    baseline()
    fast()
    return statistics.median(
        _seconds(baseline) / _seconds(fast) for _ in range(repeats)
    )


def _seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
