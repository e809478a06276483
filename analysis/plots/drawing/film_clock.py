"""The strip below the panels of a film whose time is uneven: an axis of steps with a
cursor, and a mark for each second of the film. Marks are dense where it is slow."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from analysis.panels.colours import colour
from analysis.panels.style import GRID_DPI
from analysis.plots.drawing.film_timeline import FilmFrames, shown_steps
from analysis.plots.drawing.panel_grid import PanelGrid

_HEIGHT, _AXIS, _SIDE = 46, 22, 34
"""Height of the strip, of its axis above the lower edge, and width of the margins
beside it, in layout pixels."""
_PIXELS_PER_LABEL = 80
_LETTERS = 9.0
_UNEVEN = 1.01
"""Ratio of the largest and the smallest pace from which on time is uneven."""


def time_is_uneven(film: FilmFrames, steps: np.ndarray) -> bool:
    """Whether a film shows more steps in a second at some times than at others. steps:
    of the first scene, (frame,). The last interval, which may be a shorter one, does
    not count."""
    paces = (np.diff(shown_steps(film, steps)) / film.holds[:-1])[:-1]
    return bool(paces.size and paces.max() > _UNEVEN * paces.min())


class FilmClock:
    """The strip of a film, as an image whose cursor moves."""

    def __init__(self, grid: PanelGrid, film: FilmFrames, fps: float) -> None:
        scale = grid.layout.scale
        self.height = 2 * round(_HEIGHT * scale / 2)
        shown = shown_steps(film, grid.scenes[0].steps)
        self.limits = float(shown[0]), float(max(shown[-1], shown[0] + 1))
        self.ends = _SIDE * scale, grid.width - _SIDE * scale
        self.line = round((_HEIGHT - _AXIS) * scale)
        self.size = max(1, round(scale))
        self.ink = (255 * to_rgba_array(colour("accent"))[0]).round()
        starts = np.repeat(shown, film.holds)
        seconds = np.arange(0, film.length / fps)
        self.marks = starts[np.minimum((seconds * fps).astype(int), film.length - 1)]
        self.width, self.scale = grid.width, scale

    @functools.cached_property
    def background(self) -> np.ndarray:
        """The strip without its cursor, (height, width, rgba)."""
        width, scale = self.width, self.scale
        figure = Figure(
            figsize=(width / GRID_DPI, self.height / GRID_DPI),
            dpi=GRID_DPI,
            facecolor=colour("background"),
        )
        canvas = FigureCanvasAgg(figure)
        left, right = self.ends
        bottom = 1 - self.line / self.height
        box = (left / width, bottom, (right - left) / width, 0.2)
        axes = figure.add_axes(box, xlim=self.limits, ylim=(0, 1))
        points = 72 / GRID_DPI * scale
        axes.spines[["left", "right", "top"]].set_visible(False)
        axes.spines["bottom"].set(color=colour("muted"), linewidth=points)
        axes.yaxis.set_visible(False)
        count = max(2, int((right - left) / scale / _PIXELS_PER_LABEL))
        axes.xaxis.set_major_locator(MaxNLocator(count, integer=True))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.tick_params(
            colors=colour("muted"),
            labelsize=_LETTERS * points,
            length=3 * points,
            width=points,
            pad=2 * points,
        )
        axes.vlines(self.marks, 0, 1, colors=colour("ink"), linewidths=points)
        how: dict[str, Any] = {
            "fontsize": _LETTERS * points,
            "color": colour("ink"),
            "va": "top",
        }
        words = "step; time is warped: a mark for each second of the film"
        figure.text(left / width, 1 - 2 * scale / self.height, words, **how)
        canvas.draw()
        return np.array(canvas.buffer_rgba())

    def at(self, step: float) -> np.ndarray:
        """The strip at a step, (height, width, rgba)."""
        picture = self.background.copy()
        low, high = self.limits
        left, right = self.ends
        centre = round(left + (right - left) * (step - low) / (high - low))
        half = 2 * self.size
        top = self.line - 10 * self.size
        rows = slice(max(top, 0), self.line + half)
        picture[rows, max(centre - half, 0) : centre + half] = self.ink
        return picture
