"""Figures as files, written whole or not at all."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.output.files import replace_file


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Draw into a PNG. Raises RecordingError."""
    with replace_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
