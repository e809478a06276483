"""Final test accuracy against each swept setting (VC figures 6 and 7)."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from analysis.output.counts import count_of
from analysis.panels import colours
from analysis.plots.curves import fill_interval
from analysis.plots.figure_files import (
    draw_intervals,
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
    starts_row,
)
from analysis.transitions.ablations import (
    ABLATION_PANELS,
    ablation_table,
    swept_settings,
)
from dynamics.settings import SparseSettings
from dynamics.trajectory.schema import read_settings


@in_style
def plot_ablation(result: xr.Dataset, with_first: bool = True) -> Figure:
    """Draw the first run above (VC figure 6) and all runs below (figure 7); a single
    run has figure 6 only.

    with_first: whether a figure of several runs has the first run, too.
    """
    names = swept_settings(result)
    settings = read_settings(result)
    runs = result.sizes["run"]
    assert isinstance(settings, SparseSettings)
    task = (
        f"Sum of {settings.sparsity} of {settings.length} tokens modulo"
        f" {settings.vocab}"
    )
    epochs = count_of(result.attrs["epochs"], "epoch")
    title = f"{task}: test accuracy after {epochs}"
    first = (
        [f"seed {result.attrs['seed']} (VC fig. 6)"] if with_first or runs == 1 else []
    )
    rows = first + [f"{count_of(runs, 'run')} (VC fig. 7)"] * (runs > 1)
    count = len(names) * len(rows)
    panel_names = [name.replace("_", "-") for name in names]
    widths = [max(1.0, 4 / len(names))] * count
    figure, panels = new_panels(widths, title, names=panel_names * len(rows))
    for axes, (row, name) in zip(panels, itertools.product(rows, names), strict=True):
        points = ablation_table(result, [name])
        if row in first:
            _plot_first_run(axes, points, f"run of seed {result.attrs['seed']}")
        else:
            _plot_means(axes, points)
        _decorate_panel(axes, name, points["value"], settings)
        axes.set_title(row)
        ylabel = "test accuracy" if row in first else "test accuracy, fraction of runs"
        axes.set(
            xlabel=ABLATION_PANELS[name],
            ylabel=ylabel if starts_row(axes) else "",
            ylim=(-0.04, 1.06),
        )
    entries = legend_entries(figure)
    draw_legend(
        figure,
        dict(
            sorted(
                entries.items(),
                key=lambda entry: entry[0].startswith(("chance", "the recipe")),
            )
        ),
    )
    return figure


def _plot_first_run(axes: Axes, points: pd.DataFrame, label: str) -> None:
    """Draw the first run of each row of `ablation_table`, and a cross at 0 where it
    diverged."""
    axes.plot(
        "value",
        "first",
        data=points,
        color=colours.colour("test"),
        marker="o",
        label=label,
    )
    diverged = points["value"][points["first"].isna()]
    if len(diverged):
        axes.plot(
            diverged,
            0 * diverged,
            color=colours.colour("failed"),
            marker="x",
            linestyle="none",
            label="diverged",
        )


def _plot_means(axes: Axes, points: pd.DataFrame) -> None:
    """Draw the mean over runs with its 95% interval, the standard deviation as a band,
    and fractions of runs.

    points: rows of `ablation_table`.
    """
    accuracy = colours.colour("test")
    x, mean, deviation = (
        points[name].to_numpy(float) for name in ("value", "test", "test_deviation")
    )
    intervals = points[["test", "test_low", "test_high"]].to_numpy(float)
    draw_intervals(
        axes,
        x,
        intervals,
        color=accuracy,
        marker="o",
        capsize=2,
        elinewidth=1,
        label="mean, with its 95% interval",
    )
    label = "± standard deviation (VC's band)"
    fill_interval(axes, x, mean - deviation, mean + deviation, accuracy, label=label)
    finite = np.pad(np.isfinite(deviation), 1)
    alone = (
        finite[1:-1] & ~finite[:-2] & ~finite[2:]
    )  # isolated points, at which the band has no width
    axes.vlines(
        x[alone],
        (mean - deviation)[alone],
        (mean + deviation)[alone],
        color=accuracy,
        alpha=colours.interval_opacity(),
        linewidth=8,
    )
    axes.plot(
        "value",
        "above_0.98",
        data=points,
        color=colours.colour("ink"),
        marker=".",
        label="fraction of runs above .98",
    )
    diverged = (points["diverged"] / points["runs"])[points["diverged"] > 0]
    if len(diverged):
        axes.plot(
            points["value"][diverged.index],
            diverged,
            color=colours.colour("failed"),
            marker="x",
            linestyle="none",
            label="fraction of runs that diverged",
        )


def _decorate_panel(
    axes: Axes, name: str, x: Sequence[float], settings: SparseSettings
) -> None:
    """Set a logarithmic axis that covers the values and the recipe's value; mark the
    recipe's value and chance."""
    at = getattr(settings, name)
    axes.axhline(
        1 / settings.vocab,
        color=colours.colour("muted"),
        linestyle=":",
        label=f"chance, 1/{settings.vocab}",
    )
    axes.axvline(
        at, color=colours.colour("muted"), linestyle="--", label="the recipe's value"
    )
    low, high = min(*x, at), max(*x, at)
    margin = max(1.2, (12 * low / high) ** 0.5)
    axes.set_xscale("log", base=2 if name == "batch" else 10)
    axes.set_xlim(low / margin, high * margin)
    if (
        name != "batch" and high < 50 * low
    ):  # where there would be one or two powers of ten
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
