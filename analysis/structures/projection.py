"""The plane in which points of any number of axes are seen, and the limits of a panel, the same for a whole run.

A point x is drawn at (b_1 . x, b_2 . x), with a basis b that stays the same through a run: the axes themselves where
there are two of them or two are chosen, else the principal axes of the last frame. The origin stays where it is. On one
axis points stand at heights of their own, for they would cover each other. All values are dimensionless.
"""

from typing import NamedTuple

import numpy as np

from dynamics.settings import SettingsError

PANEL_MARGIN = 0.08
"""Of a panel, beyond the outermost point, as a share of its side."""

HEIGHT = 0.85
"""How far up and down points of one axis are spread; their panel reaches from -1 to 1."""

MAX_COORDINATE = 1e30
"""Places beyond are there: what draws them computes in single precision."""

AxisLimits = tuple[float, float]


class Projection(NamedTuple):
    """Where points are seen."""

    basis: np.ndarray  # (2, axis)
    heights: np.ndarray | None = None  # (point,) of points of one axis
    note: str = ""  # which axes these are, where there are more or fewer than two

    def places(self, points: np.ndarray) -> np.ndarray:
        """Points (..., point, axis) in the plane: (..., point, 2) float32."""
        places = (points @ self.basis.T.astype(points.dtype)).clip(-MAX_COORDINATE, MAX_COORDINATE).astype(np.float32)
        if self.heights is not None:
            places[..., 1] = self.heights
        return places

    def points(self, places: np.ndarray, through: np.ndarray | None = None) -> np.ndarray:
        """What stands at places (place, 2), in the plane through points (frame, axis): (frame or 1, place, axis).

        Through the origin by default, and without effect where the basis spans all axes.
        """
        flat = (places @ self.basis)[None]
        if through is None or len(self.basis[0]) < 3:
            return flat
        return flat + (through - through @ self.basis.T @ self.basis)[:, None]


def check_axes(axes: tuple[int, int] | None, dim: int) -> None:
    """See that a choice of axes is one. Raises SettingsError."""
    if axes is None:
        return
    if len(axes) != 2 or axes[0] == axes[1] or not all(0 <= axis < dim for axis in axes):
        if dim < 2:
            raise SettingsError("axes", axes, "no choice, for there is one axis")
        raise SettingsError("axes", axes, f"two different axes from 0 to {dim - 1}")


def fit_projection(
    points: np.ndarray, axes: tuple[int, int] | None = None, ranks: np.ndarray | None = None
) -> Projection:
    """The plane of points (point, axis), such as those of the last frame.

    axes: two of them, by number from 0; None is the two there are, or the principal ones. ranks (point,): by what
    points of one axis are spread upwards; None is their order. Raises SettingsError.
    """
    count, dim = points.shape
    check_axes(axes, dim)
    if dim == 1:
        ranks = np.arange(count) if ranks is None else ranks
        spread = max(1, int(ranks.max(initial=0)))
        return Projection(np.array([[1.0], [0.0]]), HEIGHT * (2 * ranks / spread - 1), "one axis, across")
    if axes is not None:
        basis = np.eye(dim)[list(axes)]
        which = f"axes {axes[0]} and {axes[1]} of {dim}"
    elif dim == 2:
        return Projection(np.eye(2))
    else:
        basis, which = principal_axes(points), f"principal axes of {dim}"
    share = variance_fraction(points, basis)
    return Projection(basis, None, which if np.isnan(share) else f"{which}: {share:.0%}")


def principal_axes(points: np.ndarray) -> np.ndarray:
    """The two axes along which points (point, axis) vary most, (2, axis), each with its largest part upwards."""
    centred = _centred(points)
    basis = np.linalg.svd(centred, full_matrices=True)[2][:2]
    largest = basis[np.arange(2), np.abs(basis).argmax(axis=1)]
    return basis * np.where(largest < 0, -1.0, 1.0)[:, None]


