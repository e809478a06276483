"""Figure of gradient norms: one run as in VC figures 15 and 16, and all runs compared
with chance."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.ndimage import median_filter

from analysis.panels import colours
from analysis.panels.style import current_style
from analysis.plots.curves import (
    draw_layer_names,
    largest_layers,
    layer_looks,
    loss_label,
    set_width_of_split,
)
from analysis.plots.figure_files import (
    annotate_panel,
    draw_intervals,
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.gradient_peaks import (
    find_norm_peaks,
    frame_clock,
    loss_and_norm_series,
    loss_events_by_kind,
)

_BASELINE_MARKS: dict[str, tuple[dict[str, Any], str]] = {
    "anywhere": ({"marker": "_", "markersize": 12}, "by chance, anywhere"),
    "nearby": ({"marker": "D", "markerfacecolor": "none"}, "by chance, nearby"),
}
_EVENT_NAMES = {"drop": "drop of the loss", "spike": "spike", "escape": "departure"}

_LINE_STYLES = {"spike": ":"}
"""Line styles by the kind of event; the lines of other kinds are solid."""

_NORM_PANELS = ("levels", "strips")

_STRIP = 0.85
"""Height of the largest value of a strip; the distance between two strips is 1."""

_MANY_FRAMES = 300
"""If a run has more frames than this, the curves of training, test and unseen data are
drawn with thinner lines."""


@in_style
def plot_gradient_norms(
    trajectory: xr.Dataset,
    result: xr.Dataset,
    run: int,
    config: DetectionConfig = DEFAULT_DETECTION,
) -> Figure:
    """Draw the loss, the accuracy and the gradient norms of a run, and below them the
    statistics of all runs.

    result: from `peak_coincidence`. run: run index. Of more than eight layers those with
    the largest norms are drawn."""
    count = trajectory.sizes["run"]
    runs = f"seed {int(trajectory['seed'][run])}"
    if count > 1:
        runs += f", and below all {count} runs"
    layers = trajectory.sizes["layer"]
    trajectory, drawn = _name_largest_layers(trajectory, run)
    result = result.isel(layer=drawn).assign_coords(layer=trajectory["layer"])
    if layers > len(drawn):
        runs += f"; the {len(drawn)} largest of {layers} layers"
    particles = "loss" not in trajectory
    what = "force" if particles else "gradient"
    title = f"Norm of the {what}: {trajectory.attrs['system']}, {runs}"
    of_run = _panels_of_run(trajectory)
    of_all = ["drops", "spikes", "correlations"]
    if result.sizes["kind"] == 1:
        of_all.remove("spikes")
    names = [*of_run, *of_all]
    widths = [4 / len(row) for row in (of_run, of_all) for _ in row]
    figure, axes = new_panels(widths, title, 1.2, names)
    panels = dict(zip(names, axes, strict=True))
    events = _plot_run({name: panels[name] for name in of_run}, trajectory, run, config)
    entries = {
        **legend_entries(figure, [panels["levels"]]),
        **events,
    }
    for name, kind in zip(("drops", "spikes"), result["kind"].values, strict=False):
        _plot_fractions(panels[name], result.sel(kind=kind), str(kind))
    _plot_correlations(panels["correlations"], result, particles)
    for name in ("loss", "drops", "correlations"):
        if panels[name].get_legend_handles_labels()[1]:
            panels[name].legend()
    draw_legend(figure, entries)
    return figure


@in_style
def plot_run_norms(
    trajectory: xr.Dataset, run: int, config: DetectionConfig = DEFAULT_DETECTION
) -> Figure:
    """The panels of `plot_gradient_norms` that show one run."""
    trajectory, _ = _name_largest_layers(trajectory, run)
    names = _panels_of_run(trajectory)
    figure, panels = new_panels([2] * len(names), height=1.2)
    named = dict(zip(names, panels, strict=True))
    events = _plot_run(named, trajectory, run, config)
    draw_legend(figure, {**legend_entries(figure), **events})
    return figure


def _panels_of_run(trajectory: xr.Dataset) -> list[str]:
    """Names of the panels that show one run."""
    accuracy = ["accuracy"] if "accuracy" in trajectory else []
    return ["loss", *accuracy, *_NORM_PANELS]


def _name_largest_layers(
    trajectory: xr.Dataset, run: int
) -> tuple[xr.Dataset, np.ndarray]:
    """A trajectory with the layers that are drawn, under their labels, and the indices
    of these."""
    names = colours.layer_labels(trajectory["layer"].values.tolist())
    norms = trajectory["gradient_norm"].isel(run=run).fillna(0)
    drawn = largest_layers(norms.max("step").values)
    return trajectory.assign_coords(layer=names).isel(layer=drawn), drawn


def _plot_run(
    panels: Mapping[str, Axes],
    trajectory: xr.Dataset,
    run: int,
    config: DetectionConfig,
) -> dict[str, Any]:
    """Draw the loss, the accuracy and the norms of a run with the events of its loss;
    return the entries of the legend for the events. panels: those of
    `_panels_of_run`, by name."""
    one = trajectory.isel(run=run)
    series = loss_and_norm_series(trajectory.isel(run=[run]), config)[0]
    falling = series.falling
    time = series.time
    clock = frame_clock(trajectory)
    with_loss = "loss" in trajectory
    if with_loss:
        for name in panels.keys() - set(_NORM_PANELS):
            _plot_metric(panels[name], one, name, time)
    else:
        panels["loss"].plot(time, -falling, color=colours.colour("ink"))
        panels["loss"].set(title="distance from the start", ylabel="distance")
    norm = f"norm of the {'gradient' if with_loss else 'force'}"
    levels, strips = (panels[name] for name in _NORM_PANELS)
    peaks = 0
    if len(time):
        norms = one["gradient_norm"].transpose("layer", "step").values
        norms = norms[:, : len(time)].astype(np.float64)
        window = (1, config.width(len(time)))
        medians = median_filter(norms, window, mode="nearest")
        looks = layer_looks(_layers(one))
        _plot_levels(levels, time, medians, looks)
        peaks = _plot_strips(strips, time, norms, medians, looks, config)
    levels.set(title=f"running median of the {norm}", ylabel="norm")
    strips.set(
        title="norm over its running median, log, layers as in the legend",
        ylabel="a strip for each layer",
    )
    marked = (
        _mark_events([*panels.values()], falling, not with_loss, time, series.detection)
        if len(falling) > 1
        else {}
    )
    if peaks:
        muted = colours.colour("muted")
        peak = Line2D([], [], color=muted, marker="o", linestyle="none")
        marked["peak of a norm"] = peak
    for axes in panels.values():
        axes.set_xlabel(clock)
        if len(time):
            axes.set_xlim(time[0], max(time[-1], time[0] + 1))
    return marked


def _plot_metric(axes: Axes, one: xr.Dataset, name: str, time: np.ndarray) -> None:
    """Draw the loss or the accuracy of a run, of each split."""
    label = loss_label(one.attrs["system"]) if name == "loss" else name
    axes.set(title=name, ylabel=label)
    splits = one["split"].values.astype(str).tolist()
    for split, colour in zip(splits, colours.named_colours(splits), strict=True):
        values = one[name].sel(split=split).values[: len(time)]
        (line,) = axes.plot(
            time, values, color=colour, marker=_line_marker(time), label=split
        )
        if len(time) > _MANY_FRAMES:
            line.set_linewidth(0.5 * line.get_linewidth())
        set_width_of_split(line, split)
    if name == "accuracy":
        axes.set_ylim(-0.03, 1.03)


def _plot_levels(
    axes: Axes,
    time: np.ndarray,
    medians: np.ndarray,
    looks: Sequence[Mapping[str, Any]],
) -> None:
    """Draw the running medians of the norms (layer, step)."""
    for look, median in zip(looks, medians, strict=True):
        axes.plot(time, median, **look, marker=_line_marker(time))
    if (medians > 0).any():
        axes.set_yscale("log")


def _plot_strips(
    axes: Axes,
    time: np.ndarray,
    norms: np.ndarray,
    medians: np.ndarray,
    looks: Sequence[Mapping[str, Any]],
    config: DetectionConfig,
) -> int:
    """Draw a strip for each layer, the first one at the top: the logarithm of its norm
    over the running median, up to the largest one, with dots at the peaks of the norm.
    Return the number of peaks.

    norms, medians: (layer, step)."""
    peaks = 0
    dots: dict[str, Any] = {
        "markeredgecolor": colours.colour("background"),
        "markeredgewidth": 0.4,
        "zorder": 4,
    }
    for place, (look, norm, median) in enumerate(
        zip(looks, norms, medians, strict=True)
    ):
        ratio = norm / np.where(median > 0, median, np.nan)
        height = np.log(np.maximum(ratio, 1))
        largest = np.fmax.reduce(height, initial=0) or 1.0
        strip = len(norms) - 1 - place + _STRIP * height / largest
        axes.plot(
            time,
            strip,
            color=look["color"],
            linewidth=0.06 * current_style().text,
            marker=_line_marker(time),
        )
        at = find_norm_peaks(norm, config).frame
        peaks += len(at)
        axes.plot(time[at], strip[at], "o", color=look["color"], **dots)
    axes.set(ylim=(-0.1, len(norms)), yticks=range(len(norms)), yticklabels=[])
    return peaks


def _layers(data: xr.Dataset) -> list[str]:
    return data["layer"].values.astype(str).tolist()


def _line_marker(time: np.ndarray) -> str:
    """The marker of a line: a dot if the line has only one frame."""
    return "o" if len(time) == 1 else ""


def _mark_events(
    panels: Sequence[Axes],
    falling: np.ndarray,
    particles: bool,
    time: np.ndarray,
    config: DetectionConfig,
) -> dict[str, Any]:
    """Mark drops of the loss by bands, and other events by lines; return the entries of
    the legend."""
    result: dict[str, Any] = {}
    frames = np.arange(len(time))
    for kind, events in loss_events_by_kind(falling, particles, config).items():
        ink = colours.colour(kind)
        band: dict[str, Any] = {
            "color": ink,
            "alpha": colours.band_opacity(),
            "linewidth": 0,
        }
        line: dict[str, Any] = {"color": ink, "linestyle": _LINE_STYLES.get(kind, "-")}
        for event, axes in itertools.product(events, panels):
            begin, middle, end = np.interp(event[1:4], frames, time)
            if kind == "drop":
                axes.axvspan(begin, end, zorder=0, **band)
            else:
                axes.axvline(middle, zorder=0, **line)
        times = "once" if len(events) == 1 else f"{len(events)} times"
        if events:
            mark = Patch(**band) if kind == "drop" else Line2D([], [], **line)
            result[f"{_EVENT_NAMES[kind]}, {times}"] = mark
    return result


def _plot_fractions(axes: Axes, result: xr.Dataset, kind: str) -> None:
    """Draw the percentage of events with a peak by layer, with its interval, and the
    percentage expected by chance."""
    percentage = 100 * np.stack(
        [result[name].values for name in ("share", "share_low", "share_high")], axis=-1
    )
    places = np.arange(len(percentage))
    muted = colours.colour("muted")
    events = int(np.nanmax(result["total"].values, initial=0))
    if events:
        label = "with a peak (95%)"
        draw_intervals(
            axes,
            places,
            percentage,
            fmt="o",
            color=colours.colour("ink"),
            capsize=3,
            label=label,
        )
        for baseline, (mark, label) in _BASELINE_MARKS.items():
            values = 100 * result["by_chance"].sel(baseline=baseline).values
            axes.plot(
                places + 0.2,
                values,
                linestyle="none",
                color=muted,
                label=label,
                **mark,
            )
    draw_layer_names(axes, result["layer"].values.tolist(), 25)
    axes.set(xlim=(-0.6, len(places) - 0.4), ylim=(0, 104), ylabel=f"% of {kind}s")
    axes.set_yticks([0, 20, 40, 60, 80, 100])
    axes.set_title(f"{kind}s with a peak of the norm ({events} in all)")
    if not events:
        annotate_panel(axes, f"no {kind}")


def _plot_correlations(axes: Axes, result: xr.Dataset, particles: bool) -> None:
    """Draw the mean correlation of each layer by lag, and the mean size of the largest
    correlation by chance. particles: whether it is that with the distance from the
    start."""
    for place, look in enumerate(layer_looks(_layers(result))):
        at_lag = result["correlation_at_lag"].isel(layer=place)
        axes.plot(result["frames"], at_lag, **look | {"label": None})
    if result["correlation"].notnull().any():
        anywhere, near = (
            result["correlation_by_chance"]
            .mean("layer")
            .sel(baseline=["anywhere", "nearby"])
            .values
        )
        axes.axhspan(
            -anywhere,
            anywhere,
            color=colours.colour("band"),
            zorder=0,
            label="by chance, any shift",
        )
        for side in (-near, near):
            label = "by chance, small shifts" if side > 0 else None
            axes.axhline(
                side,
                color=colours.colour("muted"),
                linestyle=":",
                zorder=0,
                label=label,
            )
    axes.axvline(0, color=colours.colour("faint"), linewidth=0.8, zorder=0)
    axes.set(
        xlabel="lag of the norm, frames",
        ylabel="rank correlation",
        title="mean rank correlation of norm and "
        + ("increase of the distance" if particles else "decrease of the loss"),
    )
