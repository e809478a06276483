"""Output of figures to files, which are written completely or not at all."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from analysis.output.files import replace_file


def new_figure(width: float, height: float) -> Figure:
    """An empty figure with a size in inches, which is not shown in a window."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Save a figure as a PNG. Raises RecordingError."""
    with replace_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def draw_grid(*panels: Axes, axis: Literal["both", "x", "y"] = "both", linewidth: float = 0.7) -> None:
    """Draw pale grid lines behind the data of panels, and set the font size of their tick labels."""
    for panel in panels:
        panel.tick_params(labelsize=8)
        panel.grid(color="0.92", axis=axis, linewidth=linewidth)
        panel.set_axisbelow(True)


def draw_intervals(axes: Axes, x: ArrayLike, intervals: ArrayLike, **style: Any) -> None:
    """Draw values with a bar for the interval of each, without one where it is NaN: (point, 3), value, low and high."""
    value, low, high = np.reshape(intervals, (-1, 3)).T
    axes.errorbar(x, value, np.nan_to_num(np.abs([value - low, high - value])), **style)


def use_small_fonts(*panels: Axes, title: int = 9, ticks: int = 8, which: Literal["major", "both"] = "both") -> None:
    """Set the font sizes of small panels, and remove their upper and right frame lines.

    which: the ticks whose labels get the size `ticks`.
    """
    for panel in panels:
        panel.title.set_fontsize(title)
        panel.tick_params(which=which, labelsize=ticks)
        panel.xaxis.label.set_fontsize(8)
        panel.yaxis.label.set_fontsize(8)
        panel.spines[["top", "right"]].set_visible(False)
