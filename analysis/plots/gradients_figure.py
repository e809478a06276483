"""Figure of gradient norms: one run as in VC figures 15 and 16, and all runs compared with chance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from scipy.ndimage import median_filter

from analysis.plots.drawing.colours import series_colours, split_colours
from analysis.plots.drawing.layer_names import draw_layer_names, layer_colours, named_layers
from analysis.plots.figure_files import draw_intervals, new_figure, use_small_fonts
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.gradient_peaks import find_norm_peaks, loss_and_norm_series, loss_events_by_kind
from dynamics.networks.clustering_head import MLP_VARIABLES

_BASELINE_MARKS: dict[str, tuple[dict[str, Any], str]] = {
    "anywhere": ({"color": "0.3", "marker": "_", "markersize": 12}, "shifted anywhere"),
    "nearby": ({"color": "#d55e00", "marker": "D", "markersize": 4, "markerfacecolor": "none"}, "shifted nearby"),
}
_EVENT_LINES = {
    "drop": ("0.35", "-", "solid: drops"),
    "spike": ("#d62728", ":", "dotted: spikes"),
    "escape": ("0.35", "-", "solid: departure"),
}

_LEGEND_LETTERS, _LONG_NAME = 210, 20
"""Letters across the legend of layers, and in a name that needs a wider margin."""


def plot_gradient_norms(
    trajectory: xr.Dataset, found: xr.Dataset, run: int, config: DetectionConfig = DEFAULT_DETECTION
) -> Figure:
    """Draw the loss, the accuracy and the gradient norms of a run, and below them the statistics of all runs.

    found: from `peak_coincidence`. run: run index.
    """
    figure = new_figure(15.0, 7.4)
    longest = max(len(str(layer)) for layer in found["layer"].values)
    left = 0.045 if longest < _LONG_NAME else 0.09  # for the names below the first panel
    halves = figure.add_gridspec(2, 1, hspace=0.5, left=left, right=0.985, top=0.88, bottom=0.13)
    upper = halves[0].subgridspec(1, 4, wspace=0.22).subplots(squeeze=False)[0]
    lower = halves[1].subgridspec(1, 3, wspace=0.18, width_ratios=(1, 1, 1)).subplots(squeeze=False)[0]
    one, falling = trajectory.isel(run=run), loss_and_norm_series(trajectory.isel(run=[run]))[0].falling
    clock, with_loss = "epoch" if "epoch" in trajectory.variables else "step", "loss" in trajectory
    time = trajectory[clock].values[: len(falling)].astype(np.float64)
    if with_loss:
        _plot_metrics(upper[0], upper[1], one, time)
    else:
        upper[0].plot(time, -falling, color="0.3")
        upper[0].set_title("distance from the start")
        upper[1].set_axis_off()
    for axes, scale in ((upper[2], "log"), (upper[3], "linear")):
        _plot_norms(axes, one, time, scale, config)
        axes.set_title(f"norm of the {'gradient' if with_loss else 'force'}, {scale}")
    shown = [axes for axes in upper if axes.axison]
    if len(falling) > 1:
        _mark_events(shown, falling, not with_loss, time, config)
    lines, labels = upper[3].get_legend_handles_labels()
    columns = max(1, min(8, _LEGEND_LETTERS // (longest + 7)))
    named = named_layers(len(lines), 2 * columns)
    lines, labels = ([each[place] for place in named] for each in (lines, labels))
    figure.legend(lines, labels, loc="center", bbox_to_anchor=(0.5, 0.485), ncols=columns, frameon=False, fontsize=8)
    for axes in shown:
        axes.set_xlabel(clock)
        if len(time):
            axes.set_xlim(time[0], max(time[-1], time[0] + 1))
    for axes, kind in zip(lower, found["kind"].values, strict=False):
        _plot_fractions(axes, found.sel(kind=kind), str(kind))
    if found.sizes["kind"] == 1:
        lower[1].set_axis_off()
    _plot_correlations(lower[2], found)
    use_small_fonts(*upper, *lower, ticks=7, which="major")
    runs = f"run {run} (seed {int(one['seed'])}) above, all runs below"
    figure.suptitle(f"{trajectory.attrs['system']}: {runs}", fontsize=11)
    return figure


def _plot_metrics(losses: Axes, accuracies: Axes, one: xr.Dataset, time: np.ndarray) -> None:
    for axes, name in ((losses, "loss"), (accuracies, "accuracy")):
        if name not in one:
            axes.set_axis_off()
            continue
        axes.set_title(name)
        splits = one["split"].values.astype(str).tolist()
        for split, colour in zip(splits, split_colours(splits), strict=True):
            values = one[name].sel(split=split).values[: len(time)]
            axes.plot(time, values, color=colour, linewidth=1.1, marker=_line_marker(time), label=split)
        axes.legend(fontsize=7, frameon=False)
    losses.set_ylim(bottom=0)
    accuracies.set_ylim(-0.03, 1.03)


def _layer_label(layer: str) -> str:
    """What a layer is called in the figure."""
    return MLP_VARIABLES.get(layer, layer.replace("_", " "))


def _plot_norms(axes: Axes, one: xr.Dataset, time: np.ndarray, scale: str, config: DetectionConfig) -> None:
    """Draw the norm of each layer (thin), its running median over a window, and dots at its peaks."""
    if not len(time):
        return
    norms = one["gradient_norm"].transpose("layer", "step").values[:, : len(time)].astype(np.float64)
    width = config.width(len(time))
    for layer, norm, colour in zip(one["layer"].values, norms, layer_colours(len(norms)), strict=False):
        label = _layer_label(layer)
        axes.plot(time, norm, color=colour, linewidth=0.5, alpha=max(0.15, 0.6 / len(norms)), zorder=1)
        median = median_filter(norm, width, mode="nearest")
        axes.plot(time, median, color=colour, linewidth=1.3, marker=_line_marker(time), zorder=2, label=label)
        at = find_norm_peaks(norm, config).frame
        dots: dict[str, Any] = {"markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.4}
        axes.plot(time[at], norm[at], "o", color=colour, zorder=4, **dots)
    if scale == "linear":
        axes.set_ylim(bottom=0)
    elif (norms > 0).any():
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 10 * low:  # too narrow for powers of ten
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())


def _line_marker(time: np.ndarray) -> str:
    """The marker of a line: a dot if the line has only one frame."""
    return "o" if len(time) == 1 else ""


def _mark_events(
    panels: Sequence[Axes], falling: np.ndarray, particles: bool, time: np.ndarray, config: DetectionConfig
) -> None:
    labels = []
    for kind, events in loss_events_by_kind(falling, particles, config).items():
        colour, style, label = _EVENT_LINES[kind]
        for event in events:
            at = float(np.interp(event.middle, np.arange(len(time)), time))
            for axes in panels:
                axes.axvline(at, color=colour, linestyle=style, linewidth=0.9, alpha=0.6, zorder=0)
        labels.append(f"{label} ({len(events)})")
    text = "; ".join(labels) + "; lines: running medians; dots: peaks of the norm"
    panels[-2].text(0, 1.12, text, transform=panels[-2].transAxes, fontsize=8)


def _plot_fractions(axes: Axes, found: xr.Dataset, kind: str) -> None:
    """Draw the percentage of events with a peak by layer, with its interval, and the percentage expected by chance."""
    percentage = 100 * np.stack([found[name].values for name in ("share", "share_low", "share_high")], axis=-1)
    places = np.arange(len(percentage))
    events = int(np.nanmax(found["total"].values, initial=0))
    if events:
        draw_intervals(axes, places, percentage, fmt="o", color=series_colours()[0], capsize=3, label="with a peak")
        for baseline, (mark, label) in _BASELINE_MARKS.items():
            values = 100 * found["by_chance"].sel(baseline=baseline).values
            axes.plot(places + 0.2, values, linestyle="none", label=label, **mark)
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles, labels, fontsize=7, frameon=False, ncols=3, loc="upper right", borderaxespad=0.1)
    draw_layer_names(axes, list(map(_layer_label, found["layer"].values)), 25)
    axes.set(xlim=(-0.6, len(places) - 0.4), ylim=(0, 118), ylabel="%")  # space for the legend above 100
    axes.set_yticks([0, 20, 40, 60, 80, 100])
    axes.set_title(f"{kind}s with a peak of the norm ({events} {kind}s)", loc="left", fontsize=9)
    if not events:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color="0.4")


def _plot_correlations(axes: Axes, found: xr.Dataset) -> None:
    """Draw the mean correlation of each layer by lag, and the mean size of the largest correlation by chance."""
    for layer, colour in zip(found["layer"].values, layer_colours(found.sizes["layer"]), strict=False):
        axes.plot(found["frames"], found["correlation_at_lag"].sel(layer=layer), color=colour, linewidth=1.1)
    if found["correlation"].notnull().any():
        anywhere, near = found["correlation_by_chance"].mean("layer").sel(baseline=["anywhere", "nearby"]).values
        axes.axhspan(-anywhere, anywhere, color="0.9", zorder=0, label="shifted anywhere")
        for side in (-near, near):
            label = "shifted nearby" if side > 0 else None
            axes.axhline(side, color="0.35", linestyle="--", linewidth=0.9, zorder=0, label=label)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.3 * (high - low))
        axes.set_yticks([at for at in axes.get_yticks() if low <= at <= min(1, high)])
        axes.legend(
            fontsize=7, title="± mean of the largest by chance (not an interval)", title_fontsize=7, frameon=False,
            ncols=2, loc="upper center", borderaxespad=0.1,
        )  # fmt: skip
    axes.axvline(0, ymax=0.77, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="lag of the norm, frames", title="mean rank correlation of norm and decrease")
