"""Figure of a sweep: curves of measures over a setting, or the map of a measure over
two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from analysis.output.counts import count_of
from analysis.output.tables import Column
from analysis.panels import colours
from analysis.plots.figure_files import (
    draw_intervals,
    draw_legend,
    in_style,
    new_panels,
)
from analysis.plots.symbols import typeset
from dynamics.settings_text import MAIN_SETTINGS, SYMBOLS, TASKS

if TYPE_CHECKING:
    import pandas as pd

_MAX_LINES = 8
_MAX_NUMBERS = 10
"""Most rows and columns of a map with numbers in its cells."""
_MAX_TICKS = 12
_LOG_RANGE = 20
"""Largest value of a setting over its smallest from which its axis is logarithmic."""

_LEAST_LOG_RANGE = 8
"""The same if the logarithms of its values are more evenly spaced than the values, such
as learning rates 0.001, 0.003 and 0.01."""

_SHIFT = 0.008
"""Distance by which each line is moved to the right of the previous one, as a fraction of
the axis, so that their intervals do not cover each other."""

_SPLITS = ("train", "validation", "test", "unseen")

_WORDS = {"lr": "learning rate"}
"""Names of settings that have neither a symbol nor a word of their own."""


@in_style
def plot_sweep(
    table: pd.DataFrame,
    swept: Sequence[str],
    columns: Sequence[Column],
    system: str = "",
) -> Figure:
    """Draw the measures of a sweep with 95% intervals: over one setting as curves, over
    two as a map of the first measure beside one of the width of its intervals, over more
    as curves along the setting with the most values, a line for each combination of the
    others.

    table: a row for each point; swept: names of the swept settings; columns: the
    measures; system: its name, which the title says and on which symbols depend."""
    title = f"{count_of(table['runs'][0], 'run')} at each point, with 95% intervals"
    if system:
        title = f"{TASKS.get(system, system)}: {title}"
    labels = {name: _setting_label(name, system) for name in swept}
    if len(swept) == 2:
        return _plot_maps(table, labels, columns[0], title)
    along = max(
        swept,
        key=lambda name: (
            not isinstance(table[name][0], bool | str),
            table[name].nunique(),
        ),
    )
    others = [name for name in swept if name != along]
    lines = (
        [rows for _, rows in table.groupby(others, sort=False)] if others else [table]
    )
    if len(lines) > _MAX_LINES:
        title += f", the first {_MAX_LINES} of {len(lines)} lines"
    names = [column.name for column in columns]
    figure, panels = new_panels([4 / 3] * len(columns), title, 1.1, names)
    palette = _colours_of_lines(table, others, len(lines[:_MAX_LINES]))
    for axes, column in zip(panels, columns, strict=True):
        if not others:
            palette = to_rgba_array([_colour_of_measure(column, system)])
        for place, rows in enumerate(lines[:_MAX_LINES]):
            name = ", ".join(
                f"{labels[other]} = {_tick_label(rows[other].iloc[0])}"
                for other in others
            )
            shift = _SHIFT * (place - (len(palette) - 1) / 2)
            _draw_line(axes, rows, along, column, palette[place], name, shift)
        axes.set(xlabel=labels[along], ylabel=_name_of(column))
    if others:
        draw_legend(figure)
    return figure


def _name_of(column: Column) -> str:
    """The heading of a column without its interval."""
    return column.heading.removesuffix(" [95%]").replace(" %", " / %")


def _setting_label(name: str, system: str) -> str:
    """The symbol of a setting, or its words."""
    symbol = MAIN_SETTINGS.get(system, {}).get(name) or SYMBOLS.get(name)
    return typeset(symbol or _WORDS.get(name) or name.replace("_", " "))


def _colour_of_measure(column: Column, system: str) -> str:
    """The colour of the split of a measure, otherwise that of the system."""
    split = column.name.partition("_")[0]
    if split in _SPLITS:
        return colours.colour(split)
    return colours.system_colour(system)


# ----------------------------------------------------------------- maps of two settings


def _plot_maps(
    table: pd.DataFrame, labels: dict[str, str], column: Column, title: str
) -> Figure:
    """Two maps over two settings, with their labels: of a measure, and of the width of
    its 95% intervals."""
    x, y = sorted(labels, key=lambda name: table[name].nunique(), reverse=True)
    width = table[f"{column.name}_high"] - table[f"{column.name}_low"]
    figure, panels = new_panels([2, 2], title, height=1.2)
    unit = " / %" if _name_of(column).endswith(" / %") else ""
    maps = [
        (_name_of(column), table[column.name]),
        (f"width of the 95% interval{unit}", width),
    ]
    for axes, (name, values) in zip(panels, maps, strict=True):
        cells = table[[x, y]].assign(value=column.scale * values.astype(float))
        cells = cells.pivot(index=y, columns=x, values="value")
        cells = cells.reindex(index=table[y].unique(), columns=table[x].unique())
        highest = 100 if unit and axes is panels[0] else None
        _draw_map(axes, cells, highest, column.digits or 0)
        axes.set(title=name, xlabel=labels[x], ylabel=labels[y])
    return figure


def _draw_map(
    axes: Axes,
    cells: pd.DataFrame,
    highest: float | None,
    digits: int,
) -> None:
    """Draw a matrix with a cell for each pair of values, whose numbers are written into
    cells that are large enough; points without a value are empty.

    highest: end of the range of colours that begins at 0; None for the largest value."""
    values = cells.values
    finite = values[np.isfinite(values)]
    low = min(0.0, min(finite, default=0.0))
    high = highest or max(finite, default=1.0)
    rows, columns = values.shape
    image = axes.imshow(
        values,
        cmap=colours.QUANTITY_MAP,
        vmin=low,
        vmax=high,
        aspect="auto",
        origin="lower",
    )
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes)
    for axis, labels in ((axes.xaxis, cells.columns), (axes.yaxis, cells.index)):
        places = range(0, len(labels), -(-len(labels) // _MAX_TICKS))
        axis.set_ticks(places, [_tick_label(labels[place]) for place in places])
    if columns > _MAX_NUMBERS or rows > _MAX_NUMBERS:
        return
    ink = colours.text_colours(image.to_rgba(values)[..., :3])
    for (row, place), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.{digits}f}" if digits < 3 else f"{value:.3g}"
            axes.text(place, row, text, ha="center", va="center", color=ink[row, place])


def _tick_label(value: object) -> str:
    """A value of a setting as the label of a tick."""
    return f"{value:g}" if isinstance(value, float) else typeset(str(value))


# ------------------------------------------------------------------------------- curves


def _colours_of_lines(
    table: pd.DataFrame, others: Sequence[str], count: int
) -> np.ndarray:
    """Colours of lines: ordered by lightness if they are of a number, such as weight
    decays."""
    is_ordered = len(others) == 1 and not isinstance(table[others[0]][0], bool | str)
    if is_ordered:
        return colours.ordered_colours(count)
    return to_rgba_array(colours.series_colours(count))


def _spans_decades(values: np.ndarray) -> bool:
    """Whether the axis of a setting is logarithmic."""
    values = np.unique(values)
    if values[0] <= 0:
        return False
    ratio = values[-1] / values[0]
    gaps, steps = np.diff(values), np.diff(np.log(values))
    even = len(gaps) > 1 and steps.min() / steps.max() > gaps.min() / gaps.max()
    return bool(ratio > _LOG_RANGE or (ratio >= _LEAST_LOG_RANGE and even))


def _draw_line(
    axes: Axes,
    rows: pd.DataFrame,
    along: str,
    column: Column,
    colour: np.ndarray,
    name: str,
    shift: float,
) -> None:
    """Draw the values of a measure with their intervals as a line. shift: distance by
    which its points are moved to the right, as a fraction of the axis."""
    values = rows[along]
    style = {"fmt": "o-", "color": colour, "capsize": 3, "label": name}
    if isinstance(values.iloc[0], bool | str):
        values = values.astype(str).map(typeset)
    elif _spans_decades(values.to_numpy(float)):
        axes.set_xscale("log")
        if len(values) <= _MAX_TICKS:
            axes.xaxis.set_major_locator(FixedLocator(values.to_numpy(float)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_locator(NullLocator())
        values = values * (values.max() / values.min()) ** shift
    else:
        values = values + shift * np.ptp(values)
    bounds = [column.name, f"{column.name}_low", f"{column.name}_high"]
    draw_intervals(axes, values, column.scale * rows[bounds].astype(float), **style)
