"""Limits of a panel: for a whole run, or for each frame, where they follow the points;
and the limits and colour scales that two scenes have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from analysis.panels.scene import Curves, Image, Map, Panel, Scene
from dynamics.settings import SettingsError

PANEL_MARGIN = 0.08
"""Margin beyond the outermost point, as a fraction of the panel's side."""

_USUAL = 0.99
"""Fraction of the frames, besides the first and the last, whose points are within the
limits."""
_SLACK = 1.6
"""All frames are within the limits if the farthest reaches at most this many times as
far as those frames."""
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
    views: np.ndarray | None = None
    """Limits of each frame (frame, axis, end), where they follow the points."""

    @property
    def note(self) -> str:
        """Note that some points are outside the panel."""
        often = f"{self.outside:.0%}" if self.outside >= 0.01 else "under 1%"
        outside = f"some outside in {often} of frames" if self.outside else ""
        return "; ".join(filter(None, (outside, self.of)))

    def at(self, frames: np.ndarray) -> np.ndarray:
        """Limits at frames (frame,): (frame, axis, end), or (1, axis, end) where they
        hold for the whole run."""
        whole_run = np.array([[self.x, self.y]])
        return whole_run if self.views is None else self.views[frames]

    def widened(self, fraction: float) -> PanelLimits:
        """Limits with a further margin on each side, as a fraction of the length of the
        side."""
        x, y = _widen(np.array([self.x, self.y]), fraction).tolist()
        views = None if self.views is None else _widen(self.views, fraction)
        return self._replace(x=tuple(x), y=tuple(y), views=views)


def _widen(ends: np.ndarray, fraction: float) -> np.ndarray:
    return ends + fraction * np.diff(ends, axis=-1) * [-1, 1]


