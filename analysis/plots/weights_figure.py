"""Hidden weights and biases against weight decay (CA figure 6), and the alignment of
weights and pair sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.forces.hidden_weights import ALIGNMENT_MEASURES, WEIGHT_SIZES, WeightGroup
from analysis.panels import colours, figure_panels
from analysis.plots.figure_files import (
    draw_intervals,
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)

_LABELS = {
    "weight": "weights $W_h$",
    "bias": "biases $b_h$",
    "alignment": "weights along pair sums (rank)",
    "boundaries": "boundaries through pair sums (rank)",
    "rays": "pair sums of a class on a line (fraction)",
}


@in_style
def plot_weights(
    by_decay: Mapping[float, WeightGroup],
    by_structure: Mapping[str, WeightGroup],
    title: str,
) -> Figure:
    """Draw sizes against weight decay, as in the paper, the alignment against weight
    decay, and by structure."""
    figure, (left, middle, right) = new_panels(
        [4 / 3] * 3, title, names=figure_panels.WEIGHTS
    )
    _plot_means(left, list(by_decay), list(by_decay.values()), WEIGHT_SIZES)
    left.set(
        xlabel="weight decay",
        ylabel="mean absolute value (dimensionless)",
        ylim=(0, None),
        title="size, all runs",
    )
    _plot_means(middle, list(by_decay), list(by_decay.values()), ALIGNMENT_MEASURES)
    middle.set(
        xlabel="weight decay",
        ylabel="rank, or fraction",
        ylim=(0, 1.05),
        title="alignment, all runs",
    )
    _plot_means(
        right,
        list(range(len(by_structure))),
        list(by_structure.values()),
        ALIGNMENT_MEASURES,
        apart=0.2,
    )
    names = [f"{name} ({group.runs})" for name, group in by_structure.items()]
    right.set(
        xlim=(-0.5, max(len(names), 1) - 0.5),
        ylim=(0, 1.05),
        ylabel="rank, or fraction",
        title="alignment by structure, at all weight decays",
    )
    right.set_xticks(range(len(names)), names)
    entries = legend_entries(figure)
    entries["by chance"] = Line2D([], [], color=colours.colour("muted"), linestyle=":")
    draw_legend(figure, entries)
    return figure


def _plot_means(
    axes: Axes,
    positions: Sequence[float],
    groups: Sequence[WeightGroup],
    names: Sequence[str],
    apart: float = 0.0,
) -> None:
    """Draw means with interval bars; a dotted line is a chance level. With `apart`,
    points beside each other."""
    for at, name in enumerate(names):
        shift = (apart or 0.012 * np.ptp([*positions, 0.0])) * (
            at - (len(names) - 1) / 2
        )  # bars beside each other
        x = np.asarray(positions) + shift
        colour = colours.series_colours()[list(_LABELS).index(name)]
        means = [group.mean[name] for group in groups]
        line = "none" if apart else "-"
        draw_intervals(
            axes,
            x,
            means,
            label=_LABELS[name],
            color=colour,
            marker="o",
            capsize=3,
            linestyle=line,
        )
        if name in ALIGNMENT_MEASURES:
            chance = [group.chance[name] for group in groups]
            if apart:
                axes.hlines(
                    chance,
                    x - 0.45 * apart,
                    x + 0.45 * apart,
                    color=colour,
                    linestyle=":",
                )
            else:
                axes.plot(x, chance, color=colour, linestyle=":")
