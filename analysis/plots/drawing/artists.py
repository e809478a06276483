"""Artists that draw the layers of a panel with matplotlib. They are created once and
then updated at each frame.

Static parts are added to the axes. The artists in `moving` are animated, so that
matplotlib leaves their drawing to `PanelGrid`. Sizes are in points; `px` is the size in
points of a layout pixel; a panel with its margins is 240 layout pixels wide. Colours
are sRGB in 0..1."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from matplotlib.artist import Artist as Drawn
from matplotlib.artist import allow_rasterization
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import IdentityTransform

from analysis.panels.colours import colour, sequential_colours, text_colours
from analysis.panels.contours import (
    cells_of_pixels,
    contour_tiles,
    mark_contours,
    tile_pixels,
)
from analysis.panels.scene import (
    MARKER_SHAPES,
    Arrows,
    Curves,
    Image,
    Layer,
    Map,
    Panel,
    Points,
)
from analysis.panels.style import current_style, widest_first
from analysis.plots.curves import set_width_of_split
from analysis.plots.symbols import typeset

MARKERS = dict(zip(MARKER_SHAPES, "os^DX", strict=True))
AREAS = {"circle": 1.0, "square": 0.78, "triangle": 1.1, "diamond": 0.7, "cross": 1.1}
"""Relative areas of markers, so that all shapes look equally large."""

# in layout pixels
MARK = 7.0  # diameter of a marker
LABELLED_MARK = 13.0  # diameter of a marker with a label
LABEL = 7.5  # height of the label
TICK = 9.0  # height of numbers at axes
SHAFT = 1.6  # width of an arrow's shaft
LINE = 1.3  # width of a curve
BORDER = 2.0  # width of a line between columns of a matrix

_BAR = 0.3
"""Largest length of a scale bar, as a fraction of the panel's width."""

BACK, FRONT = 2.0, 10.0
"""First z orders of static and of moving artists."""

MATRIX_COLOURS = np.full((256, 4), 255, np.uint8)
MATRIX_COLOURS[:, :3] = (255 * sequential_colours()).round()
_MISSING = ("#e1e1e1", "#2a3037")
"""Colour of matrix entries without a value, on a white and on a dark background."""


class LayerArtist(Protocol):
    """Draws one layer."""

    @property
    def moving(self) -> Sequence[Drawn]:
        """Matplotlib artists that `show` updates, in drawing order."""

    def show(self, values: np.ndarray, frame: int) -> None:
        """Update to a frame. values: the layer's array at that frame; empty for curves,
        which have none."""


def make_layer_artist(
    axes: Axes, panel: Panel, layer: Layer, place: int, px: float
) -> LayerArtist:
    """Create the artist of a layer; `place` is the index of the layer in its panel."""
    order = FRONT + 3 * place
    if isinstance(layer, Points):
        on_map = any(isinstance(item, Map) for item in panel.layers)
        return PointsArtist(axes, layer, order, px, on_map)
    if isinstance(layer, Arrows):
        labelled = any(
            isinstance(item, Points) and item.labelled for item in panel.layers
        )
        return ArrowsArtist(
            axes, layer, order, px, 0.5 * LABELLED_MARK if labelled else 0.0
        )
    if isinstance(layer, Map):
        return MapArtist(axes, layer, order, panel.origin)
    if isinstance(layer, Image):
        return ImageArtist(axes, layer, order, px)
    return CurvesArtist(axes, layer, order, px)


# ----------------------------------------------------------------------- points, arrows


class PointsArtist:
    """Markers, one collection per shape, the line through them, and their labels."""

    def __init__(
        self, axes: Axes, layer: Points, order: float, px: float, on_map: bool
    ) -> None:
        """on_map: whether the markers lie on areas of colours, on which they have white
        edges on each background."""
        shapes = np.array(layer.shapes or ["circle"] * len(layer.names))
        filled = (
            np.ones(len(layer.names), bool)
            if layer.filled is None
            else np.asarray(layer.filled, bool)
        )
        present = {
            shape: np.flatnonzero(shapes == shape)
            for shape in MARKER_SHAPES
            if shape in shapes
        }
        self.groups = [
            (of, _marks(axes, layer, shape, of, filled[of], order, px, on_map))
            for shape, of in present.items()
        ]
        self.line = Line2D(
            [],
            [],
            color=colour("faint"),
            linewidth=0.8 * px,
            zorder=order - 0.5,
            animated=True,
        )
        self.moving: list[Drawn] = [marks for _, marks in self.groups]
        if layer.joined:
            axes.add_line(self.line)
            self.moving.insert(0, self.line)
        self.labels = (
            _LabelsArtist(axes, layer, order + 1, px) if layer.labelled else None
        )
        if self.labels:
            self.moving.append(self.labels.labels)

    def show(self, values: np.ndarray, frame: int) -> None:
        """values: (point, 2); a point that is NaN is not drawn."""
        for of, marks in self.groups:
            marks.set_offsets(values[of])
        self.line.set_data(*np.vstack([values, values[:1]]).T)
        if self.labels:
            self.labels.show(values)


