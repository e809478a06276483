"""Sparsity of hidden activations against the threshold, by success and by test accuracy
(VC figures 17 and 20)."""

import textwrap
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.clustering_heads.activation_sparsity import (
    SPARSITY_RANGE,
    SPARSITY_SPLITS,
)
from analysis.panels import colours, figure_panels
from analysis.plots.figure_files import draw_legend, in_style, new_panels

_LABEL_WIDTH = 30
"""Maximum number of characters in a line of a label."""


@in_style
def plot_sparsity(result: Sequence[xr.Dataset], names: Sequence[str]) -> Figure:
    """A row of panels for each result of `compare_successes`, labelled by its name.

    On training and on test data: curves of successful and failed runs, and all curves
    coloured by test accuracy."""
    names_of_panels = figure_panels.SPARSITY * len(result)
    drawn, panels = new_panels([1] * len(names_of_panels), names=names_of_panels)
    scale = _accuracy_scale(result)
    for line, (item, name) in enumerate(zip(result, names, strict=True)):
        for place, split in enumerate(SPARSITY_SPLITS):
            _draw_success(panels[4 * line + 2 * place], item.sel(split=split))
            _draw_accuracy(
                panels[4 * line + 2 * place + 1], item.sel(split=split), scale
            )
        words = "\n".join(textwrap.wrap(name, _LABEL_WIDTH))
        panels[4 * line].set_ylabel(f"{words}\nsparsity (fraction)")
    for place, split in enumerate(("training data", "test data")):
        panels[2 * place].set_title(f"{split}: success and failure")
        panels[2 * place + 1].set_title(f"{split}: test accuracy")
    for panel in panels[::2]:
        if not panel.get_ylabel():
            panel.set_ylabel("sparsity (fraction)")
    for panel in panels[-4:]:
        panel.set_xlabel("threshold ε")
    coloured = [panel for panel in panels[1::2] if panel.figure is drawn]
    if coloured:
        drawn.colorbar(scale, ax=coloured, label="test accuracy")
    _draw_legend(drawn, result)
    return drawn


@in_style
def plot_training_sparsity(
    result: Sequence[xr.Dataset], names: Sequence[str]
) -> Figure:
    """The curves of successful and failed runs on training data, a panel for each
    result; beside a single one the curves by test accuracy."""
    drawn, panels = new_panels([4 / 3] * max(2, len(result)))
    training = [item.sel(split=SPARSITY_SPLITS[0]) for item in result]
    for panel, item, name in zip(panels, training, names, strict=False):
        _draw_success(panel, item)
        title = name if len(result) > 1 else "success and failure"
        panel.set(title=title, xlabel="threshold ε", ylabel="sparsity (fraction)")
    if len(result) == 1:
        scale = _accuracy_scale(training)
        _draw_accuracy(panels[1], training[0], scale)
        panels[1].set(title="every run", xlabel="threshold ε")
        drawn.colorbar(scale, ax=panels, label="test accuracy")
    _draw_legend(drawn, training)
    return drawn


def _accuracy_scale(results: Sequence[xr.Dataset]) -> ScalarMappable:
    """The colours of test accuracies, from the lowest one, rounded down to a tenth, to
    1."""
    accuracies = [item["test_accuracy"].values.ravel() for item in results]
    lowest = np.fmin.reduce(np.concatenate(accuracies), initial=0.9)
    limits = Normalize(np.floor(10 * lowest) / 10, 1)
    return ScalarMappable(limits, colours.line_colours_of_quantity())


def _draw_success(panel: Axes, result: xr.Dataset) -> None:
    """The curve of each run; a bar along ε marks thresholds at which successful and
    failed runs differ."""
    eps = result["eps"].values
    success = result["success"].values
    for which, colour in (
        (0, colours.colour("failed")),
        (1, colours.colour("successful")),
    ):
        for values in result["sparsity"].values[success == which]:
            panel.plot(eps, values, color=colour, alpha=0.5)
    differs = result["p_value"].values < 0.05
    panel.fill_between(
        eps,
        0,
        0.02,
        where=differs,
        color=colours.colour("ink"),
        linewidth=0,
        transform=panel.get_xaxis_transform(),
    )
    _frame(panel, eps)


def _draw_accuracy(panel: Axes, result: xr.Dataset, scale: ScalarMappable) -> None:
    """The curve of each run in the colour of its test accuracy."""
    accuracy = result["test_accuracy"].values
    for run in accuracy.argsort():
        if accuracy[run] == accuracy[run]:
            panel.plot(
                result["eps"],
                result["sparsity"][run],
                color=scale.to_rgba(accuracy[run]),
                alpha=0.6,
            )
    _frame(panel, result["eps"].values)


def _frame(panel: Axes, eps: np.ndarray) -> None:
    panel.axvspan(*SPARSITY_RANGE, color=colours.colour("band"), zorder=0)
    panel.set(xscale="log", xlim=(eps[0], eps[-1]), ylim=(-0.03, 1.03))
    panel.set_xticks([1e-5, 1e-3, 1e-1, 1e1])


def _draw_legend(drawn: Figure, results: Sequence[xr.Dataset]) -> None:
    """Draw the legend. results: those that are drawn; what none has is left out."""
    groups = {1: "successful", 0: "failed"}
    labels = {"successful": "successful runs: test accuracy above .9"}
    marks: list[Artist] = [
        Line2D(
            [], [], color=colours.colour(name), label=labels.get(name, f"{name} runs")
        )
        for success, name in groups.items()
        if any((result["success"] == success).any() for result in results)
    ]
    marks += [
        Patch(color=colours.colour("band"), label="the paper's range, 0.001 to 10"),
    ]
    if any((result["p_value"] < 0.05).any() for result in results):
        words = "groups differ, p < .05 for all ε jointly"
        marks.append(Patch(color=colours.colour("ink"), label=words))
    draw_legend(drawn, {str(mark.get_label()): mark for mark in marks})
