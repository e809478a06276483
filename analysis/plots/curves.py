"""Curves of loss or accuracy over training: medians and quartiles over runs of each
split."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.output.counts import count_of
from analysis.panels.colours import (
    MAX_NAMED_LAYERS,
    interval_opacity,
    named_colours,
    ordered_colours,
)
from analysis.panels.common_panels import evenly_spaced_indices, unit_of_loss
from analysis.panels.style import width_of_split
from analysis.plots.symbols import typeset
from analysis.statistics.survival import SurvivalCurve
from dynamics.trajectory.diverged import count_diverged, count_stopped, mask_diverged

_DASHED_FROM = 4
"""Number of layers with solid lines. Those of further layers are broken, as there are too
few colours that can be told apart."""

_BROKEN = "--", "-."
"""Styles of these lines, in turn."""

_MARKERS = "osD^vP<X>*"
"""Markers of curves for increasing values of a number, such as N."""

_WIDEST = 2.2
"""Width of the first of several lines that may lie on each other, as a multiple of the
width of the last one."""


def metric_quartiles(trajectory: xr.Dataset, name: str) -> np.ndarray:
    """Quartiles over runs of a metric, (quartile, split, step), of those runs that have
    not diverged at a step."""
    item = (
        mask_diverged(trajectory[name], trajectory)
        .transpose("run", "split", "step")
        .astype(np.float64)
        .values
    )
    finite = np.where(np.isfinite(item), item, np.nan)
    result = np.full((3, *finite.shape[1:]), np.nan)
    some = np.isfinite(finite).any(axis=0)
    result[:, some] = np.nanquantile(finite[:, some], (0.25, 0.5, 0.75), axis=0)
    return result


def loss_label(system: str, split: str = "") -> str:
    """The label of an axis that shows the loss of a system, with the unit if it is known.

    split: word before it, such as "training"."""
    unit = unit_of_loss(system)
    return f"{split} loss{f' ({unit})' if unit else ''}".lstrip()


def times_of_frames(result: xr.Dataset) -> tuple[np.ndarray, str]:
    """The times of the frames of a result of an analysis, (step,), and their unit: epoch
    if the system has epochs, otherwise step."""
    unit = result.attrs.get("unit", 1.0)
    return result["step"].values / unit, result.attrs.get("unit_of_time", "step")


def in_units_of_time(result: xr.Dataset) -> xr.Dataset:
    """A result whose coordinate `step`, and `frame_step` if there is one, are times in
    its unit of time, see `time_label`."""
    unit = result.attrs.get("unit", 1.0)
    names = [name for name in ("step", "frame_step") if name in result.coords]
    times = {name: result[name] / unit for name in names}
    return result.assign_coords(times).assign_attrs(unit=1.0)


def time_label(result: xr.Dataset) -> str:
    """The unit of the coordinate `step` of a result: the result's unit of time if
    `in_units_of_time` has converted it, otherwise "step"."""
    is_time = result.attrs.get("unit", 1.0) == 1.0
    return times_of_frames(result)[1] if is_time else "step"


def plot_metric_curves(axes: Axes, trajectory: xr.Dataset, name: str) -> None:
    """Draw the median over runs of a metric against epochs, for each split, with a band
    between the quartiles."""
    quartiles = metric_quartiles(trajectory, name)
    if name == "loss":
        quartiles = set_log_loss_axis(axes, quartiles)
    else:
        axes.set(ylim=(-0.03, 1.03), ylabel=name)
    epoch = trajectory["epoch"].values
    splits = trajectory["split"].values.astype(str).tolist()
    for split, colour, (low, median, high) in zip(
        splits, named_colours(splits), quartiles.swapaxes(0, 1), strict=True
    ):
        (line,) = axes.plot(
            epoch,
            median,
            color=colour,
            marker="o" if len(epoch) == 1 else "",
            label=split,
        )
        set_width_of_split(line, split)
        order = line.get_zorder() - 1
        fill_interval(axes, epoch, low, high, colour, zorder=order)
        edge = 0.25 * line.get_linewidth()  # areas that coincide mix their colours
        ends = np.stack([low, high], axis=1)
        axes.plot(epoch, ends, color=colour, linewidth=edge, zorder=order + 0.5)
    first, last = epoch[0], epoch[-1]
    axes.set(
        xlabel="epoch",
        xlim=(first, last) if last > first else (first - 0.5, first + 0.5),
    )


def fill_interval(
    axes: Axes, x: Any, low: Any, high: Any, colour: Any, **look: Any
) -> None:
    """Fill the area between the lower and the upper ends (x,) of intervals, or between
    quartiles. look: further arguments of `fill_between`."""
    opacity = interval_opacity()
    axes.fill_between(x, low, high, color=colour, alpha=opacity, linewidth=0, **look)


def set_width_of_split(line: Line2D, split: str) -> None:
    """Give the curve of a split its width, and draw wide ones first."""
    width = width_of_split(split)
    line.set(linewidth=width * line.get_linewidth(), zorder=3 - 0.1 * width)


def plot_quartile_band(
    panel: Axes,
    time: np.ndarray,
    values: xr.DataArray,
    color: Any,
    label: str,
    band: bool = True,
    **line: Any,
) -> None:
    """Draw the median over runs of values (run, step), and a band between the quartiles
    if `band`, where any run has a value. line: the look of the median."""
    by_run = values.transpose("run", "step").values
    some = np.isfinite(by_run).any(axis=0)
    if not some.any():
        return
    low, middle, high = np.nanquantile(by_run[:, some], (0.25, 0.5, 0.75), axis=0)
    if band:
        fill_interval(panel, time[some], low, high, color)
    panel.plot(time[some], middle, color=color, label=label, **line)


def set_early_time_axis(panel: Axes, time: np.ndarray, unit: str) -> None:
    """Set the time axis of a panel, with the label `unit`: linear from 0 to the first
    frame after the start, and logarithmic after it."""
    linear = max(1.0, float(time[1]) if len(time) > 1 else 1.0)
    end = max(float(time[-1]), 1.0)
    panel.set_xscale("symlog", linthresh=linear)
    panel.set_xlim(0, end)
    decades = 10.0 ** np.arange(np.ceil(np.log10(linear)), np.log10(end) + 1e-9)
    if len(decades):
        panel.set_xticks([0.0, *decades])
    panel.set_xlabel(f"{unit} (linear to {linear:g})")


def draw_survival(
    axes: Axes,
    curve: SurvivalCurve,
    colour: str,
    end: float | None = None,
    **line: Any,
) -> None:
    """Draw the fraction of runs that are still waiting as a step line.

    end: time up to which the last value is drawn."""
    rows = np.stack([curve.time, curve.fraction, curve.low, curve.high])
    if end is not None:
        rows = np.hstack([rows, rows[:, -1:]])
        rows[0, -1] = end
    time, waiting, low, high = rows
    axes.step(time, waiting, where="post", color=colour, **line)
    fill_interval(axes, time, low, high, colour, step="post")


def log_limits(values: np.ndarray) -> tuple[float, float]:
    """Limits of a logarithmic axis over the positive values, with margins."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not positive.size:
        return 0.1, 10.0
    low, high = float(positive.min()), float(positive.max())
    margin = max(1.05, (high / low) ** 0.06)
    return low / margin, high * margin


