"""A grid of panels of one scene, or of two side by side, which is drawn once and then
only updated.

Static parts are drawn once and kept as a background; each frame is this background with
the moving artists drawn on it. The grid can also be saved as PNG, SVG or PDF."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.output.files import replace_file
from analysis.panels.colours import colour
from analysis.panels.scene import EventMark, LayerArrays, Panel, Scene
from analysis.panels.style import GRID_DPI
from analysis.plots.drawing import panel_layout
from analysis.plots.drawing.artists import FollowingAxes, LayerArtist, make_layer_artist
from analysis.plots.drawing.axes_decoration import (
    class_colour_key,
    decorate_axes,
    draw_figure_key,
    text_width,
)
from analysis.plots.drawing.panel_layout import FOOT, HEADING, RIGHT, PanelLayout

_HEADING_SIZE, _HEADING_LINE = (
    13.5,
    18.0,
)  # heights of the heading's letters and lines, in layout pixels
_MIN_HEADING = 0.85
"""Relative size of letters of a heading, below which the time is on a line of its
own."""

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
        even: bool = False,
    ) -> None:
        if not panels and len(scenes) > 1:
            panels = panel_layout.common_panel_names(scenes)
        blocks = panel_layout.set_common_colour_scale(
            [panel_layout.named_panels(scene, panels) for scene in scenes]
        )
        self.scenes, self.panels = tuple(scenes), [panel.name for panel in blocks[0]]
        leading = [name for name in self.panels if name in leading]
        cells = len(self.panels) + 3 * len(leading)
        columns = min(
            columns or panel_layout.default_columns(len(self.panels), len(leading)),
            cells,
        )
        limits = panel_layout.common_limits(scenes, blocks)
        self.layout = PanelLayout(blocks, limits, columns, width, leading)
        if (
            min(self._heading_size(index) for index in range(len(scenes)))
            < _MIN_HEADING
        ):
            self.layout = dataclasses.replace(self.layout, heading=2 * _HEADING_LINE)
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
        self.artists = [
            self._draw_block(index) for index in range(len(scenes))
        ]  # each with its array's name
        self._draw_keys()
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
        s, scene = self.layout.scale, self.scenes[index]
        left, width = self.layout.left(index), self.layout.block
        second = (
            self.layout.heading > HEADING
        )  # whether the time is on a line of its own
        size = _HEADING_SIZE * self._px * min(1.0, self._heading_size(index))
        y, below = (
            1 - (0.52 * HEADING + line * _HEADING_LINE) * s / self.height
            for line in (0, second)
        )
        how: dict[str, Any] = {"fontsize": size, "va": "center", "color": colour("ink")}
        start, end = (
            (left + 8 * s) / self.width,
            (left + width - RIGHT * s) / self.width,
        )
        self.figure.text(start, y, scene.title, weight="bold", **how)
        how |= {"ha": "left" if second else "right", "animated": True, "zorder": 100}
        return self.figure.text(start if second else end, below, "", **how)

    def _heading_size(self, index: int) -> float:
        """Size of letters in which the heading of a scene fits, relative to the usual
        one."""
        title, time = (
            text_width(self.scenes[index].title, bold=True),
            text_width(self._time(index, -1)),
        )
        letters = (
            max(title, time) if self.layout.heading > HEADING else title + time + 1.5
        )
        return (self.layout.block / self.layout.scale - RIGHT - 8) / (
            _HEADING_SIZE * letters
        )

    def _draw_keys(self) -> None:
        """Draw the key of colours and event marks below the first scene, and below
        others with different classes."""
        s, kinds = (
            self.layout.scale,
            {mark.kind for scene in self.scenes for mark in scene.marks},
        )
        for index, panels in enumerate(self.layout.blocks):
            keys = [_colour_names(block) for block in self.layout.blocks[: index + 1]]
            if keys[-1] not in keys[:-1]:
                at = (self.layout.left(index) + 16 * s, 0.6 * FOOT * s)
                draw_figure_key(
                    self.figure, panels, kinds, at, self._px, self.layout.block / s - 24
                )

    def _time(self, index: int, frame: int) -> str:
        """Step and epoch of a frame, with decimals where epochs of the run are not
        whole numbers."""
        scene = self.scenes[index]
        step = f"step {int(scene.steps[frame])}"
        digits = 0 if (scene.clock == np.round(scene.clock)).all() else 2
        return (
            step
            if scene.unit == "step"
            else f"{step}, {scene.unit} {scene.clock[frame]:.{digits}f}"
        )

    def _draw_block(self, index: int) -> list[tuple[str | None, LayerArtist]]:
        """Draw the axes of a scene with their static parts; return the artists of its
        layers."""
        scene, result = self.scenes[index], []
        marks = [
            (mark.kind, *np.interp(mark[1:], scene.steps, scene.clock).tolist())
            for mark in scene.marks
        ]
        clock_marks = [EventMark(*mark) for mark in marks]
        spans = [self.layout.text_width(span) for _, _, span in self.layout.cells]
        for panel, box, width in zip(
            self.layout.blocks[index], self.layout.boxes(index), spans, strict=True
        ):
            axes = self._add_axes(index, panel, box)
            if panel.views is not None:
                axes.patch.set_visible(
                    False
                )  # which would cover the lines through the origin
                self._followed.setdefault(panel.name, []).append(axes)
            for order, layer in enumerate(panel.layers):
                artist = make_layer_artist(axes, panel, layer, order, self._px)
                result.append((getattr(layer, "array", None), artist))
                self._moving += artist.moving
            decorate_axes(axes, panel, self._px, self.layout.ticks, width, clock_marks)
        return result

    def _add_axes(
        self, index: int, panel: Panel, box: tuple[float, float, float, float]
    ) -> Axes:
        x, y, width, height = box
        rectangle = (
            x / self.width,
            1 - (y + height) / self.height,
            width / self.width,
            height / self.height,
        )
        axes = self.figure.add_axes(rectangle, label=f"{index}-{panel.name}")
        x_limits, y_limits = self.layout.limits[index][panel.name]
        axes.set(
            facecolor=colour("background"),
            yscale="log" if panel.log else "linear",
            xlim=x_limits,
            ylim=y_limits,
            autoscale_on=False,
        )
        return axes

    # --------------------------------------------------------------------------- frames

    def show(
        self, frames: Sequence[int], arrays: Sequence[LayerArrays], index: int = 0
    ) -> None:
        """Update to one frame of each scene.

        arrays: the result of `Scene.arrays` for each scene; index: position of the
        frame in those arrays."""
        views = []
        for name, followed in self._followed.items():
            panels = [
                next(panel for panel in block if panel.name == name)
                for block in self.layout.blocks
            ]
            limits = panel_layout.common_views(panels, frames)
            views += [
                (*item, panels[0].origin) for item in zip(followed, limits, strict=True)
            ]
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
        for artist in self.figure_artists:
            artist.set_animated(False)
        try:
            with (
                replace_file(path) as temporary,
                matplotlib.rc_context({"svg.hashsalt": suffix}),
            ):
                metadata = dict.fromkeys(PICTURE_FORMATS[suffix])
                self.figure.savefig(
                    temporary, format=suffix, dpi=dpi, metadata=metadata
                )
        finally:
            for artist in self.figure_artists:
                artist.set_animated(True)


def _colour_names(panels: Sequence[Panel]) -> list[tuple[str, tuple[float, ...]]]:
    """Names and colours of the classes in the key of panels."""
    return [(name, tuple(rgb)) for name, rgb in class_colour_key(panels)]
