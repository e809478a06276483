"""Structures that embeddings form: circles (CA algorithm 1) and grid imperfections (CA algorithm 2).

Array functions take an embedding (..., token, axis) with any leading axes and give arrays (...); the
labelled ones take a trajectory, or any dataset with `embedding`, and give an `xarray.DataArray`, NaN in the
frames of a run after it diverged. All values are dimensionless. Token i stands for the number i modulo N,
N being the number of tokens. What is no embedding of finite real numbers raises ValueError.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr
from numba import njit, prange

from analysis.statistics.intervals import Interval, binomial_interval, mean_interval
from dynamics.kernels.compiling import cached_kernel
from dynamics.tasks import all_pairs, modular_sum

CIRCLE_RATIO = 1.2
"""Largest norm over smallest norm below which embeddings form a circle (CA algorithm 1)."""


# ---------------------------------------------------------------------------------------------- circles


def circularity(embedding: np.ndarray) -> np.ndarray:
    """Largest norm over smallest norm of the embeddings: (..., token, axis) -> (...). inf if one is at 0."""
    norms = np.linalg.norm(rescale_by_power_of_two(check_embedding(embedding)), axis=-1)
    smallest, largest = norms.min(axis=-1), norms.max(axis=-1)
    return np.divide(largest, smallest, out=np.full(np.shape(smallest), np.inf), where=smallest > 0)


def is_circle(embedding: np.ndarray) -> np.ndarray:
    """Whether the embeddings form a circle about the origin: (..., token, axis) -> (...) bool."""
    return circularity(embedding) < CIRCLE_RATIO


def circles(trajectory: xr.Dataset | xr.DataArray) -> xr.DataArray:
    """`is_circle` by run and step, or whatever dims remain."""
    return _labelled(is_circle, trajectory, "circle", "circle")


# ----------------------------------------------------------------------------------------- imperfections


SLACK, TINY_LENGTH = 1e-15, 1e-150
"""How far a rounded distance, or one whose square underflows, may fall short of its part along one axis."""


@njit(error_model="numpy")
def _mark_mismatches(sums, residue, order, found):
    """Find pair sums whose nearest other one has another residue; of equally near ones the first counts.

    sums (pair, axis); found (pair,) bool is written; order sorts the pair sums along axis 0, so that a search outward
    from each can stop where the distance along that axis alone exceeds the nearest so far.
    """
    pairs, dim = sums.shape
    for place in range(pairs):
        ij = order[place]
        nearest = np.inf
        nearest_kl = -1
        for direction in (-1, 1):
            at = place + direction
            while 0 <= at < pairs:
                kl = order[at]
                if abs(sums[ij, 0] - sums[kl, 0]) > nearest * (1 + SLACK) + TINY_LENGTH:
                    break
                square = 0.0
                for axis in range(dim):
                    difference = sums[ij, axis] - sums[kl, axis]
                    square += difference * difference
                distance = np.sqrt(square)
                if distance < nearest or (distance == nearest and kl < nearest_kl):
                    nearest = distance
                    nearest_kl = kl
                at += direction
        found[ij] = nearest_kl < 0 or residue[nearest_kl] != residue[ij]


@cached_kernel(parallel=True)
def mismatched_pair_sums(sums, residue, order):
    """`mark_mismatches` of every frame: sums (frame, pair, axis), order (frame, pair) -> (frame, pair) bool."""
    found = np.empty(sums.shape[:2], np.bool_)
    for frame in prange(len(sums)):
        _mark_mismatches(sums[frame], residue, order[frame], found[frame])
    return found


_BLOCK_BYTES = 64 << 20


def imperfect_pair_sums(embedding: np.ndarray) -> np.ndarray:
    """Which pair sums are grid imperfections: (..., token, axis) -> (..., pair) bool, pairs as `all_pairs` has them.

    A pair sum is imperfect if the nearest sum of another pair has a different modular sum; of equally
    near ones the first in the order of pairs counts (CA algorithm 2). With one token there is no other
    pair, and the algorithm counts its only one.
    """
    x = check_embedding(embedding)
    lead, (n, dim) = x.shape[:-2], x.shape[-2:]
    pairs = all_pairs(n)
    residue = modular_sum(pairs, n)
    frames = rescale_by_power_of_two(x).reshape(-1, n, dim)
    at_once = max(1, _BLOCK_BYTES // (8 * len(pairs) * (dim + 1)))
    found = np.empty((len(frames), len(pairs)), bool)
    for start in range(0, len(frames), at_once):
        some = frames[start : start + at_once]
        sums = some[:, pairs[:, 0]] + some[:, pairs[:, 1]]
        found[start : start + at_once] = mismatched_pair_sums(sums, residue, np.argsort(sums[..., 0], axis=1))
    return found.reshape(*lead, len(pairs))


def count_imperfections(embedding: np.ndarray) -> np.ndarray:
    """Number of grid imperfections (`imperfect`): (..., token, axis) -> (...) int64."""
    return imperfect_pair_sums(embedding).sum(axis=-1, dtype=np.int64)


def grid_imperfections(trajectory: xr.Dataset | xr.DataArray) -> xr.DataArray:
    """`imperfections` by run and step, or whatever dims remain."""
    return _labelled(count_imperfections, trajectory, "imperfections", "grid imperfections")


# ---------------------------------------------------------------------------------------------- in words


STRUCTURE_KINDS = ("circle", "no circle")
"""What an embedding is by CA algorithm 1."""


def structure_label(embedding: np.ndarray) -> str:
    """What an embedding (token, axis) is, in words: "circle, 0 imperfections" or "no circle, 12 imperfections"."""
    return format_structure(bool(is_circle(embedding)), int(count_imperfections(embedding)))


def format_structure(circle: bool, imperfections: int) -> str:
    """The same of what is known of it. What is no circle need not be a grid: noise has imperfections too."""
    return f"{STRUCTURE_KINDS[not circle]}, {imperfections} imperfection{'' if imperfections == 1 else 's'}"


# ---------------------------------------------------------------------------------------------- summaries


class StructureSummary(NamedTuple):
    """Structures of an ensemble's end states, with 95% intervals: a row of CA table 2."""

    runs: int
    circles: int
    circle_fraction: Interval
    grids: int
    imperfections: Interval
    """Mean over the runs that are not circles, as in both tables of the paper."""


