"""Figures in the style in use: their panels, titles and legends, and their files,
written completely or not at all."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any, ParamSpec, TypeGuard

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from numpy.typing import ArrayLike

from analysis.output.files import replace_file
from analysis.panels.colours import colour
from analysis.panels.style import Style, StyleName, current_style, style_in_use
from analysis.plots.legend_places import (
    place_below,
    place_in_free_space,
    shrink_to_axes,
)
from analysis.plots.log_ticks import set_readable_ticks, thin_tick_labels
from analysis.plots.panel_choice import panels_to_draw
from analysis.plots.symbols import show_as_written, typeset

_Arguments = ParamSpec("_Arguments")

_LETTER = 0.56
"""Mean width of a letter, relative to the size of its font."""

_ROW_HEIGHT = 0.29
"""Height of a row of panels in inches, for each point of the size of text."""

_COLUMN_ROWS = 3
"""Rows of named panels that a figure in one column has by default."""

PAGE_HEIGHT = 235 / 25.4
"""Largest height of a figure in inches."""

FILE_PARAMETERS: Any = {
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "text.usetex": False,
}
"""matplotlib's parameters with which a PDF embeds TrueType fonts, an SVG contains text
instead of outlines, and no text is read as TeX, in which f_a and 5% are errors."""


def style_parameters() -> Any:
    """matplotlib's parameters for the style in use."""
    text = current_style().text
    ink = colour("ink")
    muted = colour("muted")
    background = colour("background")
    sizes = (
        "font.size",
        "axes.labelsize",
        "xtick.labelsize",
        "ytick.labelsize",
        "legend.fontsize",
    )
    result: dict[str, Any] = {
        **dict.fromkeys(sizes, text),
        "legend.title_fontsize": text,
        "axes.titlesize": 1.08 * text,
        "axes.titlepad": 0.6 * text,
        "figure.titlesize": 1.2 * text,
        "font.family": "DejaVu Sans",
        "text.usetex": False,
        "lines.linewidth": 0.16 * text,
        "lines.markersize": 0.45 * text,
        "axes.linewidth": 0.08 * text,
        "grid.linewidth": 0.08 * text,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "legend.frameon": True,
        "legend.framealpha": 0.85,
        "legend.edgecolor": "none",
        "legend.fancybox": False,
        "legend.handlelength": 1.6,
        "legend.columnspacing": 1.2,
        "figure.facecolor": background,
        "axes.facecolor": background,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": muted,
        "grid.color": colour("grid"),
    }
    for axis in ("xtick", "ytick"):
        result |= {f"{axis}.color": muted, f"{axis}.labelcolor": ink}
        result |= {f"{axis}.major.size": 0.35 * text, f"{axis}.minor.size": 0.2 * text}
        result |= {
            f"{axis}.major.width": 0.08 * text,
            f"{axis}.minor.width": 0.08 * text,
        }
    return result


@contextmanager
def use_style(name: StyleName, column: bool = False) -> Iterator[Style]:
    """Draw all figures of a `with` block in a style, your own as well. Draw and save
    them in the block.

    Own figures have the sizes of text, the widths of lines and the colours of the
    style, and a layout in which labels are not cut; by default, they are as wide as the
    style.

    Parameters
    ----------
    name : {"paper", "screen", "dark"}
        "paper" is 180 mm wide, with text of 6.5 points; "screen" is larger; "dark" is
        "screen" on a dark background.
    column : bool
        Draw for a column of 85 mm, or in the other styles for one that is as narrow.

    Yields
    ------
    Style
        Widths and sizes of the style.

    Examples
    --------
    >>> from analysis.plots import new_figure, use_style
    >>> with use_style("paper", column=True) as style:
    ...     figure = new_figure(style.width, 2.0)
    ...     label = figure.subplots().set_xlabel("step")
    >>> round(25.4 * figure.get_figwidth()), label.get_fontsize()
    (85, 6.5)
    """
    with style_in_use(name, column) as style:
        own = {
            "figure.figsize": (style.width, 0.6 * style.width),
            "savefig.dpi": style.dpi,
        }
        own |= {"figure.constrained_layout.use": True, **FILE_PARAMETERS}
        with matplotlib.rc_context(style_parameters() | own):
            yield style


