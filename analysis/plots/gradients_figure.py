"""The picture of gradient norms: one run as in VC figures 15 and 16, and all runs against chance."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from scipy.ndimage import median_filter

from analysis.plots.curves import SPLIT_COLOURS
from analysis.plots.figure_files import new_figure
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.gradient_peaks import find_norm_peaks, loss_and_norm_series, loss_events_by_kind

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a6d3b")
BASELINE_MARKS: dict[str, tuple[dict[str, Any], str]] = {
    "anywhere": ({"color": "0.3", "marker": "_", "markersize": 12}, "moved anywhere"),
    "nearby": ({"color": "#d55e00", "marker": "D", "markersize": 4, "markerfacecolor": "none"}, "moved nearby"),
}
EVENT_LINES = {"drop": ("0.35", "-"), "spike": ("#d62728", ":"), "escape": ("0.35", "-")}


def plot_gradient_norms(
    trajectory: xr.Dataset, found: xr.Dataset, run: int, rule: DetectionConfig = DEFAULT_DETECTION
) -> Figure:
    """Losses, accuracies and gradient norms of a run (its place), its events marked; shares of events with a peak, and
    rank correlations, of all runs."""
    drawn = new_figure(15.0, 7.4)
    halves = drawn.add_gridspec(2, 1, hspace=0.5, left=0.045, right=0.985, top=0.88, bottom=0.13)
    upper = halves[0].subgridspec(1, 4, wspace=0.22).subplots(squeeze=False)[0]
    lower = halves[1].subgridspec(1, 3, wspace=0.18, width_ratios=(1, 1, 1)).subplots(squeeze=False)[0]
    one = trajectory.isel(run=run)
    frames = len(loss_and_norm_series(trajectory.isel(run=[run]))[0].falling)
    clock = "epoch" if "epoch" in trajectory.variables else "step"
    moment = trajectory[clock].values[:frames].astype(np.float64)
    if "loss" in trajectory:
        _draw_course(upper[0], upper[1], one, moment)
    else:
        upper[0].plot(moment, -loss_and_norm_series(trajectory.isel(run=[run]))[0].falling, color="0.3")
        upper[0].set_title("distance from the start")
        upper[1].set_axis_off()
    for panel, scale in ((upper[2], "log"), (upper[3], "linear")):
        _draw_norms(panel, one, moment, scale, rule)
        panel.set_title(f"norm of the {'gradient' if 'loss' in trajectory else 'force'}, {scale}")
    shown = [panel for panel in upper if panel.axison]
    _mark_events(shown, trajectory, run, moment, rule)
    lines, labels = upper[3].get_legend_handles_labels()
    drawn.legend(lines, labels, loc="center", bbox_to_anchor=(0.5, 0.485), ncols=8, frameon=False, fontsize=8)
    for panel in shown:
        panel.set_xlabel(clock)
        if frames:
            panel.set_xlim(moment[0], max(moment[-1], moment[0] + 1))
    for panel, kind in zip(lower, found["kind"].values, strict=False):
        _draw_shares(panel, found.sel(kind=kind), str(kind))
    if found.sizes["kind"] == 1:
        lower[1].set_axis_off()
    _draw_correlations(lower[2], found)
    for panel in (*upper, *lower):
        _small(panel)
    drawn.suptitle(
        f"{trajectory.attrs['system']}: run {run} (seed {int(one['seed'])}) above, all runs below", fontsize=11
    )
    return drawn


def _draw_course(losses: Axes, accuracies: Axes, one: xr.Dataset, moment: np.ndarray) -> None:
    for panel, name in ((losses, "loss"), (accuracies, "accuracy")):
        if name not in one:
            panel.set_axis_off()
            continue
        panel.set_title(name)
        for split in one["split"].values:
            values = one[name].sel(split=split).values[: len(moment)]
            colour = SPLIT_COLOURS.get(str(split), "0.4")
            panel.plot(moment, values, color=colour, linewidth=1.1, marker=_mark(moment), label=str(split))
        panel.legend(fontsize=7, frameon=False)
    losses.set_ylim(bottom=0)
    accuracies.set_ylim(-0.03, 1.03)


def _draw_norms(panel: Axes, one: xr.Dataset, moment: np.ndarray, scale: str, rule: DetectionConfig) -> None:
    """A faint line a layer, its running median over a window, and on top of all a dot at each of its peaks."""
    if not len(moment):
        return
    norms = one["gradient_norm"].transpose("layer", "step").values[:, : len(moment)].astype(np.float64)
    width, mark = rule.width(len(moment)), _mark(moment)
    for place, (layer, norm) in enumerate(zip(one["layer"].values, norms, strict=True)):
        colour, label = COLOURS[place % len(COLOURS)], str(layer).replace("_", " ")
        panel.plot(moment, norm, color=colour, linewidth=0.5, alpha=max(0.15, 0.6 / len(norms)), zorder=1)
        median = median_filter(norm, width, mode="nearest")
        panel.plot(moment, median, color=colour, linewidth=1.3, marker=mark, zorder=2, label=label)
        at = find_norm_peaks(norm, rule).frame
        panel.plot(
            moment[at],
            norm[at],
            "o",
            color=colour,
            markersize=4,
            markeredgecolor="white",
            markeredgewidth=0.4,
            zorder=4,
        )
    if scale == "linear":
        panel.set_ylim(bottom=0)
    elif (norms > 0).any():
        panel.set_yscale("log")
        _few_powers(panel)


def _mark(moment: np.ndarray) -> str:
    """A line of a single frame is a dot."""
    return "o" if len(moment) == 1 else ""


def _few_powers(panel: Axes) -> None:
    """Plain numbers beside a logarithmic axis that is too narrow for powers of ten."""
    low, high = panel.get_ylim()
    if high < 10 * low:
        panel.yaxis.set_major_locator(MaxNLocator(5))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter(NullFormatter())


def _mark_events(panels, trajectory: xr.Dataset, run: int, moment: np.ndarray, rule: DetectionConfig) -> None:
    one = loss_and_norm_series(trajectory.isel(run=[run]))[0]
    if len(one.falling) < 2:
        return
    told = []
    for kind, events in loss_events_by_kind(one.falling, "loss" not in trajectory, rule).items():
        colour, style = EVENT_LINES[kind]
        for event in events:
            at = float(np.interp(event.middle, np.arange(len(moment)), moment))
            for panel in panels:
                panel.axvline(at, color=colour, linestyle=style, linewidth=0.9, alpha=0.6, zorder=0)
        word = {"drop": "solid: drops", "spike": "dotted: spikes", "escape": "solid: escape"}[kind]
        told.append(f"{word} ({len(events)})")
    words = "; ".join(told) + "; lines: running medians; dots: peaks of the norm"
    panels[-2].text(0, 1.12, words, transform=panels[-2].transAxes, fontsize=8)


def _draw_shares(panel: Axes, found: xr.Dataset, kind: str) -> None:
    """Share of events with a peak by layer, with its interval, beside what chance gives by both baselines."""
    share = 100 * found["share"].values
    places = np.arange(len(share))
    low, high = (100 * np.abs(found[name].values - found["share"].values) for name in ("share_low", "share_high"))
    events = int(np.nanmax(found["total"].values, initial=0))
    if events:
        panel.errorbar(
            places, share, np.nan_to_num([low, high]), fmt="o", color=COLOURS[0], capsize=3, label="with a peak"
        )
        for baseline, (mark, words) in BASELINE_MARKS.items():
            values = 100 * found["by_chance"].sel(baseline=baseline).values
            panel.plot(places + 0.2, values, linestyle="none", label=words, **mark)
        handles, labels = panel.get_legend_handles_labels()
        panel.legend(handles, labels, fontsize=7, frameon=False, ncols=3, loc="upper right", borderaxespad=0.1)
    names = [str(layer).replace("_", " ") for layer in found["layer"].values]
    panel.set_xticks(places, names, rotation=25, ha="right", rotation_mode="anchor")
    panel.set(xlim=(-0.6, len(places) - 0.4), ylim=(0, 118), ylabel="%")  # room for the legend above 100
    panel.set_yticks([0, 20, 40, 60, 80, 100])
    panel.set_title(f"{kind}s with a peak of the norm ({events} {kind}s)", loc="left")
    if not events:
        panel.text(0.5, 0.5, "none", transform=panel.transAxes, ha="center", color="0.4")


def _draw_correlations(panel: Axes, found: xr.Dataset) -> None:
    """The mean correlation of each layer by lag, and how large its largest is by chance, in the mean over layers."""
    for place, layer in enumerate(found["layer"].values):
        values = found["correlation_at_lag"].sel(layer=layer)
        panel.plot(found["frames"], values, color=COLOURS[place % len(COLOURS)], linewidth=1.1)
    if found["correlation"].notnull().any():
        anywhere, near = found["correlation_by_chance"].mean("layer").sel(baseline=["anywhere", "nearby"]).values
        panel.axhspan(-anywhere, anywhere, color="0.9", zorder=0, label="moved anywhere")
        for side in (-near, near):
            label = "moved nearby" if side > 0 else None
            panel.axhline(side, color="0.35", linestyle="--", linewidth=0.9, zorder=0, label=label)
        low, high = panel.get_ylim()
        panel.set_ylim(low, high + 0.3 * (high - low))
        panel.set_yticks([at for at in panel.get_yticks() if low <= at <= min(1, high)])
        panel.legend(
            fontsize=7, title="± mean of the farthest by chance, not an interval", title_fontsize=7, frameon=False,
            ncols=2, loc="upper center", borderaxespad=0.1,
        )  # fmt: skip
    panel.axvline(0, ymax=0.77, color="0.7", linewidth=0.8, zorder=0)
    panel.set(xlabel="lag of the norm, in frames", title="mean rank correlation of norm and decrease")


def _small(panel: Axes) -> None:
    panel.set_title(panel.get_title("left"), loc="left", fontsize=9)
    panel.title.set_fontsize(9)
    panel.tick_params(labelsize=7)
    panel.xaxis.label.set_fontsize(8)
    panel.yaxis.label.set_fontsize(8)
    panel.spines[["top", "right"]].set_visible(False)
