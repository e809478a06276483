"""What stands around a panel and does not move: its frame, ticks, title, note, the names of curves, a bar of colours.

Lengths are in pixels at 240 to a panel; `px` is the points of such a pixel.
"""

import functools
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from analysis.plots.drawing.artists import (
    BACK,
    FAINT,
    INK,
    MATRIX_COLOURS,
    axes_size_in_points,
    draw_origin_lines,
    strip_common_words,
)
from analysis.plots.scenes.scene import Curves, Image, Map, Panel

TITLE, SMALL, TICK = 11.5, 9.5, 9.0  # heights of letters
LINE_HEIGHT = 11.0  # from a line of names to the next
TEXT_OVERHANG = 18.0  # how far words may begin to the left of the axes
COLOUR_BAR_WIDTH = 34  # beside a matrix: its bar of colours with two numbers

MOST_NAMED, MOST_CLASSES = 20, 40
"""Classes whose colours are named below the panels, and shown there at all: of more some, evenly."""

BAND, WEDGE = "0.90", "0.35"
"""Colours of drops, as bands behind curves, and of spikes, as wedges above them."""


class _ColouredText(NamedTuple):
    """A word of a key in its colour, so far from the left of its line."""

    text: str
    colour: Any
    left: float


class ClockEvent(NamedTuple):
    """A drop, a spike, in the unit of the clock that curves run along."""

    kind: str
    begin: float
    middle: float
    end: float


@functools.cache
def text_width(text: str) -> float:
    """How wide a text is in letters of height 1."""
    return float(TextPath((0, 0), text, size=100).get_extents().x1) / 100 if text.strip() else 0.0


# --------------------------------------------------------------------------------------- words of a panel


def _curve_names(panel: Panel) -> list[tuple[str, Any]]:
    """And their colours; none for a single curve, which the title names."""
    layers = [layer for layer in panel.layers if isinstance(layer, Curves)]
    names = [(name, colour) for layer in layers for name, colour in zip(layer.names, layer.colours, strict=True)]
    return names if len(names) > 1 else []


def _curve_key(panel: Panel, width: float) -> list[list[_ColouredText]]:
    """The names of a panel's curves, in lines of a width; a single line that fits stands beside the title."""
    lines: list[list[_ColouredText]] = []
    used = width
    for name, colour in _curve_names(panel):
        taken = SMALL * text_width(name)
        if used + taken > width:
            lines.append([])
            used = 0.0
        lines[-1].append(_ColouredText(name, colour, used))
        used += taken + 8
    return lines


class _PanelText(NamedTuple):
    """Where the words of a panel go: beside its title, or in lines below the axes."""

    beside: list[list[_ColouredText]]
    note: float
    """Size of the letters of a note beside the title, or 0 for one below."""
    below: list[list[_ColouredText]]


def _place_panel_text(panel: Panel, width: float) -> _PanelText:
    """Names of curves and the note, where they fit into a width; a note beside the title may be somewhat smaller."""
    line, title = _curve_key(panel, 1e9), TITLE * text_width(panel.title) + 8
    beside = line if line and title + 4 + _end(line[0]) <= width else []
    below = [] if beside else _curve_key(panel, width)
    free = width - title - (10 + _end(line[0]) if beside else 0)
    said = panel.note
    size = SMALL * min(1.0, free / (SMALL * text_width(said))) if said else 0.0
    if said and size < 0.85 * SMALL:
        size = 0.0
        below = [*below, [_ColouredText(said, "0.45", 0.0)]]
    return _PanelText(beside, size, below)


def text_lines_below(panel: Panel, width: float) -> int:
    """Lines of words below the axes; width: of these and of what words have beside the title."""
    return len(_place_panel_text(panel, width).below)


def _end(line: Sequence[_ColouredText]) -> float:
    return line[-1].left + SMALL * text_width(line[-1].text)


# ---------------------------------------------------------------------------------------------- a panel