def variance_fraction(points: np.ndarray, basis: np.ndarray) -> float:
    """How much of the variance of points (point, axis) is seen along a basis; NaN where there is none."""
    centred = _centred(points)
    whole = float((centred**2).sum())
    return float(((centred @ basis.T) ** 2).sum()) / whole if whole > 0 else float("nan")


def _centred(points: np.ndarray) -> np.ndarray:
    """Points about their mean, of a size whose squares neither overflow nor underflow."""
    points = points.astype(np.float64)
    points = points - points.mean(axis=0)
    size = np.abs(points).max(initial=0.0)
    return points / size if size > 0 else points


# ------------------------------------------------------------------------------------------------- limits

USUAL = 0.99
"""Share of the frames whose points are within the limits, beside those of the first and the last frame."""
SLACK = 1.6
"""All frames count where the furthest reaches no more than so many times as far as these."""
WILD = 4.0
"""Of a run that diverged, frames that reach further than so many times the median, or ten times that of the first, do
not count, nor does the last."""


class PanelLimits(NamedTuple):
    """The limits of a panel for a whole run."""

    x: AxisLimits
    y: AxisLimits
    outside: float = 0.0  # share of the frames of which a point lies outside
    of: str = ""  # which frames these are, where they are not all

    @property
    def note(self) -> str:
        """What is to be said where points leave the panel, or may do so unseen."""
        often = f"in {self.outside:.0%} of frames" if self.outside >= 0.01 else "at moments"
        return "; ".join(filter(None, (f"some outside {often}" if self.outside else "", self.of)))


def panel_limits(places: np.ndarray, diverged: bool = False, square: bool = True) -> PanelLimits:
    """Limits that hold points (frame, point, 2) of a run, NaN being none, but for rare frames that reach too far.

    square: one length across and up.
    """
    low = np.fmin.reduce(places, axis=1, initial=np.inf).astype(np.float64)  # (frame, 2)
    high = np.fmax.reduce(places, axis=1, initial=-np.inf).astype(np.float64)
    known = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    if not known.any():
        return PanelLimits((-1.0, 1.0), (-1.0, 1.0))
    low, high = low[known], high[known]
    kept = _counting(low, high, diverged)
    ends = np.stack([low[kept].min(axis=0), high[kept].max(axis=0)])
    length = np.full(2, (ends[1] - ends[0]).max()) if square else ends[1] - ends[0]
    middle = ends[0] / 2 + ends[1] / 2
    tiny = 1e-6 * np.maximum(np.abs(middle), 1e-30)
    half = np.where(length > tiny, length * (0.5 + PANEL_MARGIN), np.maximum(1.0, np.abs(middle)))
    (left, bottom), (right, top) = middle - half, middle + half
    outside = ((low < [left, bottom]) | (high > [right, top])).any(axis=1)
    return PanelLimits((float(left), float(right)), (float(bottom), float(top)), float(outside.mean()))


def pixel_centres(box: PanelLimits, side: int) -> np.ndarray:
    """Centres of side x side pixels that tile a box, row after row from the lowest: (pixel, 2)."""
    x, y = (low + (high - low) * (np.arange(side) + 0.5) / side for low, high in (box.x, box.y))
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _counting(low: np.ndarray, high: np.ndarray, diverged: bool) -> np.ndarray:
    """The frames that limits are taken from, (frame,) bool, by how far each reaches from the usual middle."""
    centres = low / 2 + high / 2
    middle = centres[0] if diverged else np.median(centres, axis=0)
    reach = np.maximum(middle - low, high - middle).max(axis=1)
    usual = np.sort(reach)[int(USUAL * (len(reach) - 1))]
    if diverged:
        start = float(reach[0]) or np.inf
        usual = min(usual, WILD * float(np.median(reach)), 10 * WILD * start)
    kept = reach <= usual
    kept[0] = True
    if not diverged:
        kept[-1] = True
    if reach.max() <= SLACK * reach[kept].max():
        kept[:] = True
    return kept