def _extents(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest coordinates of the points (frame, point, 2) of each
    frame, (frame, 2); infinite where it has none."""
    low = np.fmin.reduce(places, axis=1, initial=np.inf).astype(np.float64)
    high = np.fmax.reduce(places, axis=1, initial=-np.inf).astype(np.float64)
    return low, high


def panel_limits(
    places: np.ndarray, diverged: bool = False, square: bool = True
) -> PanelLimits:
    """Limits that contain the points (frame, point, 2) of a run, except for rare frames
    that reach too far.

    NaN means no point. square: the same length on both axes.
    """
    low, high = _extents(places)
    finite = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    if not finite.any():
        return PanelLimits((-1.0, 1.0), (-1.0, 1.0))
    low, high = low[finite], high[finite]
    usual = _usual_frames(low, high, diverged)
    ends = np.stack([low[usual].min(axis=0), high[usual].max(axis=0)])
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


def _usual_frames(low: np.ndarray, high: np.ndarray, diverged: bool) -> np.ndarray:
    """The frames that define the limits, (frame,) bool, by how far each reaches from
    the median centre, or from the first one of a diverged run."""
    centres = low / 2 + high / 2
    middle = centres[0] if diverged else np.median(centres, axis=0)
    reach = np.maximum(middle - low, high - middle).max(axis=1)
    limit = np.sort(reach)[int(_USUAL * (len(reach) - 1))]
    if diverged:
        start = float(reach[0]) or np.inf
        limit = min(limit, _WILD * float(np.median(reach)), 10 * _WILD * start)
    usual = reach <= limit
    usual[0] = True
    usual[-1] |= not diverged
    if reach.max() <= _SLACK * reach[usual].max():
        usual[:] = True
    return usual


def following_limits(
    places: np.ndarray,
    frames: np.ndarray,
    count: int,
    square: bool = True,
    follow: float = 1.0,
) -> PanelLimits:
    """Limits of each of `count` frames that contain its points, and that change little
    from a frame to the next.

    places: points (sample, point, 2) at some frames (sample,), NaN where there is none.
    follow: power of the points' reach that the limits are proportional to; with 1 the
    points fill the panel in each frame, with 0.5 a cloud that grows by a factor of 4
    becomes twice as large in the panel.
    The reach of a frame is the largest within a fortieth of the run before and after
    it, averaged over as many frames on a logarithmic scale; so the limits grow before
    the points do, and no point is outside."""
    low, high = _extents(places)
    empty = ~(np.isfinite(low) & np.isfinite(high))
    low, high = np.where(empty, -1.0, low), np.where(empty, 1.0, high)
    width = int(np.ceil(_FOLLOWING_TIME * (len(frames) - 1)))
    middle = _smooth(low / 2 + high / 2, width)
    half = np.maximum(high - middle, middle - low)
    # not 0 in a frame with all points at one place
    half = np.log(np.maximum(half, max(1e-6 * half.max(), 1e-12)))
    if square:
        half = half.max(axis=1, keepdims=True).repeat(2, axis=1)
    largest = ndimage.maximum_filter1d(half, 2 * width + 1, axis=0, mode="nearest")
    half = _smooth(largest, width)
    half = np.exp(half.max(axis=0) + follow * (half - half.max(axis=0)))
    ends = np.stack([middle - half, middle + half], axis=-1)  # (sample, axis, end)
    columns = [
        np.interp(np.arange(count), frames, column)
        for column in ends.reshape(len(frames), 4).T
    ]
    views = np.stack(columns, axis=1).reshape(count, 2, 2)
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
    ends = boxes[..., :1] + np.diff(boxes, axis=-1) * part  # (frame, axis, side)
    x, y = np.broadcast_arrays(ends[:, 0, None, :], ends[:, 1, :, None])
    return np.stack([x, y], axis=-1).reshape(len(boxes), side**2, 2)


# ----------------------------------------------------------- of two scenes side by side


def common_panel_names(scenes: Sequence[Scene]) -> list[str]:
    """Names of the panels that all scenes have."""
    names = [[panel.name for panel in scene.panels] for scene in scenes]
    return [name for name in names[0] if all(name in others for others in names)]


def match_panels(scenes: Sequence[Scene], names: Iterable[str]) -> list[list[Panel]]:
    """The named panels of each scene (scene, panel), with the same limits and colour
    scales for all scenes, to make them comparable.

    Panels with a matrix or map, which tile their limits, keep their own, as do curves
    over different units of time. Raises SettingsError for a panel that a scene lacks.
    """
    blocks = []
    for scene in scenes:
        panels = {panel.name: panel for panel in scene.panels}
        for name in names:
            if name not in panels:
                choice = "one or more of " + ", ".join(panels)
                raise SettingsError("panels", name, choice)
        blocks.append([panels[name] for name in names])
    if len(scenes) == 1:
        return blocks
    one_unit = len({scene.unit for scene in scenes}) == 1
    rows = [
        _match_limits(_match_colour_scale(panels), one_unit)
        for panels in zip(*blocks, strict=True)
    ]
    return [[row[index] for row in rows] for index in range(len(scenes))]


def _match_limits(panels: Sequence[Panel], one_unit: bool) -> Sequence[Panel]:
    if tile_limits(panels) or (not one_unit and _have(panels, Curves)):
        return panels
    x, y = _union_of_limits(panels, [(panel.x, panel.y) for panel in panels])
    return [replace(panel, x=x, y=y) for panel in panels]


def _match_colour_scale(panels: Sequence[Panel]) -> Sequence[Panel]:
    """The panels, in which matrices have a common colour scale."""
    images = [
        layer for panel in panels for layer in panel.layers if isinstance(layer, Image)
    ]
    if not images:
        return panels
    low, high = min(image.low for image in images), max(image.high for image in images)
    result = []
    for panel in panels:
        layers = [
            replace(layer, low=low, high=high) if isinstance(layer, Image) else layer
            for layer in panel.layers
        ]
        result.append(replace(panel, layers=tuple(layers)))
    return result


def match_views(panels: Sequence[Panel], frames: Sequence[int]) -> list[np.ndarray]:
    """Limits (axis, end) of a panel of each scene at a frame of each, for limits that
    follow the points.

    They are the same for all scenes, except those of maps and images, which tile their
    limits."""
    views = [
        panel.views[frame]
        for panel, frame in zip(panels, frames, strict=True)
        if panel.views is not None
    ]
    if len(views) < 2 or tile_limits(panels):
        return views
    return [np.array(_union_of_limits(panels, views))] * len(views)


def _have(panels: Sequence[Panel], kind: type) -> bool:
    return any(isinstance(layer, kind) for panel in panels for layer in panel.layers)


def tile_limits(panels: Sequence[Panel]) -> bool:
    """Whether panels have maps or images, which tile their limits."""
    return _have(panels, Map) or _have(panels, Image)


def _union_of_limits(
    panels: Sequence[Panel], limits: Sequence
) -> tuple[AxisLimits, AxisLimits]:
    """The smallest limits that contain all limits (scene, axis, end), extended to the
    aspect ratio of the first panel, if its axes have the same scale."""
    ends = np.array(limits, float)
    low, high = ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)
    (x0, y0), (x1, y1) = low.tolist(), high.tolist()
    if panels[0].equal:
        first = panels[0]
        ratio = (first.y[1] - first.y[0]) / (first.x[1] - first.x[0])
        width, height = x1 - x0, y1 - y0
        more_x = max(0.0, height / ratio - width) / 2
        more_y = max(0.0, width * ratio - height) / 2
        x0, x1, y0, y1 = x0 - more_x, x1 + more_x, y0 - more_y, y1 + more_y
    return (x0, x1), (y0, y1)
