"""Figure of the circuits of an ensemble: labels, attention against leaks, attention maps, and learning phases."""

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.clustering_heads.clusters import reference_sequences
from analysis.clustering_heads.invariances import counting_attention, largest_leak
from analysis.clustering_heads.labels import CIRCUIT_LABELS, LabelThresholds
from analysis.plots.figure_files import draw_grid, new_figure
from analysis.statistics.intervals import binomial_interval
from dynamics.networks.from_trajectory import clustering_head_of, weights

_COLOURS = dict(zip(CIRCUIT_LABELS, ("#000000", "#0072b2", "#56b4e9", "#e69f00", "#cc79a7", "0.65"), strict=True))
_MARKERS = dict(zip(CIRCUIT_LABELS, "*osD^x", strict=True))
_MAP_SEQUENCES = 64
"""Rows of an attention map."""
_SMALLEST_DRAWN = 1e-6
"""Value at which fractions of 0 are drawn on a logarithmic axis."""


def plot_circuits(found: xr.Dataset, trajectory: xr.Dataset) -> Figure:
    """Label counts, attention against leaks, attention maps of one run, and learning phases.

    found: from `measure_circuits` for the trajectory.
    """
    drawn = new_figure(16.0, 5.0)
    outer = drawn.add_gridspec(
        1, 4, width_ratios=(0.8, 1, 0.9, 1), left=0.085, right=0.985, top=0.88, bottom=0.13, wspace=0.36
    )
    _draw_label_counts(drawn.add_subplot(outer[0]), found)
    _draw_attention_against_leak(drawn.add_subplot(outer[1]), found)
    maps = outer[2].subgridspec(1, 3, wspace=0.1, width_ratios=(1, 1, 0.07))
    _draw_attention_maps(drawn, maps.subplots(squeeze=False)[0], found, trajectory)
    _draw_phases(drawn.add_subplot(outer[3]), found)
    return drawn


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    draw_grid(axes)


def _draw_label_counts(axes: Axes, found: xr.Dataset) -> None:
    """The number of runs with each label, with binomial intervals; bars of successful runs are filled."""
    total, rows = found.sizes["run"], np.arange(len(CIRCUIT_LABELS))[::-1]
    successful = found["successful"].values.astype(bool)
    for row, label in zip(rows, CIRCUIT_LABELS, strict=True):
        members = found["label"].values == label
        count = int(members.sum())
        fraction = binomial_interval(count, total)
        axes.barh(row, count, color="white", edgecolor=_COLOURS[label], height=0.7)
        axes.barh(row, int((members & successful).sum()), color=_COLOURS[label], height=0.7)
        error = [[count - total * fraction.low], [total * fraction.high - count]]
        axes.errorbar(count, row, xerr=error, color="0.25", capsize=3, linewidth=1)
    axes.set_yticks(rows, CIRCUIT_LABELS)
    axes.set(xlabel="runs (filled: test accuracy above .98)", xlim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    _style(axes, f"Circuits of {total} runs")


def _draw_points(axes: Axes, x: np.ndarray, y: np.ndarray, labels: np.ndarray, label: str) -> None:
    """Draw the runs of one label, x and y (run,), as points with its colour and marker, if it has any runs."""
    members = (labels == label) & np.isfinite(x) & np.isfinite(y)
    if members.any():
        axes.plot(x[members], y[members], _MARKERS[label], color=_COLOURS[label], markersize=5, alpha=0.85,
                  linestyle="none", label=label)  # fmt: skip


def _draw_attention_against_leak(axes: Axes, found: xr.Dataset) -> None:
    """The largest leak of a spurious position against the attention on non-spurious positions."""
    x, y = counting_attention(found), np.maximum(largest_leak(found), _SMALLEST_DRAWN)
    for label in reversed(CIRCUIT_LABELS):
        _draw_points(axes, x, y, found["label"].values, label)
    axes.axhline(LabelThresholds().tolerance, color="0.4", linewidth=0.8, linestyle=":")
    axes.axvline(1 - LabelThresholds().elsewhere, color="0.4", linewidth=0.8, linestyle=":")
    axes.set(yscale="log", xlim=(-0.02, 1.02), xlabel="attention on non-spurious positions",
             ylim=(_SMALLEST_DRAWN / 2, 2), ylabel="largest leak of a position (fraction of variance)")  # fmt: skip
    _style(axes, "Attention and leaks")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=7, loc="lower left", handletextpad=0.2)


