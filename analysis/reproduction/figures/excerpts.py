"""Excerpts of the figures that other commands draw: fewer panels, of which the letters
can be read in a small picture.

Lengths are in inches, places in fractions of the figure.
"""

import itertools
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 7.6


def keep_run_panels(figure: Figure) -> None:
    """Of a figure of gradient norms (`analysis.plots.gradients_figure`) the four panels
    of one run: loss and accuracy above the norms of all layers, logarithmic and
    linear."""
    panels = figure.axes[:4]
    _keep_panels(figure, panels, 5.0)
    for axes, (bottom, left) in zip(
        panels, itertools.product((0.69, 0.21), (0.075, 0.575)), strict=True
    ):
        axes.set_position((left, bottom, 0.4, 0.26))
        axes.tick_params(labelsize=8)
    for axes in panels[:2]:
        axes.set_xlabel("")
    for words in panels[2].texts:  # which lines and dots are which
        words.set(x=0, y=1.17, fontsize=8)
    _place_legend(figure, 4, "lower center")


PANEL = 2.1
"""Height of a panel of sparsity with all around it."""


def keep_sparsity_panels(figure: Figure, panels: Sequence[tuple[int, str]]) -> None:
    """Of a figure of sparsity (`analysis.sparsity`) some panels, by place and title,
    three in a row; and its colour bar where there is a panel of accuracies."""
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    remaining, high = [figure.axes[at] for at, _ in panels], PANEL * lines + 0.75
    with_bar = any("accuracy" in str(axes.get_label()) for axes in remaining)
    bar = figure.axes[-1]
    _keep_panels(figure, [*remaining, bar] if with_bar else remaining, high)
    bar.set_position((0.9, 0.45 / high, 0.014, 1 - 1.2 / high))
    for place, (axes, (_, title)) in enumerate(zip(remaining, panels, strict=True)):
        line, column = divmod(place, columns)
        width, lowest = (0.82 if with_bar else 0.9) / columns, line == lines - 1
        bottom = 0.45 + PANEL * (lines - 1 - line)
        axes.set_position(
            (0.08 + column * width, bottom / high, width - 0.03, (PANEL - 0.4) / high)
        )
        axes.set_title(title, fontsize=9)
        axes.set(
            xlabel="threshold eps" if lowest else "",
            ylabel="" if column else "sparsity",
        )
        axes.tick_params(labelbottom=lowest, labelleft=column == 0)
    _place_legend(figure, 2, "upper center")


def _keep_panels(figure: Figure, panels: Sequence[Axes], high: float) -> None:
    """Remove all other panels, and give the figure another size."""
    for axes in figure.axes:
        if axes not in panels:
            axes.remove()
    figure.set_size_inches(WIDTH, high)


def _place_legend(
    figure: Figure, columns: int, where: Literal["upper center", "lower center"]
) -> None:
    """Arrange the legend in so many columns, above or below the panels."""
    (legend,) = figure.legends
    handles = [
        legend_handle
        for legend_handle in legend.legend_handles
        if legend_handle is not None
    ]
    names = [text.get_text() for text in legend.get_texts()]
    legend.remove()
    figure.legend(handles, names, loc=where, ncols=columns, frameon=False, fontsize=8)
