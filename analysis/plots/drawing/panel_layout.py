"""Positions of the panels of a grid: the blocks of several scenes side by side, with
common limits.

Constants in capitals are in layout pixels; a panel with its margins is 240 layout
pixels wide. `PanelLayout.scale` is the number of pixels per layout pixel."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.panels.scene import Curves, Image, Map, Panel, Scene
from analysis.plots.drawing.axes_decoration import (
    COLOUR_BAR_WIDTH,
    LINE_HEIGHT,
    TEXT_OVERHANG,
    text_lines_below,
)
from dynamics.settings import SettingsError

LEFT, RIGHT, TOP, BOTTOM = 34, 17, 19, 17  # margins around the axes of a panel
HEADING, FOOT, BETWEEN = (
    25,
    18,
    18,
)  # heights above and below all panels; width between two scenes
_MARGIN_WITHOUT_TICKS = 5
_MIN_WIDTH_WITH_TICKS = 150
"""Width of a panel in pixels below which ticks are left out, as they would be too small
to read."""

_Range = tuple[float, float]
_PanelLimits = dict[str, tuple[_Range, _Range]]
_PixelBox = tuple[float, float, float, float]  # left, top, width, height, in pixels
_Cell = tuple[int, int, int]  # row, column, and cells in each direction


def named_panels(scene: Scene, names: Sequence[str] | None) -> list[Panel]:
    """The panels with the given names, in their order, by default all. Raises
    SettingsError."""
    known = {panel.name: panel for panel in scene.panels}
    for name in names or ():
        if name not in known:
            raise SettingsError("panels", name, "one or more of " + ", ".join(known))
    return [known[name] for name in names] if names else list(scene.panels)


def common_panel_names(scenes: Sequence[Scene]) -> list[str]:
    """Names of the panels that all scenes have. Raises SettingsError where there are
    none."""
    names = [[panel.name for panel in scene.panels] for scene in scenes]
    result = [name for name in names[0] if all(name in others for others in names)]
    if not result:
        raise SettingsError(
            "panels", "none that both have", "runs with some panels in common"
        )
    return result


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
    taken = {
        (row + down, column + right)
        for row, column, _ in cells.values()
        for down in (0, 1)
        for right in (0, 1)
    }
    free = (
        cell
        for cell in (divmod(index, columns) for index in itertools.count())
        if cell not in taken
    )
    cells |= {name: (*next(free), 1) for name in names if name not in cells}
    return [cells[name] for name in names]


def common_limits(
    scenes: Sequence[Scene], blocks: Sequence[Sequence[Panel]]
) -> list[_PanelLimits]:
    """Limits of the panels (scene, panel) of each scene by name: the same for all
    scenes, to make them comparable.

    Panels with a matrix or map, which tile their limits, keep their own, as do curves
    over different units of time."""
    one_unit = len({scene.unit for scene in scenes}) == 1
    result: list[_PanelLimits] = [{} for _ in scenes]
    for panels in zip(*blocks, strict=True):
        kinds = {type(layer) for panel in panels for layer in panel.layers}
        x, y = (
            _union([panel.x for panel in panels]),
            _union([panel.y for panel in panels]),
        )
        if panels[0].equal:
            x, y = _extend_to_shape_of(panels[0], x, y)
        keep = bool(kinds & {Image, Map}) or (Curves in kinds and not one_unit)
        for panel, item in zip(panels, result, strict=True):
            item[panel.name] = (panel.x, panel.y) if keep else (x, y)
    return result


def common_views(panels: Sequence[Panel], frames: Sequence[int]) -> list[np.ndarray]:
    """Limits (axis, end) of a panel of each scene at a frame of each, for limits that
    follow the points.

    They are the same for all scenes, except those of maps and images, which tile their
    limits."""
    views = [
        panel.views[frame]
        for panel, frame in zip(panels, frames, strict=True)
        if panel.views is not None
    ]
    if len(views) < 2 or any(
        isinstance(layer, Map | Image) for panel in panels for layer in panel.layers
    ):
        return views
    x, y = (_union([tuple(view[axis]) for view in views]) for axis in (0, 1))
    common = _extend_to_shape_of(panels[0], x, y) if panels[0].equal else (x, y)
    return [np.array(common)] * len(views)


def set_common_colour_scale(blocks: Sequence[Sequence[Panel]]) -> list[list[Panel]]:
    """The panels (scene, panel), each matrix with one colour scale for all scenes."""
    rows = [_set_colour_scale(panels) for panels in zip(*blocks, strict=True)]
    return [list(panels) for panels in zip(*rows, strict=True)]


def _set_colour_scale(panels: Sequence[Panel]) -> Sequence[Panel]:
    images = [
        layer for panel in panels for layer in panel.layers if isinstance(layer, Image)
    ]
    if not images:
        return panels
    low, high = min(one.low for one in images), max(one.high for one in images)
    result = []
    for panel in panels:
        layers = [
            replace(one, low=low, high=high) if isinstance(one, Image) else one
            for one in panel.layers
        ]
        note = "; ".join(
            note
            for note in panel.note.split("; ")
            if note not in {one.scale for one in images}
        )
        result.append(replace(panel, layers=tuple(layers), note=note))
    return result


def _union(ranges: Sequence[_Range]) -> _Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _extend_to_shape_of(panel: Panel, x: _Range, y: _Range) -> tuple[_Range, _Range]:
    """Limits extended to the aspect ratio of a panel."""
    width, height, ratio = (
        x[1] - x[0],
        y[1] - y[0],
        (panel.y[1] - panel.y[0]) / (panel.x[1] - panel.x[0]),
    )
    more_x, more_y = (
        max(0.0, height / ratio - width) / 2,
        max(0.0, width * ratio - height) / 2,
    )
    return (x[0] - more_x, x[1] + more_x), (y[0] - more_y, y[1] + more_y)


# --------------------------------------------------------------------------- the layout


@dataclass(frozen=True, eq=False)
class PanelLayout:
    """Positions of panels (scene, panel) in a picture of a given width in pixels."""

    blocks: Sequence[Sequence[Panel]]
    limits: Sequence[_PanelLimits]
    columns: int
    width: int
    leading: Collection[str] = ()  # names of the panels that take two by two cells
    heading: float = HEADING

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
        return (
            self.panel_width / 240
            if self.panel_width < 240
            else math.sqrt(self.panel_width / 240)
        )

    @property
    def ticks(self) -> bool:
        """Whether ticks are drawn."""
        return self.panel_width >= _MIN_WIDTH_WITH_TICKS

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
        return round(self.rows[-1] + FOOT * self.scale)

    def boxes(self, scene: int) -> list[_PixelBox]:
        """Positions of the axes of a scene's panels, in whole pixels."""
        s, result = self.scale, []
        for panel, (row, column, span) in zip(
            self.blocks[scene], self.cells, strict=True
        ):
            x = (
                self.left(scene)
                + column * self.panel_width
                + (LEFT if self.ticks else _MARGIN_WITHOUT_TICKS) * s
            )
            height = (
                self.rows[row + span] - self.rows[row] - self._margins(row + span - 1)
            )
            box = (
                x,
                self.rows[row] + TOP * s,
                span * self.panel_width - self._across,
                height,
            )
            result.append(self._fit_axes(scene, panel, box))
        return result

    def _fit_axes(self, scene: int, panel: Panel, box: _PixelBox) -> _PixelBox:
        """Position of a panel's axes in its box, with room for a colour bar and with
        equal scales."""
        x, y, width, height = box
        if any(isinstance(layer, Image) for layer in panel.layers):
            width -= (COLOUR_BAR_WIDTH - RIGHT) * self.scale
        if panel.equal:
            (x0, x1), (y0, y1) = self.limits[scene][panel.name]
            unit = min(width / (x1 - x0), height / (y1 - y0))
            width, height, y = (
                unit * (x1 - x0),
                unit * (y1 - y0),
                y + height - unit * (y1 - y0),
            )
        return round(x), round(y), round(width), round(height)
