"""The final embeddings of an ensemble, one panel per run (CA figure 5, appendices C and
D)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
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

_CLOSEST = 0.9
"""Smallest distance of two numbered marks, relative to their diameter."""

_MOVED = 0.1
"""A mark that is farther from its token is hollow. Relative to the diameter of a mark."""

_ROUNDS = 500
"""Largest number of rounds in which marks move apart."""


@in_style
def plot_embeddings(embedding: np.ndarray, seeds: Iterable[int], title: str) -> Figure:
    """Draw up to twenty embeddings (run, token, axis), with numbered tokens, coloured
    by number."""
    style = current_style()
    drawn = embedding[: _MAX_PANELS_IN_COLUMN if style.column else _MAX_PANELS]
    columns = min(_COLUMNS_IN_COLUMN if style.column else _COLUMNS, len(drawn))
    rows = -(-len(drawn) // columns)
    line = style.text / 72  # inches
    side = min(style.width / columns, _PANEL)
    row = side + 4 * line  # with the title of a panel
    figure = new_figure(style.width, rows * row + 2 * line, layout="compressed")
    note = {1: " (one axis)", 2: ""}.get(embedding.shape[2], " (two principal axes)")
    joined = embedding.shape[1] <= MAX_JOINED_POINTS
    lines = "; lines join tokens i and i + 1" if joined else ""
    moved = False
    for panel, (x, seed) in enumerate(zip(drawn, seeds, strict=False)):
        axes = figure.add_subplot(rows, columns, panel + 1)
        moved |= draw_tokens(axes, principal_plane(x), side=0.95 * side)
        axes.set_title(f"seed {seed}: {structure_label(x)}")
    beside = "; hollow marks lie beside their tokens" if moved else ""
    figure.suptitle(title + note + lines + beside)
    return figure


def draw_tokens(
    axes: Axes,
    points: np.ndarray,
    mark: float | None = None,
    letters: float | None = None,
    side: float | None = None,
) -> bool:
    """Draw tokens (token, 2), coloured as classes; up to 100 are numbered, up to 150
    joined by a line. Numbered marks that would cover each other are hollow and lie
    beside their tokens, which have dots; returns whether there are any.

    mark: area of a token in square points; letters: font size of its number. By default
    both fit a panel of 2.4 inches. side: width of the panel in inches after the layout
    of the figure, by default its present one."""
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
    edge: dict[str, Any] = {"edgecolors": colour("background"), "linewidths": 0.6}
    if n > _MAX_NUMBERED:
        many = _MAX_NUMBERED / n
        size = 40 * many if mark is None else mark
        edge["linewidths"] = 0.6 * many
        axes.scatter(points[:, 0], points[:, 1], s=size, c=colours, zorder=2, **edge)
        return False
    size = (110 if n <= 40 else 40) if mark is None else mark
    written = (6.5 if n <= 40 else 4) if letters is None else letters
    width = axes.get_window_extent().width / axes.figure.dpi if side is None else side
    apart = _CLOSEST * size**0.5 / 72 * 2 * reach / width
    places = spread_marks(points, apart, reach - apart / 2)
    moved = np.hypot(*(places - points).T) > _MOVED * apart
    places[~moved] = points[~moved]
    for token, (place, ink) in enumerate(zip(places, colours, strict=True)):
        order = 2 + token / n  # a mark covers the numbers of tokens below it
        fill, look = ink, edge
        if moved[token]:
            fill = np.array(to_rgb(colour("background")))
            look = {"edgecolors": [ink], "linewidths": 1.2}
            x, y = np.stack([points[token], place], axis=1)
            axes.plot(x, y, color=ink, linewidth=0.8, zorder=1.5)
            axes.scatter(x[:1], y[:1], s=0.2 * size, color=[ink], zorder=1.6)
        axes.scatter(place[:1], place[1:], s=size, color=[fill], zorder=order, **look)
        axes.text(
            float(place[0]),
            float(place[1]),
            str(token),
            ha="center",
            va="center",
            fontsize=written,
            color=text_colours(fill),
            zorder=order,
        )
    return bool(moved.any())


def spread_marks(points: np.ndarray, apart: float, reach: float) -> np.ndarray:
    """Move points (point, 2) that are closer to each other than a distance until none
    is, or the rounds are over; return the places, (point, 2). Points that are far from
    all others stay. The moved ones stay between -reach and reach on both axes."""
    places = points.astype(np.float64)
    angle = 2.4 * np.arange(len(points))  # so that points on a line leave it
    nudges = 0.05 * apart * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for turn in range(_ROUNDS):
        between = places[:, None] - places
        distance = np.hypot(*between.T).T
        np.fill_diagonal(distance, np.inf)
        close = distance < apart
        if not close.any():
            break
        if turn == 0:
            places += nudges * close.any(axis=1)[:, None]
        else:
            push = np.maximum(apart / np.maximum(distance, 1e-9) - 1, 0)
            places += 0.3 * (push[..., None] * between).sum(axis=1)
            places = places.clip(-reach, reach)
    return places
