"""Figures of the loss on planes and on lines between runs."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, MaxNLocator

from analysis.output.counts import count_of
from analysis.panels import colours, figure_panels
from analysis.panels.style import current_style
from analysis.plots.curvature_figure import colour_of
from analysis.plots.curves import loss_label
from analysis.plots.figure_files import draw_legend, in_style, new_panels

LEVELS = 20
"""Number of contours."""

_MAP_WIDTH = 0.72
"""Width of the map of the loss, as a fraction of the width of the figure."""

_BESIDE = 0.16
"""Height of the title, the labels and the legend together, in inches for each point of
the size of text."""


@in_style
def plot_landscape(result: xr.Dataset) -> Figure:
    """The result of `loss_landscape`: contours of the loss, and the run's projection."""
    title = f"Loss on a plane: {result.attrs['model']}, seed {result.attrs['seed']}"
    figure, (panel,) = new_panels([4], title, height=1.9)
    figure.set_layout_engine("compressed")
    u, v = result["u"].values, result["v"].values
    width = figure.get_figwidth()
    height = _MAP_WIDTH * width * np.ptp(v) / np.ptp(u)
    height += _BESIDE * current_style().text
    figure.set_figheight(min(height, figure.get_figheight()))
    size = 0.7 * current_style().text
    loss_name = loss_label(result.attrs["system"])
    loss = result["loss"].transpose("v", "u").values
    finite = loss[np.isfinite(loss)]
    low, high = float(finite.min()), float(np.quantile(finite, 0.98))
    is_log = low > 0 and high > 10 * low
    levels = (np.geomspace if is_log else np.linspace)(low, high, LEVELS)
    if high > low:
        contours = panel.contourf(
            u,
            v,
            loss,
            np.unique(levels),
            cmap=colours.QUANTITY_MAP,
            norm=(LogNorm if is_log else Normalize)(low, high),
            extend="max",
        )
        steps = (
            LogLocator(subs=(1, 2, 5))
            if is_log
            else MaxNLocator(6, steps=[1, 2, 5, 10])
        )
        ticks = [tick for tick in steps.tick_values(low, high) if low <= tick <= high]
        bar = figure.colorbar(contours, ax=panel, label=f"training {loss_name}")
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
    edge: Any = {"color": "black", "markeredgecolor": "white", "linestyle": "none"}
    path = result["frame_u"].values, result["frame_v"].values
    is_random = result.attrs["plane"] == "random"
    if not is_random:
        halo = [withStroke(linewidth=3, foreground="white")]
        look: Any = {"color": "black", "linewidth": 1.2, "path_effects": halo}
        panel.plot(*path, label="run, projected", **look)
        first = path[0][0], path[1][0]
        panel.plot(*first, marker="o", markersize=size, label="first frame", **edge)
    last = path[0][-1], path[1][-1]
    panel.plot(*last, marker="*", markersize=2 * size, label="last frame", **edge)
    names = ["$u$", "$v$"]
    for index, explained in enumerate(result["explained"].values):
        if np.isfinite(explained):
            names[index] += f" ({100 * explained:.1f}% of the variance)"
        elif is_random:
            names[index] += " (norms of the weights)"
    panel.set(xlabel=names[0], ylabel=names[1])
    panel.set(xlim=(u[0], u[-1]), ylim=(v[0], v[-1]), aspect="equal")
    panel.set_anchor("C")
    draw_legend(figure)
    return figure


@in_style
def plot_barriers(result: xr.Dataset) -> Figure:
    """The result of `loss_barriers`: the loss on the lines between runs."""
    pairs = result.sizes["pair"]
    title = f"Loss between runs: {result.attrs['model']}, step {result.attrs['step']}"
    names = {"loss": "as trained", "matched_loss": "hidden units matched"}
    figure, panels = new_panels([4 / 3] * 2, title, 1.1, figure_panels.BARRIERS)
    for panel, (name, label) in zip(panels, names.items(), strict=True):
        lines = result[name].transpose("pair", "fraction").values
        if not np.isfinite(lines).any():
            panel.set_axis_off()
            continue
        panel.plot(
            result["fraction"].values, lines.T, color=colour_of("decaying"), alpha=0.5
        )
        panel.set(
            title=f"{label}, {count_of(pairs, 'pair')}",
            xlabel="fraction of the way to the second run",
            ylabel=f"training {loss_label(result.attrs['system'])}",
            xlim=(0, 1),
        )
    high = np.nanmax([result[name].max() for name in names])
    for panel in panels:
        panel.set_ylim(0, 1.05 * high)
    return figure
