"""Limits of a panel for a whole run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

PANEL_MARGIN = 0.08
"""Margin beyond the outermost point, as a fraction of the panel's side."""

_USUAL = 0.99
"""Fraction of the frames, besides the first and the last, whose points are within the limits."""
_SLACK = 1.6
"""All frames are kept within the limits if the farthest reaches at most this many times as far as those frames."""
_WILD = 4.0
"""For a diverged run, frames are left out that reach farther than this factor times the median reach, or 10 times this
factor times the reach of the first frame; the last frame is not exempt."""

AxisLimits = tuple[float, float]


class PanelLimits(NamedTuple):
    """The limits of a panel for a whole run."""

    x: AxisLimits
    y: AxisLimits
    outside: float = 0.0  # fraction of the frames that have a point outside
    of: str = ""  # note on the frames from which the limits are, unless all

    @property
    def note(self) -> str:
        """Note that some points are outside the panel."""
        often = f"in {self.outside:.0%} of frames" if self.outside >= 0.01 else "in under 1% of frames"
        return "; ".join(filter(None, (f"some outside {often}" if self.outside else "", self.of)))


def panel_limits(places: np.ndarray, diverged: bool = False, square: bool = True) -> PanelLimits:
    """Limits that contain the points (frame, point, 2) of a run, except for rare frames that reach too far.

    NaN means no point. square: the same length on both axes.
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
    """The frames that define the limits, (frame,) bool, by how far each reaches from the median centre."""
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
