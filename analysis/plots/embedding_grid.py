"""The final embeddings of an ensemble, one panel per run (CA figure 5, appendices C and
D)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.panels.colours import class_colours, colour, text_colours
from analysis.panels.common_panels import MAX_JOINED_POINTS
from analysis.panels.style import current_style
from analysis.plots.figure_files import in_style, new_figure
from analysis.structures.circles_and_grids import structure_label
from analysis.structures.projection import principal_plane

_COLUMNS = 5
_COLUMNS_IN_COLUMN = 3
_MAX_PANELS, _MAX_PANELS_IN_COLUMN = 20, 18
_MAX_NUMBERED = 100
_PANEL = 2.4
"""Largest width of a panel in inches."""


@in_style
def plot_embeddings(embedding: np.ndarray, seeds: Iterable[int], title: str) -> Figure:
    """Draw up to twenty embeddings (run, token, axis), with numbered tokens, coloured
    by number."""
    style = current_style()
    drawn = embedding[: _MAX_PANELS_IN_COLUMN if style.column else _MAX_PANELS]
    columns = min(_COLUMNS_IN_COLUMN if style.column else _COLUMNS, len(drawn))
    rows = -(-len(drawn) // columns)
    line = style.text / 72  # inches
    row = min(style.width / columns, _PANEL) + 4 * line  # with the title of a panel
    figure = new_figure(style.width, rows * row + 2 * line, layout="compressed")
    note = {1: " (one axis)", 2: ""}.get(embedding.shape[2], " (two principal axes)")
    joined = embedding.shape[1] <= MAX_JOINED_POINTS
    lines = "; lines join tokens i and i + 1" if joined else ""
    figure.suptitle(title + note + lines)
    for panel, (x, seed) in enumerate(zip(drawn, seeds, strict=False)):
        axes = figure.add_subplot(rows, columns, panel + 1)
        draw_tokens(axes, principal_plane(x))
        axes.set_title(f"seed {seed}: {structure_label(x)}")
    return figure


def draw_tokens(
    axes: Axes,
    points: np.ndarray,
    mark: float | None = None,
    letters: float | None = None,
) -> None:
    """Draw tokens (token, 2), coloured as classes; up to 100 are numbered, up to 150
    joined by a line.

    mark: area of a token in square points; letters: font size of its number. By default
    both fit a panel of 2.4 inches."""
    n = len(points)
    colours = class_colours(n)
    axes.spines[:].set_visible(True)
    reach = 1.18 * max(float(np.abs(points).max()), 1e-9)
    axes.set(
        xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[]
    )
    for draw_line in (axes.axhline, axes.axvline):
        draw_line(0, color=colour("grid"), linewidth=0.8, zorder=0)
    if n <= MAX_JOINED_POINTS:
        line = np.vstack([points, points[:1]]).T
        axes.plot(*line, color=colour("faint"), linewidth=0.6, zorder=1)
    many = min(1.0, _MAX_NUMBERED / n)
    size = many * (110 if n <= 40 else 40) if mark is None else mark
    written = (6.5 if n <= 40 else 4) if letters is None else letters
    marks: dict[str, Any] = {
        "edgecolors": colour("background"),
        "linewidths": 0.6 * many,
    }
    if n > _MAX_NUMBERED:
        axes.scatter(points[:, 0], points[:, 1], s=size, c=colours, zorder=2, **marks)
        return
    for token, (x, y) in enumerate(points):
        order = 2 + token / n  # a mark covers the numbers of tokens below it
        axes.scatter(x, y, s=size, color=colours[token], zorder=order, **marks)
        axes.text(
            x,
            y,
            str(token),
            ha="center",
            va="center",
            fontsize=written,
            color=text_colours(colours[token]),
            zorder=order,
        )
