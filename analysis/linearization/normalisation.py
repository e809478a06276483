r"""Exact derivatives of the normalisations x -> N(x) of VC's network, and how large they are near the origin.

All four forms keep a direction and change a length: with r = \|x\|, e = x / r and R the radius (1, or sqrt d for the
root mean square),

    N(x) = g(r) e,    g = R                         unit            (VC section 2)
                      g = R r / (r + R epsilon)     rms             (the authors' code; epsilon is added to the root)
                      g = R r² (3 - 2 r), r < 1     either, smooth  (VC's remedy for spikes; R beyond r = 1)

and with f = g / r, P = 1 - e e^T the projection off the direction, and sym the sum over the three places of e,

    N'  = f P + g' e e^T,    N'' = f' sym(P e) + g'' e e e.

So N' has the eigenvalues g' along x and f across. As a bilinear map N'' has the norm max \|N''(u, u, u)\| over unit u
(Banach), the largest of \|3 f' c (1 - c²) + g'' c³\| over cosines c, which is \|g''\| or at c² = f' / (3 f' - g'').
For the unit form these are 1 / r and (2 / sqrt 3) / r²: curvature without bound near the origin, where an update as
large as r turns x / r around (VC section 5, spikes).

Array functions take x (..., axis) of any leading axes, in float64, dimensionless.
"""

from typing import NamedTuple

import numpy as np

from dynamics.networks.clustering_head import NORMALISATION_EPSILON
from dynamics.settings import NormName


class RadialDerivatives(NamedTuple):
    """What makes up N and its derivatives at some lengths: f, f', g' and g'', (...) each."""

    scale: np.ndarray
    """f = g / r: |N'| across"""
    scale_slope: np.ndarray
    """f'"""
    slope: np.ndarray
    """g': N' along"""
    bend: np.ndarray
    """g''"""


def normalised_length(norm: NormName, dim: int) -> float:
    """R: the length that normalised embeddings have."""
    return float(np.sqrt(dim)) if norm.startswith("rms") else 1.0


def radial_derivatives(norm: NormName, dim: int, length: np.ndarray) -> RadialDerivatives:
    """The radial functions at lengths (...). At 0 those of "unit" are not finite; the others have limits."""
    r, radius = np.asarray(length, dtype=np.float64), normalised_length(norm, dim)
    if norm == "rms":
        shift = NORMALISATION_EPSILON * radius
        far = 1 / (r + shift)
        return RadialDerivatives(radius * far, -radius * far**2, radius * shift * far**2, -2 * radius * shift * far**3)
    with np.errstate(divide="ignore"):
        far = 1 / r
    zero = np.zeros_like(r)
    outside = RadialDerivatives(radius * far, -radius * far**2, zero, zero)
    if norm == "unit":
        return outside
    inside = (r * (3 - 2 * r), 3 - 4 * r, 6 * r * (1 - r), 6 - 12 * r)
    return RadialDerivatives(
        *(np.where(r < 1, radius * near, beyond) for near, beyond in zip(inside, outside, strict=True))
    )


def normalisation_jacobian(x: np.ndarray, norm: NormName) -> np.ndarray:
    """N'(x): (..., axis) -> (..., axis, axis_in), symmetric.

    At the origin: 1 / epsilon for "rms", 0 for the smooth forms, and NaN for "unit", which has none there.
    """
    length, unit = _polar(x)
    found = radial_derivatives(norm, unit.shape[-1], length)
    along = unit[..., :, None] * unit[..., None, :]
    across = np.eye(unit.shape[-1]) - along
    with np.errstate(invalid="ignore"):
        result = found.scale[..., None, None] * across + found.slope[..., None, None] * along
    return _without_origin(result, length, norm)


def normalisation_second_derivative(x: np.ndarray, norm: NormName) -> np.ndarray:
    """N''(x): (..., axis) -> (..., axis, axis_in, axis_in), symmetric in all three.

    At the origin, where none of the forms has one, it is the mean over directions of approach, 0, and NaN for "unit".
    """
    length, unit = _polar(x)
    found = radial_derivatives(norm, unit.shape[-1], length)
    along = unit[..., :, None] * unit[..., None, :]
    across = np.eye(unit.shape[-1]) - along
    sides = across[..., None] * unit[..., None, None, :] + across[..., :, None, :] * unit[..., None, :, None]
    sides = sides + across[..., None, :, :] * unit[..., :, None, None]
    three = along[..., None] * unit[..., None, None, :]
    with np.errstate(invalid="ignore"):
        result = found.scale_slope[..., None, None, None] * sides + found.bend[..., None, None, None] * three
    return _without_origin(result, length, norm)


def normalisation_jacobian_norm(length: np.ndarray, norm: NormName, dim: int) -> np.ndarray:
    """Operator norm of N' at a distance from the origin, max(|f|, |g'|): (...) -> (...). Infinite for "unit" at 0."""
    found = radial_derivatives(norm, dim, length)
    return np.abs(found.slope) if dim == 1 else np.maximum(np.abs(found.scale), np.abs(found.slope))


def normalisation_second_derivative_norm(length: np.ndarray, norm: NormName, dim: int) -> np.ndarray:
    """Largest |N''(u, v)| over unit u and v at a distance from the origin: (...) -> (...).

    At 0 what it comes to near the origin, which is infinite for "unit".
    """
    found = radial_derivatives(norm, dim, length)
    along, slope = np.abs(found.bend), found.scale_slope
    if dim == 1:
        return along
    with np.errstate(invalid="ignore"):
        below = 3 * slope - found.bend
        cosine = np.divide(slope, below, out=np.full(np.shape(slope), 1 / 3), where=below != 0)
        between = 2 * np.abs(slope) * np.sqrt(np.clip(cosine, 0, None))
    infinite = np.isinf(slope)
    between = np.where(infinite, np.inf, np.where((cosine > 0) & (cosine < 1), between, 0.0))
    return np.maximum(along, between)


def _polar(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Length (...) and direction (..., axis), 0 at the origin; squares neither overflow nor underflow."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim < 1 or x.shape[-1] < 1 or not np.isfinite(x).all():
        raise ValueError(f"x: found shape {x.shape}, expected (..., axis) of finite numbers")
    exponent = np.frexp(np.abs(x).max(axis=-1))[1]
    scaled = np.ldexp(x, -exponent[..., None])
    size = np.linalg.norm(scaled, axis=-1)
    return np.ldexp(size, exponent), scaled / np.where(size > 0, size, 1.0)[..., None]


def _without_origin(result: np.ndarray, length: np.ndarray, norm: NormName) -> np.ndarray:
    at = (length == 0).reshape(length.shape + (1,) * (result.ndim - length.ndim))
    return np.where(at, np.nan, result) if norm == "unit" else result
