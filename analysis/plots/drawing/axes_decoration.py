"""Static parts around a panel: frame, ticks, title, note, names of curves, colour bar,
event marks; the figure's key.

Lengths are in layout pixels; a panel with its margins is 240 layout pixels wide. `px`
is the size of one in points."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextPath
from matplotlib.ticker import (
    FixedLocator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from analysis.panels.colours import band_opacity, colour, text_colours
from analysis.panels.scene import Curves, EventMark, Image, Map, Panel
from analysis.plots.drawing import artists
from analysis.plots.drawing.artists import BACK, MATRIX_COLOURS, TICK
from analysis.plots.symbols import typeset

_TITLE, _SMALL = 11.5, 9.5  # heights of letters
_LEAST = 0.95  # of notes beside a title, relative to others
LINE_HEIGHT = 11.0  # of a line of names
TEXT_OVERHANG = 18.0  # how far left of the axes text may begin
COLOUR_BAR_WIDTH = 44  # with its two numbers
RIGHT = 17  # margin at the right of the axes

_MAX_SWATCHES = 5
"""Largest number of classes that the key shows one by one."""

_MAX_CLASSES = 24
"""Largest number of classes in a colour bar of the key, which shows evenly spaced
ones."""

_CELL = 13.5
"""Width of a cell of the key's colour bar."""

_HINTING = 1.06
"""Largest usual ratio of the width of a drawn text to that of its outlines."""


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Digits of an exponent."""


class _ColouredText(NamedTuple):
    """A name in its colour, and its distance from the start of its line."""

    text: str
    colour: Any
    left: float


@functools.cache
def text_width(text: str, bold: bool = False) -> float:
    """Width of a text in letters of height 1, as letters on whole pixels are wider than
    their outlines."""
    if not text.strip():
        return 0.0
    font = FontProperties(weight="bold" if bold else "normal")
    return (
        _HINTING
        * float(TextPath((0, 0), typeset(text), size=100, prop=font).get_extents().x1)
        / 100
    )


def _wrap_text(text: str, width: float) -> list[str]:
    """A note in lines of a given width, broken at semicolons, and between words where a
    part is too long."""
    lines: list[str] = []
    for part in text.split("; ") if text else []:
        if lines and _SMALL * text_width(f"{lines[-1]}; {part}") <= width:
            lines[-1] += f"; {part}"
            continue
        lines += wrap_words(part, width / _SMALL)
    return lines


def wrap_words(text: str, width: float, bold: bool = False) -> list[str]:
    """The lines of a text that is wrapped at a width. The width is a multiple of the font
    size."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, bold) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


# ---------------------------------------------------------------------- text of a panel


def _curve_key(panel: Panel, width: float) -> list[list[_ColouredText]]:
    """Names of a panel's curves in lines of a given width; none for a single curve,
    which the title names."""
    layers = [layer for layer in panel.layers if isinstance(layer, Curves)]
    names = [
        (name, rgb)
        for layer in layers
        for name, rgb in zip(layer.names, layer.colours, strict=True)
    ]
    lines: list[list[_ColouredText]] = []
    used = width
    for name, rgb in names if len(names) > 1 else []:
        needed = _SMALL * text_width(name)
        if used + needed > width:
            lines.append([])
            used = 0.0
        lines[-1].append(_ColouredText(name, rgb, used))
        used += needed + 8
    return lines


class _PanelText(NamedTuple):
    """Texts beside the title and in lines below the axes."""

    beside: list[list[_ColouredText]]
    note: (
        float  # height of the letters of a note beside the title; 0: the note is below
    )
    below: list[list[_ColouredText]]