def _marks(
    axes: Axes,
    layer: Points,
    shape: str,
    of: np.ndarray,
    filled: np.ndarray,
    order: float,
    px: float,
    on_map: bool,
) -> PathCollection:
    marker = MarkerStyle(MARKERS[shape])
    path = marker.get_path().transformed(marker.get_transform())
    colours = np.asarray(layer.colours, float)[of]
    area = (
        AREAS[shape]
        * ((LABELLED_MARK if layer.labelled else MARK * np.sqrt(layer.size)) * px) ** 2
    )
    white = on_map and shape != "cross"
    back = np.array(to_rgb("white" if white else colour("background")))
    faces = np.where(filled[:, None], colours, back)
    edges = np.where(filled[:, None], back, colours)
    widths = np.where(filled, min(0.6, 4 * layer.size), 1.3) * px
    return _add_paths(
        axes,
        [path],
        area,
        len(of),
        facecolors=faces,
        edgecolors=edges,
        linewidths=widths,
        zorder=order,
    )


def _add_paths(
    axes: Axes, paths: Sequence[Path], area: float, count: int, **style: Any
) -> PathCollection:
    """Add `count` paths with sizes in points; their positions are set later."""
    marks = PathCollection(
        paths,
        [area],
        offsets=np.full((count, 2), np.nan),
        offset_transform=axes.transData,
        animated=True,
        **style,
    )
    marks.set_transform(IdentityTransform())
    axes.add_collection(marks, autolim=False)
    return marks


class _LabelsArtist:
    """Names on markers, except on those that a later marker covers."""

    def __init__(self, axes: Axes, layer: Points, order: float, px: float) -> None:
        outlines = [
            TextPath((0, 0), typeset(name), size=LABEL * px)
            for name in strip_common_words(layer.names)
        ]
        middles = [path.get_extents().get_points().mean(axis=0) for path in outlines]
        paths = [
            Path(path.vertices - middle, path.codes)
            for path, middle in zip(outlines, middles, strict=True)
        ]
        style = {"facecolors": text_colours(layer.colours), "linewidths": 0}
        self.labels = _add_paths(axes, paths, 1.0, len(paths), zorder=order, **style)
        self.axes = axes
        self.covering = 0.75 * LABELLED_MARK * px

    def show(self, places: np.ndarray) -> None:
        """places: (point, 2) of the markers."""
        points = places / point_size(self.axes)
        near = (
            np.hypot(*(points[:, None] - points).T) < self.covering
        )  # NaN is near nothing
        covered = np.tril(near, -1).any(axis=0)
        self.labels.set_offsets(np.where(covered[:, None], np.nan, places))


def strip_common_words(names: Sequence[str]) -> list[str]:
    """Names without their common first words: "token 0", "token 1" -> "0", "1"."""
    words = [name.split(" ") for name in names]
    same = 0
    while (
        all(len(word) > same + 1 for word in words)
        and len({word[same] for word in words}) == 1
    ):
        same += 1
    return [" ".join(word[same:]) for word in words]


def axes_size_in_points(axes: Axes) -> np.ndarray:
    """Width and height of axes, in points."""
    return 72 * _position(axes)[2:]


def point_size(axes: Axes) -> np.ndarray:
    """Width and height of a point, 1/72 inch, in the coordinates of linear axes with
    their limits of the moment."""
    return np.array(
        [np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())]
    ) / axes_size_in_points(axes)


