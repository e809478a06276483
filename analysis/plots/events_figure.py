"""Figure of the command `events`: example runs with their events, escape times, the two
drops, the motion of layers."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.output.counts import count_of
from analysis.panels import colours, figure_panels
from analysis.plots.curves import (
    draw_layer_names,
    draw_survival,
    largest_layers,
    loss_label,
)
from analysis.plots.figure_files import (
    annotate_panel,
    draw_intervals,
    draw_legend,
    in_style,
    new_panels,
    starts_row,
)
from analysis.statistics.intervals import median_interval
from analysis.statistics.survival import kaplan_meier
from analysis.transitions.event_analysis import describe_reported_runs, reported_runs

_MAX_EXAMPLES = 4

_CHANGES = {"drop": "drop", "rise": "lasting rise"}


@in_style
def plot_events(
    values: xr.DataArray, results: Sequence[xr.Dataset], names: Sequence[str], unit: str
) -> Figure:
    """Draw example runs of the first trajectory, the escapes of all, and the drops and
    layers of the first.

    values: the scalar (run, step) of the first trajectory. results: from
    `analyse_events`, one name each. unit: the unit of time."""
    first = results[0]
    examples = _example_runs(first)
    count = len(examples)
    examples_name, *other_names = figure_panels.EVENTS
    figure, panels = new_panels(
        [4 / count] * count + [4 / 3] * 3,
        height=1.4,
        names=[examples_name] * count + other_names,
    )
    for axes, run in zip(panels, examples, strict=False):
        _plot_run(axes, values, first, run)
        name = str(values.name)
        if name == "loss":
            name = loss_label(first.attrs["system"])
        axes.set(
            xlabel=unit,
            ylabel=name if starts_row(axes) else "",
            title=f"seed {int(first['seed'][run])}",
        )
    draw_legend(figure)
    _plot_escape_curves(panels[-3], results, names, unit)
    _plot_drop_times(panels[-2], first, unit)
    _plot_layer_speeds(panels[-1], first)
    return figure


def _example_runs(result: xr.Dataset) -> list[int]:
    """The runs with the most events: those with two drops, then those with the most
    spikes."""
    score = np.minimum(result["drops"].values, 2) * 1000 + np.minimum(
        result["spikes"].values, 9
    )
    return sorted(
        np.argsort(-score, kind="stable")[: min(_MAX_EXAMPLES, len(score))].tolist()
    )


def _plot_run(axes: Axes, values: xr.DataArray, result: xr.Dataset, run: int) -> None:
    """Draw the scalar of a run, coloured bands for drops and rises, grey bands for
    plateaus, and triangles for spikes. Initial drops and rises, which are not counted,
    have a circle at the upper edge instead of a line in the middle."""
    unit = result.attrs["unit"]
    steps = values["step"].values / unit
    axes.plot(steps, values.values[run], color=colours.colour("ink"), zorder=3)
    for event in np.flatnonzero(result["of_run"].values == run):
        kind = str(result["event_kind"].values[event])
        height = float(result["event_after"].values[event])
        begin, middle, end = (
            float(result[f"event_{name}"][event]) / unit
            for name in ("begin", "middle", "end")
        )
        if kind == "plateau":
            band = colours.colour("band")
            axes.axvspan(begin, end, color=band, linewidth=0, label=kind)
        elif kind == "spike":
            axes.plot(
                middle,
                height,
                "v",
                color=colours.colour("spike"),
                zorder=4,
                clip_on=False,
                label=kind,
            )
        else:
            colour = colours.colour(kind)
            axes.axvspan(
                begin,
                end,
                color=colour,
                alpha=colours.band_opacity(),
                linewidth=0,
                label=_CHANGES[kind],
            )
            if bool(result["event_initial"][event]):
                axes.plot(
                    middle,
                    1,
                    "o",
                    color=colour,
                    markerfacecolor=colours.colour("background"),
                    transform=axes.get_xaxis_transform(),
                    zorder=4,
                    clip_on=False,
                    label=f"initial {kind}, not counted",
                )
            else:
                line = f"middle of a {kind}"
                axes.axvline(middle, color=colour, label=line)
    axes.set_xlim(steps[0], steps[-1])


def _plot_escape_curves(
    axes: Axes, results: Sequence[xr.Dataset], names: Sequence[str], unit: str
) -> None:
    """Draw the fraction of runs that have not left their first level, with its 95%
    interval."""
    for place, (result, name) in enumerate(zip(results, names, strict=True)):
        curve = kaplan_meier(
            result["escape"].values / result.attrs["unit"], result["escaped"].values
        )
        colour = colours.series_colours()[place % 8]
        draw_survival(axes, curve, colour, label=name)
    axes.set(
        xlabel=unit,
        ylabel="fraction of runs",
        ylim=(0, 1.03),
        title="runs not yet escaped (Kaplan-Meier, 95% bands)",
    )
    axes.margins(x=0)
    axes.set_xlim(left=0)
    if len(results) > 1:
        axes.legend()


def _plot_drop_times(axes: Axes, result: xr.Dataset, unit: str) -> None:
    """Draw the time of the second drop against that of the first."""
    first, second = (result["middle"].values / result.attrs["unit"]).T
    successful = result["successful"].values
    groups = [
        (~successful, "failed", "other runs"),
        (successful, "successful", "accuracy above .98"),
    ]
    if not successful.any():
        groups = [(~successful, "ink", "")]
    for members, colour, label in groups:
        both = members & np.isfinite(second)
        if both.any():
            axes.plot(
                first[both],
                second[both],
                "o",
                color=colours.colour(colour),
                alpha=0.8,
                label=label,
            )
    if not np.isfinite(second).any():
        annotate_panel(axes, "no run has two drops")
    both = np.isfinite(second)
    times = second[both] if both.any() else first  # the second is the later one
    top = 1.05 * np.nanmax(times, initial=0) or 1.0
    axes.plot([0, top], [0, top], color=colours.colour("muted"), linestyle=":")
    axes.set(
        xlabel=f"first drop, {unit}",
        ylabel=f"second drop, {unit}",
        xlim=(0, top),
        ylim=(0, top),
    )
    axes.set_title("two drops; dotted: equal times")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right")


def _plot_layer_speeds(axes: Axes, result: xr.Dataset) -> None:
    """Draw each layer's speed in the drops, divided by its speed before them: medians
    over runs with 95% intervals."""
    if not result.sizes["layer"]:
        axes.set_axis_off()
        return
    speed = result["speed"].isel(run=reported_runs(result))
    drawn = largest_layers(speed.median(["run", "phase"]).values)
    names = colours.layer_labels(result["layer"].values.tolist())
    layers = result["layer"].values[drawn].tolist()
    highest = 1.0
    counts = (speed > 0).any("layer").sum("run")
    beside = 0.24 if int(counts.sel(phase="second")) else 0.0
    for place, (drop, colour) in enumerate(
        zip(("first", "second"), colours.series_colours(2), strict=True)
    ):
        medians = []
        for layer in layers:
            ratios = speed.sel(phase=drop, layer=layer).values
            medians.append(median_interval(ratios[np.isfinite(ratios) & (ratios > 0)]))
        indices = [index for index, median in enumerate(medians) if median.value > 0]
        if indices:
            x = np.array(indices) + beside * (place - 0.5)
            positive = [medians[index] for index in indices]
            draw_intervals(
                axes,
                x,
                positive,
                fmt="o",
                color=colour,
                capsize=3,
                label=f"{drop} drop of {count_of(int(counts.sel(phase=drop)), 'run')}",
            )
            bounds = [[median.value, median.high] for median in positive]
            highest = max(highest, float(np.nanmax(bounds)))
    axes.axhline(1, color=colours.colour("muted"), linestyle=":")
    of_all = (
        ""
        if len(layers) == result.sizes["layer"]
        else f"; the {len(layers)} fastest of {result.sizes['layer']}"
    )
    title = (
        f"speed in a drop over that before it, 95%,"
        f" {describe_reported_runs(result)}{of_all}"
    )
    axes.set(ylim=(0, 1.08 * highest), ylabel="speed ratio (1: equal)", title=title)
    draw_layer_names(axes, [names[place] for place in drawn], 35)
    axes.set_xlim(-0.5, len(layers) - 0.5)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    axes.grid(False, axis="x")
