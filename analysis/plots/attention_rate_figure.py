"""Figure of the measures of Zhong et al. (arXiv 2306.17844, ZL) over the attention
rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.panels import colours
from analysis.plots.figure_files import draw_legend, in_style, new_panels
from analysis.statistics.intervals import mean_interval


@in_style
def plot_attention_rates(
    measures: xr.Dataset, printed: Sequence[Mapping[str, Any]], title: str = ""
) -> Figure:
    """Draw measures (attention_rate, run) of networks with their means and 95%
    intervals, a panel for each.

    printed: rows of ZL's table, each a mean over the attention rates from `low` to
    `high` by a measure's name."""
    figure, panels = new_panels([4 / 3] * len(measures.data_vars), title, height=1.1)
    for panel, (name, values) in zip(panels, measures.items(), strict=True):
        _plot_printed(panel, printed, str(name))
        _plot_networks(panel, values)
        panel.set(title=str(name), xlabel="attention rate α", xlim=(-0.04, 1.04))
        panel.set_ylim(min(0.0, panel.get_ylim()[0]), 1.03)
    draw_legend(figure)
    return figure


def _plot_printed(panel: Axes, printed: Sequence[Mapping[str, Any]], name: str) -> None:
    """Draw the means of ZL's table, each over its range of attention rates."""
    for row in printed:
        mean = float(row[name])
        (line,) = panel.plot(
            (row["low"], row["high"]),
            (mean, mean),
            color=colours.colour("muted"),
            linewidth=5,
        )
        line.set(
            alpha=0.5,
            solid_capstyle="butt",
            label="ZL, mean" if row is printed[0] else "",
        )


def _plot_networks(panel: Axes, values: xr.DataArray) -> None:
    """Draw each network, and the mean at each attention rate with its interval."""
    by_rate = values.transpose("attention_rate", "run").values
    rates, colour = values["attention_rate"].values, colours.series_colours(1)[0]
    repeat = np.repeat(rates, by_rate.shape[1])
    panel.plot(
        repeat,
        by_rate.ravel(),
        ".",
        color=colour,
        alpha=0.35,
        label="a network",
        zorder=2,
    )
    intervals = np.array(
        [mean_interval(row[np.isfinite(row)], discrete=True) for row in by_rate]
    )
    mean = intervals[:, 0]
    bars = np.abs(np.nan_to_num(intervals[:, 1:].T - intervals[:, 0]))
    panel.errorbar(
        rates,
        mean,
        bars,
        color=colour,
        marker="o",
        capsize=3,
        label="mean, 95% interval",
        zorder=3,
    )
