r"""Radial functions of the normalisations x -> N(x) of VC's network, and norms of their
derivatives.

All four forms keep the direction of x and change its length: with r = \|x\|, e = x / r
and R the radius (1, or sqrt d for the root mean square),

    N(x) = g(r) e,    g = R                         unit            (VC section 2)
                      g = R r / (r + R epsilon)     rms             (the authors' code; epsilon is added to the root)
                      g = R u² (3 - 2 u), u < 1     either, smooth  (VC's change against spikes; R beyond u = 1)

with u = r / w for a region of width w (1 in VC), and with f = g / r, P = 1 - e e^T the projection off the direction, and sym the sum over
the three positions of e,

    N'  = f P + g' e e^T,    N'' = f' sym(P e) + g'' e e e.

So N' has the eigenvalues g' along x and f orthogonal to x. As a bilinear map N'' has
the norm max \|N''(u, u, u)\| over unit u (Banach), the largest of \|3 f' c (1 - c²) +
g'' c³\| over cosines c, which is \|g''\| or at c² = f' / (3 f' - g''). For the unit
form these are 1 / r and (2 / sqrt 3) / r²: they are unbounded near the origin, where an
update as large as r reverses x / r (VC section 4.3). N' and N'' themselves are
`normalisation_derivatives` of `analysis.linearization.attention_derivatives`."""

from typing import NamedTuple

import numpy as np

from dynamics.networks.clustering_head import NORMALISATION_EPSILON
from dynamics.settings import NormName


class RadialDerivatives(NamedTuple):
    """f, f', g' and g'' at some lengths, (...) each; see the module's description."""

    scale: np.ndarray
    """f = g / r, eigenvalue of N' orthogonal to x"""
    scale_slope: np.ndarray
    """f'"""
    slope: np.ndarray
    """g', eigenvalue of N' along x"""
    bend: np.ndarray
    """g''"""


def normalised_length(norm: NormName, dim: int) -> float:
    """R: the length of normalised embeddings.

    >>> normalised_length("rms", 4)
    2.0
    """
    return float(np.sqrt(dim)) if norm.startswith("rms") else 1.0


def radial_derivatives(
    norm: NormName, dim: int, length: np.ndarray, width: float
) -> RadialDerivatives:
    """The radial functions at lengths (...). At 0 they are infinite for "unit" and
    limits for the other norms. width: of the smoothed region."""
    r = np.asarray(length, dtype=np.float64)
    radius = normalised_length(norm, dim)
    if norm == "rms":
        shift = NORMALISATION_EPSILON * radius
        far = 1 / (r + shift)
        return RadialDerivatives(
            radius * far,
            -radius * far**2,
            radius * shift * far**2,
            -2 * radius * shift * far**3,
        )
    with np.errstate(divide="ignore"):
        far = 1 / r
    zero = np.zeros_like(r)
    outside = RadialDerivatives(radius * far, -radius * far**2, zero, zero)
    if norm == "unit":
        return outside
    u = r / width
    inside = (
        u * (3 - 2 * u) / width,
        (3 - 4 * u) / width**2,
        6 * u * (1 - u) / width,
        (6 - 12 * u) / width**2,
    )
    pairs = zip(inside, outside, strict=True)
    return RadialDerivatives(
        *(np.where(u < 1, radius * near, beyond) for near, beyond in pairs)
    )


def normalisation_jacobian_norm(
    length: np.ndarray, norm: NormName, dim: int, width: float = 1.0
) -> np.ndarray:
    """Operator norm of N' at distances from the origin, max(|f|, |g'|): (...) -> (...).
    Infinite for "unit" at 0.

    >>> float(normalisation_jacobian_norm(0.25, "unit", dim=2))
    4.0
    """
    derivatives = radial_derivatives(norm, dim, length, width)
    return (
        np.abs(derivatives.slope)
        if dim == 1
        else np.maximum(np.abs(derivatives.scale), np.abs(derivatives.slope))
    )


def normalisation_second_derivative_norm(
    length: np.ndarray, norm: NormName, dim: int, width: float = 1.0
) -> np.ndarray:
    """Largest |N''(u, v)| over unit u and v at distances from the origin: (...) ->
    (...).

    At 0 the limit, which is infinite for "unit".
    """
    derivatives = radial_derivatives(norm, dim, length, width)
    along = np.abs(derivatives.bend)
    slope = derivatives.scale_slope
    if dim == 1:
        return along
    with np.errstate(invalid="ignore"):
        below = 3 * slope - derivatives.bend
        cosine = np.divide(
            slope, below, out=np.full(np.shape(slope), 1 / 3), where=below != 0
        )
        between = 2 * np.abs(slope) * np.sqrt(np.clip(cosine, 0, None))
    infinite = np.isinf(slope)
    between = np.where(
        infinite, np.inf, np.where((cosine > 0) & (cosine < 1), between, 0.0)
    )
    return np.maximum(along, between)
