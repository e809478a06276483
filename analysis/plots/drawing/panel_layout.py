"""Where the panels of a sheet are: in a grid, the blocks of several scenes side by side, with limits in common.

Lengths in capitals are in pixels where a panel, with all around it, is 240 wide; `scale` is how much larger they are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.plots.drawing.axes_decoration import COLOUR_BAR_WIDTH, LINE_HEIGHT, TEXT_OVERHANG, text_lines_below
from analysis.plots.scenes.scene import Curves, Image, Map, Panel, Scene
from dynamics.settings import SettingsError

LEFT, RIGHT, TOP, BOTTOM = 34, 17, 19, 17  # of a cell, around the box in which is drawn
HEADING, FOOT, BETWEEN = 25, 13, 18  # above and below all panels, between two scenes
_MARGIN_WITHOUT_TICKS = 5  # around the box where there are no ticks

_MIN_WIDTH_WITH_TICKS = 150
"""Width of a panel below which ticks would be too small to read, and are left out."""

_Range = tuple[float, float]
_PanelLimits = dict[str, tuple[_Range, _Range]]
_PixelBox = tuple[float, float, float, float]
"""Left, top, width, height, in pixels."""


def named_panels(scene: Scene, names: Sequence[str] | None) -> list[Panel]:
    """The panels of these names in their order; None is all. Raises SettingsError."""
    known = {panel.name: panel for panel in scene.panels}
    for name in names or ():
        if name not in known:
            raise SettingsError("panels", name, "some of " + ", ".join(known))
    return [known[name] for name in names] if names else list(scene.panels)


def common_panel_names(scenes: Sequence[Scene]) -> list[str]:
    """Names of the panels that all scenes have. Raises SettingsError where there are none."""
    names = [[panel.name for panel in scene.panels] for scene in scenes]
    found = [name for name in names[0] if all(name in others for others in names)]
    if not found:
        raise SettingsError("panels", "none that both have", "runs with some panels in common")
    return found


def default_columns(count: int) -> int:
    """Of a grid of so many panels: four, or what makes few of them nearly a square."""
    return 3 if count in (5, 6, 9) else min(4, math.ceil(math.sqrt(count)))


def common_limits(scenes: Sequence[Scene], blocks: Sequence[Sequence[Panel]]) -> list[_PanelLimits]:
    """Of the panels of each scene: wide enough for all scenes, so that they can be compared.

    Matrices and maps keep their own, which they tile, and so do curves of scenes that count time in other units.
    """
    one_unit = len({scene.unit for scene in scenes}) == 1
    found: list[_PanelLimits] = [{} for _ in scenes]
    for panels in zip(*blocks, strict=True):
        kinds = {type(layer) for panel in panels for layer in panel.layers}
        x, y = _around([panel.x for panel in panels]), _around([panel.y for panel in panels])
        if panels[0].equal:
            x, y = _as_high_as(panels[0], x, y)
        own = bool(kinds & {Image, Map})
        for panel, each in zip(panels, found, strict=True):
            alone = own or (Curves in kinds and not one_unit)
            each[panel.name] = (panel.x, panel.y) if alone else (x, y)
    return found


def set_common_colour_scale(blocks: Sequence[Sequence[Panel]]) -> list[list[Panel]]:
    """The panels of each scene, their matrices with the colours of all scenes, so that they can be compared."""
    found: list[list[Panel]] = [[] for _ in blocks]
    for panels in zip(*blocks, strict=True):
        images = [layer for panel in panels for layer in panel.layers if isinstance(layer, Image)]
        for panel, each in zip(panels, found, strict=True):
            if not images:
                each.append(panel)
                continue
            low, high = min(one.low for one in images), max(one.high for one in images)
            layers = [replace(one, low=low, high=high) if isinstance(one, Image) else one for one in panel.layers]
            notes = "; ".join(note for note in panel.note.split("; ") if note not in {one.scale for one in images})
            each.append(replace(panel, layers=tuple(layers), note=notes))
    return found


def _around(ranges: Sequence[_Range]) -> _Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _as_high_as(panel: Panel, x: _Range, y: _Range) -> tuple[_Range, _Range]:
    """Limits around others that are as high for their width as a panel."""
    wide, high, ratio = x[1] - x[0], y[1] - y[0], (panel.y[1] - panel.y[0]) / (panel.x[1] - panel.x[0])
    more_x, more_y = max(0.0, high / ratio - wide) / 2, max(0.0, wide * ratio - high) / 2
    return (x[0] - more_x, x[1] + more_x), (y[0] - more_y, y[1] + more_y)


# ---------------------------------------------------------------------------------------------- the layout


@dataclass(frozen=True, eq=False)
class PanelLayout:
    """Panels of each scene, (scene, panel), in boxes of a picture so many pixels wide."""

    blocks: Sequence[Sequence[Panel]]
    limits: Sequence[_PanelLimits]
    columns: int
    width: int

    @property
    def block(self) -> float:
        """Width of a scene's panels."""
        return (self.width - BETWEEN * (len(self.blocks) - 1)) / len(self.blocks)

    @property
    def across(self) -> float:
        """Width of a panel with all around it."""
        return self.block / self.columns

    @property
    def scale(self) -> float:
        """Large panels need no huge letters."""
        return self.across / 240 if self.across < 240 else math.sqrt(self.across / 240)

    @property
    def ticks(self) -> bool:
        """Whether there are any."""
        return self.across >= _MIN_WIDTH_WITH_TICKS

    @property
    def words(self) -> float:
        """How much of 240 the words of a panel may take."""
        return self.across / self.scale - (LEFT - TEXT_OVERHANG + 4 if self.ticks else 2 * _MARGIN_WITHOUT_TICKS)

    def left(self, scene: int) -> float:
        """Where its block begins."""
        return scene * (self.block + BETWEEN)

    def rows(self) -> list[float]:
        """Where the rows begin, and where the last one ends."""
        bottom = BOTTOM if self.ticks else _MARGIN_WITHOUT_TICKS
        tops = [HEADING * self.scale]
        for begin in range(0, len(self.blocks[0]), self.columns):
            panels = [panel for block in self.blocks for panel in block[begin : begin + self.columns]]
            lines = max((self.ticks and bool(panel.x_label)) + text_lines_below(panel, self.words) for panel in panels)
            tops.append(tops[-1] + self.side + (TOP + bottom + LINE_HEIGHT * lines) * self.scale)
        return tops

    @property
    def side(self) -> float:
        """Of the square that a panel's axes have."""
        return self.across - (LEFT + RIGHT if self.ticks else 2 * _MARGIN_WITHOUT_TICKS) * self.scale

    @property
    def height(self) -> int:
        """Of the picture."""
        return round(self.rows()[-1] + FOOT * self.scale)

    def boxes(self, scene: int) -> list[_PixelBox]:
        """Of the axes of a scene's panels, in whole pixels."""
        s, tops, found = self.scale, self.rows(), []
        for place, panel in enumerate(self.blocks[scene]):
            row, column = divmod(place, self.columns)
            x = self.left(scene) + column * self.across + (LEFT if self.ticks else _MARGIN_WITHOUT_TICKS) * s
            found.append(self._fitted(scene, panel, (x, tops[row] + TOP * s, self.side, self.side)))
        return found

    def _fitted(self, scene: int, panel: Panel, box: _PixelBox) -> _PixelBox:
        """The part of a box in which a panel's axes are as they should."""
        x, y, width, height = box
        if any(isinstance(layer, Image) for layer in panel.layers):
            width -= (COLOUR_BAR_WIDTH - RIGHT) * self.scale
        elif panel.equal:
            (x0, x1), (y0, y1) = self.limits[scene][panel.name]
            unit = min(width / (x1 - x0), height / (y1 - y0))
            width, height, y = unit * (x1 - x0), unit * (y1 - y0), y + height - unit * (y1 - y0)
        return round(x), round(y), round(width), round(height)
