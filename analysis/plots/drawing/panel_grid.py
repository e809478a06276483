"""A sheet: chosen panels of one scene, or of two side by side, in a grid, drawn once and then only updated.

What does not move is drawn once and kept; a frame is that background with the moving artists drawn upon it. The same
sheet is saved as PNG, SVG or PDF.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.output.files import replace_file
from analysis.plots.drawing.artists import INK, LayerArtist, make_layer_artist
from analysis.plots.drawing.axes_decoration import (
    ClockEvent,
    class_colour_key,
    decorate_axes,
    draw_figure_key,
    text_width,
)
from analysis.plots.drawing.panel_layout import (
    FOOT,
    HEADING,
    RIGHT,
    PanelLayout,
    common_limits,
    common_panel_names,
    default_columns,
    named_panels,
    set_common_colour_scale,
)
from analysis.plots.scenes.scene import LayerArrays, Panel, Scene

DPI = 100

_HEADING_HEIGHT = 13.5
"""Height of the heading's letters, where a panel is 240 pixels wide."""

PICTURE_FORMATS = {"png": ("Software",), "svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}
"""What a sheet is saved as, and the metadata that are left out so that its bytes are the same every time."""


class PanelGrid:
    """Panels of one or two scenes, updated by `show` and drawn by `draw`."""

    def __init__(
        self,
        scenes: Sequence[Scene],
        panels: Sequence[str] | None = None,
        columns: int | None = None,
        width: int = 960,
        even: bool = False,
    ) -> None:
        """width: in pixels; the height follows. even: whether both are even numbers, as films want it.

        panels: names of panels in their order; None is all, of several scenes all that they have in common.
        columns: of panels, of each scene. Raises SettingsError.
        """
        if not panels and len(scenes) > 1:
            panels = common_panel_names(scenes)
        blocks = set_common_colour_scale([named_panels(scene, panels) for scene in scenes])
        count = len(blocks[0])
        self.scenes, self.panels = tuple(scenes), [panel.name for panel in blocks[0]]
        self.layout = PanelLayout(
            blocks, common_limits(scenes, blocks), min(columns or default_columns(count), count), width
        )
        self.width, self.height = (size + size % 2 if even else size for size in (width, self.layout.height))
        self.figure = Figure(figsize=(self.width / DPI, self.height / DPI), dpi=DPI, facecolor="white")
        self.canvas = FigureCanvasAgg(self.figure)
        self.clocks = [self._heading(place) for place in range(len(scenes))]
        self.artists = [self._block(place) for place in range(len(scenes))]  # of each scene, with their array's name
        self._feet()
        moving = [each for block in self.artists for _, artist in block for each in artist.moving]
        self._moving: list[Artist] = [*self.clocks, *moving]
        self._background: Any = None

    @property
    def _px(self) -> float:
        """Points of a pixel at 240 to a panel."""
        return 72 / DPI * self.layout.scale

    # ------------------------------------------------------------------------------------------ making it

    def _heading(self, place: int) -> Text:
        """The scene's title at the left; the clock, at the right, is given back."""
        s, scene = self.layout.scale, self.scenes[place]
        left, width = self.layout.left(place), self.layout.block
        wanted = (
            _HEADING_HEIGHT * (text_width(self._time(place, -1)) + 1.12 * text_width(scene.title) + 1.5) * s
        )  # bold is wider
        size = _HEADING_HEIGHT * self._px * min(1.0, (width - (RIGHT + 8) * s) / wanted)
        y = 1 - 0.52 * HEADING * s / self.height
        how: dict[str, Any] = {"fontsize": size, "va": "center", "color": INK}
        self.figure.text((left + 8 * s) / self.width, y, scene.title, weight="bold", **how)
        right = (left + width - RIGHT * s) / self.width
        return self.figure.text(right, y, "", ha="right", animated=True, zorder=100, **how)

    def _feet(self) -> None:
        """Below the first scene what colours and marks mean, and below others where they have classes of their own."""
        s, kinds = self.layout.scale, {mark.kind for scene in self.scenes for mark in scene.marks}
        keys: list[list[tuple[str, tuple[float, ...]]]] = []
        for place, panels in enumerate(self.layout.blocks):
            keys.append([(name, tuple(colour)) for name, colour in class_colour_key(panels)])
            if keys[-1] not in keys[:-1]:
                at = (self.layout.left(place) + 16 * s, 0.6 * FOOT * s)
                draw_figure_key(self.figure, panels, kinds if place == 0 else (), at, self._px)

    def _time(self, place: int, frame: int) -> str:
        """The step, and the epoch, with decimals where those of the run are not whole."""
        scene = self.scenes[place]
        step = f"step {int(scene.steps[frame])}"
        digits = 0 if (scene.clock == np.round(scene.clock)).all() else 2
        return step if scene.unit == "step" else f"{step}, {scene.unit} {scene.clock[frame]:.{digits}f}"

    def _block(self, place: int) -> list[tuple[str | None, LayerArtist]]:
        """The axes of a scene with all that stands still; its artists are given back."""
        scene, found = self.scenes[place], []
        marks = [ClockEvent(mark.kind, *np.interp(mark[1:], scene.steps, scene.clock).tolist()) for mark in scene.marks]
        for panel, box in zip(self.layout.blocks[place], self.layout.boxes(place), strict=True):
            axes = self._axes(place, panel, box)
            for order, layer in enumerate(panel.layers):
                made = make_layer_artist(axes, panel, layer, order, self._px)
                found.append((getattr(layer, "array", None), made))
            decorate_axes(axes, panel, self._px, self.layout.ticks, self.layout.words, marks)
        return found

    def _axes(self, place: int, panel: Panel, box: tuple[float, float, float, float]) -> Axes:
        x, y, width, height = box
        shares = (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(shares, label=f"{place}-{panel.name}")
        x_limits, y_limits = self.layout.limits[place][panel.name]
        axes.set(yscale="log" if panel.log else "linear", xlim=x_limits, ylim=y_limits, autoscale_on=False)
        return axes

    # ----------------------------------------------------------------------------------------- drawing it

    def show(self, frames: Sequence[int], arrays: Sequence[LayerArrays], at: Sequence[int] | None = None) -> None:
        """Update to a frame of each scene. arrays: of each, what `Scene.arrays` gives; at: the places along them."""
        for place, (frame, found) in enumerate(zip(frames, arrays, strict=True)):
            here = 0 if at is None else at[place]
            for name, artist in self.artists[place]:
                artist.show(None if name is None else found[name][here], frame)
            self.clocks[place].set_text(self._time(place, frame))

    def draw(self) -> np.ndarray:
        """The sheet as (height, width, rgba) uint8: the canvas itself, which the next call overwrites."""
        if self._background is None:
            self.canvas.draw()
            self._background = self.canvas.copy_from_bbox(self.figure.bbox)
        self.canvas.restore_region(self._background)
        renderer = self.canvas.get_renderer()
        for artist in self._moving:
            artist.draw(renderer)
        return np.asarray(self.canvas.buffer_rgba())

    def save(self, path: Path) -> None:
        """Write as the format of the path's suffix, the same bytes every time. Raises RecordingError."""
        suffix = path.suffix[1:].lower()
        for clock in self.clocks:  # a figure leaves its own animated artists out, axes draw theirs
            clock.set_animated(False)
        try:
            with replace_file(path) as temporary, matplotlib.rc_context({"svg.hashsalt": suffix}):
                nothing = dict.fromkeys(PICTURE_FORMATS[suffix])
                self.figure.savefig(temporary, format=suffix, dpi=DPI, metadata=nothing)
        finally:
            for clock in self.clocks:
                clock.set_animated(True)
