"""Figure of the measures of Zhong et al. (arXiv 2306.17844, ZL) over the attention
rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.panels import colours
from analysis.plots.figure_files import draw_legend, in_style, new_panels
from analysis.statistics.intervals import mean_interval

_NAMES = {
    "symmetricity": "gradient symmetricity",
    "irrelevance": "distance irrelevance",
}
"""Names of measures that differ from those of their variables."""

_COSINE = (-1.0, 1.0)
"""Range of the gradient symmetricity. The other measures are between 0 and 1."""

Measures = TypeVar("Measures", xr.Dataset, xr.DataArray)


@in_style
def plot_attention_rates(
    measures: xr.Dataset, printed: Sequence[Mapping[str, Any]], title: str = ""
) -> Figure:
    """Draw measures (attention_rate, run) of networks, and their means over ranges of
    the attention rate with 95% intervals, a panel for each.

    printed: rows of ZL's table, each a mean over the attention rates from `low` to
    `high` by a measure's name; NaN stands for no network."""
    figure, panels = new_panels([4 / 3] * len(measures.data_vars), title, height=1.1)
    for panel, (name, values) in zip(panels, measures.items(), strict=True):
        _plot_printed(panel, printed, str(name))
        _plot_networks(panel, values)
        _plot_means(panel, printed, values)
        panel.set(xlabel="attention rate α", xlim=(-0.04, 1.04))
        panel.set_ylabel(_NAMES.get(str(name), str(name)))
        low, high = panel.get_ylim()
        panel.set_ylim(min(0.0, low), max(1.03, high))
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
    """Draw each network."""
    by_rate = values.transpose("attention_rate", "run")
    panel.plot(
        np.repeat(values["attention_rate"].values, by_rate.sizes["run"]),
        by_rate.values.ravel(),
        ".",
        color=colours.colour("network"),
        alpha=0.6,
        label="a network",
        zorder=2,
    )


def _plot_means(
    panel: Axes, printed: Sequence[Mapping[str, Any]], values: xr.DataArray
) -> None:
    """Draw the mean of the networks in each range of ZL's table, with its interval."""
    limits = _COSINE if values.name == "symmetricity" else (0.0, 1.0)
    intervals = []
    for row in printed:
        networks = networks_in_range(values, row["low"], row["high"])
        intervals.append(mean_interval(networks.values, limits=limits))
    mean, *ends = np.array(intervals).T
    middle = np.array([(row["low"] + row["high"]) / 2 for row in printed])
    panel.errorbar(
        middle,
        mean,
        np.nan_to_num(np.abs(ends - mean)),
        color=colours.colour("network"),
        marker="o",
        linestyle="none",
        capsize=3,
        label="mean in a range of ZL, 95%",
        zorder=3,
    )


def networks_in_range(measures: Measures, low: float, high: float) -> Measures:
    """The networks (network,) of measures (attention_rate, run) whose attention rate is
    between `low` and `high`; only if there is none, those at these two rates."""
    rates = measures["attention_rate"].values
    inside = (low < rates) & (rates < high)
    if not inside.any():
        inside = (low <= rates) & (rates <= high)
    networks = measures.isel(attention_rate=inside)
    networks = networks.stack(network=("attention_rate", "run"))
    return networks.dropna("network", how="all")