def summarise_structures(embedding: np.ndarray) -> StructureSummary:
    """Count the circles among end states (run, token, axis), and average the imperfections of the others.

    Raises ValueError for another shape or values that are not finite.
    """
    if np.ndim(embedding) != 3:
        raise ValueError(f"embedding: found shape {np.shape(embedding)}, expected (run, token, axis)")
    circle = is_circle(embedding)
    count = int(circle.sum())
    return StructureSummary(
        runs=len(circle),
        circles=count,
        circle_fraction=binomial_interval(count, len(circle)),
        grids=len(circle) - count,
        imperfections=mean_interval(count_imperfections(embedding[~circle])),
    )


# ------------------------------------------------------------------------------------------------ borders


def check_embedding(embedding: np.ndarray) -> np.ndarray:
    x = np.asarray(np.real(embedding), dtype=np.float64)
    if x.ndim < 2 or x.shape[-2] < 1 or x.shape[-1] < 1:
        raise ValueError(f"embedding: found shape {x.shape}, expected (..., token, axis)")
    if not np.isrealobj(embedding):
        raise ValueError("embedding: found complex numbers, expected real ones")
    if not np.isfinite(x).all():
        raise ValueError("embedding: found a value that is not finite, expected finite numbers")
    return x


def rescale_by_power_of_two(x: np.ndarray) -> np.ndarray:
    """Each embedding times the power of two, which is exact, that keeps squares from overflow and underflow."""
    exponent = np.frexp(np.abs(x).max(axis=(-2, -1), keepdims=True))[1]
    return np.ldexp(x, -exponent)


def _labelled(function, trajectory: xr.Dataset | xr.DataArray, name: str, long_name: str) -> xr.DataArray:
    embedding = trajectory["embedding"] if isinstance(trajectory, xr.Dataset) else trajectory
    result = xr.apply_ufunc(function, embedding, input_core_dims=[["token", "axis"]])
    if isinstance(trajectory, xr.Dataset) and {"last_step", "step"} <= set(trajectory.variables):
        valid = trajectory["step"] <= trajectory["last_step"]
        if not valid.all():
            result = result.where(valid)
    return result.rename(name).assign_attrs(long_name=long_name, units="1")