def _median_run(found: xr.Dataset) -> int | None:
    """Run with the median correlation of initial and final attention, among successful runs or, without any, all."""
    correlation = np.diagonal(found["inherited"].values)
    known = np.isfinite(correlation)
    members = known & found["successful"].values.astype(bool)
    members = members if members.any() else known
    order = np.flatnonzero(members)[np.argsort(correlation[members])]
    return int(order[(len(order) - 1) // 2]) if len(order) else None


def _draw_attention_maps(drawn: Figure, panels: np.ndarray, found: xr.Dataset, trajectory: xr.Dataset) -> None:
    """Attention maps of one run at the start and at the end, as in VC figure 8, and their colour bar."""
    for axes in panels:
        axes.tick_params(labelsize=7)
    run = _median_run(found)
    if run is None:
        panels[0].set_title("No run has initial and final attention", fontsize=9, loc="left")
        panels[-1].set_axis_off()
        return
    network = clustering_head_of(trajectory)
    tokens = reference_sequences(network.settings)
    tokens = tokens[np.linspace(0, len(tokens) - 1, min(_MAP_SEQUENCES, len(tokens))).round().astype(int)]
    both = [weights(trajectory, run, step) for step in trajectory["step"].values[[0, -1]].tolist()]
    maps = np.stack([network.attention(each, torch.from_numpy(tokens)).numpy() for each in both])
    for axes, values, when in zip(panels[:2], maps, ("start", "end"), strict=True):
        image = axes.imshow(values, aspect="auto", cmap="cividis", vmin=0, vmax=maps.max(), interpolation="nearest")
        if not network.settings.positions:
            axes.axvline(network.settings.sparsity - 0.5, color="white", linewidth=0.8, linestyle=":")
        axes.set_xlabel(f"position, {when}", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    drawn.colorbar(image, cax=panels[2], ticks=MaxNLocator(4))
    panels[1].set_yticks([])
    panels[0].set_ylabel("sequence", fontsize=9)
    seed, correlation = int(found["seed"].values[run]), float(found["inherited"].values[run, run])
    title = f"Attention of seed {seed}: r = {correlation:.2f}, the median run"
    panels[0].set_title(title, fontsize=9, loc="left")


def _draw_phases(axes: Axes, found: xr.Dataset) -> None:
    """Draw the epoch at which the MLP separates clusters against the epoch at which they form, for successful runs."""
    successful = found["successful"].values.astype(bool)
    x, y = (np.where(successful, found[name].values, np.nan) for name in ("formed", "separated"))
    epoch = found["epoch"].values
    last, first = float(epoch.max()), float(np.diff(epoch).min())  # epoch 0 is drawn at the first frame after it
    for label in CIRCUIT_LABELS:
        _draw_points(axes, np.maximum(x, first), np.maximum(y, first), found["label"].values, label)
    axes.plot([first, last], [first, last], color="0.4", linewidth=0.8, linestyle=":", label="at the same time")
    axes.set(xscale="log", yscale="log", xlim=(first / 1.3, last * 1.3), ylim=(first / 1.3, last * 1.3),
             xlabel="epoch at which clusters have formed", ylabel="epoch of separation by the MLP")  # fmt: skip
    _style(axes, f"Learning phases, {int(np.isfinite(x + y).sum())} successful runs")
    axes.tick_params(which="both", labelsize=7)
    axes.legend(frameon=False, fontsize=7, loc="lower right", handletextpad=0.2)