def set_log_loss_axis(axes: Axes, losses: np.ndarray) -> np.ndarray:
    """Set a logarithmic axis over the losses; returns them with zeros replaced by the
    lower end of the axis."""
    low, high = log_limits(losses)
    zeros = bool((losses == 0).any())
    axes.set(
        yscale="log",
        ylim=(low, high),
        ylabel="loss (nats; 0 at the lower edge)" if zeros else "loss (nats)",
    )
    return np.maximum(losses, low)


def curves_caption(trajectory: xr.Dataset) -> str:
    """Caption that explains the lines and the bands."""
    runs = trajectory.sizes["run"]
    counts = {
        "diverged": count_diverged(trajectory),
        "stopped": count_stopped(trajectory),
    }
    ends = [f"{count} {word}" for word, count in counts.items() if count]
    if runs == 1:
        return ", ".join(["1 run", *(word for word in counts if counts[word])])
    words = f" ({', '.join(ends)})" if ends else ""
    return f"{count_of(runs, 'run')}{words}: median, band of quartiles"


def largest_layers(sizes: np.ndarray) -> np.ndarray:
    """Indices of the up to eight layers that a figure shows one by one, in their order:
    those with the largest finite sizes (layer,)."""
    order = np.argsort(-np.nan_to_num(sizes, nan=-np.inf), kind="stable")
    return np.sort(order[:8])


def widths_of_coinciding(count: int) -> np.ndarray:
    """Widths of lines that may lie on each other, as multiples of the width of the last
    one. The first one is the widest, so that its edges are seen beside the others."""
    return np.linspace(_WIDEST, 1, count) if count > 1 else np.ones(count)


def layer_looks(layers: Sequence[str]) -> list[dict[str, Any]]:
    """Colour, style and label of the line of each layer."""
    return [
        {
            "color": colour,
            "linestyle": "-" if place < _DASHED_FROM else _BROKEN[place % 2],
            "label": layer,
        }
        for place, (layer, colour) in enumerate(
            zip(layers, named_colours(layers), strict=True)
        )
    ]


class OrderedLook(NamedTuple):
    """Colour and marker of one of several curves that have an order."""

    color: np.ndarray
    marker: str


def ordered_looks(n: int) -> list[OrderedLook]:
    """Colours and markers of n curves in the order of a number, such as N or the weight
    decay. The colours have one hue; the markers of neighbours differ."""
    return [
        OrderedLook(rgb, _MARKERS[place % len(_MARKERS)])
        for place, rgb in enumerate(ordered_colours(n))
    ]


def draw_layer_names(axes: Axes, layers: Sequence[str], rotation: int) -> None:
    """Draw the names of layers below an axis with a layer at each whole number."""
    places = evenly_spaced_indices(len(layers), MAX_NAMED_LAYERS)
    names = [typeset(layers[place]) for place in places]
    axes.set_xticks(
        places, names, rotation=rotation, ha="right", rotation_mode="anchor"
    )
