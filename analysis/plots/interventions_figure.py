"""Figure of the command `remedies`: the effects of each intervention on the same runs."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.figure_files import draw_grid, draw_intervals, new_figure
from analysis.transitions.interventions import MEASURES, UNCHANGED, intervention_effect, paired_effects


def plot_interventions(result: xr.Dataset) -> Figure:
    """Draw the mean change of spikes, of their rate and of accuracy with 95% intervals, and single pairs of runs.

    result: from `compare_interventions`.
    """
    figure = new_figure(12.5, 3.8)
    titles = ("spikes per run", "spikes per 1000 epochs after the escape, all runs", "test accuracy at the end")
    for axes, name, title in zip(figure.subplots(1, 3), MEASURES, titles, strict=True):
        _plot_effects(axes, result, name)
        axes.set_title(title, fontsize=10)
    figure.suptitle("Effect of each intervention on the same runs; grey: single runs; 95% intervals", fontsize=11)
    figure.subplots_adjust(left=0.05, right=0.985, top=0.82, bottom=0.14, wspace=0.2)
    return figure


def _plot_effects(axes: Axes, result: xr.Dataset, name: str) -> None:
    generator = np.random.default_rng(0)  # for horizontal positions only
    remedies = [str(each) for each in result["remedy"].values if each != UNCHANGED]
    for place, remedy in enumerate(remedies):
        if name != "rate":
            changes = paired_effects(result, remedy, name)
            x = place + generator.uniform(-0.25, 0.25, len(changes))
            axes.plot(x, changes, ".", color="0.6", markersize=4, alpha=0.6)
        effect = intervention_effect(result, remedy, name)
        if np.isfinite(effect.value):
            draw_intervals(axes, place, effect, fmt="o", color="tab:red", capsize=4, markersize=5, zorder=3)
    axes.axhline(0, color="0.4", linewidth=0.8)
    axes.set_xticks(range(len(remedies)), remedies)
    axes.set_xlim(-0.6, len(remedies) - 0.4)
    draw_grid(axes, axis="y", linewidth=0.8)
