"""Shape distance of embeddings, which does not depend on their position, size,
orientation and labels of tokens.

The distance is the full Procrustes distance of statistical shape analysis (Dryden and
Mardia, Statistical Shape Analysis, chapter 4). It is computed from 1 - overlap², so
values below about 1e-7 are rounding errors. All values are dimensionless. Token i
represents the number i modulo N, the number of tokens. Numbers of axes may differ;
missing axes are filled with zeros."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.structures.embedding_arrays import centred_unit_norm, embedding_variable
from dynamics.trajectory.diverged import not_diverged

_BLOCK_BYTES = 32 << 20

_TIE = 1e-13
"""Overlaps that differ by less are equal; rounding differs between machines."""


class ShapeMatch(NamedTuple):
    """The least distance over relabellings, each (...): token i of a is matched with
    token unit i + shift of b."""

    distance: np.ndarray
    unit: np.ndarray
    shift: np.ndarray


def procrustes_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Full Procrustes distance of embeddings.

    The least Frobenius norm of A - s R B over scales s, rotations and reflections R,
    with A and B centred and of Frobenius norm 1; symmetric.

    Parameters
    ----------
    a, b : arrays, shape (..., token, axis)
        Leading axes broadcast.

    Returns
    -------
    array, shape (...)
        From 0 to 1. If all tokens are in one point, it is 0 from another such embedding
        and 1 from any other.

    Raises
    ------
    ValueError
        For different numbers of tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import procrustes_distance
    >>> triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(float(procrustes_distance(triangle, 5 * triangle[:, ::-1] + 3)), 6)
    0.0
    """
    a, b = _shapes(a, b)
    return _distance(_overlap(a, b), a, b)