class ArrowsArtist:
    """Arrows as polygons with seven corners; an arrow shorter than its head is drawn
    smaller.

    Arrows at markers with labels begin at the edge of the marker.
    """

    def __init__(
        self, axes: Axes, layer: Arrows, order: float, px: float, start: float
    ) -> None:
        """start: distance of tails from the positions of `show`, in layout pixels."""
        self.axes = axes
        self.px = px
        self.start = start
        self.arrows = PolyCollection(
            [],
            facecolors=np.asarray(layer.colours, float),
            edgecolors=colour("background"),
            linewidths=0.5 * px,
            zorder=order,
            animated=True,
        )
        axes.add_collection(self.arrows, autolim=False)
        self.moving: list[Drawn] = [self.arrows]

    def show(self, values: np.ndarray, frame: int) -> None:
        """values: (arrow, 4), tails and heads; arrows that are NaN or have length 0 are
        not drawn."""
        pixel = point_size(self.axes) * self.px
        self.arrows.set_verts(
            pixel * arrow_polygons(values.reshape(-1, 2, 2) / pixel, self.start)
        )


def arrow_polygons(ends: np.ndarray, start: float = 0.0) -> np.ndarray:
    """Polygons (arrow, 7, 2) of arrows from tail to head, (arrow, 2, 2), in layout
    pixels, moved by `start`."""
    along = ends[:, 1] - ends[:, 0]
    length = np.hypot(*along.T)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        along = along / length  # NaN if the length is 0
    ends = ends + start * along[:, None]
    across = along[:, ::-1] * [-1, 1]
    size = np.minimum(1, length / (4.5 * SHAFT))
    neck = ends[:, 1] - along * 4.5 * SHAFT * size
    tail = ends[:, 0]
    head = ends[:, 1] + 0 * along
    half, wide = 0.5 * SHAFT * size * across, 1.9 * SHAFT * size * across
    return np.stack(
        [
            tail + half,
            neck + half,
            neck + wide,
            head,
            neck - wide,
            neck - half,
            tail - half,
        ],
        axis=1,
    )


# ------------------------------------------------------------------------- maps, images


class _PixelImage(AxesImage):
    """An image computed at exactly the size in pixels at which it is drawn, the lowest
    row first.

    matplotlib's resampling takes 20 times as long, and would interrupt contours.
    """

    def paint(
        self, fill: Callable[[int, int], np.ndarray], count: tuple[int, int]
    ) -> None:
        """Set the function that returns the image of a given (height, width), (height,
        width, rgba) uint8.

        count: rows and columns of the cells that it shows.
        """
        self.fill = fill
        self.count = count
        self.stale = True

    @allow_rasterization
    def draw(self, renderer) -> None:
        """Draw at the resolution of the raster; in a vector format, embed an image with
        four pixels per cell."""
        if not isinstance(renderer, RendererAgg):
            rows, columns = self.count
            self.set_data(self.fill(2 * rows, 2 * columns))
            super().draw(renderer)
            return
        x0, y0, x1, y1 = np.round(self.get_window_extent(renderer).extents).astype(int)
        context = renderer.new_gc()
        context.set_clip_rectangle(self.get_clip_box())
        renderer.draw_image(
            context, x0, y0, np.ascontiguousarray(self.fill(y1 - y0, x1 - x0))
        )
        context.restore()


def _enlarge_cells(cells: np.ndarray, height: int, width: int) -> np.ndarray:
    """Cells (row, column) as blocks of pixels, (height, width)."""
    return cells[:, cells_of_pixels(width, cells.shape[1])][
        cells_of_pixels(height, len(cells))
    ]


def _as_words(rgba: np.ndarray) -> np.ndarray:
    """Colours (..., rgba) uint8 as one number each, (...), which are several times as
    fast to index."""
    return np.ascontiguousarray(rgba).view(np.uint32)[..., 0]


def _as_colours(words: np.ndarray) -> np.ndarray:
    """The inverse of `_as_words`."""
    return words.view(np.uint8).reshape(*words.shape, 4)


def _pixels(axes: Axes, order: float) -> _PixelImage:
    """An image that fills the axes, whatever their limits are."""
    image = _PixelImage(
        axes, interpolation="nearest", origin="lower", extent=(0, 1, 0, 1), zorder=order
    )
    image.set_transform(axes.transAxes)
    image.set_animated(True)
    image.set_data(np.zeros((1, 1, 4), np.uint8))
    axes.add_image(image)
    return image


