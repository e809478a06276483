"""Figures of the loss on planes and on lines between runs."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from analysis.output.counts import count_of
from analysis.panels import colours, figure_panels
from analysis.plots.curvature_figure import colour_of
from analysis.plots.figure_files import in_style, new_panels

LEVELS = 20
"""Number of contours."""


@in_style
def plot_landscape(result: xr.Dataset) -> Figure:
    """The result of `loss_landscape`: contours of the loss, and the run's projection."""
    title = f"Loss on a plane: {result.attrs['model']}, seed {result.attrs['seed']}"
    figure, (panel,) = new_panels([4], title, height=1.9)
    figure.set_layout_engine("compressed")
    loss = result["loss"].transpose("v", "u").values
    finite = loss[np.isfinite(loss)]
    low, high = float(finite.min()), float(np.quantile(finite, 0.98))
    is_log = low > 0 and high > 10 * low
    levels = (np.geomspace if is_log else np.linspace)(low, high, LEVELS)
    u, v = result["u"].values, result["v"].values
    if high > low:
        contours = panel.contourf(
            u, v, loss, np.unique(levels), cmap=colours.QUANTITY_MAP, extend="max"
        )
        steps = (
            LogLocator(subs=(1, 2, 5))
            if is_log
            else MaxNLocator(6, steps=[1, 2, 5, 10])
        )
        ticks = [tick for tick in steps.tick_values(low, high) if low <= tick <= high]
        bar = figure.colorbar(contours, ax=panel, label="training loss")
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    path = result["frame_u"].values, result["frame_v"].values
    is_random = result.attrs["plane"] == "random"
    if not is_random:
        panel.plot(*path, color="white", linewidth=3)
        panel.plot(*path, color="black", linewidth=1.2, label="run, projected")
        panel.plot(path[0][0], path[1][0], "o", color="black", label="first frame")
    panel.plot(path[0][-1], path[1][-1], "X", color="red", label="last frame")
    names = ["u", "v"]
    for index, explained in enumerate(result["explained"].values):
        if np.isfinite(explained):
            names[index] += f" ({100 * explained:.1f}% of the variance)"
        elif is_random:
            names[index] += " (norms of the weights)"
    panel.set(xlabel=names[0], ylabel=names[1])
    panel.set(xlim=(u[0], u[-1]), ylim=(v[0], v[-1]), aspect="equal")
    panel.set_anchor("C")
    figure.legend(loc="outside lower center", ncols=3)
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
            ylabel="training loss",
            xlim=(0, 1),
        )
    high = np.nanmax([result[name].max() for name in names])
    for panel in panels:
        panel.set_ylim(0, 1.05 * high)
    return figure