def decorate_axes(
    axes: Axes, panel: Panel, px: float, ticks: bool, width: float, marks: Sequence[ClockEvent] = ()
) -> None:
    """Draw all of it. width: that words may take; marks: drops and spikes."""
    image = next((layer for layer in panel.layers if isinstance(layer, Image)), None)
    for spine in axes.spines.values():
        spine.set(color=FAINT, linewidth=0.8 * px, position=("outward", 0.5 * px))  # beyond what a map covers
    if panel.origin and not any(isinstance(layer, Map) for layer in panel.layers):
        draw_origin_lines(axes, BACK - 1, "0.85")
    if any(isinstance(layer, Curves) for layer in panel.layers):
        _events(axes, marks, px)
    if not ticks:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(NullLocator())
            axis.set_minor_locator(NullLocator())
    elif image is not None:
        _matrix_ticks(axes, panel, image, px)
    else:
        _ticks(axes, panel)
    axes.tick_params(labelsize=TICK * px, length=2.5 * px, width=0.6 * px, pad=1.5 * px, color=FAINT, labelcolor="0.35")
    if ticks:
        _below(axes, panel.x_label, px)
        _text(axes, panel.y_label, (0, 0.5), (-25, 0), px, rotation=90, ha="center", va="center")
    if image is not None:
        _bar(axes, image, px)
    if image is not None and image.row_colours is not None:
        axes.tick_params(axis="y", pad=9 * px, length=0)
    _title(axes, panel, px, ticks, width)


def _text(
    axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float], px: float, size: float = SMALL, **how
) -> None:
    """Words at a place of the axes, in shares of them, and so many pixels from there."""
    axes.annotate(
        text, at, (shift[0] * px, shift[1] * px), xycoords="axes fraction", textcoords="offset points",
        annotation_clip=False, **{"fontsize": size * px, "color": "0.35", **how},
    )  # fmt: skip


def _title(axes: Axes, panel: Panel, px: float, ticks: bool, width: float) -> None:
    """The title above, and beside it, or below the axes, the names of curves and the note."""
    left, up = -TEXT_OVERHANG if ticks else 0.0, 5.5
    size = TITLE * min(1.0, width / (TITLE * text_width(panel.title) + 1e-9))
    _text(axes, panel.title, (0, 1), (left, up), px, size, color=INK)
    said = _place_panel_text(panel, width)
    begin = width - (_end(said.beside[0]) if said.beside else 0)
    _words(axes, said.beside, (0, 1), (left + begin, up), px, SMALL)
    if said.note:
        _text(axes, panel.note, (0, 1), (left + size * text_width(panel.title) + 8, up), px, said.note, color="0.45")
    down = -SMALL - (14 + (LINE_HEIGHT if panel.x_label else 0) if ticks else 3)
    longest = max((_end(line) for line in said.below), default=0)
    _words(axes, said.below, (0, 0), (left, down), px, SMALL * min(1.0, width / max(longest, 1e-9)))


def _below(axes: Axes, text: str, px: float) -> None:
    _text(axes, text, (0.5, 0), (0, -14 - SMALL), px, ha="center", va="baseline")


def _words(
    axes: Axes,
    lines: Sequence[Sequence[_ColouredText]],
    at: tuple[float, float],
    shift: tuple[float, float],
    px: float,
    size: float,
) -> None:
    for row, line in enumerate(lines):
        for word in line:
            _text(
                axes, word.text, at, (shift[0] + word.left, shift[1] - row * LINE_HEIGHT), px, size, color=word.colour
            )


