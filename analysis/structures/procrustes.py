"""How much two embeddings differ in shape, whatever their place, size, orientation and labels of tokens.

Array functions take embeddings (..., token, axis), whose leading axes broadcast against each other, and give
arrays (...); the labelled one takes trajectories. All values are dimensionless. Token i stands for the number
i modulo N, N being the number of tokens. What is no embedding of finite real numbers, and numbers of tokens
that differ, raise ValueError; numbers of axes may differ, the smaller is filled up with zeros.

The distance is the full Procrustes distance of statistical shape analysis (Dryden and Mardia, Statistical
Shape Analysis, chapter 4). It comes from 1 - (overlap)^2, so that below about 1e-7 it is rounding.
"""

import math
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.structures.circles_and_grids import check_embedding, rescale_by_power_of_two

AT_ONCE_BYTES = 32 << 20

TIE = 1e-13
"""Overlaps that differ less are equal: which of them rounding favours changes from machine to machine."""


class ShapeMatch(NamedTuple):
    """The least distance over relabellings, each (...): token i of a is matched with token unit i + shift of b."""

    distance: np.ndarray
    unit: np.ndarray
    shift: np.ndarray


# -------------------------------------------------------------------------------------------- distances


def procrustes_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Full Procrustes distance, 0..1: (..., token, axis) twice -> (...).

    The least Frobenius norm of A - s R B over scales s, rotations and reflections R, with A and B centred and
    of Frobenius norm 1; symmetric. With all tokens in one point there is no shape: the distance of two such
    embeddings is 0, that of one of them from any other 1.
    """
    a, b = _shapes(a, b)
    return _distance(_overlap(a, b), a, b)


def relabellings(n: int, shifts: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Relabellings i -> u i + c (mod N) that map the task to itself: u (label,), c (label,), images (label, token).

    u is any unit of the numbers modulo N; c is 0, or with `shifts` any number. The identity comes first. That
    i + j = k + l (mod N) holds after one if and only if it held before.
    """
    units = [u for u in range(1, max(n, 2)) if math.gcd(u, n) == 1]
    unit, shift = (part.ravel() for part in np.meshgrid(units, np.arange(n if shifts else 1), indexing="ij"))
    return unit, shift, (unit[:, None] * np.arange(n) + shift[:, None]) % n


def match_shapes(a: np.ndarray, b: np.ndarray, shifts: bool = False) -> ShapeMatch:
    """Least `procrustes` distance over `relabellings` of b: (..., token, axis) twice -> three arrays (...).

    Units u and -u are not equivalent: the negative of a label is no rotation or reflection unless the
    embedding happens to have that symmetry, as a regular polygon has. So all are tried, and of equally good
    relabellings the first counts. The distance is symmetric, since the relabellings form a group.

    shifts: also try i -> u i + c, which moves every sum by 2 c and so maps the task to itself as well. Off by
    default: token 0 then stays token 0, and the search is N times as short.
    """
    a, b = _shapes(a, b)
    unit, shift, images = relabellings(a.shape[-2], shifts)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    every_a, every_b = (np.broadcast_to(x, (lead or (1,)) + x.shape[-2:]) for x in (a, b))
    overlap, best = np.empty(math.prod(lead)), np.empty(math.prod(lead), np.int64)
    at_once = max(1, AT_ONCE_BYTES // (8 * len(unit) * b.shape[-1] * (a.shape[-2] + a.shape[-1])))
    for start in range(0, len(best), at_once):
        some = slice(start, min(start + at_once, len(best)))
        places = np.unravel_index(np.arange(some.start, some.stop), lead or (1,))
        found = _overlap(every_a[places][:, None], every_b[places][:, images])
        overlap[some] = found.max(axis=1)
        best[some] = (found >= overlap[some, None] - TIE).argmax(axis=1)
    distance = _distance(overlap.reshape(lead), a, b)
    return ShapeMatch(distance, unit[best].reshape(lead), shift[best].reshape(lead))


def end_shape_distances(
    first: xr.Dataset | xr.DataArray, second: xr.Dataset | xr.DataArray, paired: bool = False, shifts: bool = False
) -> xr.DataArray:
    """`shape_distance` of the end embeddings of two trajectories, whatever system they come from.

    By run and other_run, all pairs; with `paired` by run, in the order of the runs. The seeds are the
    coordinates seed and other_seed. NaN where a run has diverged. Raises ValueError if runs to be paired
    are not as many.
    """
    one, other = _ends(first), _ends(second)
    if paired and one.sizes.get("run") != other.sizes.get("run"):
        raise ValueError(f"run: found {one.sizes.get('run')} and {other.sizes.get('run')}, expected as many in both")
    apart = ("seed", "token", "axis") if paired else ("run", "seed", "token", "axis")
    other = other.rename({name: f"other_{name}" for name in apart if name in other.variables or name in other.dims})
    distance = xr.apply_ufunc(
        lambda a, b: match_shapes(a, b, shifts).distance,
        one["embedding"],
        other["embedding"],
        input_core_dims=[["token", "axis"], ["other_token", "other_axis"]],
    )
    valid = one["valid"] & other["valid"]
    if not valid.all():
        distance = distance.where(valid)
    return distance.rename("shape_distance").assign_attrs(long_name="shape distance of the end embeddings", units="1")


# ------------------------------------------------------------------------------------------------- parts


def _shapes(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = check_embedding(a), check_embedding(b)
    if a.shape[-2] != b.shape[-2]:
        raise ValueError(f"token: found {a.shape[-2]} and {b.shape[-2]} tokens, expected as many in both")
    return _shape(a), _shape(b)


def _shape(x: np.ndarray) -> np.ndarray:
    """Centred and of Frobenius norm 1, in no more axes than tokens; zero if all tokens are in one point."""
    x = rescale_by_power_of_two(x)
    x = rescale_by_power_of_two(
        x - x[..., :1, :]
    )  # tokens in one point become exact zeros, which minus the mean are not
    x = x - x.mean(axis=-2, keepdims=True)
    size = np.linalg.norm(x, axis=(-2, -1), keepdims=True)
    x = np.divide(x, size, out=np.zeros_like(x), where=size > 0)
    return np.linalg.qr(x.mT).R.mT if x.shape[-1] > x.shape[-2] else x


def _overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The largest inner product of A with R B: the sum of the singular values of the transpose of A times B."""
    return np.linalg.svd(a.mT @ b, compute_uv=False).sum(axis=-1)


def _distance(overlap: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    shapeless = ~(a.any(axis=(-2, -1)) | b.any(axis=(-2, -1)))
    return np.where(shapeless, 0.0, np.sqrt(np.maximum((1 - overlap) * (1 + overlap), 0.0)))[()]


def _ends(trajectory: xr.Dataset | xr.DataArray) -> xr.Dataset:
    """Last frame of each run and whether it is `valid`; an array without steps is taken for that frame."""
    embedding = trajectory["embedding"] if isinstance(trajectory, xr.Dataset) else trajectory
    valid = xr.Variable((), True)
    if isinstance(trajectory, xr.Dataset) and {"last_step", "step"} <= set(trajectory.variables):
        valid = trajectory["last_step"].variable >= int(trajectory["step"][-1])
    if "step" in embedding.dims:
        embedding = embedding.isel(step=-1, drop=True)
    return xr.Dataset({"embedding": embedding, "valid": valid})