def _place_panel_text(panel: Panel, width: float) -> _PanelText:
    """Place names of curves and the note where they fit; a note beside the title may be
    slightly smaller."""
    line = _curve_key(panel, 1e9)
    title = _TITLE * text_width(panel.heading) + 8
    beside = line if line and title + 4 + _line_end(line[0]) <= width else []
    below = [] if beside else _curve_key(panel, width)
    free = width - title - (10 + _line_end(line[0]) if beside else 0)
    size = (
        _SMALL * min(1.0, free / (_SMALL * text_width(panel.note)))
        if panel.note
        else 0.0
    )
    if panel.note and size < _LEAST * _SMALL:
        size = 0.0
        below = [
            *below,
            *(
                [_ColouredText(text, colour("muted"), 0.0)]
                for text in _wrap_text(panel.note, width)
            ),
        ]
    return _PanelText(beside, size, below)


def text_lines_below(panel: Panel, width: float) -> int:
    """Number of lines of text below the axes, for text of at most a given width."""
    return len(_place_panel_text(panel, width).below)


def _line_end(line: Sequence[_ColouredText]) -> float:
    return line[-1].left + _SMALL * text_width(line[-1].text)


# ------------------------------------------------------------------------------ a panel


def decorate_axes(
    axes: Axes,
    panel: Panel,
    px: float,
    ticks: bool,
    width: float,
    marks: Sequence[EventMark] = (),
) -> None:
    """Draw the static parts of a panel. width: maximum width of text; marks: events in
    the unit of the clock."""
    image = next((layer for layer in panel.layers if isinstance(layer, Image)), None)
    for spine in axes.spines.values():
        spine.set(
            color=colour("faint"), linewidth=0.8 * px, position=("outward", 0.5 * px)
        )  # not covered by a map
    if (
        panel.origin
        and panel.views is None
        and not any(isinstance(layer, Map) for layer in panel.layers)
    ):
        artists.draw_origin_lines(axes, BACK - 1, colour("grid"), animated=False)
    if _has_curves(panel):
        kinds = {"spike"} if panel.spans else {"drop", "spike"}
        _draw_events(axes, [mark for mark in marks if mark.kind in kinds], px)
    for begin, end, of, _ in panel.spans:
        axes.axvspan(
            begin, end, color=of, alpha=band_opacity(), linewidth=0, zorder=BACK - 2
        )
    if not ticks or panel.views is not None:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(NullLocator())
            axis.set_minor_locator(NullLocator())
    elif image is not None:
        _set_matrix_ticks(axes, panel, image, px)
    else:
        _set_ticks(axes, panel, px)
    axes.tick_params(
        labelsize=TICK * px,
        length=2.5 * px,
        width=0.6 * px,
        pad=1.5 * px,
        color=colour("faint"),
        labelcolor=colour("muted"),
    )
    if ticks:
        _draw_text(
            axes,
            panel.x_label,
            (0.5, 0),
            (0, -14 - _SMALL),
            px,
            ha="center",
            va="baseline",
        )
        _draw_text(
            axes,
            panel.y_label,
            (0, 0.5),
            (-25, 0),
            px,
            rotation=90,
            ha="center",
            va="center",
        )
    if image is not None:
        _draw_colour_bar(axes, image, px)
        if image.row_colours is not None:
            axes.tick_params(axis="y", pad=9 * px, length=0)
    _draw_panel_text(axes, panel, px, ticks, width)


def _draw_text(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    shift: tuple[float, float],
    px: float,
    size: float = _SMALL,
    **how: Any,
) -> None:
    """Draw text at a point in fractions of the axes, shifted by layout pixels."""
    axes.annotate(
        text,
        at,
        (shift[0] * px, shift[1] * px),
        xycoords="axes fraction",
        textcoords="offset points",
        annotation_clip=False,
        **{"fontsize": size * px, "color": colour("muted"), **how},
    )


