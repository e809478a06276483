"""Final test accuracy against each swept setting (VC figures 6 and 7)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from analysis.plots.drawing import colours
from analysis.plots.figure_files import draw_intervals, draw_legend, in_style, legend_entries, new_panels, starts_row
from analysis.transitions.ablations import ABLATION_PANELS, ablation_table, swept_settings
from dynamics.settings import SparseSettings
from dynamics.trajectory.schema import read_settings


@in_style
def plot_ablation(result: xr.Dataset) -> Figure:
    """Draw the first run above (VC figure 6) and all runs below (figure 7); a single run has figure 6 only."""
    names, settings, runs = swept_settings(result), read_settings(result), result.sizes["run"]
    assert isinstance(settings, SparseSettings)
    task = f"Sum of {settings.sparsity} of {settings.length} tokens modulo {settings.vocab}"
    title = f"{task}: test accuracy after {result.attrs['epochs']} epochs"
    count, rows = len(names), 1 if runs == 1 else 2
    figure, panels = new_panels([max(1.0, 4 / count)] * count * rows, title)
    for place, axes in enumerate(panels):
        name = names[place % count]
        points = ablation_table(result, [name])
        if place < count:
            _plot_first_run(axes, points, f"run of seed {result.attrs['seed']}")
        else:
            plot_ablation_means(axes, points)
        decorate_ablation_panel(axes, name, points["value"], settings)
        ylabel = "test accuracy" if place < count else "test accuracy, fraction of runs"
        axes.set(xlabel=ABLATION_PANELS[name], ylabel=ylabel if starts_row(axes) else "", ylim=(-0.04, 1.06))
    captions = f"seed {result.attrs['seed']} (VC figure 6)", f"{runs} runs (VC figure 7)"
    for axes, caption in zip(panels[::count], captions, strict=False):
        axes.set_title(caption)
    draw_legend(figure, _legend_entries(figure))
    return figure


def _plot_first_run(axes: Axes, points: pd.DataFrame, label: str) -> None:
    """Draw the first run of each row of `ablation_table`, and a cross at 0 where it diverged."""
    axes.plot("value", "first", data=points, color=colours.colour("test"), marker="o", label=label)
    diverged = points["value"][points["first"].isna()]
    if len(diverged):
        axes.plot(diverged, 0 * diverged, color=colours.colour("failed"), marker="x", linestyle="none",
                  label="diverged")  # fmt: skip


def plot_ablation_means(axes: Axes, points: pd.DataFrame) -> None:
    """Draw the mean over runs with its 95% interval, the standard deviation as a band, and fractions of runs.

    points: rows of `ablation_table`.
    """
    accuracy = colours.colour("test")
    x, mean, deviation = (points[name].to_numpy(float) for name in ("value", "test", "test_deviation"))
    intervals = points[["test", "test_low", "test_high"]].to_numpy(float)
    draw_intervals(axes, x, intervals, color=accuracy, marker="o", capsize=2,
                   elinewidth=1, label="mean, with its 95% interval")  # fmt: skip
    axes.fill_between(x, mean - deviation, mean + deviation, color=accuracy, alpha=0.18, linewidth=0,
                      label="± standard deviation (VC's band)")  # fmt: skip
    known = np.pad(np.isfinite(deviation), 1)
    alone = known[1:-1] & ~known[:-2] & ~known[2:]  # isolated points, at which the band has no width
    axes.vlines(x[alone], (mean - deviation)[alone], (mean + deviation)[alone], color=accuracy, alpha=0.18,
                linewidth=8)  # fmt: skip
    axes.plot("value", "above_0.98", data=points, color=colours.colour("successful"), marker=".",
              label="fraction of runs above .98")  # fmt: skip
    diverged = (points["diverged"] / points["runs"])[points["diverged"] > 0]
    if len(diverged):
        axes.plot(points["value"][diverged.index], diverged, color=colours.colour("failed"), marker="x",
                  linestyle="none", label="fraction of runs that diverged")  # fmt: skip


def decorate_ablation_panel(axes: Axes, name: str, x: Sequence[float], settings: SparseSettings) -> None:
    """Set a logarithmic axis that covers the values and the recipe's value; mark the recipe's value and chance."""
    at = getattr(settings, name)
    axes.axhline(1 / settings.vocab, color=colours.colour("muted"), linestyle=":", label=f"chance, 1/{settings.vocab}")
    axes.axvline(at, color=colours.colour("muted"), linestyle="--", label="the recipe's value")
    low, high = min(*x, at), max(*x, at)
    margin = max(1.2, (12 * low / high) ** 0.5)
    axes.set_xscale("log", base=2 if name == "batch" else 10)
    axes.set_xlim(low / margin, high * margin)
    if name != "batch" and high < 50 * low:  # where there would be one or two powers of ten
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _legend_entries(figure: Figure) -> dict[str, Any]:
    """Artists by their names, the lines of chance and of the recipe last."""
    return dict(sorted(legend_entries(figure).items(), key=lambda entry: entry[0].startswith(("chance", "the recipe"))))


def add_title_and_legend(figure: Figure, height: float, title: str) -> None:
    """Add a title above the panels and one legend below them; the figure is enlarged to contain both."""
    width, entries = figure.get_figwidth(), _legend_entries(figure)
    rows = -(-len(entries) // int(width / 2.2))
    above, below = 0.7, 0.65 + 0.2 * rows  # inches
    total = height + above + below
    figure.set_figheight(total)
    figure.suptitle(title, y=1 - 0.12 / total, va="top")
    figure.legend(entries.values(), entries.keys(), loc="lower center", bbox_to_anchor=(0.5, 0.0),
                  ncols=-(-len(entries) // rows))  # fmt: skip
    figure.subplots_adjust(
        left=0.62 / width, right=1 - 0.2 / width, bottom=below / total, top=1 - above / total, wspace=0.08, hspace=0.16
    )
