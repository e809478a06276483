"""A grid of panels of one scene, or of two side by side, which is drawn once and then
only updated.

Static parts are drawn once and kept as a background; each frame is this background with
the moving artists drawn on it. The grid can also be saved as PNG, SVG or PDF.

Constants in capitals are in layout pixels; a panel with its margins is 240 layout
pixels wide. `PanelLayout.scale` is the number of pixels per layout pixel."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.output.files import replace_file
from analysis.panels.colours import colour
from analysis.panels.limits import (
    common_panel_names,
    match_panels,
    match_views,
    tile_limits,
)
from analysis.panels.run_scene import build_scene
from analysis.panels.scene import Curves, EventMark, Image, LayerArrays, Panel, Scene
from analysis.panels.style import GRID_DPI
from analysis.plots.drawing.artists import FollowingAxes, LayerArtist, make_layer_artist
from analysis.plots.drawing.axes_decoration import (
    COLOUR_BAR_WIDTH,
    LINE_HEIGHT,
    RIGHT,
    TEXT_OVERHANG,
    class_colour_key,
    decorate_axes,
    draw_key_line,
    figure_key_lines,
    text_lines_below,
    text_width,
    wrap_words,
)
from analysis.plots.drawing.film_timeline import nearest_frame
from analysis.plots.figure_files import FILE_PARAMETERS
from analysis.plots.symbols import show_as_written, typeset
from dynamics.settings import SettingsError

LEFT, TOP, BOTTOM = 34, 19, 17  # margins around the axes of a panel
HEADING, FOOT = 25, 18  # heights above and below all panels
BETWEEN = 18  # width between two scenes
_MARGIN_WITHOUT_TICKS = 5
_MIN_WIDTH_WITH_TICKS = 150
"""Width of a panel in pixels below which ticks are left out, as they would be too small
to read."""

_HEADING_SIZE, _HEADING_LINE = 13.5, 18.0
"""Heights of the heading's letters and lines."""
_KEY_LINE = 14.0
"""Height of a line of the key."""

_MIN_HEADING = 0.85
"""Relative size of letters of a heading, below which the time is on a line of its
own."""

_PixelBox = tuple[float, float, float, float]  # left, top, width, height, in pixels
_Cell = tuple[int, int, int]  # row, column, and cells in each direction

