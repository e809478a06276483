"""Figure of the command `events`: example runs with their events, escape times, the two drops, the motion of layers."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.drawing.layer_names import draw_layer_names
from analysis.plots.figure_files import draw_intervals, new_figure
from analysis.statistics.intervals import median_interval
from analysis.statistics.survival import kaplan_meier
from analysis.transitions.event_analysis import reported_runs

_MAX_EXAMPLES = 4

_TRAJECTORY_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "0.4")
_CHANGE_MARKS = {"drop": ("tab:green", "drop"), "rise": ("tab:purple", "lasting rise")}


def plot_events(values: xr.DataArray, results: Sequence[xr.Dataset], names: Sequence[str], unit: str) -> Figure:
    """Draw example runs of the first trajectory, the escapes of all, and the drops and layers of the first.

    values: the scalar (run, step) of the first trajectory. results: from `analyse_events`, one name each. unit: the
    unit of time.
    """
    first = results[0]
    figure = new_figure(15.0, 7.6)
    grid = figure.add_gridspec(2, 12, left=0.05, right=0.985, top=0.93, bottom=0.16, hspace=0.42, wspace=2.4)
    for column, run in enumerate(_example_runs(first)):
        axes = figure.add_subplot(grid[0, 3 * column : 3 * column + 3])
        _plot_run(axes, values, first, run)
        axes.set(xlabel=unit, title=f"seed {int(first['seed'][run])}")
        if column == 0:
            axes.set_ylabel(str(values.name))
            axes.legend(frameon=False, fontsize=8)
    _plot_escape_curves(figure.add_subplot(grid[1, 0:4]), results, names, unit)
    _plot_drop_times(figure.add_subplot(grid[1, 4:8]), first, unit)
    _plot_layer_speeds(figure.add_subplot(grid[1, 8:12]), first.isel(run=np.flatnonzero(reported_runs(first))))
    for axes in figure.axes:
        axes.title.set_fontsize(10)
        axes.tick_params(labelsize=8)
    return figure


def _example_runs(result: xr.Dataset) -> list[int]:
    """The runs with the most events: those with two drops, then those with the most spikes."""
    score = np.minimum(result["drops"].values, 2) * 1000 + np.minimum(result["spikes"].values, 9)
    return sorted(np.argsort(-score, kind="stable")[: min(_MAX_EXAMPLES, len(score))].tolist())


def _plot_run(axes: Axes, values: xr.DataArray, result: xr.Dataset, run: int) -> None:
    """Draw the scalar of a run; bands for drops, rises (coloured) and plateaus (grey), triangles for spikes."""
    unit = result.attrs["unit"]
    steps = values["step"].values / unit
    axes.plot(steps, values.values[run], color="0.15", linewidth=0.9, zorder=3)
    for event in np.flatnonzero(result["of_run"].values == run):
        kind, height = str(result["event_kind"].values[event]), float(result["event_after"].values[event])
        begin, middle, end = (float(result[f"event_{name}"][event]) / unit for name in ("begin", "middle", "end"))
        if kind == "plateau":
            axes.axvspan(begin, end, color="0.93", linewidth=0)
        elif kind == "spike":
            axes.plot(middle, height, "v", color="tab:red", markersize=4, zorder=4)
        else:
            axes.axvspan(begin, end, color=_CHANGE_MARKS[kind][0], alpha=0.35, linewidth=0)
            axes.axvline(middle, color=_CHANGE_MARKS[kind][0], linewidth=1)
    axes.plot([], [], "v", color="tab:red", markersize=4, label="spike")
    for colour, label in _CHANGE_MARKS.values():
        axes.fill_between([], [], color=colour, alpha=0.35, label=label)
    axes.fill_between([], [], facecolor="0.93", edgecolor="0.6", label="plateau")
    axes.set_xlim(steps[0], steps[-1])


def _plot_escape_curves(axes: Axes, results: Sequence[xr.Dataset], names: Sequence[str], unit: str) -> None:
    """Draw the fraction of runs that have not left their first level, with its 95% interval."""
    for place, (result, name) in enumerate(zip(results, names, strict=True)):
        curve = kaplan_meier(result["escape"].values / result.attrs["unit"], result["escaped"].values)
        colour = _TRAJECTORY_COLOURS[place % len(_TRAJECTORY_COLOURS)]
        axes.step(curve.time, curve.fraction, where="post", color=colour, label=name)
        axes.fill_between(curve.time, curve.low, curve.high, step="post", color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel=unit, ylabel="fraction of runs", ylim=(0, 1.03), title="runs not yet escaped (Kaplan-Meier, 95%)")
    axes.set_xlim(left=0)
    if len(results) > 1:
        axes.legend(frameon=False, fontsize=7)
    axes.grid(color="0.92")


def _plot_drop_times(axes: Axes, result: xr.Dataset, unit: str) -> None:
    """Draw the time of the second drop against that of the first."""
    first, second = (result["middle"].values / result.attrs["unit"]).T
    successful = result["successful"].values
    others = "other runs" if successful.any() else ""
    for members, colour, label in ((~successful, "tab:orange", others), (successful, "tab:blue", "above .98")):
        both = members & np.isfinite(second)
        if both.any():
            axes.plot(first[both], second[both], "o", color=colour, markersize=4, alpha=0.8, label=label)
    if not np.isfinite(second).any():
        axes.annotate("no run has two drops", (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", zorder=4,
                      backgroundcolor="white")  # fmt: skip
    top = 1.05 * np.nanmax([np.nanmax(second, initial=0), np.nanmax(first, initial=0)]) or 1.0
    axes.plot([0, top], [0, top], color="0.7", linewidth=0.8)
    axes.set(xlabel=f"first drop, {unit}", ylabel=f"second drop, {unit}", xlim=(0, top), ylim=(0, top))
    axes.set_title("two drops")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    axes.grid(color="0.92")


def _plot_layer_speeds(axes: Axes, result: xr.Dataset) -> None:
    """Draw each layer's speed in the drops, divided by its speed before them: medians over runs with 95% intervals."""
    layers = [str(each) for each in result["layer"].values]
    if not layers:
        axes.set_axis_off()
        return
    for place, (drop, colour) in enumerate(zip(("first", "second"), ("tab:green", "tab:olive"), strict=True)):
        medians = []
        for layer in layers:
            ratios = result["speed"].sel(phase=drop, layer=layer).values
            medians.append(median_interval(ratios[np.isfinite(ratios) & (ratios > 0)]))
        known = [index for index, each in enumerate(medians) if each.value > 0]
        if known:
            x, shown = np.array(known) + 0.24 * (place - 0.5), [medians[index] for index in known]
            draw_intervals(axes, x, shown, fmt="o", color=colour, capsize=3, markersize=5, label=f"{drop} drop")
    axes.axhline(1, color="0.7", linewidth=0.8)
    axes.set(ylim=(0, None), title=f"speed of weights in a drop / before it, {result.sizes['run']} runs")
    draw_layer_names(axes, layers, 35)
    axes.set_xlim(-0.5, len(layers) - 0.5)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    axes.grid(color="0.92", axis="y")
