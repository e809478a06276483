"""Structures of embeddings: circles (CA algorithm 1) and grid imperfections (CA
algorithm 2).

Functions of arrays take embeddings (..., token, axis). Functions of datasets take a
trajectory, or any dataset with `embedding`, and return NaN in the frames after a run
diverged. All values are dimensionless. Token i represents the number i modulo N, the
number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr
from numba import prange

from analysis.output.counts import count_of
from analysis.statistics.division import ratio
from analysis.statistics.intervals import Interval, binomial_interval, mean_interval
from analysis.structures.embedding_arrays import (
    apply_to_frames,
    check_embedding,
    rescale_by_power_of_two,
)
from analysis.structures.nearest_points import nearest_other_points
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.named_conditions import FrameTest
from dynamics.settings import Settings, SettingsError
from dynamics.tasks import all_pairs, modular_sum

CIRCLE_RATIO = 1.2
"""Largest norm over smallest norm below which embeddings form a circle (CA algorithm
1)."""
LARGEST_SHIFT = 0.5
"""Largest norm of the mean embedding of a circle, relative to the mean norm."""
PLANE_FRACTION = 0.9
"""Smallest fraction of the squared norms of a circle in the plane that has most."""
GRID_FRACTION = 0.2
"""An embedding that is not a circle is called a grid if at most this fraction of its
pair sums are imperfections. A perfect grid has few, a circle about half."""
FEWEST_TOKENS = 5
"""Number of tokens below which embeddings are structured by chance."""


# ------------------------------------------------------------------------------ circles


def norm_ratio(embedding: np.ndarray) -> np.ndarray:
    """Largest norm over smallest norm of the tokens' embeddings.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)

    Returns
    -------
    array, shape (...)
        At least 1; inf if an embedding is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import norm_ratio
    >>> float(norm_ratio(np.array([[1.0, 0.0], [0.0, 2.0]])))
    2.0
    """
    x = rescale_by_power_of_two(check_embedding(embedding))
    return _largest_over_smallest(np.linalg.norm(x, axis=-1))


def _largest_over_smallest(norms: np.ndarray) -> np.ndarray:
    """The ratio of norms (..., token): (...)."""
    return ratio(norms.max(axis=-1), norms.min(axis=-1), np.inf)


def is_circle(embedding: np.ndarray) -> np.ndarray:
    """Whether embeddings form a circle about the origin: norm ratio below 1.2 (CA
    algorithm 1), in a plane, and with the origin inside.

    The algorithm is for two dimensions and embeddings around the origin. Beyond these,
    norms alone do not tell: those of random vectors in many dimensions are nearly
    equal, as are those of tokens far from the origin. So the mean embedding must have
    at most half of the mean norm, and two orthogonal axes at least 90% of the squared
    norms.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)

    Returns
    -------
    array of bool, shape (...)

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import is_circle
    >>> angle = 2 * np.pi * np.arange(7) / 7
    >>> circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    >>> is_circle(np.stack([circle, circle * [1, 2], circle + 20]))
    array([ True, False, False])
    """
    x = rescale_by_power_of_two(check_embedding(embedding))
    norms = np.linalg.norm(x, axis=-1)
    result = np.atleast_1d(_largest_over_smallest(norms) < CIRCLE_RATIO)
    round_ones = x[None][result] if x.ndim == 2 else x[result]
    shift = np.linalg.norm(round_ones.mean(axis=-2), axis=-1)
    mean_norm = np.atleast_1d(norms.mean(axis=-1))[result]
    is_inside = shift <= LARGEST_SHIFT * mean_norm
    squares = np.linalg.svd(round_ones, compute_uv=False) ** 2
    is_flat = squares[:, :2].sum(axis=1) >= PLANE_FRACTION * squares.sum(axis=1)
    result[result] = is_inside & is_flat
    return result.reshape(x.shape[:-2])[()]


def circles(trajectory: xr.Dataset | xr.DataArray) -> xr.DataArray:
    """`is_circle` of every frame.

    Parameters
    ----------
    trajectory : xarray.Dataset or xarray.DataArray
        A trajectory, or its embedding, in any order of dimensions.

    Returns
    -------
    xarray.DataArray
        By run and step, or the remaining dimensions; NaN in the frames after a run
        diverged.

    Examples
    --------
    >>> from analysis import circles
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=4, steps=20, every=5, progress=False)
    >>> dict(circles(trajectory).sizes)
    {'run': 4, 'step': 5}
    """
    return apply_to_frames(is_circle, trajectory, "circle", "circle")


def circle_condition(settings: Settings) -> FrameTest:
    """The test whether the embedding of a frame is a circle, for runs that end then.
    Raises SettingsError unless the tokens are at least five numbers modulo N."""
    n = settings.modulus
    allowed = f"a system whose tokens are {FEWEST_TOKENS} numbers modulo N or more"
    if n < FEWEST_TOKENS:
        raise SettingsError("until", f"circle of {n} tokens", allowed)

    def holds(frame: Mapping[str, np.ndarray]) -> np.ndarray:
        if "embedding" not in frame:
            raise SettingsError("until", "circle, without an embedding", allowed)
        return is_circle(frame["embedding"][:, :n])

    return holds


# ------------------------------------------------------------------------ imperfections


_ROUNDING = 1e-15
"""Relative error, by rounding, of a distance compared with its part along one axis."""

_TINY_LENGTH = 1e-150
"""Absolute error, by underflow, of such a distance."""


@kernel_function
def _mark_mismatches(sums, residue, order, result):
    """Find pair sums whose nearest other pair sum has another residue; the first pair
    wins ties.

    sums (pair, axis); result (pair,) bool is written; order sorts the pair sums along
    axis 0, so that the search outward from each can stop when the distance along that
    axis alone exceeds the nearest so far."""
    pairs, dim = sums.shape
    for place in range(pairs):
        ij = order[place]
        nearest = np.inf
        nearest_kl = -1
        for direction in (-1, 1):
            at = place + direction
            while 0 <= at < pairs:
                kl = order[at]
                if (
                    abs(sums[ij, 0] - sums[kl, 0])
                    > nearest * (1 + _ROUNDING) + _TINY_LENGTH
                ):
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
        result[ij] = nearest_kl < 0 or residue[nearest_kl] != residue[ij]


@cached_kernel(parallel=True)
def mismatched_pair_sums(sums, residue, order):
    """`_mark_mismatches` of every frame: sums (frame, pair, axis), order (frame, pair)
    -> (frame, pair) bool."""
    result = np.empty(sums.shape[:2], np.bool_)
    for frame in prange(len(sums)):
        _mark_mismatches(sums[frame], residue, order[frame], result[frame])
    return result


_BLOCK_BYTES = 64 << 20

_TREE_PAIRS = 6000
"""Number of pairs from which a tree is faster than the sorted sweep; their results are
equal."""


def imperfect_pair_sums(embedding: np.ndarray) -> np.ndarray:
    """Which pair sums are grid imperfections (CA algorithm 2).

    A pair sum is imperfect if the nearest sum of another pair has a different modular
    sum; the first pair wins ties. With one token there is no other pair, and its only
    pair sum is imperfect.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)

    Returns
    -------
    array of bool, shape (..., pair)
        Pairs in the order of `dynamics.all_pairs`.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import imperfect_pair_sums
    >>> imperfect_pair_sums(np.array([[0.0], [1.0], [2.0]]))  # only 0 + 2 and 1 + 1 coincide
    array([ True,  True, False, False,  True,  True])
    """
    x = check_embedding(embedding)
    lead, (n, dim) = x.shape[:-2], x.shape[-2:]
    pairs = all_pairs(n)
    residue = modular_sum(pairs, n)
    frames = rescale_by_power_of_two(x).reshape(-1, n, dim)
    block = max(1, _BLOCK_BYTES // (8 * len(pairs) * (dim + 1)))
    result = np.empty((len(frames), len(pairs)), bool)
    for start in range(0, len(frames), block):
        some = frames[start : start + block]
        sums = some.take(pairs[:, 0], axis=1) + some.take(pairs[:, 1], axis=1)
        if len(pairs) < _TREE_PAIRS:
            mismatched = mismatched_pair_sums(
                sums, residue, np.argsort(sums[..., 0], axis=1)
            )
        else:
            mismatched = (
                residue[nearest_other_points(np.ascontiguousarray(sums.mT))] != residue
            )
        result[start : start + block] = mismatched
    return result.reshape(*lead, len(pairs))


def count_imperfections(embedding: np.ndarray) -> np.ndarray:
    """Number of grid imperfections (CA algorithm 2): the `imperfect_pair_sums`.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)

    Returns
    -------
    array of int, shape (...)

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import count_imperfections
    >>> int(count_imperfections(np.array([[0.0], [1.0], [2.0]])))
    4
    """
    return imperfect_pair_sums(embedding).sum(axis=-1, dtype=np.int64)


def grid_imperfections(trajectory: xr.Dataset | xr.DataArray) -> xr.DataArray:
    """`count_imperfections` of every frame.

    Parameters
    ----------
    trajectory : xarray.Dataset or xarray.DataArray
        A trajectory, or its embedding, in any order of dimensions.

    Returns
    -------
    xarray.DataArray
        By run and step, or the remaining dimensions; NaN in the frames after a run
        diverged.

    Examples
    --------
    >>> from analysis import grid_imperfections
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=4, steps=20, every=5, progress=False)
    >>> bool(grid_imperfections(trajectory).isel(step=-1).mean() < grid_imperfections(trajectory).isel(step=0).mean())
    True
    """
    return apply_to_frames(
        count_imperfections, trajectory, "imperfections", "grid imperfections"
    )


# ----------------------------------------------------------------------------- in words


def structure_kind(circle: bool) -> str:
    """The kind of an embedding by CA algorithm 1, in words."""
    return "circle" if circle else "no circle"


def structure_label(embedding: np.ndarray) -> str:
    """The structure of an embedding (token, axis) in words, such as "grid, 16
    imperfections". The imperfections of a circle are left out, as every circle has
    many."""
    kind = structure_name(embedding)
    if kind == "circle":
        return kind
    count = int(count_imperfections(embedding))
    return f"{kind}, {count_of(count, 'imperfection')}"


def structure_name(embedding: np.ndarray) -> str:
    """The structure of an embedding (token, axis): circle, grid or neither."""
    if is_circle(embedding):
        return "circle"
    pairs = len(all_pairs(len(embedding)))
    return grid_or_neither(int(count_imperfections(embedding)), pairs)


def grid_or_neither(imperfections: int, pairs: int) -> str:
    """Whether an embedding that is not a circle is a grid or neither. pairs: number of
    its pair sums."""
    return "grid" if imperfections <= GRID_FRACTION * pairs else "neither"


# ---------------------------------------------------------------------------- summaries


class StructureSummary(NamedTuple):
    """Structures of the last frames of an ensemble, with 95% intervals: a row of CA
    table 2."""

    runs: int
    circles: int
    circle_fraction: Interval
    grids: int
    """Number of runs that are not circles."""
    imperfections: Interval
    """Mean over the runs that are not circles, as in both tables of CA."""


def summarise_structures(embedding: np.ndarray) -> StructureSummary:
    """Fraction of circles in an ensemble, and mean number of imperfections of the other
    runs.

    Parameters
    ----------
    embedding : array, shape (run, token, axis)

    Returns
    -------
    StructureSummary

    Raises
    ------
    ValueError
        For another shape or values that are not finite.

    Examples
    --------
    >>> from analysis.structures import summarise_structures
    >>> from dynamics import ParticleSettings, final_embedding, simulate
    >>> trajectory = simulate(ParticleSettings(fa=2.0, n=7), runs=10, steps=50, progress=False)
    >>> summarise_structures(final_embedding(trajectory).values).runs
    10
    """
    if np.ndim(embedding) != 3:
        raise ValueError(
            f"embedding: found shape {np.shape(embedding)}, expected (run, token, axis)"
        )
    circle = is_circle(embedding)
    return summarise_counts(circle, count_imperfections(embedding[~circle]))


def summarise_counts(circle: np.ndarray, imperfections: np.ndarray) -> StructureSummary:
    """`summarise_structures` of runs that have been measured.

    circle: (run,) whether a run is a circle; imperfections: of the other runs."""
    count = int(circle.sum())
    return StructureSummary(
        runs=len(circle),
        circles=count,
        circle_fraction=binomial_interval(count, len(circle)),
        grids=len(circle) - count,
        imperfections=mean_interval(imperfections, discrete=True, limits=(0, np.inf)),
    )