def in_style(plot: Callable[_Arguments, Figure]) -> Callable[_Arguments, Figure]:
    """Make a function that draws a figure draw it in the style in use, with titles and
    labels that fit its panels."""

    @functools.wraps(plot)
    def draw(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> Figure:
        with matplotlib.rc_context(
            style_parameters() | {"figure.constrained_layout.use": False}
        ):
            figure = plot(*arguments, **options)
            show_as_written(figure)
            legends = [axes.get_legend() for axes in figure.axes]
            for legend in (*figure.legends, *filter(None, legends)):
                for text in legend.get_texts():
                    text.set_text(typeset(text.get_text()))
            for legend in filter(_is_inside, legends):
                legend.set_in_layout(False)
            if engine := figure.get_layout_engine():
                figure.suptitle(
                    _wrap(figure.get_suptitle(), figure.get_figwidth(), 1.2)
                )
                engine.execute(figure)
            for axes in figure.axes:
                set_readable_ticks(axes)
                _fit_text(axes, figure)
            if engine:
                engine.execute(figure)
                _place_legends(figure)
                if _fit_vertical_labels(figure):
                    engine.execute(figure)
                figure.set_layout_engine("none")
            else:
                for legend in filter(_is_inside, legends):
                    shrink_to_axes(legend)
            for axes in figure.axes:
                thin_tick_labels(axes)
        return figure

    return draw


def _fit_text(axes: Axes, figure: Figure) -> None:
    """Wrap the title and the labels of axes, and set the style of ticks, which
    matplotlib creates later."""
    width, height = axes.get_position().size * figure.get_size_inches()
    axes.set_title(_wrap(axes.get_title(), width, 1.08))
    axes.set_xlabel(_wrap(axes.get_xlabel(), 1.1 * width, 1))
    axes.set_ylabel(_wrap(axes.get_ylabel(), height, 1))
    grid: Any = {
        "grid_color": colour("grid"),
        "grid_linewidth": 0.08 * current_style().text,
    }
    axes.tick_params(
        which="both", labelsize=current_style().text, labelcolor=colour("ink"), **grid
    )


def _fit_vertical_labels(figure: Figure) -> bool:
    """Wrap labels of vertical axes that are longer than their panels; whether any
    is."""
    long = [
        axes
        for axes in figure.axes
        if axes.yaxis.label.get_window_extent().height > axes.bbox.height
    ]
    for axes in long:
        words = axes.get_ylabel().replace("\n", " ")
        height = axes.bbox.height / figure.dpi
        measured = axes.yaxis.label.get_window_extent().height / figure.dpi
        axes.set_ylabel(_wrap(words, height * min(1.0, height / measured), 1))
    return bool(long)


def _place_legends(figure: Figure) -> None:
    """Move legends that cover data to free space in their panels, or below these, which
    makes the panels smaller."""
    for _ in figure.axes:
        inside = filter(_is_inside, [axes.get_legend() for axes in figure.axes])
        covering = [legend for legend in inside if not place_in_free_space(legend)]
        if not covering:
            return
        for legend in covering:
            place_below(legend)
        engine = figure.get_layout_engine()
        assert engine is not None
        engine.execute(figure)


def _is_inside(legend: Legend | None) -> TypeGuard[Legend]:
    """Whether a legend has texts, and is meant to lie in its axes."""
    if legend is None or not legend.get_texts():
        return False
    axes = legend.axes
    return axes is not None and bool(legend.get_bbox_to_anchor() == axes.bbox)


def _wrap(words: str, width: float, size: float) -> str:
    """Text in lines of at most a width in inches, with symbols as mathematics. size: of
    its letters, relative to the style's."""
    words = typeset(words)
    letters = max(8, int(72 * width / (_LETTER * size * current_style().text)))
    return "\n".join(_balanced_lines(line, letters) for line in words.split("\n"))


def _balanced_lines(words: str, letters: int) -> str:
    """Text in as few lines of at most a number of letters as possible, of about the
    same length."""
    lines = textwrap.wrap(words, letters, break_long_words=False)
    for fewer in range(letters - 1, 0, -1):
        shorter = textwrap.wrap(words, fewer, break_long_words=False)
        if len(shorter) > len(lines) or max(map(len, shorter), default=0) > fewer:
            break
        lines = shorter
    return "\n".join(lines)


def new_figure(width: float, height: float, **options: Any) -> Figure:
    """An empty figure with a size in inches, which is not shown in a window. options:
    of matplotlib's Figure."""
    figure = Figure(figsize=(width, height), **options)
    FigureCanvasAgg(figure)
    return figure


def new_panels(
    widths: Sequence[float],
    title: str = "",
    height: float = 1.0,
    names: Sequence[str] = (),
) -> tuple[Figure, list[Axes]]:
    """A figure with a title and panels in rows, as many beside each other as the width
    of the style in use allows.

    widths: of the panels, in units of the narrowest readable panel. height: of a row,
    relative to the usual one. names: of the panels, by which --panels chooses; several
    may have the same. Panels that are not chosen are not part of the figure: what is
    drawn in them is not seen. By default, a column has the first three rows of
    named panels."""
    if not names:
        return _grid_of_panels(widths, title, height)
    wanted = panels_to_draw(names, _default_panels(widths, names))
    chosen = [name in wanted for name in names]
    figure, drawn = _grid_of_panels(list(compress(widths, chosen)), title, height)
    unseen = new_figure(*figure.get_size_inches())
    panels = iter(drawn)
    return figure, [next(panels) if yes else unseen.add_subplot() for yes in chosen]


def _default_panels(widths: Sequence[float], names: Sequence[str]) -> list[str]:
    """Names of all panels, or in a column of those in the first rows."""
    every = list(dict.fromkeys(names))
    style = current_style()
    if not style.column:
        return every
    for count in range(len(every), 1, -1):
        kept = [
            width
            for width, name in zip(widths, names, strict=True)
            if name in every[:count]
        ]
        if len(list(_rows(kept, style))) <= _COLUMN_ROWS:
            return every[:count]
    return every[:1]


def _grid_of_panels(
    widths: Sequence[float], title: str, height: float
) -> tuple[Figure, list[Axes]]:
    """A figure with panels in rows."""
    style = current_style()
    rows = list(_rows(widths, style))
    whole = (height * _ROW_HEIGHT * len(rows) + 0.05) * style.text
    figure = new_figure(style.width, min(whole, PAGE_HEIGHT), layout="constrained")
    figure.suptitle(title)
    if len(set(map(tuple, rows))) == 1:  # panels below each other are aligned
        return figure, figure.subplots(
            len(rows), len(rows[0]), squeeze=False, width_ratios=rows[0]
        ).ravel().tolist()
    panels: list[Axes] = []
    grid = figure.add_gridspec(len(rows), 1)
    for at, row in enumerate(rows):
        panels += (
            grid[at]
            .subgridspec(1, len(row), width_ratios=row)
            .subplots(squeeze=False)[0]
            .tolist()
        )
    return figure, panels


def _rows(widths: Sequence[float], style: Style) -> Iterator[list[float]]:
    """Widths of the panels of each row."""
    row: list[float] = []
    for width in (min(width, style.panels) for width in widths):
        if row and sum(row) + width > style.panels + 1e-6:
            yield row
            row = []
        row.append(width)
    yield row


def starts_row(axes: Axes) -> bool:
    """Whether a panel is the first of its row."""
    place = axes.get_subplotspec()
    return place is not None and place.is_first_col()


def legend_entries(
    figure: Figure, panels: Sequence[Axes] | None = None
) -> dict[str, Any]:
    """Artists of some panels, or of all, by their names; of several with the same name,
    the first."""
    result: dict[str, Any] = {}
    chosen = figure.axes if panels is None else panels
    for axes in (axes for axes in chosen if axes.figure is figure):
        for artist, name in zip(*axes.get_legend_handles_labels(), strict=True):
            result.setdefault(name, artist)
    return result


def draw_legend(
    figure: Figure, entries: dict[str, Any] | None = None, **options: Any
) -> Legend:
    """Draw one legend below all panels, in as many columns as fit.

    entries: artists by their names, by default those of all panels. options: of
    matplotlib's legend."""
    entries = legend_entries(figure) if entries is None else entries
    longest = max(map(len, entries), default=1) * _LETTER + 4
    columns = max(1, int(72 * figure.get_figwidth() / (longest * current_style().text)))
    rows = -(-len(entries) // columns) or 1
    columns = -(-len(entries) // rows) or 1
    return figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=columns,
        **options,
    )


def save_figure(figure: Figure, path: str | Path) -> None:
    """Save a figure as the PNG, SVG or PDF that the suffix of its path names. Raises
    RecordingError."""
    path = Path(path)
    suffix = path.suffix[1:].lower()
    with replace_file(path) as temporary, matplotlib.rc_context(FILE_PARAMETERS):
        figure.savefig(temporary, format=suffix, dpi=current_style().dpi)


def annotate_panel(axes: Axes, words: str) -> None:
    """Write words in the middle of a panel that has no data, such as "no spike"."""
    axes.annotate(
        words,
        (0.5, 0.5),
        xycoords="axes fraction",
        ha="center",
        va="center",
        zorder=4,
        backgroundcolor=colour("background"),
    )


def draw_intervals(
    axes: Axes, x: ArrayLike, intervals: ArrayLike, **style: Any
) -> None:
    """Draw values with a bar for the interval of each, without one where it is NaN:
    (point, 3), value, low and high."""
    value, low, high = np.reshape(intervals, (-1, 3)).T
    errors = np.abs([value - low, high - value])
    axes.errorbar(x, value, np.where(np.isfinite(errors), errors, np.nan), **style)
