"""Styles of pictures: widths, sizes of text and background. The style in use holds for
all that is drawn meanwhile.

Lengths are in inches, sizes of text in points. No text is smaller than the size `text`
of its style."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal

StyleName = Literal["paper", "screen", "dark"]
"""Name of a style of pictures, see `plots.use_style`."""

_MM = 1 / 25.4
COLUMN, FULL = 85, 180
"""Widths of a column and of a page, in millimetres."""

GRID_DPI = 100
"""Pixels per inch of films and of frames, whose sizes are given in pixels."""

_SPLIT_WIDTHS = {"unseen": 3.4, "test": 2.1, "validation": 2.1}


def width_of_split(name: str) -> float:
    """Width of the curve of a split, or of any other quantity, relative to that of the
    training split. Curves that coincide are all visible if wide ones are drawn first."""
    return _SPLIT_WIDTHS.get(name, 1.0)


def widest_first(names: Sequence[str]) -> list[int]:
    """The indices of curves with these names in the order in which they are drawn."""
    return sorted(range(len(names)), key=lambda curve: -width_of_split(names[curve]))


@dataclass(frozen=True)
class Style:
    """Sizes and background of pictures."""

    width: float
    text: float
    dpi: int  # of a PNG
    dark: bool = False
    column: bool = False

    @property
    def panels(self) -> int:
        """Number of the narrowest readable panels that fit beside each other."""
        return 2 if self.column else 4

    @property
    def panel_width(self) -> float:
        """Width of the narrowest readable panel with its labels."""
        return self.width / self.panels


STYLES: dict[StyleName, Style] = {
    "paper": Style(width=FULL * _MM, text=6.5, dpi=300),
    "screen": Style(width=12.0, text=9.0, dpi=110),
    "dark": Style(width=12.0, text=9.0, dpi=110, dark=True),
}

_IN_USE: ContextVar[Style] = ContextVar("style", default=STYLES["screen"])


def current_style() -> Style:
    """The style in use: `screen`, if no other is chosen by `plots.use_style`."""
    return _IN_USE.get()


@contextmanager
def style_in_use(name: StyleName, column: bool = False) -> Iterator[Style]:
    """Let the package's figures have a style in a `with` block, see `plots.use_style`.
    Yields the style."""
    style = STYLES[name]
    if column:
        style = replace(style, width=style.width * COLUMN / FULL, column=True)
    token = _IN_USE.set(style)
    try:
        yield style
    finally:
        _IN_USE.reset(token)
