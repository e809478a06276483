"""Figures as files, written whole or not at all."""

import io
import os
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dynamics.storage import RecordingError


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Draw into a PNG. Raises RecordingError."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(drawn.getvalue())
        temporary.replace(path)
    except OSError as error:
        raise RecordingError(f"{path}: could not be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)
