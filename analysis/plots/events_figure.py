"""A picture of events: some runs with their drops and spikes, the times of escape, the two drops and what layers do."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.figure_files import new_figure
from analysis.statistics.intervals import median_interval
from analysis.statistics.survival import kaplan_meier

EXAMPLES = 4

COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "0.4")
MARKS = {"drop": ("tab:green", "drop"), "rise": ("tab:purple", "lasting rise")}


def plot_events(
    values: xr.DataArray, results: Sequence[xr.Dataset], names: Sequence[str], chosen: np.ndarray, word: str
) -> Figure:
    """Examples of the first trajectory, whose scalar (run, step) is given; escapes of all; the first one's layers.

    chosen: (run,), of which runs the layers are. word: the unit of time.
    """
    first = results[0]
    epoch_steps = first.attrs["unit"]
    drawn = new_figure(15.0, 7.6)
    grid = drawn.add_gridspec(2, 12, left=0.05, right=0.985, top=0.93, bottom=0.16, hspace=0.42, wspace=2.4)
    for place, run in enumerate(_example_runs(first)):
        axes = drawn.add_subplot(grid[0, 3 * place : 3 * place + 3])
        _plot_run(axes, values, first, run, epoch_steps)
        axes.set(xlabel=word, title=f"seed {int(first['seed'][run])}")
        if place == 0:
            axes.set_ylabel(str(values.name))
            axes.legend(frameon=False, fontsize=8)
    _plot_escape_curves(drawn.add_subplot(grid[1, 0:4]), results, names, word)
    _plot_drop_times(drawn.add_subplot(grid[1, 4:8]), first, epoch_steps, word)
    _plot_layer_speeds(drawn.add_subplot(grid[1, 8:12]), first.isel(run=np.flatnonzero(chosen)))
    for axes in drawn.axes:
        axes.title.set_fontsize(10)
        axes.tick_params(labelsize=8)
    return drawn


def _example_runs(result: xr.Dataset) -> list[int]:
    """Runs with most to see: two drops, then spikes; the first of equals."""
    score = np.minimum(result["drops"].values, 2) * 1000 + np.minimum(result["spikes"].values, 9)
    return sorted(np.argsort(-score, kind="stable")[: min(EXAMPLES, len(score))].tolist())


def _plot_run(axes: Axes, values: xr.DataArray, result: xr.Dataset, run: int, epoch_steps: float) -> None:
    """A run's scalar with its drops and rises as bands, plateaus as grey ones, spikes as dots."""
    steps = values["step"].values / epoch_steps
    axes.plot(steps, values.values[run], color="0.15", linewidth=0.9, zorder=3)
    of_run = np.flatnonzero(result["of_run"].values == run)
    for at in of_run:
        kind = str(result["event_kind"].values[at])
        begin, end = (float(result[f"event_{name}"].values[at]) / epoch_steps for name in ("begin", "end"))
        if kind == "plateau":
            axes.axvspan(begin, end, color="0.93", linewidth=0)
        elif kind == "spike":
            middle = float(result["event_middle"].values[at]) / epoch_steps
            axes.plot(middle, float(result["event_after"].values[at]), "v", color="tab:red", markersize=4, zorder=4)
        else:
            axes.axvspan(begin, end, color=MARKS[kind][0], alpha=0.35, linewidth=0)
            axes.axvline(float(result["event_middle"].values[at]) / epoch_steps, color=MARKS[kind][0], linewidth=1)
    axes.plot([], [], "v", color="tab:red", markersize=4, label="spike")
    for colour, label in MARKS.values():
        axes.fill_between([], [], color=colour, alpha=0.35, label=label)
    axes.fill_between([], [], facecolor="0.93", edgecolor="0.6", label="plateau")
    axes.set_xlim(steps[0], steps[-1])


def _plot_escape_curves(axes: Axes, results: Sequence[xr.Dataset], names: Sequence[str], word: str) -> None:
    """Share of the runs that have not left their first level yet, with its 95% interval."""
    for place, (result, name) in enumerate(zip(results, names, strict=True)):
        found, colour = (
            kaplan_meier(result["escape"].values / result.attrs["unit"], result["escaped"].values),
            COLOURS[place % 6],
        )
        axes.step(found.time, found.share, where="post", color=colour, label=name)
        axes.fill_between(found.time, found.low, found.high, step="post", color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel=word, ylabel="share of runs", ylim=(0, 1.03), title="not escaped yet (Kaplan-Meier, 95%)")
    axes.set_xlim(left=0)
    if len(results) > 1:
        axes.legend(frameon=False, fontsize=7)
    axes.grid(color="0.92")


def _plot_drop_times(axes: Axes, result: xr.Dataset, epoch_steps: float, word: str) -> None:
    """When the second drop comes against when the first does."""
    first, second = (result["middle"].values / epoch_steps).T
    successful = result["successful"].values
    kinds = [
        (~successful, "tab:orange", "other runs" if successful.any() else ""),
        (successful, "tab:blue", "above .98"),
    ]
    for chosen, colour, label in kinds:
        both = chosen & np.isfinite(second)
        if both.any():
            axes.plot(first[both], second[both], "o", color=colour, markersize=4, alpha=0.8, label=label)
    if not np.isfinite(second).any():
        axes.text(0.5, 0.5, "no run has two", ha="center", va="center", transform=axes.transAxes)
    top = 1.05 * np.nanmax([np.nanmax(second, initial=0), np.nanmax(first, initial=0)]) or 1.0
    axes.plot([0, top], [0, top], color="0.7", linewidth=0.8)
    axes.set(xlabel=f"first drop, {word}", ylabel=f"second drop, {word}", xlim=(0, top), ylim=(0, top))
    axes.set_title("two drops")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    axes.grid(color="0.92")


def _plot_layer_speeds(axes: Axes, result: xr.Dataset) -> None:
    """How many times as fast as before each layer moves in the drops: medians with 95% intervals."""
    layers = [str(each) for each in result["layer"].values]
    for place, (drop, colour) in enumerate(zip(("first", "second"), ("tab:green", "tab:olive"), strict=True)):
        found = []
        for layer in layers:
            each = result["speed"].sel(phase=drop, layer=layer).values
            found.append(median_interval(each[np.isfinite(each) & (each > 0)]))
        at = [k for k, each in enumerate(found) if each.value > 0]
        middle = np.array([found[k].value for k in at])
        low, high = (np.array([getattr(found[k], end) for k in at]) for end in ("low", "high"))
        if at:
            error = np.nan_to_num([middle - low, high - middle])
            x = np.array(at) + 0.24 * (place - 0.5)
            axes.errorbar(x, middle, error, fmt="o", color=colour, capsize=3, markersize=5, label=f"{drop} drop")
    axes.axhline(1, color="0.7", linewidth=0.8)
    count = result.sizes["run"]
    axes.set(ylim=(0, None), title=f"speed of weights in a drop over that before, {count} runs")
    axes.set_xticks(range(len(layers)), [layer.replace("_", " ") for layer in layers], rotation=35, ha="right")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    axes.grid(color="0.92", axis="y")