def _draw_panel_text(
    axes: Axes, panel: Panel, px: float, ticks: bool, width: float
) -> None:
    """The title above, and beside it or below the axes the names of curves and the
    note."""
    left, up = -TEXT_OVERHANG if ticks else 0.0, 5.5
    size = _TITLE * min(1.0, width / (_TITLE * text_width(panel.heading) + 1e-9))
    _draw_text(axes, panel.heading, (0, 1), (left, up), px, size, color=colour("ink"))
    text = _place_panel_text(panel, width)
    begin = width - (_line_end(text.beside[0]) if text.beside else 0)
    _draw_lines(axes, text.beside, (0, 1), (left + begin, up), px, _SMALL)
    if text.note:
        shift = (left + size * text_width(panel.heading) + 8, up)
        _draw_text(
            axes, panel.note, (0, 1), shift, px, text.note, color=colour("muted")
        )
    down = -_SMALL - (14 + (LINE_HEIGHT if panel.x_label else 0) if ticks else 3)
    longest = max((_line_end(line) for line in text.below), default=0)
    _draw_lines(
        axes,
        text.below,
        (0, 0),
        (left, down),
        px,
        _SMALL * min(1.0, width / max(longest, 1e-9)),
    )


def _draw_lines(
    axes: Axes,
    lines: Sequence[Sequence[_ColouredText]],
    at: tuple[float, float],
    shift: tuple[float, float],
    px: float,
    size: float,
) -> None:
    for row, line in enumerate(lines):
        for text, rgb, left in line:
            _draw_text(
                axes,
                text,
                at,
                (shift[0] + left, shift[1] - row * LINE_HEIGHT),
                px,
                size,
                color=rgb,
            )


def _draw_events(axes: Axes, marks: Sequence[EventMark], px: float) -> None:
    """Drops and spikes of the run in a panel of curves."""
    for mark in marks:
        if mark.kind == "drop":
            axes.axvspan(
                mark.begin,
                mark.end,
                color=colour("drop"),
                alpha=band_opacity(),
                linewidth=0,
                zorder=BACK - 1.5,
            )
    spikes = [mark.middle for mark in marks if mark.kind == "spike"]
    axes.plot(
        spikes,
        [0.985] * len(spikes),
        "v",
        transform=axes.get_xaxis_transform(),
        color=colour("spike"),
        markersize=4 * px,
        markeredgewidth=0,
        zorder=BACK - 0.5,
    )


# ------------------------------------------------------------------------ of all panels


class _KeyEntry(NamedTuple):
    """A symbol with its meaning, or cells of a colour bar with the names of classes."""

    text: str
    colours: Sequence[Any]
    marker: str = "s"
    names: Sequence[str] = ()  # of the cells
    opacity: float = 1.0

    @property
    def width(self) -> float:
        """Width in layout pixels, with the distance to the next entry."""
        symbol = _CELL * len(self.names) if self.names else 9
        return symbol + _SMALL * text_width(self.text) + 18


def figure_key_lines(
    panels: Sequence[Panel], kinds: Collection[str], width: float
) -> list[list[_KeyEntry]]:
    """The entries of the key below the panels, by lines: the classes of the colours of a
    map, and what marks and bars mean.

    kinds: kinds of the marked events. width: largest width of a line, in layout
    pixels."""
    lines: list[list[_KeyEntry]] = [[]]
    entries = [*_class_entries(panels), *_mark_entries(panels, kinds)]
    parts = [part for entry in entries for part in _split_bar(entry, width)]
    for entry in parts:
        if lines[-1] and sum(item.width for item in [*lines[-1], entry]) > width:
            lines.append([])
        lines[-1].append(entry)
    return lines


def _split_bar(entry: _KeyEntry, width: float) -> list[_KeyEntry]:
    """An entry of the key. A colour bar that is wider than `width` is divided into several
    entries."""
    if entry.width <= width:
        return [entry]
    cells = len(entry.names)
    most = max(1, math.floor((width - entry.width) / _CELL) + cells)
    return [
        entry._replace(
            colours=entry.colours[start : start + most],
            names=entry.names[start : start + most],
        )
        for start in range(0, max(1, cells), most)
    ]