PICTURE_FORMATS = {
    "png": ("Software",),
    "svg": ("Date", "Creator"),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
"""Formats of a saved grid, and the metadata that are left out so that its bytes are the
same every time."""


class PanelGrid:
    """Panels of one or two scenes in a matplotlib figure, updated by `show` and drawn
    by `draw` or `save`.

    Parameters
    ----------
    scenes : sequence of Scene
        One scene, or two that are drawn side by side with the same limits and colour
        scales.
    panels : sequence of str, optional
        Names of panels, in their order; by default all that the scenes have in common.
    columns : int, optional
        Panels of a scene in a row; by default up to four.
    width : int
        Width of the figure in pixels; the height follows from it.
    leading : collection of str
        Names of panels that are drawn larger than the others, two by two cells each.
    legible : bool
        Whether text in small panels is as large as in panels of 240 pixels.
    even : bool
        Whether width and height are rounded up to even numbers, as films need.

    Raises
    ------
    SettingsError
        If a scene lacks one of the panels.

    Examples
    --------
    >>> from analysis.panels import build_scene
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=1, steps=2, progress=False)
    >>> scene = build_scene(trajectory, 0, panels=["embedding"])
    >>> grid = PanelGrid([scene], width=320)
    >>> grid.show([2], [scene.arrays([2])])
    >>> grid.draw().shape == (grid.height, 320, 4)
    True
    """

    @matplotlib.style.context("default")  # whatever a user has set for own figures
    def __init__(
        self,
        scenes: Sequence[Scene],
        panels: Sequence[str] | None = None,
        columns: int | None = None,
        width: int = 960,
        leading: Collection[str] = (),
        legible: bool = False,
        even: bool = False,
    ) -> None:
        names = panels or common_panel_names(scenes)
        if not names:
            raise SettingsError(
                "panels", "none that both have", "runs with some panels in common"
            )
        self.scenes = tuple(scenes)
        self.panels = list(names)
        leading = [name for name in names if name in leading]
        columns = columns or default_columns(len(names), len(leading))
        columns = min(columns, len(names) + 3 * len(leading))
        self.layout = PanelLayout(
            match_panels(scenes, names), columns, width, leading, legible
        )
        sizes = [self._heading_size(index) for index in range(len(scenes))]
        if min(sizes) < _MIN_HEADING:
            self.layout = replace(self.layout, heading=2 * _HEADING_LINE)
            most = max(len(self._title_lines(index)) for index in range(len(scenes)))
            self.layout = replace(self.layout, heading=(1 + most) * _HEADING_LINE)
        self._marks = [_clock_marks(scene) for scene in scenes if self.layout.curves]
        lines = max(len(self._key_lines(panels)) for panels in self.layout.blocks)
        self.layout = replace(self.layout, foot=FOOT + (lines - 1) * _KEY_LINE)
        self.width, self.height = (
            size + size % 2 if even else size for size in (width, self.layout.height)
        )
        self.figure = Figure(
            figsize=(self.width / GRID_DPI, self.height / GRID_DPI),
            dpi=GRID_DPI,
            facecolor=colour("background"),
        )
        self.canvas = FigureCanvasAgg(self.figure)
        self.clocks = [self._draw_heading(index) for index in range(len(scenes))]
        self.following = FollowingAxes(self.figure, self._px, self.layout.ticks)
        self._followed: dict[str, list[Axes]] = {}  # by panel, of each scene
        self._moving: list[Artist] = [self.following.lines]
        self.artists = [self._draw_block(index) for index in range(len(scenes))]
        self._draw_keys()
        show_as_written(self.figure)
        self._moving += [self.following.bars, *self.clocks]
        self._background: Any = None

    @property
    def figure_artists(self) -> list[Artist]:
        """Animated artists of the figure itself, which it does not draw as long as they
        are animated."""
        return [*self.clocks, self.following.lines, self.following.bars]

    @property
    def _px(self) -> float:
        """Size in points of one layout pixel."""
        return 72 / GRID_DPI * self.layout.scale

    # --------------------------------------------------------------------- static parts

    def _draw_heading(self, index: int) -> Text:
        """Draw the title of a scene at the left, and return the text at the right,
        which shows the time."""
        s = self.layout.scale
        layout = self.layout
        size = _HEADING_SIZE * self._px * min(1.0, self._heading_size(index))
        how: dict[str, Any] = {"fontsize": size, "va": "center", "color": colour("ink")}
        y = 1 - 0.52 * HEADING * s / self.height
        start = (layout.left(index) + 8 * s) / self.width
        end = (layout.left(index) + layout.block - RIGHT * s) / self.width
        for line in self._title_lines(index):
            self.figure.text(start, y, line, weight="bold", **how)
            y -= _HEADING_LINE * s / self.height
        how |= {"animated": True, "zorder": 100}
        if layout.two_lines:
            return self.figure.text(start, y, "", ha="left", **how)
        y += _HEADING_LINE * s / self.height
        return self.figure.text(end, y, "", ha="right", **how)

    def _title_lines(self, index: int) -> list[str]:
        """The title of a scene in lines, broken after commas: several if the time is on
        one of its own and letters must not be smaller."""
        title = typeset(self.scenes[index].title)
        if not (self.layout.two_lines and self.layout.legible):
            return [title]
        whole = re.sub("(?<!,) ", "\N{NO-BREAK SPACE}", title)
        return wrap_words(whole, self._heading_width / _HEADING_SIZE, bold=True)

    @property
    def _heading_width(self) -> float:
        """Width of the title above the panels of a run, in layout pixels."""
        return self.layout.block / self.layout.scale - RIGHT - 8

    def _heading_size(self, index: int) -> float:
        """Size of letters in which the heading of a scene fits, relative to the usual
        one."""
        lines = self._title_lines(index)
        title = max(text_width(line, bold=True) for line in lines)
        time = text_width(self._time(index, -1))
        letters = max(title, time) if self.layout.two_lines else title + time + 1.5
        return self._heading_width / (_HEADING_SIZE * letters)

    def _draw_keys(self) -> None:
        """Draw the key of colours and event marks below the first scene, and below
        others with different classes."""
        s = self.layout.scale
        keys = []
        for index, panels in enumerate(self.layout.blocks):
            keys.append([(name, tuple(rgb)) for name, rgb in class_colour_key(panels)])
            if keys[-1] not in keys[:-1]:
                x = self.layout.left(index) + 16 * s
                for up, line in enumerate(reversed(self._key_lines(panels))):
                    y = (0.6 * FOOT + up * _KEY_LINE) * s
                    draw_key_line(self.figure, line, (x, y), self._px, self._key_width)

    @property
    def _key_width(self) -> float:
        """Width of the key (the legend below the panels) of a run, in layout pixels."""
        return self.layout.block / self.layout.scale - 24

    def _key_lines(self, panels: Sequence[Panel]) -> list[Any]:
        """The key of panels in lines: one, or if letters must not be smaller, several."""
        kinds = {mark.kind for marks in self._marks for mark in marks}
        width = self._key_width if self.layout.legible else math.inf
        return figure_key_lines(panels, kinds, width)

    def _time(self, index: int, frame: int) -> str:
        """Step and epoch of a frame, with decimals where epochs of the run are not
        whole numbers."""
        scene = self.scenes[index]
        step = f"step {int(scene.steps[frame])}"
        if scene.unit == "step":
            return step
        digits = 0 if (scene.clock == np.round(scene.clock)).all() else 2
        return f"{step}, {scene.unit} {scene.clock[frame]:.{digits}f}"

    def _draw_block(self, index: int) -> list[tuple[str | None, LayerArtist]]:
        """Draw the axes of a scene with their static parts; return the artists of its
        layers, each with the name of its array."""
        layout = self.layout
        result = []
        marks = self._marks[index] if layout.curves else []
        for panel, box, (_, _, span) in zip(
            layout.blocks[index], layout.boxes(index), layout.cells, strict=True
        ):
            axes = self._add_axes(index, panel, box)
            if panel.views is not None:  # lines through the origin stay visible
                axes.patch.set_visible(False)
                self._followed.setdefault(panel.name, []).append(axes)
            for order, layer in enumerate(panel.layers):
                artist = make_layer_artist(axes, panel, layer, order, self._px)
                result.append((getattr(layer, "array", None), artist))
                self._moving += artist.moving
            width = layout.text_width(span)
            decorate_axes(axes, panel, self._px, layout.ticks, width, marks)
        return result

    def _add_axes(self, index: int, panel: Panel, box: _PixelBox) -> Axes:
        x, y, width, height = box
        bottom = 1 - (y + height) / self.height
        rectangle = (x / self.width, bottom, width / self.width, height / self.height)
        axes = self.figure.add_axes(rectangle, label=f"{index}-{panel.name}")
        axes.set(
            facecolor=colour("background"),
            yscale="log" if panel.log else "linear",
            xlim=panel.x,
            ylim=panel.y,
            autoscale_on=False,
        )
        return axes

    # --------------------------------------------------------------------------- frames

    def show(
        self,
        frames: Sequence[int],
        arrays: Sequence[LayerArrays],
        index: int = 0,
        following: Sequence[int] | None = None,
        fraction: float = 0.0,
    ) -> None:
        """Update to one frame of each scene.

        arrays: the result of `Scene.arrays` for each scene; index: position of the
        frame in those arrays. following, fraction: a later frame, and how far limits
        that follow the points are on the way to those at it."""
        views: list[tuple[Axes, np.ndarray, bool]] = []
        for name, followed in self._followed.items():
            panels = [
                next(panel for panel in block if panel.name == name)
                for block in self.layout.blocks
            ]
            origin = [panels[0].origin] * len(followed)
            limits = match_views(panels, frames)
            if following is not None and not tile_limits(panels):
                later = match_views(panels, following)
                limits = [
                    (1 - fraction) * now + fraction * then
                    for now, then in zip(limits, later, strict=True)
                ]
            views += zip(followed, limits, origin, strict=True)
        self.following.show(views)
        for scene, (frame, result) in enumerate(zip(frames, arrays, strict=True)):
            for array, artist in self.artists[scene]:
                artist.show(result[array][index] if array else np.empty(0), frame)
            self.clocks[scene].set_text(self._time(scene, frame))

    def draw(self) -> np.ndarray:
        """The picture (height, width, rgba) uint8: the canvas itself, which the next
        call overwrites."""
        if self._background is None:
            self.canvas.draw()
            self._background = self.canvas.copy_from_bbox(self.figure.bbox)
        self.canvas.restore_region(self._background)
        renderer = self.canvas.get_renderer()
        for artist in self._moving:
            artist.draw(renderer)
        return np.asarray(self.canvas.buffer_rgba())

    def save(self, path: Path, dpi: int = GRID_DPI) -> None:
        """Save in the format of the path's suffix, with the same bytes every time, a
        PNG with `dpi` pixels per inch.

        Raises RecordingError.
        """
        suffix = path.suffix[1:].lower()
        self._animate(False)
        try:
            with (
                replace_file(path) as temporary,
                matplotlib.rc_context({**FILE_PARAMETERS, "svg.hashsalt": suffix}),
            ):
                metadata = dict.fromkeys(PICTURE_FORMATS[suffix])
                self.figure.savefig(
                    temporary, format=suffix, dpi=dpi, metadata=metadata
                )
        finally:
            self._animate(True)

    def _animate(self, animated: bool) -> None:
        for artist in self.figure_artists:
            artist.set_animated(animated)


def _clock_marks(scene: Scene) -> list[EventMark]:
    """The events of a scene in the unit of its clock."""
    return [
        EventMark(mark.kind, *np.interp(mark[1:], scene.steps, scene.clock).tolist())
        for mark in scene.marks
    ]


# --------------------------------------------------------------------------- the layout


def default_columns(count: int, leading: int = 0) -> int:
    """Columns of a grid of `count` panels, some of them leading: at most four, nearly a
    square for few panels."""
    if leading:
        return 4 if leading > 1 or count > 3 else 1 + count
    return 3 if count in (5, 6, 9) else min(4, math.ceil(math.sqrt(count)))


def place_panels(
    names: Sequence[str], columns: int, leading: Collection[str]
) -> list[_Cell]:
    """Cells of panels in a grid: leading panels, the first, take two by two; the others
    fill the free cells by row."""
    first = [name for name in names if name in leading] if columns > 1 else []
    pairs = columns // 2
    cells = {
        name: (2 * (index // pairs), 2 * (index % pairs), 2)
        for index, name in enumerate(first)
    }
    large = {
        (row + down, column + right)
        for row, column, _ in cells.values()
        for down in (0, 1)
        for right in (0, 1)
    }
    free = (
        cell
        for cell in (divmod(index, columns) for index in itertools.count())
        if cell not in large
    )
    cells |= {name: (*next(free), 1) for name in names if name not in cells}
    return [cells[name] for name in names]


@dataclass(frozen=True, eq=False)
class PanelLayout:
    """Positions of panels (scene, panel) in a picture of a given width in pixels."""

    blocks: Sequence[Sequence[Panel]]
    columns: int
    width: int
    leading: Collection[str] = ()  # names of the panels that take two by two cells
    legible: bool = False  # whether text is not smaller in smaller panels
    heading: float = HEADING
    foot: float = FOOT

    @property
    def block(self) -> float:
        """Width of a scene's panels."""
        return (self.width - BETWEEN * (len(self.blocks) - 1)) / len(self.blocks)

    @property
    def panel_width(self) -> float:
        """Width of a panel of one cell with its surroundings."""
        return self.block / self.columns

    @property
    def scale(self) -> float:
        """Pixels per layout pixel; it grows less than the panels, so that letters stay
        small in large panels."""
        ratio = self.panel_width / 240
        if ratio < 1:
            return 1.0 if self.legible else ratio
        return math.sqrt(ratio)

    @property
    def ticks(self) -> bool:
        """Whether ticks are drawn."""
        return self.panel_width >= _MIN_WIDTH_WITH_TICKS

    @property
    def curves(self) -> bool:
        """Whether a panel shows curves, and with them events."""
        layers = (layer for panel in self.blocks[0] for layer in panel.layers)
        return any(isinstance(layer, Curves) for layer in layers)

    @property
    def two_lines(self) -> bool:
        """Whether the time is on a line of its own in the heading."""
        return self.heading > HEADING

    @functools.cached_property
    def cells(self) -> list[_Cell]:
        """Cells of the panels of a scene."""
        return place_panels(
            [panel.name for panel in self.blocks[0]], self.columns, self.leading
        )

    def text_width(self, span: int) -> float:
        """Maximum width of the text of a panel of `span` cells, in layout pixels."""
        margin = (
            LEFT - TEXT_OVERHANG + RIGHT if self.ticks else 2 * _MARGIN_WITHOUT_TICKS
        )
        return span * self.panel_width / self.scale - margin

    def left(self, scene: int) -> float:
        """Left edge of a scene's block."""
        return scene * (self.block + BETWEEN)

    def _margins(self, row: int) -> float:
        """Height of what is above and below the axes whose last row is a given one."""
        lines = [
            (self.ticks and bool(panel.x_label))
            + text_lines_below(panel, self.text_width(span))
            for block in self.blocks
            for panel, (first, _, span) in zip(block, self.cells, strict=True)
            if first + span - 1 == row
        ]
        bottom = BOTTOM if self.ticks else _MARGIN_WITHOUT_TICKS
        return (TOP + bottom + LINE_HEIGHT * max(lines, default=0)) * self.scale

    @functools.cached_property
    def rows(self) -> list[float]:
        """Upper edges of the rows, and the lower edge of the last one."""
        count = max(row + span for row, _, span in self.cells)
        heights = [self.side + self._margins(row) for row in range(count)]
        return list(itertools.accumulate(heights, initial=self.heading * self.scale))

    @property
    def side(self) -> float:
        """Side of the square in which the axes of a panel of one cell are placed."""
        return self.panel_width - self._across

    @property
    def _across(self) -> float:
        """Width of what is beside the axes of a panel."""
        return (LEFT + RIGHT if self.ticks else 2 * _MARGIN_WITHOUT_TICKS) * self.scale

    @property
    def height(self) -> int:
        """Height of the picture."""
        return round(self.rows[-1] + self.foot * self.scale)

    def boxes(self, scene: int) -> list[_PixelBox]:
        """Positions of the axes of a scene's panels, in whole pixels."""
        result = []
        left = LEFT if self.ticks else _MARGIN_WITHOUT_TICKS
        for panel, (row, column, span) in zip(
            self.blocks[scene], self.cells, strict=True
        ):
            x = self.left(scene) + column * self.panel_width + left * self.scale
            y = self.rows[row] + TOP * self.scale
            width = span * self.panel_width - self._across
            below = self.rows[row + span] - self._margins(row + span - 1)
            height = below - self.rows[row]
            result.append(self._fit_axes(panel, (x, y, width, height)))
        return result

    def _fit_axes(self, panel: Panel, box: _PixelBox) -> _PixelBox:
        """Position of a panel's axes in its box, with room for a colour bar and with
        equal scales."""
        x, y, width, height = box
        if any(isinstance(layer, Image) for layer in panel.layers):
            width -= (COLOUR_BAR_WIDTH - RIGHT) * self.scale
        if panel.equal:
            (x0, x1), (y0, y1) = panel.x, panel.y
            unit = min(width / (x1 - x0), height / (y1 - y0))
            bottom = y + height
            width, height = unit * (x1 - x0), unit * (y1 - y0)
            y = bottom - height
        return round(x), round(y), round(width), round(height)


# --------------------------------------------------------------------- a run at a step


def plot_run(
    trajectory: xr.Dataset,
    run: int = 0,
    step: int = -1,
    panels: Sequence[str] | None = None,
    columns: int | None = None,
    width: int = 960,
) -> Figure:
    """Draw panels of a run at one step.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of any system.
    run : int
        Index along the dimension `run`.
    step : int
        The nearest recorded step is drawn; -1 is the last one.
    panels : sequence of str, optional
        Names of the panels, in their order; by default all of `panel_names`.
    columns : int, optional
        Panels in a row; by default up to four.
    width : int
        Width of the figure in pixels.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    SettingsError
        If there is no such run, step or panel.
    TrajectoryError
        If the run diverged before the first frame.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=1, steps=2, progress=False)
    >>> [axes.get_label() for axes in plot_run(trajectory, step=0, panels=["embedding", "norm_ratio"]).axes]
    ['0-embedding', '0-norm_ratio']
    """
    scene = build_scene(trajectory, run, panels=panels, follow=True)
    grid = PanelGrid([scene], columns=columns, width=width)
    frame = nearest_frame(scene, step)
    grid.show([frame], [scene.arrays([frame])])
    for clock in grid.clocks:  # a figure does not draw its own animated artists
        clock.set_animated(False)
    return grid.figure
