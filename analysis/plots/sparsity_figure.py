"""Sparsity of hidden activations against the threshold, by success and by test accuracy (VC figures 17 and 20)."""

import textwrap
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.clustering_heads.activation_sparsity import SPARSITY_RANGE, SPARSITY_SPLITS
from analysis.plots.figure_files import new_figure

_SUCCESS_COLOUR, _FAILURE_COLOUR = "#0072b2", "#d55e00"

_LABEL_WIDTH = 30
"""Maximum number of characters in a line of a label."""


def plot_sparsity(found: Sequence[xr.Dataset], names: Sequence[str]) -> Figure:
    """A row of panels for each result of `compare_successes`, labelled by its name.

    On training and on test data: curves of successful and failed runs, and all curves coloured by test accuracy.
    """
    high = 2.5 * len(found) + 1.1
    drawn = new_figure(14.0, high)
    panels = drawn.subplots(len(found), 4, squeeze=False, sharex=True, sharey=True)
    colours = ScalarMappable(Normalize(0, 1), "viridis")
    for line, (each, name) in enumerate(zip(found, names, strict=True)):
        for place, split in enumerate(SPARSITY_SPLITS):
            _draw_success(panels[line, 2 * place], each.sel(split=split))
            _draw_accuracy(panels[line, 2 * place + 1], each.sel(split=split), colours)
        words = "\n".join(textwrap.wrap(name, _LABEL_WIDTH))
        panels[line, 0].set_ylabel(f"{words}\nsparsity", fontsize=9)
    for place, split in enumerate(("training data", "test data")):
        panels[0, 2 * place].set_title(f"{split}: success and failure", fontsize=9)
        panels[0, 2 * place + 1].set_title(f"{split}: test accuracy", fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("eps", fontsize=9)
    drawn.subplots_adjust(left=0.075, right=0.92, top=1 - 0.75 / high, bottom=0.5 / high, wspace=0.08, hspace=0.12)
    bar = drawn.colorbar(colours, cax=drawn.add_axes((0.935, 0.5 / high, 0.012, 1 - 1.25 / high)))
    bar.set_label("test accuracy", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    _draw_legend(drawn)
    return drawn


def _draw_success(panel: Axes, found: xr.Dataset) -> None:
    """The curve of each run; a bar along eps marks thresholds at which successful and failed runs differ."""
    eps, success = found["eps"].values, found["success"].values
    for which, colour in ((0, _FAILURE_COLOUR), (1, _SUCCESS_COLOUR)):
        for values in found["sparsity"].values[success == which]:
            panel.plot(eps, values, color=colour, linewidth=0.9, alpha=0.5)
    differs = found["p_value"].values < 0.05
    panel.fill_between(eps, 0, 0.02, where=differs, color="0.25", linewidth=0, transform=panel.get_xaxis_transform())
    _frame(panel, eps)


def _draw_accuracy(panel: Axes, found: xr.Dataset, colours) -> None:
    """The curve of each run in the colour of its test accuracy."""
    accuracy = found["test_accuracy"].values
    for run in accuracy.argsort():
        if accuracy[run] == accuracy[run]:
            panel.plot(found["eps"], found["sparsity"][run], color=colours.to_rgba(accuracy[run]), linewidth=0.9)
    _frame(panel, found["eps"].values)


def _frame(panel: Axes, eps: np.ndarray) -> None:
    panel.axvspan(*SPARSITY_RANGE, color="0.95", zorder=0)
    panel.set(xscale="log", xlim=(eps[0], eps[-1]), ylim=(-0.03, 1.03))
    panel.set_xticks([1e-5, 1e-3, 1e-1, 1e1])
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_legend(drawn: Figure) -> None:
    marks = [
        Line2D([], [], color=_SUCCESS_COLOUR, label="successful runs: test accuracy above .9"),
        Line2D([], [], color=_FAILURE_COLOUR, label="failed runs"),
        Patch(color="0.25", label="groups differ, p < .05 for all eps jointly"),
        Patch(color="0.92", label="the paper's range, 1e-3 to 10"),
    ]
    drawn.legend(handles=marks, loc="upper center", ncols=4, frameon=False, fontsize=9)
