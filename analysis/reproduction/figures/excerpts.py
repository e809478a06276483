"""Excerpts of the figures that other commands draw: fewer panels, of which the letters can be read in a small picture.

Lengths are in inches, places in shares of the figure.
"""

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 7.6


def keep_loss_and_norm_panels(figure: Figure) -> None:
    """Of a figure of gradient norms (`analysis.plots.gradients_figure`) the loss and, below it, the norms of all
    layers."""
    loss, norms = figure.axes[0], figure.axes[2]
    _keep_panels(figure, [loss, norms], 4.7)
    for axes, bottom in ((loss, 0.64), (norms, 0.21)):
        axes.set_position((0.08, bottom, 0.9, 0.3))
        title = axes.get_title()
        axes.set_title("")
        axes.set_title(title, loc="left", fontsize=9)
    loss.set_xlabel("")
    for words in norms.texts:  # which lines and dots are which
        words.set(x=1.0, y=1.04, ha="right", fontsize=7.5)
    _place_legend(figure, 4, "lower center")


PANEL = 2.1
"""Height of a panel of successes with all around it."""


def keep_success_and_failure_panels(figure: Figure, kept: Sequence[tuple[int, str]]) -> None:
    """Of a figure of sparsity (`analysis.sparsity`) panels of successes and failures, by place and title."""
    columns = min(3, len(kept))
    lines = -(-len(kept) // columns)
    panels, high = [figure.axes[at] for at, _ in kept], PANEL * lines + 0.75
    _keep_panels(figure, panels, high)
    for place, (axes, (_, title)) in enumerate(zip(panels, kept, strict=True)):
        line, column = divmod(place, columns)
        width, lowest = 0.9 / columns, line == lines - 1
        bottom = 0.45 + PANEL * (lines - 1 - line)
        axes.set_position((0.08 + column * width, bottom / high, width - 0.03, (PANEL - 0.4) / high))
        axes.set_title(title, fontsize=9)
        axes.set(xlabel="eps" if lowest else "", ylabel="" if column else "sparsity")
        axes.tick_params(labelbottom=lowest, labelleft=column == 0)
    _place_legend(figure, 2, "upper center")


def _keep_panels(figure: Figure, kept: Sequence[Axes], high: float) -> None:
    """Remove all other panels, and give the figure another size."""
    for axes in figure.axes:
        if axes not in kept:
            axes.remove()
    figure.set_size_inches(WIDTH, high)


def _place_legend(figure: Figure, columns: int, where: Literal["upper center", "lower center"]) -> None:
    """Arrange the legend in so many columns, above or below the panels."""
    (legend,) = figure.legends
    handles = [each for each in legend.legend_handles if each is not None]
    names = [text.get_text() for text in legend.get_texts()]
    legend.remove()
    figure.legend(handles, names, loc=where, ncols=columns, frameon=False, fontsize=8)