def draw_key_line(
    figure: Figure,
    entries: Sequence[_KeyEntry],
    at: tuple[float, float],
    px: float,
    width: float,
) -> None:
    """Draw the entries of one line of the key. If they are too wide together, the font is
    smaller.

    at: start of the line, in pixels from the bottom left of the figure; width: largest
    width, in layout pixels."""
    px *= min(1.0, width / max(1.0, sum(entry.width for entry in entries)))
    pixel = np.array([px, px]) / 72 / figure.get_size_inches()
    x, y = np.array(at) / figure.dpi / figure.get_size_inches()
    how: dict[str, Any] = {"fontsize": _SMALL * px, "va": "center_baseline"}
    for entry in entries:
        beside = x
        for name, rgb in zip(entry.names, entry.colours, strict=False):
            size = _CELL * pixel[0], 11 * pixel[1]
            figure.add_artist(
                Rectangle((beside, y - size[1] / 2), *size, color=rgb, linewidth=0)
            )
            figure.text(
                beside + size[0] / 2,
                y,
                name,
                ha="center",
                color=text_colours(rgb),
                **how | {"fontsize": TICK * px},
            )
            beside += size[0]
        if not entry.names:
            style = {
                "color": entry.colours[0],
                "alpha": entry.opacity,
                "markersize": 7 * px,
                "linestyle": "",
            }
            figure.add_artist(
                Line2D([x + 3 * pixel[0]], [y], marker=entry.marker, **style)
            )
            beside += 9 * pixel[0]
        figure.text(beside + 3 * pixel[0], y, entry.text, color=colour("muted"), **how)
        x += entry.width * pixel[0]


def _class_entries(panels: Sequence[Panel]) -> list[_KeyEntry]:
    """The classes of the first map: an entry each, or if there are many, all in a
    colour bar."""
    classes = class_colour_key(panels)
    if len(classes) <= _MAX_SWATCHES:
        return [_KeyEntry(name, [rgb]) for name, rgb in classes]
    return [
        _KeyEntry(
            "class",
            [rgb for _, rgb in classes],
            names=[name.split(" ")[-1] for name, _ in classes],
        )
    ]


def _mark_entries(panels: Sequence[Panel], kinds: Collection[str]) -> list[_KeyEntry]:
    """The marks of events and of the frame in panels of curves, and the bars below
    panels that follow the points."""
    result = []
    curves = [panel for panel in panels if _has_curves(panel)]
    if curves:
        if "drop" in kinds and not all(panel.spans for panel in curves):
            result.append(_KeyEntry("drop", [colour("drop")], opacity=band_opacity()))
        if "spike" in kinds:
            result.append(_KeyEntry("spike", [colour("spike")], "v"))
        result.append(_KeyEntry("this frame", [colour("muted")], "|"))
    names = {span.name: span.colour for panel in panels for span in panel.spans}
    result += [
        _KeyEntry(name, [of], opacity=band_opacity()) for name, of in names.items()
    ]
    if any(panel.views is not None for panel in panels):
        result.append(_KeyEntry("scale in this frame", [colour("ink")], "_"))
    return result


def _has_curves(panel: Panel) -> bool:
    return any(isinstance(layer, Curves) for layer in panel.layers)


def class_colour_key(panels: Sequence[Panel]) -> list[tuple[str, Any]]:
    """Names and full colours of the classes of the first map; of many classes only
    some."""
    maps = [
        layer for panel in panels for layer in panel.layers if isinstance(layer, Map)
    ]
    if not maps:
        return []
    full = {
        name.split(",")[0]: rgb
        for name, rgb in zip(maps[0].names, maps[0].palette, strict=True)
    }
    places = np.unique(
        np.linspace(0, len(full) - 1, min(len(full), _MAX_CLASSES)).astype(int)
    )
    return [(name, full[name]) for name in np.array(list(full))[places].tolist()]


# -------------------------------------------------------------------------------- ticks


