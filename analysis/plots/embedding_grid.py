"""The final embeddings of an ensemble, one panel per run (CA figure 5, appendices C and D)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.figure_files import new_figure, save_figure
from analysis.structures.circles_and_grids import structure_label
from analysis.structures.projection import principal_plane

_COLUMNS, _MAX_PANELS = 5, 20


def plot_embeddings(embedding: np.ndarray, seeds: Iterable[int], title: str) -> Figure:
    """Draw up to twenty embeddings (run, token, axis), with numbered tokens, coloured by number."""
    shown = embedding[:_MAX_PANELS]
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    width, height = 2.4 * columns + 0.2, 2.6 * rows + 0.6  # inches
    figure = new_figure(width, height)
    figure.subplots_adjust(
        left=0.1 / width, right=1 - 0.1 / width, bottom=0.1 / height, top=1 - 0.8 / height, wspace=0.06, hspace=0.16
    )
    note = {1: " (one axis)", 2: ""}.get(embedding.shape[2], " (two principal axes)")
    figure.suptitle(title + note, fontsize=12, y=1 - 0.25 / height)
    for panel, (x, seed) in enumerate(zip(shown, seeds, strict=False)):
        axes = figure.add_subplot(rows, columns, panel + 1)
        draw_tokens(axes, principal_plane(x))
        axes.set_title(f"seed {seed}: {structure_label(x)}", fontsize=8)
    return figure


def draw_tokens(axes: Axes, points: np.ndarray, mark: float | None = None, letters: float | None = None) -> None:
    """Draw numbered tokens (token, 2), coloured by number, with a line from each to the next.

    mark: area of a token in square points; letters: font size of its number. By default both fit a panel of 2.4 inches.
    """
    n = len(points)
    colours = colormaps["viridis"](np.linspace(0, 1, n))
    reach = 1.18 * max(float(np.abs(points).max()), 1e-9)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    axes.axhline(0, color="0.9", linewidth=0.8, zorder=0)
    axes.axvline(0, color="0.9", linewidth=0.8, zorder=0)
    axes.plot(*np.vstack([points, points[:1]]).T, color="0.75", linewidth=0.6, zorder=1)
    size = (110 if n <= 40 else 40) if mark is None else mark
    written = (6.5 if n <= 40 else 4) if letters is None else letters
    axes.scatter(points[:, 0], points[:, 1], s=size, c=colours, edgecolors="white", linewidths=0.6, zorder=2)
    if n > 100:
        return
    for token, (x, y) in enumerate(points):
        colour = "white" if token < 0.6 * (n - 1) else "black"
        axes.text(x, y, str(token), ha="center", va="center", fontsize=written, color=colour, zorder=3)


def save_embeddings_plot(embedding: np.ndarray, seeds: Iterable[int], title: str, path: Path) -> None:
    """Write `plot_embeddings` to a PNG. Raises RecordingError."""
    save_figure(plot_embeddings(embedding, seeds, title), path)