class MapArtist:
    """Categories in the colours of a palette, with contours if `layer.lines` is
    true."""

    def __init__(self, axes: Axes, layer: Map, order: float, origin: bool) -> None:
        self.count = len(layer.palette)
        self.lines = layer.lines
        rgb = (
            contour_tiles(layer.palette)
            if layer.lines
            else np.asarray(layer.palette, float)
        )
        table = np.full((*rgb.shape[:-1], 4), 255, np.uint8)
        table[..., :3] = np.round(255 * rgb)
        self.table = _as_words(table)
        self.image = _pixels(axes, order)
        self.moving: list[Drawn] = [self.image]
        if origin:  # the map covers the origin lines of the panel
            self.moving += draw_origin_lines(
                axes, order + 1, colour("muted"), animated=True
            )

    def show(self, values: np.ndarray, frame: int) -> None:
        """values: (row, column) unsigned integers."""
        self.image.paint(
            lambda height, width: self.filled(values, height, width), values.shape
        )

    def filled(self, numbers: np.ndarray, height: int, width: int) -> np.ndarray:
        """Image (height, width, rgba) of a map of numbers (row, column); a smaller
        image omits some cells."""
        rows, columns = min(height, len(numbers)), min(width, numbers.shape[1])
        if not self.lines:
            return _as_colours(_enlarge_cells(self.table[numbers], height, width))
        marked = mark_contours(_enlarge_cells(numbers, rows, columns), self.count)
        return _as_colours(tile_pixels(self.table, marked, (height, width)))


class ImageArtist:
    """A matrix in the viridis colormap, with its strip of row colours and the lines
    between columns."""

    def __init__(self, axes: Axes, layer: Image, order: float, px: float) -> None:
        self.low, self.high = layer.low, layer.high
        missing = _MISSING[current_style().dark]
        self.missing = np.round(255 * np.array(to_rgba(missing))).astype(np.uint8)
        self.image = _pixels(axes, order)
        self.moving: list[Drawn] = [self.image]
        if layer.borders:
            lines = LineCollection(
                [[(x, 0), (x, 1)] for x in layer.borders],
                colors="white",
                linewidths=BORDER * px,
                transform=axes.get_xaxis_transform(),
                zorder=order + 1,
                animated=True,
            )
            axes.add_collection(lines, autolim=False)
            self.moving.append(lines)
        if layer.row_colours is not None:
            _strip(axes, np.asarray(layer.row_colours, float))

    def show(self, values: np.ndarray, frame: int) -> None:
        """values: (row, column), the first row at the top; NaN is grey."""
        fraction = (values[::-1] - self.low) / max(self.high - self.low, 1e-300)
        finite = np.isfinite(fraction)
        cells = MATRIX_COLOURS[
            (255 * np.clip(np.where(finite, fraction, 0), 0, 1)).round().astype(np.intp)
        ]
        cells[~finite] = self.missing
        words = _as_words(cells)
        self.image.paint(
            lambda height, width: _as_colours(_enlarge_cells(words, height, width)),
            words.shape,
        )


def _strip(axes: Axes, colours: np.ndarray) -> None:
    """Draw the colours of the rows beside the left edge."""
    ends = np.linspace(1, 0, len(colours) + 1)
    boxes = [
        [(-0.045, a), (-0.015, a), (-0.015, b), (-0.045, b)] for a, b in pairwise(ends)
    ]
    strip = PolyCollection(
        boxes,
        facecolors=colours,
        edgecolors=colours,
        linewidths=0.2,
        transform=axes.transAxes,
        clip_on=False,
    )
    axes.add_collection(strip, autolim=False)


def draw_origin_lines(
    axes: Axes, order: float, ink: str, animated: bool
) -> list[Line2D]:
    """Add lines through the origin."""
    how: dict[str, Any] = {
        "color": ink,
        "linewidth": 0.5,
        "zorder": order,
        "animated": animated,
    }
    return [axes.axhline(0, **how), axes.axvline(0, **how)]


