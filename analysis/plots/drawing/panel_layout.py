"""Positions of the panels of a grid: the blocks of several scenes side by side, with common limits.

Constants in capitals are in layout pixels; a panel with its margins is 240 layout pixels wide. `PanelLayout.scale` is
the number of pixels per layout pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.plots.drawing.axes_decoration import COLOUR_BAR_WIDTH, LINE_HEIGHT, TEXT_OVERHANG, text_lines_below
from analysis.plots.scenes.scene import Curves, Image, Map, Panel, Scene
from dynamics.settings import SettingsError

LEFT, RIGHT, TOP, BOTTOM = 34, 17, 19, 17  # margins around the axes of a panel
HEADING, FOOT, BETWEEN = 25, 13, 18  # heights above and below all panels; width between two scenes
_MARGIN_WITHOUT_TICKS = 5
_MIN_WIDTH_WITH_TICKS = 150
"""Width of a panel in pixels below which ticks are left out, as they would be too small to read."""

_Range = tuple[float, float]
_PanelLimits = dict[str, tuple[_Range, _Range]]
_PixelBox = tuple[float, float, float, float]  # left, top, width, height, in pixels


def named_panels(scene: Scene, names: Sequence[str] | None) -> list[Panel]:
    """The panels with the given names, in their order, by default all. Raises SettingsError."""
    known = {panel.name: panel for panel in scene.panels}
    for name in names or ():
        if name not in known:
            raise SettingsError("panels", name, "one or more of " + ", ".join(known))
    return [known[name] for name in names] if names else list(scene.panels)


def common_panel_names(scenes: Sequence[Scene]) -> list[str]:
    """Names of the panels that all scenes have. Raises SettingsError where there are none."""
    names = [[panel.name for panel in scene.panels] for scene in scenes]
    found = [name for name in names[0] if all(name in others for others in names)]
    if not found:
        raise SettingsError("panels", "none that both have", "runs with some panels in common")
    return found


def default_columns(count: int) -> int:
    """Columns of a grid of `count` panels: at most four, nearly a square for few panels."""
    return 3 if count in (5, 6, 9) else min(4, math.ceil(math.sqrt(count)))


def common_limits(scenes: Sequence[Scene], blocks: Sequence[Sequence[Panel]]) -> list[_PanelLimits]:
    """Limits of the panels (scene, panel) of each scene by name: the same for all scenes, to make them comparable.

    Panels with a matrix or map, which tile their limits, keep their own, as do curves over different units of time.
    """
    one_unit = len({scene.unit for scene in scenes}) == 1
    found: list[_PanelLimits] = [{} for _ in scenes]
    for panels in zip(*blocks, strict=True):
        kinds = {type(layer) for panel in panels for layer in panel.layers}
        x, y = _union([panel.x for panel in panels]), _union([panel.y for panel in panels])
        if panels[0].equal:
            x, y = _extend_to_shape_of(panels[0], x, y)
        keep = bool(kinds & {Image, Map}) or (Curves in kinds and not one_unit)
        for panel, each in zip(panels, found, strict=True):
            each[panel.name] = (panel.x, panel.y) if keep else (x, y)
    return found


def set_common_colour_scale(blocks: Sequence[Sequence[Panel]]) -> list[list[Panel]]:
    """The panels (scene, panel), each matrix with one colour scale for all scenes."""
    rows = [_set_colour_scale(panels) for panels in zip(*blocks, strict=True)]
    return [list(panels) for panels in zip(*rows, strict=True)]


def _set_colour_scale(panels: Sequence[Panel]) -> Sequence[Panel]:
    images = [layer for panel in panels for layer in panel.layers if isinstance(layer, Image)]
    if not images:
        return panels
    low, high = min(one.low for one in images), max(one.high for one in images)
    found = []
    for panel in panels:
        layers = [replace(one, low=low, high=high) if isinstance(one, Image) else one for one in panel.layers]
        note = "; ".join(note for note in panel.note.split("; ") if note not in {one.scale for one in images})
        found.append(replace(panel, layers=tuple(layers), note=note))
    return found


def _union(ranges: Sequence[_Range]) -> _Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _extend_to_shape_of(panel: Panel, x: _Range, y: _Range) -> tuple[_Range, _Range]:
    """Limits extended to the aspect ratio of a panel."""
    width, height, ratio = x[1] - x[0], y[1] - y[0], (panel.y[1] - panel.y[0]) / (panel.x[1] - panel.x[0])
    more_x, more_y = max(0.0, height / ratio - width) / 2, max(0.0, width * ratio - height) / 2
    return (x[0] - more_x, x[1] + more_x), (y[0] - more_y, y[1] + more_y)


# ---------------------------------------------------------------------------------------------- the layout


@dataclass(frozen=True, eq=False)
class PanelLayout:
    """Positions of panels (scene, panel) in a picture of a given width in pixels."""

    blocks: Sequence[Sequence[Panel]]
    limits: Sequence[_PanelLimits]
    columns: int
    width: int

    @property
    def block(self) -> float:
        """Width of a scene's panels."""
        return (self.width - BETWEEN * (len(self.blocks) - 1)) / len(self.blocks)

    @property
    def panel_width(self) -> float:
        """Width of a panel with its surroundings."""
        return self.block / self.columns

    @property
    def scale(self) -> float:
        """Pixels per layout pixel; it grows less than the panels, so that letters stay small in large panels."""
        return self.panel_width / 240 if self.panel_width < 240 else math.sqrt(self.panel_width / 240)

    @property
    def ticks(self) -> bool:
        """Whether ticks are drawn."""
        return self.panel_width >= _MIN_WIDTH_WITH_TICKS

    @property
    def text_width(self) -> float:
        """Maximum width of a panel's text, in layout pixels."""
        return self.panel_width / self.scale - (LEFT - TEXT_OVERHANG + 4 if self.ticks else 2 * _MARGIN_WITHOUT_TICKS)

    def left(self, scene: int) -> float:
        """Left edge of a scene's block."""
        return scene * (self.block + BETWEEN)

    def rows(self) -> list[float]:
        """Upper edges of the rows, and the lower edge of the last one."""
        bottom = BOTTOM if self.ticks else _MARGIN_WITHOUT_TICKS
        tops = [HEADING * self.scale]
        for begin in range(0, len(self.blocks[0]), self.columns):
            panels = [panel for block in self.blocks for panel in block[begin : begin + self.columns]]
            lines = max(self._lines_below(panel) for panel in panels)
            tops.append(tops[-1] + self.side + (TOP + bottom + LINE_HEIGHT * lines) * self.scale)
        return tops

    def _lines_below(self, panel: Panel) -> int:
        return (self.ticks and bool(panel.x_label)) + text_lines_below(panel, self.text_width)

    @property
    def side(self) -> float:
        """Side of the square in which a panel's axes are placed."""
        return self.panel_width - (LEFT + RIGHT if self.ticks else 2 * _MARGIN_WITHOUT_TICKS) * self.scale

    @property
    def height(self) -> int:
        """Height of the picture."""
        return round(self.rows()[-1] + FOOT * self.scale)

    def boxes(self, scene: int) -> list[_PixelBox]:
        """Positions of the axes of a scene's panels, in whole pixels."""
        s, tops, found = self.scale, self.rows(), []
        for index, panel in enumerate(self.blocks[scene]):
            row, column = divmod(index, self.columns)
            x = self.left(scene) + column * self.panel_width + (LEFT if self.ticks else _MARGIN_WITHOUT_TICKS) * s
            found.append(self._fit_axes(scene, panel, x, tops[row] + TOP * s))
        return found

    def _fit_axes(self, scene: int, panel: Panel, x: float, y: float) -> _PixelBox:
        """Position of a panel's axes in its square, with room for a colour bar and with equal scales."""
        width = height = self.side
        if any(isinstance(layer, Image) for layer in panel.layers):
            width -= (COLOUR_BAR_WIDTH - RIGHT) * self.scale
        elif panel.equal:
            (x0, x1), (y0, y1) = self.limits[scene][panel.name]
            unit = min(width / (x1 - x0), height / (y1 - y0))
            width, height, y = unit * (x1 - x0), unit * (y1 - y0), y + height - unit * (y1 - y0)
        return round(x), round(y), round(width), round(height)
