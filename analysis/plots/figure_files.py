"""Output of figures to files, which are written completely or not at all."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

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


def use_small_fonts(*panels: Axes, title: int = 9) -> None:
    """Set the font sizes of small panels, and remove their upper and right frame lines."""
    for panel in panels:
        panel.title.set_fontsize(title)
        panel.tick_params(which="both", labelsize=8)
        panel.xaxis.label.set_fontsize(8)
        panel.yaxis.label.set_fontsize(8)
        panel.spines[["top", "right"]].set_visible(False)
