"""Figure of the circuits of an ensemble: labels, attention against leaks, attention
maps, and learning phases."""

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.clustering_heads.clusters import reference_sequences
from analysis.clustering_heads.invariances import counting_attention, largest_leak
from analysis.clustering_heads.labels import CIRCUIT_LABELS, LabelThresholds
from analysis.output.counts import count_of
from analysis.panels import colours, figure_panels
from analysis.plots.figure_files import (
    annotate_panel,
    draw_legend,
    in_style,
    new_panels,
)
from analysis.statistics.intervals import binomial_interval
from dynamics.networks.from_trajectory import clustering_head_of, weights

_MARKERS = dict(zip(CIRCUIT_LABELS, "*osD^x", strict=True))
_MAP_SEQUENCES = 64
"""Rows of an attention map."""
_SMALLEST_DRAWN = 1e-6
"""Value at which fractions of 0 are drawn on a logarithmic axis."""


@in_style
def plot_circuits(result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
    """Label counts, attention against leaks, attention maps of one run, and learning
    phases.

    result: from `measure_circuits` for the trajectory.
    """
    labels, leaks, attention, phases = figure_panels.CIRCUITS
    names = (labels, leaks, attention, attention, phases)
    drawn, panels = new_panels([2, 2, 1, 1, 2], names=names)
    _draw_label_counts(panels[0], result)
    _draw_attention_against_leak(panels[1], result)
    _draw_attention_maps(panels[2:4], result, trajectory)
    _draw_phases(panels[4], result)
    draw_legend(drawn)
    return drawn


def _label_colours() -> dict[str, str]:
    return dict(
        zip(CIRCUIT_LABELS, colours.series_colours(len(CIRCUIT_LABELS)), strict=True)
    )


def _draw_label_counts(axes: Axes, result: xr.Dataset) -> None:
    """The number of runs with each label, with binomial intervals; bars of successful
    runs are filled."""
    total = result.sizes["run"]
    rows = np.arange(len(CIRCUIT_LABELS))[::-1]
    successful = result["successful"].values.astype(bool)
    for row, (label, colour) in zip(rows, _label_colours().items(), strict=True):
        members = result["label"].values == label
        count = int(members.sum())
        fraction = binomial_interval(count, total)
        axes.barh(row, count, color="none", edgecolor=colour, height=0.7)
        axes.barh(row, int((members & successful).sum()), color=colour, height=0.7)
        error = [[count - total * fraction.low], [total * fraction.high - count]]
        axes.errorbar(count, row, xerr=error, color=colours.colour("ink"), capsize=3)
    axes.set_yticks(rows, CIRCUIT_LABELS)
    axes.set(
        xlabel="runs, 95% intervals; filled: test accuracy above .98", xlim=(0, None)
    )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_title(f"circuits of {count_of(total, 'run')}")


def _draw_points(
    axes: Axes, x: np.ndarray, y: np.ndarray, labels: np.ndarray, label: str
) -> None:
    """Draw the runs of one label, x and y (run,), as points with its colour and marker,
    if it has any runs."""
    members = (labels == label) & np.isfinite(x) & np.isfinite(y)
    if members.any():
        axes.plot(
            x[members],
            y[members],
            _MARKERS[label],
            color=_label_colours()[label],
            alpha=0.85,
            linestyle="none",
            label=label,
        )


def _draw_attention_against_leak(axes: Axes, result: xr.Dataset) -> None:
    """The largest leak of a spurious position against the attention on non-spurious
    positions."""
    x, y = counting_attention(result), np.maximum(largest_leak(result), _SMALLEST_DRAWN)
    muted = colours.colour("muted")
    for label in reversed(CIRCUIT_LABELS):
        _draw_points(axes, x, y, result["label"].values, label)
    axes.axhline(LabelThresholds().tolerance, color=muted, linewidth=0.8, linestyle=":")
    axes.axvline(
        1 - LabelThresholds().elsewhere,
        color=muted,
        linewidth=0.8,
        linestyle=":",
        label="thresholds of labels",
    )
    axes.set(
        yscale="log",
        xlim=(-0.02, 1.02),
        xlabel="attention on non-spurious positions",
        ylabel="largest leak of a position (fraction of variance)",
    )
    axes.set_title("attention and leaks")


def _median_run(result: xr.Dataset) -> int | None:
    """Run with the median correlation of initial and final attention, among successful
    runs or, without any, all."""
    correlation = np.diagonal(result["inherited"].values)
    finite = np.isfinite(correlation)
    members = finite & result["successful"].values.astype(bool)
    members = members if members.any() else finite
    order = np.flatnonzero(members)[np.argsort(correlation[members])]
    return int(order[(len(order) - 1) // 2]) if len(order) else None


def _draw_attention_maps(
    panels: list[Axes], result: xr.Dataset, trajectory: xr.Dataset
) -> None:
    """Attention maps of one run at the start and at the end, as in VC figure 8, and
    their colour bar."""
    for axes in panels:
        axes.grid(False)
    run = _median_run(result)
    if run is None:
        panels[0].set_title("no run has initial and final attention")
        return
    network = clustering_head_of(trajectory)
    tokens = reference_sequences(network.settings)
    tokens = tokens[
        np.linspace(0, len(tokens) - 1, min(_MAP_SEQUENCES, len(tokens)))
        .round()
        .astype(int)
    ]
    both = [
        weights(trajectory, run, step)
        for step in trajectory["step"].values[[0, -1]].tolist()
    ]
    maps = np.stack(
        [network.attention(item, torch.from_numpy(tokens)).numpy() for item in both]
    )
    for axes, values, when in zip(panels[:2], maps, ("start", "end"), strict=True):
        image = axes.imshow(
            values,
            aspect="auto",
            cmap=colours.QUANTITY_MAP,
            vmin=0,
            vmax=maps.max(),
            interpolation="nearest",
        )
        if not network.settings.positions:
            axes.axvline(
                network.settings.sparsity - 0.5,
                color="white",
                linewidth=0.8,
                linestyle=":",
            )
        edge = "" if network.settings.positions else " (relevant ones before the line)"
        axes.set(xlabel=f"position{edge}", title=f"attention, {when}")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    panels[1].figure.colorbar(
        image, ax=panels[1], ticks=MaxNLocator(4), label="attention"
    )
    panels[1].set_yticks([])
    panels[0].set_ylabel("sequence")
    seed = int(result["seed"].values[run])
    correlation = float(result["inherited"].values[run, run])
    panels[0].set_title(f"attention of seed {seed}, start")
    panels[1].set_title(f"end; correlation with the start {correlation:.2f}")


def _draw_phases(axes: Axes, result: xr.Dataset) -> None:
    """Draw the epoch at which the MLP separates clusters against the epoch at which
    they form, for successful runs."""
    successful = result["successful"].values.astype(bool)
    x, y = (
        np.where(successful, result[name].values, np.nan)
        for name in ("formed", "separated")
    )
    epoch = result["epoch"].values
    last, first = (
        float(epoch.max()),
        float(np.diff(epoch).min()),
    )  # epoch 0 is drawn at the first frame after it
    for label in CIRCUIT_LABELS:
        _draw_points(
            axes,
            np.maximum(x, first),
            np.maximum(y, first),
            result["label"].values,
            label,
        )
    axes.plot(
        [first, last],
        [first, last],
        color=colours.colour("muted"),
        linewidth=0.8,
        zorder=1,
        label="at the same time",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(first / 1.3, last * 1.3),
        ylim=(first / 1.3, last * 1.3),
        xlabel="epoch at which clusters have formed",
        ylabel="epoch of separation by the MLP",
    )
    number = int(np.isfinite(x + y).sum())
    if not number:
        annotate_panel(axes, "no run is successful")
    axes.set_title(f"learning phases, {count_of(number, 'successful run')}")
