"""Projection of points of any number of axes to a plane, the same for a whole run.

A point x is drawn at (b_1 . x, b_2 . x) with a fixed basis b: two chosen axes, the axes
themselves if there are two, or the principal axes of some points, usually those of the
last frame. The origin keeps its position. Points of a single axis are spread vertically
so that they do not cover each other. All values are dimensionless."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.settings import SettingsError

_HEIGHT = 0.85
"""Largest vertical position of points of a single axis, in a panel from -1 to 1."""

MAX_COORDINATE = 1e30
"""Coordinates are clipped to this absolute value, because they are drawn in single
precision."""


class Projection(NamedTuple):
    """A projection of points to a plane."""

    basis: np.ndarray
    """(2, axis)."""
    heights: np.ndarray | None = None
    """(point,), vertical positions of points of a single axis."""
    note: str = ""
    """Description of the axes; empty if the points have two axes that are drawn
    unchanged."""

    def places(self, points: np.ndarray) -> np.ndarray:
        """Points (..., point, axis) in the plane: (..., point, 2) float32."""
        places = (
            (points @ self.basis.T.astype(points.dtype))
            .clip(-MAX_COORDINATE, MAX_COORDINATE)
            .astype(np.float32)
        )
        if self.heights is not None:
            places[..., 1] = self.heights
        return places

    def points(
        self, places: np.ndarray, through: np.ndarray | None = None
    ) -> np.ndarray:
        """The points at places ([frame,] place, 2) of the plane through points (frame,
        axis).

        (frame or 1, place, axis). Through the origin by default; `through` has no
        effect if the basis spans all axes."""
        flat = (places @ self.basis).reshape(-1, places.shape[-2], self.basis.shape[1])
        if through is None or len(self.basis[0]) < 3:
            return flat
        return flat + (through - through @ self.basis.T @ self.basis)[:, None]


def fit_projection(
    points: np.ndarray,
    axes: tuple[int, int] | None = None,
    ranks: np.ndarray | None = None,
) -> Projection:
    """The plane in which points are drawn.

    Parameters
    ----------
    points : array, shape (point, axis)
        For example the embedding of the last frame.
    axes : (int, int), optional
        Numbers of two axes, from 0; by default the only two, or the principal ones.
    ranks : array of int, shape (point,), optional
        Vertical order of points of a single axis, by default their index.

    Returns
    -------
    Projection

    Raises
    ------
    SettingsError
        For axes that do not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import fit_projection
    >>> fit_projection(np.random.default_rng(0).standard_normal((9, 4)), axes=(1, 3)).basis
    array([[0., 1., 0., 0.],
           [0., 0., 0., 1.]])
    """
    count, dim = points.shape
    _check_axes(axes, dim)
    if dim == 1:
        ranks = np.arange(count) if ranks is None else ranks
        spread = max(1, int(ranks.max(initial=0)))
        return Projection(
            np.array([[1.0], [0.0]]),
            _HEIGHT * (2 * ranks / spread - 1),
            "one axis, horizontal",
        )
    if axes is not None:
        basis = np.eye(dim)[list(axes)]
        name = f"axes {axes[0]} and {axes[1]} of {dim}"
    elif dim == 2:
        return Projection(np.eye(2))
    else:
        basis = principal_axes(points)
        name = f"principal axes of {dim}"
    fraction = _variance_fraction(points, basis)
    return Projection(
        basis, None, name if np.isnan(fraction) else f"{name}: {fraction:.0%}"
    )


def principal_axes(points: np.ndarray) -> np.ndarray:
    """The two axes along which points vary most.

    Parameters
    ----------
    points : array, shape (point, axis)
        At least two axes.

    Returns
    -------
    array, shape (2, axis)
        Orthonormal; the largest part of each axis is positive.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import principal_axes
    >>> x = np.random.default_rng(0).standard_normal((50, 3)) * [1e-9, 1, 5]
    >>> abs(principal_axes(x)).argmax(axis=1)
    array([2, 1])
    """
    basis = np.linalg.svd(_centred(points), full_matrices=True)[2][:2]
    largest = basis[np.arange(2), np.abs(basis).argmax(axis=1)]
    return basis * np.where(largest < 0, -1.0, 1.0)[:, None]


def principal_plane(points: np.ndarray) -> np.ndarray:
    """Points (point, axis) in a plane, (point, 2): one or two axes as they are, more
    along centred principal axes."""
    if points.shape[1] <= 2:
        return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    return (points - points.mean(axis=0)) @ principal_axes(points).T


def _check_axes(axes: tuple[int, int] | None, dim: int) -> None:
    if axes is not None and (
        len(axes) != 2
        or axes[0] == axes[1]
        or not all(0 <= axis < dim for axis in axes)
    ):
        allowed = (
            "no value here: there is one axis"
            if dim < 2
            else f"two different axes from 0 to {dim - 1}"
        )
        raise SettingsError("axes", axes, allowed)


def _variance_fraction(points: np.ndarray, basis: np.ndarray) -> float:
    """Fraction of the variance of points (point, axis) along a basis; NaN if there is
    none."""
    centred = _centred(points)
    total = float((centred**2).sum())
    return (
        float(((centred @ basis.T) ** 2).sum()) / total if total > 0 else float("nan")
    )


def _centred(points: np.ndarray) -> np.ndarray:
    """Centred points, scaled so that squares neither overflow nor underflow."""
    points = points.astype(np.float64)
    points = points - points.mean(axis=0)
    size = np.abs(points).max(initial=0.0)
    return points / size if size > 0 else points
