"""Limits of a panel: for a whole run, or for each frame, where they follow the
points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import ndimage

PANEL_MARGIN = 0.08
"""Margin beyond the outermost point, as a fraction of the panel's side."""

_USUAL = 0.99
"""Fraction of the frames, besides the first and the last, whose points are within the
limits."""
_SLACK = 1.6
"""All frames are kept within the limits if the farthest reaches at most this many times
as far as those frames."""
_WILD = 4.0
"""For a diverged run, frames are left out that reach farther than this factor times the
median reach, or 10 times this factor times the reach of the first frame; the last frame
is not exempt."""

_FOLLOWING_TIME = 0.025
"""Fraction of a run by which limits that follow the points are ahead of a change and
behind it."""

AxisLimits = tuple[float, float]


class PanelLimits(NamedTuple):
    """The limits of a panel for a whole run."""

    x: AxisLimits
    y: AxisLimits
    outside: float = 0.0  # fraction of the frames that have a point outside
    of: str = ""  # note on the frames from which the limits are, unless all
    views: np.ndarray | None = (
        None  # limits of each frame (frame, axis, end), where they follow the points
    )

    @property
    def note(self) -> str:
        """Note that some points are outside the panel."""
        often = (
            f"in {self.outside:.0%} of frames"
            if self.outside >= 0.01
            else "in under 1% of frames"
        )
        return "; ".join(
            filter(None, (f"some outside {often}" if self.outside else "", self.of))
        )

    def at(self, frames: np.ndarray) -> np.ndarray:
        """Limits at frames (frame,): (frame, axis, end), or (1, axis, end) where they
        hold for the whole run."""
        return (
            np.array([[self.x, self.y]]) if self.views is None else self.views[frames]
        )

    def widened(self, fraction: float) -> PanelLimits:
        """Limits with a further margin on each side, as a fraction of the length of the
        side."""
        x, y = (
            tuple(_widen(np.array(ends), fraction).tolist())
            for ends in (self.x, self.y)
        )
        return self._replace(
            x=x, y=y, views=None if self.views is None else _widen(self.views, fraction)
        )


def _widen(ends: np.ndarray, fraction: float) -> np.ndarray:
    return ends + fraction * np.diff(ends, axis=-1) * [-1, 1]


def panel_limits(
    places: np.ndarray, diverged: bool = False, square: bool = True
) -> PanelLimits:
    """Limits that contain the points (frame, point, 2) of a run, except for rare frames
    that reach too far.

    NaN means no point. square: the same length on both axes.
    """
    low = np.fmin.reduce(places, axis=1, initial=np.inf).astype(
        np.float64
    )  # (frame, 2)
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
    half = np.where(
        length > tiny, length * (0.5 + PANEL_MARGIN), np.maximum(1.0, np.abs(middle))
    )
    (left, bottom), (right, top) = middle - half, middle + half
    outside = ((low < [left, bottom]) | (high > [right, top])).any(axis=1)
    return PanelLimits(
        (float(left), float(right)), (float(bottom), float(top)), float(outside.mean())
    )


def following_limits(
    places: np.ndarray, known: np.ndarray, count: int, square: bool = True
) -> PanelLimits:
    """Limits of each of `count` frames that contain its points, and that change little
    from a frame to the next.

    places: points (known, point, 2) at the frames `known` (known,), NaN where there is
    none. The reach of a frame is the largest within a fortieth of the run before and
    after it, averaged over as many frames on a logarithmic scale; so the limits grow
    before the points do, and no point is outside."""
    low = np.fmin.reduce(places, axis=1, initial=np.inf).astype(
        np.float64
    )  # (known, 2)
    high = np.fmax.reduce(places, axis=1, initial=-np.inf).astype(np.float64)
    empty = ~(np.isfinite(low) & np.isfinite(high))
    low, high = np.where(empty, -1.0, low), np.where(empty, 1.0, high)
    width = int(np.ceil(_FOLLOWING_TIME * (len(known) - 1)))
    middle = _smooth(low / 2 + high / 2, width)
    half = np.maximum(high - middle, middle - low)
    half = np.maximum(
        half, max(1e-6 * half.max(), 1e-12)
    )  # a frame with all points at one place
    half = half.max(axis=1, keepdims=True).repeat(2, axis=1) if square else half
    half = np.exp(
        _smooth(
            ndimage.maximum_filter1d(
                np.log(half), 2 * width + 1, axis=0, mode="nearest"
            ),
            width,
        )
    )
    ends = np.stack([middle - half, middle + half], axis=-1)  # (known, axis, end)
    flat = ends.reshape(len(known), 4)
    views = np.stack(
        [np.interp(np.arange(count), known, item) for item in flat.T], axis=1
    ).reshape(count, 2, 2)
    (left, right), (bottom, top) = views[-1].tolist()
    return PanelLimits((left, right), (bottom, top), views=views).widened(PANEL_MARGIN)


def _smooth(values: np.ndarray, width: int) -> np.ndarray:
    """Moving average (frame, axis) over up to `width` frames on both sides, by two
    passes."""
    for part in (width // 2, width - width // 2):
        values = ndimage.uniform_filter1d(values, 2 * part + 1, axis=0, mode="nearest")
    return values


def pixel_centres(boxes: np.ndarray, side: int) -> np.ndarray:
    """Centres of side x side pixels that tile boxes (frame, axis, end), row after row
    from the lowest: (frame, pixel, 2)."""
    part = (np.arange(side) + 0.5) / side
    x, y = np.moveaxis(
        boxes[..., :1] + np.diff(boxes, axis=-1) * part, 1, 0
    )  # (frame, side) each
    broadcast_arrays = np.broadcast_arrays(x[:, None, :], y[:, :, None])
    return np.stack(broadcast_arrays, axis=-1).reshape(len(boxes), side**2, 2)


def _counting(low: np.ndarray, high: np.ndarray, diverged: bool) -> np.ndarray:
    """The frames that define the limits, (frame,) bool, by how far each reaches from
    the median centre."""
    centres = low / 2 + high / 2
    middle = centres[0] if diverged else np.median(centres, axis=0)
    reach = np.maximum(middle - low, high - middle).max(axis=1)
    usual = np.sort(reach)[int(_USUAL * (len(reach) - 1))]
    if diverged:
        start = float(reach[0]) or np.inf
        usual = min(usual, _WILD * float(np.median(reach)), 10 * _WILD * start)
    kept = reach <= usual
    kept[0] = True
    if not diverged:
        kept[-1] = True
    if reach.max() <= _SLACK * reach[kept].max():
        kept[:] = True
    return kept
