"""Figure of a sweep: each measure against a setting, a line for each combination of the
other settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from analysis.output.tables import Column
from analysis.panels import colours
from analysis.plots.figure_files import (
    draw_intervals,
    draw_legend,
    in_style,
    new_panels,
)

if TYPE_CHECKING:
    import pandas as pd

_MAX_LINES = 8
_LOG_RANGE = 20
"""Largest value of a setting over its smallest from which its axis is logarithmic."""


@in_style
def plot_sweep(
    table: pd.DataFrame, swept: Sequence[str], columns: Sequence[Column]
) -> Figure:
    """Draw the measures of a sweep against the setting with the most values, with 95%
    intervals.

    table: a row for each point; swept: names of the swept settings; columns: those with
    intervals are drawn."""
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
    measures = [column for column in columns if column.interval]
    omitted = (
        f", the first {_MAX_LINES} of {len(lines)} lines"
        if len(lines) > _MAX_LINES
        else ""
    )
    title = f"{table['runs'][0]} runs at each point, with 95% intervals{omitted}"
    names = [column.name for column in measures]
    figure, panels = new_panels([4 / 3] * len(measures), title, 1.1, names)
    palette = _colours_of_lines(table, others, len(lines[:_MAX_LINES]))
    for axes, column in zip(panels, measures, strict=True):
        for rows, colour in zip(lines[:_MAX_LINES], palette, strict=False):
            name = ", ".join(
                f"{other.replace('_', ' ')} = {rows[other].iloc[0]}" for other in others
            )
            _draw_line(axes, rows, along, column, colour, name)
        axes.set(
            xlabel=along.replace("_", " "), ylabel=column.heading.removesuffix(" [95%]")
        )
    if others:
        draw_legend(figure)
    return figure


def _colours_of_lines(
    table: pd.DataFrame, others: Sequence[str], count: int
) -> np.ndarray:
    """Colours of lines: ordered by lightness if they are of a number, such as weight
    decays."""
    is_ordered = len(others) == 1 and not isinstance(table[others[0]][0], bool | str)
    if is_ordered:
        return colours.ordered_colours(count)
    return to_rgba_array(colours.series_colours(count))


def _draw_line(
    axes: Axes,
    rows: pd.DataFrame,
    along: str,
    column: Column,
    colour: np.ndarray,
    name: str,
) -> None:
    values = rows[along]
    style = {"fmt": "o-", "color": colour, "capsize": 3, "label": name}
    if isinstance(values.iloc[0], bool | str):
        values = values.astype(str)
    elif values.min() > 0 and values.max() > _LOG_RANGE * values.min():
        axes.set_xscale("log")
    bounds = [column.name, f"{column.name}_low", f"{column.name}_high"]
    draw_intervals(axes, values, column.scale * rows[bounds].astype(float), **style)
