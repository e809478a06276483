"""How an ensemble of VC's network has learned: success rates, accuracies, and the curves of both (VC section 3)."""

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.output import tables
from analysis.output.tables import TableRow, format_number, format_percent, format_percent_plus_minus
from analysis.plots.curves import SPLIT_COLOURS, curves_caption, plot_metric_curves
from analysis.plots.figure_files import new_figure, save_figure
from analysis.statistics.intervals import Interval, binomial_interval, mean_interval
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import read_settings

SUCCESS_THRESHOLDS = (0.9, SUCCESS_ACCURACY, 1.0)
"""Test accuracies that count as success: VC's for sparsity, ablations and transfer. The last is reached, not passed."""

REPORTED_SPLITS = ("train", "test", "unseen")

HEADER = (
    "p", "epochs", "runs", "diverged", "test > .9 %", "test > .98 %", "test = 1 %", "accuracy % train", "test",
    "unseen",
)  # fmt: skip

COLUMNS = (
    "vocab", "epochs", "runs", "diverged",
    *(f"above_{limit:g}{end}" for limit in SUCCESS_THRESHOLDS for end in ("", "_low", "_high")),
    *(f"{split}{end}" for split in REPORTED_SPLITS for end in ("", "_low", "_high")),
)  # fmt: skip


def final_accuracies(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """Accuracy of each split at the end, (run,), of the runs that have not diverged."""
    last = trajectory.isel(step=-1)
    alive = not_diverged(last)
    return {str(split): last["accuracy"].sel(split=split).values[alive] for split in trajectory["split"].values}


def fraction_above_threshold(test: np.ndarray, limit: float, runs: int) -> Interval:
    """Share of so many runs above a test accuracy, or at it where it is 1, with its binomial interval.

    test: (run,), of those that have not diverged; one that has is no success.
    """
    return binomial_interval(int((test >= 1).sum() if limit == 1 else (test > limit).sum()), runs)


def learning_row(trajectory: xr.Dataset) -> TableRow:
    """Success rates of all runs and mean accuracies of those that did not diverge, with 95% intervals."""
    s, found = read_settings(trajectory), final_accuracies(trajectory)
    assert isinstance(s, SparseSettings)
    runs, epochs = trajectory.sizes["run"], float(trajectory["epoch"][-1])
    diverged = runs - len(found["test"])
    rates = [fraction_above_threshold(found["test"], limit, runs) for limit in SUCCESS_THRESHOLDS]
    means = [mean_interval(found.get(split, np.empty(0))) for split in REPORTED_SPLITS]
    text = [str(s.vocab), f"{epochs:g}", str(runs), str(diverged), *(format_percent(each) for each in rates)]
    text += [format_percent_plus_minus(each) for each in means]
    numbers = [format_number(value) for value in (s.vocab, epochs, runs, diverged)]
    numbers += [format_number(value) for each in (*rates, *means) for value in each]
    return TableRow(text, numbers)


def print_learning_table(rows: list[TableRow], csv: Path | None) -> None:
    """Print the table and write the CSV; with the CSV on the terminal, that alone."""
    tables.print_rows(HEADER, COLUMNS, rows, csv, left=())


def plot_learning(trajectory: xr.Dataset) -> Figure:
    """Loss and accuracy of every split over epochs, and how the final test accuracies are distributed."""
    drawn = new_figure(13.0, 4.2)
    drawn.suptitle(_learning_title(trajectory), fontsize=11, y=0.97)
    left, middle, right = drawn.subplots(1, 3, width_ratios=(1, 1, 0.6))
    plot_metric_curves(left, trajectory, "loss", single="test")
    left.legend(frameon=False, fontsize=8, loc="lower left")
    plot_metric_curves(middle, trajectory, "accuracy", single="test")
    of_one = "" if trajectory.sizes["run"] == 1 else ", test"
    middle.set_title(curves_caption(trajectory) + of_one, fontsize=8, loc="left")
    _plot_final_accuracies(right, final_accuracies(trajectory)["test"])
    drawn.subplots_adjust(left=0.06, right=0.985, top=0.84, bottom=0.13, wspace=0.2)
    return drawn


def _learning_title(trajectory: xr.Dataset) -> str:
    """What was learned, for how long, and how many succeeded."""
    s, found = read_settings(trajectory), final_accuracies(trajectory)["test"]
    assert isinstance(s, SparseSettings)
    above = int((found > SUCCESS_ACCURACY).sum())
    done = (
        f"{above} of {trajectory.sizes['run']} runs end above {SUCCESS_ACCURACY:g}"
        if len(found)
        else "all runs diverged"
    )
    return (
        f"Sum of {s.sparsity} of {s.length} tokens modulo {s.vocab}, {float(trajectory['epoch'][-1]):g} epochs: {done}"
    )


def _plot_final_accuracies(axes: Axes, test: np.ndarray) -> None:
    """How many runs end at which test accuracy."""
    bins = np.linspace(0, 1, 51).tolist()
    counts, *_ = axes.hist(np.minimum(test, 1 - 1e-9), bins=bins, color=SPLIT_COLOURS["test"], orientation="horizontal")
    axes.set_xlim(0, 1.05 * max(1.0, np.max(counts)))
    for limit in SUCCESS_THRESHOLDS[:2]:
        axes.axhline(limit, color="0.4", linewidth=0.8, linestyle=":")
        axes.annotate(f"{limit:g}", (1, limit), (-2, -1), xycoords=("axes fraction", "data"),
                      textcoords="offset points", fontsize=7, color="0.4", ha="right", va="top")  # fmt: skip
    axes.set(ylim=(-0.03, 1.03), xlabel="runs")
    axes.set_title("test accuracy at the end", fontsize=8, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.tick_params(labelsize=8)


def save_learning_figure(trajectory: xr.Dataset, path: Path) -> None:
    """Draw into a PNG, whole or not at all. Raises RecordingError."""
    save_figure(plot_learning(trajectory), path)