def relabellings(
    n: int, shifts: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Relabellings i -> u i + c (mod N) that keep the task: u (label,), c (label,),
    images (label, token).

    u is any unit modulo N; c is 0, or with `shifts` any number. The identity comes
    first. i + j = k + l (mod N) holds after a relabelling if and only if it held
    before."""
    units = [u for u in range(1, max(n, 2)) if math.gcd(u, n) == 1]
    unit, shift = (
        part.ravel()
        for part in np.meshgrid(units, np.arange(n if shifts else 1), indexing="ij")
    )
    return unit, shift, (unit[:, None] * np.arange(n) + shift[:, None]) % n


def match_shapes(a: np.ndarray, b: np.ndarray, shifts: bool = False) -> ShapeMatch:
    """Least `procrustes_distance` over the relabellings i -> u i of the tokens of b
    that keep the task.

    Units u and -u are different relabellings: i -> -i is a rotation or reflection only
    of symmetric embeddings such as regular polygons. The first relabelling wins ties.
    The distance is symmetric.

    Parameters
    ----------
    a, b : arrays, shape (..., token, axis)
        Leading axes broadcast.
    shifts : bool
        Also try i -> u i + c, which shifts every sum by 2 c and so preserves the task;
        the search takes N times as long.

    Returns
    -------
    ShapeMatch
        Three arrays (...).

    Raises
    ------
    ValueError
        For different numbers of tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import match_shapes
    >>> x = np.random.default_rng(0).standard_normal((7, 2))
    >>> match = match_shapes(x[3 * np.arange(7) % 7], x)
    >>> round(float(match.distance), 6), int(match.unit)
    (0.0, 3)
    """
    a, b = _shapes(a, b)
    unit, shift, images = relabellings(a.shape[-2], shifts)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    every_a = np.broadcast_to(a, (lead or (1,)) + a.shape[-2:])
    every_b = np.broadcast_to(b, (lead or (1,)) + b.shape[-2:])
    overlap = np.empty(math.prod(lead))
    best = np.empty(math.prod(lead), np.int64)
    block = max(
        1, _BLOCK_BYTES // (8 * len(unit) * b.shape[-1] * (a.shape[-2] + a.shape[-1]))
    )
    for start in range(0, len(best), block):
        some = slice(start, min(start + block, len(best)))
        places = np.unravel_index(np.arange(some.start, some.stop), lead or (1,))
        result = _overlap(every_a[places][:, None], every_b[places][:, images])
        overlap[some] = result.max(axis=1)
        best[some] = (result >= overlap[some, None] - _TIE).argmax(axis=1)
    distance = _distance(overlap.reshape(lead), a, b)
    return ShapeMatch(distance, unit[best].reshape(lead), shift[best].reshape(lead))


def end_shape_distances(
    first: xr.Dataset | xr.DataArray,
    second: xr.Dataset | xr.DataArray,
    paired: bool = False,
    shifts: bool = False,
) -> xr.DataArray:
    """Distances (`match_shapes`) of the last embeddings of two trajectories of any
    systems.

    Parameters
    ----------
    first, second : xarray.Dataset or xarray.DataArray
        Trajectories, or embeddings; embeddings without steps are the last ones.
    paired : bool
        Only the distances of runs of equal index.
    shifts : bool
        As for `match_shapes`.

    Returns
    -------
    xarray.DataArray
        By run and other_run, or if paired by run; the seeds are the coordinates seed
        and other_seed. NaN for runs that diverged.

    Raises
    ------
    ValueError
        For different numbers of tokens, or of paired runs.

    Examples
    --------
    >>> from analysis.structures import end_shape_distances
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=3, steps=5, progress=False)
    >>> end_shape_distances(trajectory, trajectory, paired=True).values.round(6)
    array([0., 0., 0.])
    """
    one, other = _last_frame(first), _last_frame(second)
    if paired and one.sizes.get("run") != other.sizes.get("run"):
        raise ValueError(
            f"run: found {one.sizes.get('run')} and {other.sizes.get('run')}, expected"
            " equal numbers"
        )
    renamed = ("seed", "token", "axis") if paired else ("run", "seed", "token", "axis")
    other = other.rename(
        {
            name: f"other_{name}"
            for name in renamed
            if name in other.variables or name in other.dims
        }
    )
    core = [["token", "axis"], ["other_token", "other_axis"]]
    ends = one["embedding"], other["embedding"]
    distance = xr.apply_ufunc(
        lambda a, b: match_shapes(a, b, shifts).distance, *ends, input_core_dims=core
    )
    valid = one["valid"] & other["valid"]
    if not valid.all():
        distance = distance.where(valid)
    return distance.rename("shape_distance").assign_attrs(
        long_name="shape distance of the end embeddings", units="1"
    )


def _last_frame(trajectory: xr.Dataset | xr.DataArray) -> xr.Dataset:
    """Last embedding of each run and whether it is `valid`."""
    embedding = embedding_variable(trajectory, "match_shapes")
    valid = xr.Variable((), True)
    if isinstance(trajectory, xr.Dataset) and {"last_step", "step"} <= set(
        trajectory.variables
    ):
        valid = xr.Variable(trajectory["last_step"].dims, not_diverged(trajectory))
    if "step" in embedding.dims:
        embedding = embedding.isel(step=-1, drop=True)
    return xr.Dataset({"embedding": embedding, "valid": valid})


def _shapes(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = centred_unit_norm(a), centred_unit_norm(b)
    if a.shape[-2] != b.shape[-2]:
        raise ValueError(
            f"token: found {a.shape[-2]} and {b.shape[-2]} tokens, expected equal"
            " numbers"
        )
    return _in_fewer_axes(a), _in_fewer_axes(b)


def _in_fewer_axes(x: np.ndarray) -> np.ndarray:
    """The same shape, with at most as many axes as tokens."""
    return np.linalg.qr(x.mT).R.mT if x.shape[-1] > x.shape[-2] else x


def _overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The largest inner product of A with R B: the sum of the singular values of the
    transpose of A times B."""
    return np.linalg.svd(a.mT @ b, compute_uv=False).sum(axis=-1)


def _distance(overlap: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    both_points = ~(a.any(axis=(-2, -1)) | b.any(axis=(-2, -1)))
    return np.where(
        both_points, 0.0, np.sqrt(np.maximum((1 - overlap) * (1 + overlap), 0.0))
    )[()]