def _events(axes: Axes, marks: Sequence[ClockEvent], px: float) -> None:
    """Drops and spikes where the curves are."""
    for mark in marks:
        if mark.kind == "drop":
            axes.axvspan(mark.begin, mark.end, color=BAND, linewidth=0, zorder=BACK - 1.5)
    spikes = [mark.middle for mark in marks if mark.kind == "spike"]
    axes.plot(
        spikes, [0.985] * len(spikes), "v", transform=axes.get_xaxis_transform(), color=WEDGE, markersize=4 * px,
        markeredgewidth=0, zorder=BACK - 0.5,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------- of all panels


def draw_figure_key(
    figure: Figure, panels: Sequence[Panel], kinds: Collection[str], at: tuple[float, float], px: float
) -> None:
    """In a line below all panels: which classes the colours of maps are, and what is marked where curves are.

    kinds: of the events that are marked; at: where the line begins, in pixels of the figure from the bottom left.
    """
    curved = any(isinstance(layer, Curves) for panel in panels for layer in panel.layers)
    events = [("drop", BAND, "s"), ("spike", WEDGE, "v")]
    classes = [(name, colour, "s", 0) for name, colour in class_colour_key(panels)]
    marked = [(f"{kind}s", colour, shape, 10) for kind, colour, shape in events if curved and kind in kinds]
    pixel = np.array([px, px]) / 72 / figure.get_size_inches()
    x, y = np.array(at) / figure.dpi / figure.get_size_inches()
    for text, colour, shape, gap in [*classes, *marked]:
        x += (gap if classes else 0) * pixel[0]
        place = ([x + 3 * pixel[0]], [y])
        figure.add_artist(
            Line2D(*place, marker=shape, color=colour, markersize=7 * px, markeredgewidth=0, linestyle="")
        )
        x += 10 * pixel[0]
        figure.text(x, y, text, fontsize=SMALL * px, color="0.35", va="center_baseline")
        x += (SMALL * text_width(text) + 7 if text else 0) * pixel[0]


def class_colour_key(panels: Sequence[Panel]) -> list[tuple[str, Any]]:
    """Of the first map: classes and their fullest colours; of many only some, of which some have names."""
    maps = [layer for panel in panels for layer in panel.layers if isinstance(layer, Map)]
    if not maps:
        return []
    fullest = {name.split(",")[0]: colour for name, colour in zip(maps[0].names, maps[0].palette, strict=True)}
    shown = np.unique(np.linspace(0, len(fullest) - 1, min(len(fullest), MOST_CLASSES)).astype(int))
    names = [list(fullest)[one] for one in shown]
    apart = -(-len(names) // MOST_NAMED)
    told = ["" if place % apart else name if place == 0 else name.split(" ")[-1] for place, name in enumerate(names)]
    return [(name, fullest[full]) for name, full in zip(told, names, strict=True)]


# ------------------------------------------------------------------------------------------------- ticks


def _ticks(axes: Axes, panel: Panel) -> None:
    """Few enough to be read, with short numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(3 if panel.equal else 4, steps=[1, 2, 5, 10]))
    low, high = axes.get_ylim()
    if panel.log and high >= 8 * low:
        at = np.asarray(LogLocator(subs=(1, 3) if high < 100 * low else (1,), numticks=5).tick_values(low, high))
        axes.yaxis.set_major_locator(FixedLocator(at[(low <= at) & (at <= high)].tolist()))
    for axis in (axes.xaxis, axes.yaxis):
        least = 0.0 if panel.log and axis is axes.yaxis else 1e-9 * float(np.abs(axis.get_view_interval()).max())
        axis.set_major_formatter(functools.partial(format_tick, least=least))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())


def format_tick(value: float, place: object = None, least: float = 0.0) -> str:
    """A number of an axis, short: 100, 0.01, 1e−4; up to the least it is 0. matplotlib tells the tick's place."""
    if abs(value) <= least:
        return "0"
    plain = 1e-3 <= abs(value) < 1e5
    text = f"{value:g}" if plain else f"{value:.1e}".replace(".0e", "e").replace("e+", "e").replace("e0", "e")
    return text.replace("e-0", "e-").replace("-", "\N{MINUS SIGN}")


def _matrix_ticks(axes: Axes, panel: Panel, image: Image, px: float) -> None:
    """Names of columns, and of rows where they fit beside the matrix; where they are many, of some."""
    width, height = axes_size_in_points(axes) / px
    columns, rows = strip_common_words(image.columns), strip_common_words(image.rows)
    longest = TICK * max(map(text_width, columns), default=0) + 5
    _named(axes.xaxis, np.linspace(*panel.x, 2 * len(columns) + 1)[1::2], columns, int(width // longest))
    margin = 26 - (10 if panel.y_label or image.row_colours is not None else 0)
    fits = TICK * max(map(text_width, rows), default=0) <= margin
    at = np.linspace(*panel.y, 2 * len(rows) + 1)[1::2][::-1]
    _named(axes.yaxis, at, rows, int(height // (1.2 * TICK)) if fits else 0)


def _named(axis: Any, at: np.ndarray, names: list[str], fitting: int) -> None:
    """Names at places, every second or third where not all fit, none where none does."""
    some = slice(None, None, max(1, -(-len(names) // fitting))) if fitting else slice(0, 0)
    axis.set_major_locator(FixedLocator(at[some].tolist()))
    axis.set_ticklabels(names[some])


def _bar(axes: Axes, image: Image, px: float) -> None:
    """The colours of a matrix with the numbers that the first and the last stand for."""
    pixel = px / axes_size_in_points(axes)[0]
    bar = axes.inset_axes((1 + 5 * pixel, 0, 6 * pixel, 1))
    bar.imshow(MATRIX_COLOURS[:, None], origin="lower", aspect="auto", interpolation="nearest", extent=(0, 1, 0, 1))
    bar.set_axis_off()
    for end, value, va in ((0, image.low, "bottom"), (1, image.high, "top")):
        _text(bar, f"{value:.2g}", (1, end), (2, 0), px, TICK, va=va)
