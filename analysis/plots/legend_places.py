"""Places of legends: in free space of their panel, or below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox

_LOCATIONS = range(1, 11)
"""matplotlib's codes of the places of a legend within its axes."""

_LINE_WIDTH = 3.0
"""Width in pixels that lines have beside the points along them."""

_SPACING = 3.0
"""Distance in pixels between points along a line that a legend may not cover."""


def drawn_points(axes: Axes) -> np.ndarray:
    """Points of what is drawn in axes, (point, 2) in pixels: along lines, bars and the
    edges of bands of intervals, of markers, and in texts. Bands over the whole height
    or width, which lie behind the data, are not counted."""
    points = [np.empty((0, 2)), *_drawn_points(axes)]
    return np.concatenate(points)


def _drawn_points(axes: Axes) -> Iterator[np.ndarray]:
    for line in axes.lines:
        vertices = line.get_transform().transform(line.get_xydata())
        has_line = line.get_linestyle() not in ("None", "none", "", " ")
        yield _along(vertices) if has_line else vertices
    for item in axes.collections:
        if isinstance(item, LineCollection):
            for segment in item.get_segments():
                yield _along(item.get_transform().transform(segment))
        elif isinstance(item, PolyCollection):
            for path in item.get_paths():
                yield _along(item.get_transform().transform(path.vertices))
        elif isinstance(item, PathCollection):
            offsets = np.asarray(item.get_offsets())
            yield item.get_offset_transform().transform(offsets)
    for patch in axes.patches:
        box = patch.get_window_extent()
        if box.width < axes.bbox.width and box.height < axes.bbox.height:
            yield _grid(box)
    for text in axes.texts:
        if text.get_visible() and text.get_text().strip():
            yield _grid(text.get_window_extent())


def _along(vertices: np.ndarray) -> np.ndarray:
    """Points along a line through vertices (vertex, 2)."""
    vertices = np.reshape(vertices, (-1, 2))
    some = vertices[np.isfinite(vertices).all(axis=1)]
    if len(some) < 2:
        return some
    lengths = np.hypot(*np.diff(some, axis=0).T)
    place = np.append(0.0, np.cumsum(np.minimum(lengths, 1e5)))
    count = int(min(place[-1] / _SPACING, 1e5)) + 2
    at = np.linspace(0, place[-1], count)
    return np.stack([np.interp(at, place, column) for column in some.T], axis=1)


def _grid(box: Bbox) -> np.ndarray:
    """Points in a box."""
    x, y = np.meshgrid(np.linspace(box.x0, box.x1, 8), np.linspace(box.y0, box.y1, 8))
    return np.stack([x.ravel(), y.ravel()], axis=1)


def covered_share(box: Bbox, points: np.ndarray) -> float:
    """The fraction of points (point, 2) in a box."""
    inside = (points >= box.min).all(axis=1) & (points <= box.max).all(axis=1)
    return float(inside.mean()) if len(points) else 0.0


def place_in_free_space(legend: Legend) -> bool:
    """Move a legend to a place in its axes where it covers nothing that is drawn;
    returns whether there is one."""
    drawn: Any = legend
    axes = drawn.axes
    room = 0.98 * axes.bbox.size
    points = drawn_points(axes)
    first = drawn._get_loc()
    for columns in range(drawn._ncols, 0, -1):
        set_columns(legend, columns)
        for location in (first, *_LOCATIONS):
            drawn._set_loc(location)
            box = drawn.get_window_extent()
            around = box.padded(_LINE_WIDTH)
            if (box.size < room).all() and not covered_share(around, points):
                return True
    return False


def place_below(legend: Legend) -> None:
    """Move a legend below the labels of its axes, in as many columns as fit."""
    drawn: Any = legend
    axes = drawn.axes
    count = len(drawn.get_texts())
    for rows in range(1, count + 1):
        columns = -(-count // rows)
        set_columns(legend, columns)
        if drawn.get_window_extent().width < 1.05 * axes.bbox.width:
            break
    labels = axes.xaxis.get_tightbbox()
    depth = axes.bbox.y0 - labels.y0 if labels is not None else 0.0
    size = drawn.get_texts()[0].get_fontsize() * axes.figure.dpi / 72
    drawn.borderaxespad = depth / size + 0.2
    drawn.set_bbox_to_anchor((0.5, 0), transform=axes.transAxes)
    drawn._set_loc(9)  # upper center
    drawn.set_in_layout(True)


def shrink_to_axes(legend: Legend) -> None:
    """Give a legend that is larger than its axes fewer columns, then smaller text."""
    drawn: Any = legend
    room = 0.98 * drawn.axes.bbox.size
    most = drawn._ncols
    for size in np.linspace(1, 0.7, 4) * drawn.get_texts()[0].get_fontsize():
        for text in drawn.get_texts():
            text.set_fontsize(size)
        for columns in range(most, 0, -1):
            set_columns(legend, columns)
            if (drawn.get_window_extent().size < room).all():
                return


def set_columns(legend: Legend, columns: int) -> None:
    """Draw the entries of a legend in a number of columns."""
    drawn: Any = legend
    labels = [text.get_text() for text in drawn.get_texts()]
    sizes = [text.get_fontsize() for text in drawn.get_texts()]
    title = drawn.get_title().get_text()
    location = drawn._get_loc()
    drawn.set_ncols(columns)
    originals = dict(
        zip(*reversed(drawn.axes.get_legend_handles_labels()), strict=True)
    )
    handles = [originals.get(label) for label in labels]
    if None in handles:
        handles = drawn.legend_handles
        drawn.markerscale = 1.0  # these have their size already
    drawn._init_legend_box(handles, labels)  # anew
    drawn._set_loc(location)
    drawn.set_title(title)
    for text, size in zip(drawn.get_texts(), sizes, strict=True):
        text.set_fontsize(size)
