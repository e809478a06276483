"""Hidden weights and biases against weight decay (CA figure 6), and the alignment of weights and pair sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.forces.hidden_weights import ALIGNMENT_MEASURES, WEIGHT_SIZES, WeightGroup
from analysis.plots.figure_files import draw_intervals, new_figure

_COLOURS = {"weight": "C0", "bias": "C1", "alignment": "C2", "boundaries": "C4", "rays": "C3"}
_LABELS = {
    "weight": "weights $W_h$",
    "bias": "biases $b_h$",
    "alignment": "weights along pair sums",
    "boundaries": "boundaries through pair sums",
    "rays": "pair sums of a class on a line",
}


def plot_weights(by_decay: Mapping[float, WeightGroup], by_structure: Mapping[str, WeightGroup], title: str) -> Figure:
    """Draw sizes against weight decay, as in the paper, the alignment against weight decay, and by structure."""
    figure = new_figure(13.0, 4.6)
    figure.suptitle(title, fontsize=11)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 0.7))
    _plot_means(left, list(by_decay), list(by_decay.values()), WEIGHT_SIZES)
    left.set(xlabel="weight decay", ylabel="mean absolute value", ylim=(0, None))
    left.legend(frameon=False)
    _plot_means(middle, list(by_decay), list(by_decay.values()), ALIGNMENT_MEASURES)
    middle.set(xlabel="weight decay", ylim=(0, 1.05), title="all runs")
    middle.title.set_fontsize(10)
    _plot_means(right, list(range(len(by_structure))), list(by_structure.values()), ALIGNMENT_MEASURES, apart=0.2)
    names = [f"{name} ({group.runs})" for name, group in by_structure.items()]
    right.set(xlim=(-0.5, max(len(names), 1) - 0.5), ylim=(0, 1.05), title="by structure, at all weight decays")
    right.set_xticks(range(len(names)), names)
    right.title.set_fontsize(10)
    _plot_legend(figure, middle)
    figure.subplots_adjust(left=0.06, right=0.985, top=0.85, bottom=0.22, wspace=0.2)
    return figure


def _plot_means(
    axes: Axes, positions: Sequence[float], groups: Sequence[WeightGroup], names: Sequence[str], apart: float = 0.0
) -> None:
    """Draw means with interval bars; a dotted line is a chance level. With `apart`, points beside each other."""
    for at, name in enumerate(names):
        shift = (apart or 0.004 * np.ptp([*positions, 0.0])) * (at - (len(names) - 1) / 2)  # bars beside each other
        x = np.asarray(positions) + shift
        means, line = [group.mean[name] for group in groups], "none" if apart else "-"
        draw_intervals(axes, x, means, label=_LABELS[name], color=_COLOURS[name], marker="o", markersize=4, capsize=3,
                       linestyle=line)  # fmt: skip
        if name in ALIGNMENT_MEASURES:
            chance = [group.chance[name] for group in groups]
            if apart:
                axes.hlines(chance, x - 0.45 * apart, x + 0.45 * apart, color=_COLOURS[name], linestyle=":")
            else:
                axes.plot(x, chance, color=_COLOURS[name], linestyle=":")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def _plot_legend(figure: Figure, axes: Axes) -> None:
    """Draw the legend of the alignment measures below the panels that show them."""
    lines, labels = axes.get_legend_handles_labels()
    lines, labels = [*lines, Line2D([], [], color="0.4", linestyle=":")], [*labels, "by chance"]
    figure.legend(lines, labels, loc="lower center", bbox_to_anchor=(0.67, 0.0), ncols=4, frameon=False, fontsize=9)
