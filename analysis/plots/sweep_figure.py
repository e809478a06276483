"""Figure of a sweep: each measure against a setting, a line for each combination of the
other settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
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
    figure, panels = new_panels([4 / 3] * len(measures), title, height=1.1)
    for axes, column in zip(panels, measures, strict=True):
        for rows, colour in zip(
            lines[:_MAX_LINES], colours.series_colours(), strict=False
        ):
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


def _draw_line(
    axes: Axes, rows: pd.DataFrame, along: str, column: Column, colour: str, name: str
) -> None:
    values = rows[along]
    style = {"fmt": "o-", "color": colour, "capsize": 3, "label": name}
    if isinstance(values.iloc[0], bool | str):
        values = values.astype(str)
    elif values.min() > 0 and values.max() > _LOG_RANGE * values.min():
        axes.set_xscale("log")
    bounds = [column.name, f"{column.name}_low", f"{column.name}_high"]
    draw_intervals(axes, values, column.scale * rows[bounds].astype(float), **style)