class FollowingAxes:
    """Axes whose limits follow the points, with lines through the origins and bars of
    round lengths below.

    All lines and all bars are one artist of the figure each, in inches, which is
    several times as fast as one per axes."""

    def __init__(self, figure: Figure, px: float, bars: bool) -> None:
        """bars: whether bars are drawn."""
        how: dict[str, Any] = {"transform": figure.dpi_scale_trans, "animated": True}
        lines = LineCollection(
            [], colors=colour("grid"), linewidths=0.5, zorder=-1, **how
        )
        self.bars = PathPatch(
            Path(np.zeros((0, 2))),
            facecolor=colour("ink"),
            linewidth=0,
            zorder=99,
            **how,
        )
        self.lines = lines
        self.pixel = px / 72
        self.drawn = bars
        figure.add_artist(self.lines)
        figure.add_artist(self.bars)

    def show(self, views: Sequence[tuple[Axes, np.ndarray, bool]]) -> None:
        """Axes, their limits (axis, end), and whether lines through the origin are
        drawn."""
        lines = []
        bars = []
        inset = 1.5 * self.pixel  # not over the frame
        for axes, limits, origin in views:
            axes.viewLim.set_points(limits.T)
            left, bottom, width, height = _position(axes)
            x, y = -limits[:, 0] / np.ptp(limits, axis=1) * [width, height] + [
                left,
                bottom,
            ]
            if origin and left < x < left + width:
                lines.append([(x, bottom + inset), (x, bottom + height - inset)])
            if origin and bottom < y < bottom + height:
                lines.append([(left + inset, y), (left + width - inset, y)])
            bars.append(
                self._bar(left, bottom, width / float(np.ptp(limits[0])), width)
            )
        self.lines.set_segments(lines)
        if self.drawn:
            self.bars.set_path(Path.make_compound_path(*bars))

    def _bar(self, left: float, bottom: float, unit: float, width: float) -> Path:
        """A bar with its length; unit: inches of a length of 1."""
        length = round_length(_BAR * width / unit)
        end = left + unit * length
        y = bottom - 7 * self.pixel
        pixel = self.pixel
        boxes = [(left, y - 0.6 * pixel, end, y + 0.6 * pixel)]
        boxes += [
            (x - 0.5 * pixel, y - 2.5 * pixel, x + 0.5 * pixel, y + 2.5 * pixel)
            for x in (left, end)
        ]
        text = _length_outline(f"{length:g}", TICK * pixel)
        at = np.array([end + 5 * pixel, y - 0.36 * TICK * pixel])
        shifted = Path(np.asarray(text.vertices) + at, text.codes)
        bars = []
        for x0, y0, x1, y1 in boxes:
            corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]
            bars.append(Path(corners, closed=True))
        return Path.make_compound_path(*bars, shifted)


@functools.cache
def _length_outline(text: str, size: float) -> Path:
    return TextPath((0, 0), typeset(text), size=size)


def _position(axes: Axes) -> np.ndarray:
    """Left, bottom, width and height of axes, in inches."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return np.asarray(axes.get_position().bounds) * np.tile(figure.get_size_inches(), 2)


def round_length(most: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten up to a length."""
    power = 10.0 ** np.floor(np.log10(most))
    return float(
        f"{max(lead for lead in (1, 2, 5) if lead * power <= most * (1 + 1e-9)) * power:.0e}"
    )


# ------------------------------------------------------------------------------- curves


class CurvesArtist:
    """Curves of the whole run, and a cursor: a vertical line with a dot on each
    curve."""

    def __init__(self, axes: Axes, layer: Curves, order: float, px: float) -> None:
        self.x, self.y = np.asarray(layer.x, float), np.asarray(layer.y, float)
        names = layer.names
        for values, rgb, name in zip(self.y, layer.colours, names, strict=True):
            (line,) = axes.plot(self.x, values, color=rgb, linewidth=LINE * px)
            set_width_of_split(line, name)
        self.order = widest_first(names)
        self.cursor = axes.axvline(
            self.x[0],
            color=colour("muted"),
            linewidth=0.8 * px,
            zorder=order,
            animated=True,
        )
        self.dots = _add_paths(
            axes,
            [Path.unit_circle()],
            0.7 * (0.5 * MARK * px) ** 2,
            len(self.y),
            edgecolors=colour("background"),
            facecolors=np.asarray(layer.colours, float)[self.order],
            linewidths=0.6 * px,
            zorder=order + 1,
        )
        self.moving: list[Drawn] = [self.cursor, self.dots]

    def show(self, values: np.ndarray, frame: int) -> None:
        """Move the cursor to a frame."""
        self.cursor.set_xdata([self.x[frame]] * 2)
        self.dots.set_offsets(
            np.column_stack(
                [np.full(len(self.y), self.x[frame]), self.y[self.order, frame]]
            )
        )
