"""Figure of the command `sims.sparse`: losses and accuracies of an ensemble of VC's network, and final accuracies."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.clustering_heads.learning_outcome import SUCCESS_THRESHOLDS, final_accuracies
from analysis.plots.curves import curves_caption, plot_metric_curves
from analysis.plots.drawing.colours import split_colours
from analysis.plots.figure_files import new_figure
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.trajectory.schema import read_settings


def plot_learning(trajectory: xr.Dataset) -> Figure:
    """Draw loss and accuracy of every split over epochs, and a histogram of the final test accuracies."""
    figure = new_figure(13.0, 4.2)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 0.6))
    plot_metric_curves(left, trajectory, "loss", single="test")
    left.legend(frameon=False, fontsize=8, loc="lower left")
    plot_metric_curves(middle, trajectory, "accuracy", single="test")
    split_of_runs = "" if trajectory.sizes["run"] == 1 else ", test"
    middle.set_title(curves_caption(trajectory) + split_of_runs, fontsize=8, loc="left")
    test = final_accuracies(trajectory)["test"]
    _plot_final_accuracies(right, test)
    figure.suptitle(_learning_title(trajectory, test), fontsize=11, y=0.97)
    figure.subplots_adjust(left=0.06, right=0.985, top=0.84, bottom=0.13, wspace=0.2)
    return figure


def _learning_title(trajectory: xr.Dataset, test: np.ndarray) -> str:
    settings = read_settings(trajectory)
    assert isinstance(settings, SparseSettings)
    above = int((test > SUCCESS_ACCURACY).sum())
    outcome = f"{above} of {trajectory.sizes['run']} runs end above {SUCCESS_ACCURACY:g}"
    return (
        f"Sum of {settings.sparsity} of {settings.length} tokens modulo {settings.vocab}, "
        f"{float(trajectory['epoch'][-1]):g} epochs: {outcome if len(test) else 'all runs diverged'}"
    )


def _plot_final_accuracies(axes: Axes, test: np.ndarray) -> None:
    bins = np.linspace(0, 1, 51).tolist()
    colour = tuple(split_colours(["test"])[0])
    counts, *_ = axes.hist(np.minimum(test, 1 - 1e-9), bins=bins, color=colour, orientation="horizontal")
    axes.set_xlim(0, 1.05 * max(1.0, np.max(counts)))
    for limit in SUCCESS_THRESHOLDS[:2]:
        axes.axhline(limit, color="0.4", linewidth=0.8, linestyle=":")
        axes.annotate(f"{limit:g}", (1, limit), (-2, -1), xycoords=("axes fraction", "data"),
                      textcoords="offset points", fontsize=7, color="0.4", ha="right", va="top")  # fmt: skip
    axes.set(ylim=(-0.03, 1.03), xlabel="runs")
    axes.set_title("test accuracy at the end", fontsize=8, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.tick_params(labelsize=8)