def _set_ticks(axes: Axes, panel: Panel, px: float) -> None:
    """A few ticks with short numbers, without those that would reach beyond the margin
    at the right."""
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(
        MaxNLocator(3 if panel.equal else 4, steps=[1, 2, 5, 10])
    )
    low, high = axes.get_ylim()
    if panel.log and high >= 8 * low:
        at = np.asarray(
            LogLocator(
                subs=(1, 3) if high < 100 * low else (1,), numticks=5
            ).tick_values(low, high)
        )
        axes.yaxis.set_major_locator(
            FixedLocator(at[(low <= at) & (at <= high)].tolist())
        )
    for axis in (axes.xaxis, axes.yaxis):
        least = (
            0.0
            if panel.log and axis is axes.yaxis
            else 1e-9 * float(np.abs(axis.get_view_interval()).max())
        )
        axis.set_major_formatter(functools.partial(format_tick, least=least))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    x0, x1 = axes.get_xlim()
    at = np.asarray(axes.get_xticks())
    unit = (x1 - x0) / (artists.axes_size_in_points(axes)[0] / px)
    half = [0.5 * TICK * text_width(format_tick(value)) for value in at]
    fits = (x0 <= at) & (at + unit * np.array(half) <= x1 + unit * RIGHT)
    axes.xaxis.set_major_locator(FixedLocator(at[fits].tolist()))


def format_tick(value: float, position: object = None, least: float = 0.0) -> str:
    """A short number, such as 100, 0.01, 10⁻⁴ or 3·10⁻⁴; 0 for magnitudes up to
    `least`. matplotlib passes `position`."""
    if abs(value) <= least:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        text = f"{value:g}"
    else:
        factor, exponent = f"{value:.1e}".split("e")
        text = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
        sign = "-" if value < 0 else ""
        if abs(float(factor)) != 1:
            text = f"{abs(float(factor)):g}·{text}"
        text = sign + text
    return text.replace("-", "\N{MINUS SIGN}")


def _set_matrix_ticks(axes: Axes, panel: Panel, image: Image, px: float) -> None:
    """Names of columns, and of rows where they fit beside the matrix; of many, only
    some."""
    width, height = artists.axes_size_in_points(axes) / px
    columns = artists.strip_common_words(image.columns)
    rows = artists.strip_common_words(image.rows)
    longest = TICK * max(map(text_width, columns), default=0) + 5
    _set_tick_names(
        axes.xaxis,
        np.linspace(*panel.x, 2 * len(columns) + 1)[1::2],
        columns,
        int(width // longest),
    )
    margin = 26 - (10 if panel.y_label or image.row_colours is not None else 0)
    fits = TICK * max(map(text_width, rows), default=0) <= margin
    at = np.linspace(*panel.y, 2 * len(rows) + 1)[1::2][::-1]
    _set_tick_names(axes.yaxis, at, rows, int(height // (1.2 * TICK)) if fits else 0)


def _set_tick_names(axis: Any, at: np.ndarray, names: list[str], fitting: int) -> None:
    """Set names at positions: all, every second, every third and so on, or none,
    depending on how many fit. An empty name ends a part, such as a head, after which
    the names begin anew."""
    stride = max(1, -(-len(names) // fitting)) if fitting else len(names) + 1
    starts = [-1, *(place for place, name in enumerate(names) if not name), len(names)]
    some = [
        place
        for before, after in pairwise(starts)
        for place in range(before + 1, after, stride)
    ]
    some = some if fitting else []
    axis.set_major_locator(FixedLocator(at[some].tolist()))
    axis.set_ticklabels([names[place] for place in some])


def _draw_colour_bar(axes: Axes, image: Image, px: float) -> None:
    """The colours of a matrix, with the values of the first and the last."""
    pixel = px / artists.axes_size_in_points(axes)[0]
    bar = axes.inset_axes((1 + 5 * pixel, 0, 6 * pixel, 1))
    bar.imshow(
        MATRIX_COLOURS[:, None],
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=(0, 1, 0, 1),
    )
    bar.set_axis_off()
    for end, value, va in ((0, image.low, "bottom"), (1, image.high, "top")):
        number = f"{value:.2g}".replace("-", "\N{MINUS SIGN}")
        size = min(TICK, (COLOUR_BAR_WIDTH - 14) / text_width(number))
        _draw_text(bar, number, (1, end), (2, 0), px, size, va=va)
