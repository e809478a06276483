"""Titles and captions around a paper figure, and the files that figures are saved
to."""

import io
import textwrap
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from analysis.output.files import replace_file
from analysis.plots.drawing.panel_grid import PICTURE_FORMATS
from analysis.plots.symbols import typeset

DPI = 110
CAPTION_SIZE = 8.5  # points
LINE = 0.153  # inches from one line to the next
CHARACTERS = 16.6  # of a caption that fit into an inch
TITLE = 0.42  # inches
LARGEST = 56_000
"""Bytes of a small picture."""
ACROSS = 800
"""Largest width of a small picture in pixels."""
SMALL_DPI = 100
"""Pixels of a small picture in an inch of the figure, so that its letters are as large
as they can be."""
SMALLER = (
    (1.0, 256),
    (1.0, 128),
    (1.0, 64),
    (1.0, 32),
    (0.85, 64),
    (0.7, 64),
    (0.5, 32),
)
"""Shares of its pixels across, and colours, that are tried until it is no larger."""


def save_with_caption(figure: Figure, title: str, caption: str, path: Path) -> None:
    """Save as PNG, SVG or PDF, with a title above the figure and a caption below it.
    Raises RecordingError."""
    box = add_title_and_caption(figure, title, caption)
    kind = path.suffix.lower()[1:]
    metadata = dict.fromkeys(PICTURE_FORMATS[kind])  # same bytes for the same figure
    with replace_file(path) as temporary, rc_context({"svg.hashsalt": kind}):
        figure.savefig(
            temporary, format=kind, dpi=DPI, bbox_inches=box, metadata=metadata
        )


def add_title_and_caption(figure: Figure, title: str, caption: str) -> Bbox:
    """Write a title above what a figure holds and a caption below it; where all of that
    lies, in inches.

    The figure's own layout stays as it is, and what it leaves free above and below is
    left out."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:  # in the room of the figure, whatever is saved of it
        if legend.get_bbox_to_anchor() is figure.bbox:
            legend.set_bbox_to_anchor((0, 0, 1, 1), transform=figure.transFigure)
    width, height = figure.get_size_inches()
    held = figure.get_tightbbox()
    low, high = held.y0 - 0.12, held.y1 + 0.1
    room = int(CHARACTERS * (width - 0.3))
    lines = [line for part in caption.split("\n") for line in textwrap.wrap(part, room)]
    left = 0.15 / width
    figure.text(
        left,
        (high + 0.45 * TITLE) / height,
        typeset(title),
        fontsize=min(13.0, 105 * (width - 0.3) / max(1, len(title))),
        fontweight="bold",
        va="center",
    )
    figure.text(
        left,
        low / height,
        typeset("\n".join(lines)),
        fontsize=CAPTION_SIZE,
        va="top",
        color="0.25",
        linespacing=1.25,
    )
    below = LINE * len(lines) + 0.12
    start, end = min(0.0, held.x0 - 0.1), max(width, held.x1 + 0.1)
    return Bbox.from_extents(start, low - below, end, high + TITLE)


def small_dpi(figure: Figure) -> float:
    """Pixels in an inch of a small picture."""
    return min(SMALL_DPI, ACROSS / figure.get_figwidth())


def save_small_png(figure: Figure, path: Path) -> None:
    """Draw a small PNG of few colours, without title and caption, for a web page.
    Raises RecordingError."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=2 * small_dpi(figure))
    with Image.open(drawn) as image, replace_file(path) as temporary:
        whole = image.convert("RGB")
        for share, colours in SMALLER:
            size = round(share * whole.width / 2), round(share * whole.height / 2)
            small = whole.resize(size, Image.Resampling.LANCZOS)
            few = small.quantize(
                colours, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE
            )
            few.save(temporary, format="PNG", optimize=True)
            if temporary.stat().st_size <= LARGEST:
                break
