"""Circuits in one picture: how many of each kind, what they attend to, where their attention is from, and when."""

import numpy as np
import torch
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.clustering_heads.clusters import reference_sequences
from analysis.clustering_heads.invariances import counting_attention, largest_leak
from analysis.clustering_heads.labels import CIRCUIT_LABELS, LabelThresholds
from analysis.plots.figure_files import new_figure
from analysis.statistics.intervals import binomial_interval
from dynamics.networks.from_trajectory import clustering_head_of, weights

LABEL_COLOURS = dict(zip(CIRCUIT_LABELS, ("#000000", "#0072b2", "#56b4e9", "#e69f00", "#cc79a7", "0.65"), strict=True))
LABEL_MARKERS = dict(zip(CIRCUIT_LABELS, "*osD^x", strict=True))
_MAP_SEQUENCES = 64
"""Rows of the attention maps that are drawn."""
_SMALLEST_DRAWN = 1e-6
"""Where shares of 0 are drawn on a logarithmic axis."""


def plot_circuits(found: xr.Dataset, trajectory: xr.Dataset) -> Figure:
    """Label counts, attention against leaks, attention maps of one run, and the two phases."""
    drawn = new_figure(16.0, 5.0)
    outer = drawn.add_gridspec(
        1, 4, width_ratios=(0.8, 1, 0.9, 1), left=0.085, right=0.985, top=0.88, bottom=0.13, wspace=0.36
    )
    _draw_label_counts(drawn.add_subplot(outer[0]), found)
    _draw_attention_against_leak(drawn.add_subplot(outer[1]), found)
    maps = outer[2].subgridspec(1, 3, wspace=0.1, width_ratios=(1, 1, 0.07))
    _draw_attention_maps([drawn.add_subplot(maps[place]) for place in range(3)], found, trajectory)
    _draw_phases(drawn.add_subplot(outer[3]), found)
    return drawn


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.tick_params(labelsize=8)
    axes.grid(color="0.92", linewidth=0.7)
    axes.set_axisbelow(True)


def _draw_label_counts(axes: Axes, found: xr.Dataset) -> None:
    """How many runs have each label, with binomial intervals; the successful ones filled."""
    total, place = found.sizes["run"], np.arange(len(CIRCUIT_LABELS))[::-1]
    for at, label in zip(place, CIRCUIT_LABELS, strict=True):
        of = found["label"].values == label
        count, good = int(of.sum()), int((of & found["successful"].values.astype(bool)).sum())
        share = binomial_interval(count, total)
        axes.barh(at, count, color="white", edgecolor=LABEL_COLOURS[label], height=0.7)
        axes.barh(at, good, color=LABEL_COLOURS[label], height=0.7)
        bounds = [[count - total * share.low], [total * share.high - count]]
        axes.errorbar(count, at, xerr=bounds, color="0.25", capsize=3, linewidth=1)
    axes.set_yticks(place, CIRCUIT_LABELS)
    axes.set(xlabel="runs (filled: test accuracy above .98)", xlim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    _plain(axes, f"Circuits of {total} runs")


def _draw_attention_against_leak(axes: Axes, found: xr.Dataset) -> None:
    """Attention on counting positions against the largest leak of a spurious one, by label."""
    x, y = counting_attention(found), np.maximum(largest_leak(found), _SMALLEST_DRAWN)
    for label in reversed(CIRCUIT_LABELS):
        of = (found["label"].values == label) & np.isfinite(x) & np.isfinite(y)
        if of.any():
            axes.plot(
                x[of],
                y[of],
                LABEL_MARKERS[label],
                color=LABEL_COLOURS[label],
                markersize=5,
                linestyle="none",
                alpha=0.85,
                label=label,
            )
    usual = LabelThresholds()
    axes.axhline(usual.tolerance, color="0.4", linewidth=0.8, linestyle=":")
    axes.axvline(1 - usual.elsewhere, color="0.4", linewidth=0.8, linestyle=":")
    axes.set(yscale="log", xlim=(-0.02, 1.02), ylim=(_SMALLEST_DRAWN / 2, 2), xlabel="attention on counting positions",
             ylabel="largest value share of a spurious position")  # fmt: skip
    _plain(axes, "What is attended to, and what makes a difference")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=7, loc="lower left", handletextpad=0.2)


def _draw_attention_maps(panels: list[Axes], found: xr.Dataset, trajectory: xr.Dataset) -> None:
    """Attention of one run at the start and at the end, as in VC figure 8, and its scale: of the successful runs, or
    of all, that whose correlation is the median."""
    own = np.diagonal(found["inherited"].values)
    finite = np.isfinite(own)
    able = finite & found["successful"].values.astype(bool)
    able = able if able.any() else finite
    for axes in panels:
        axes.tick_params(labelsize=7)
    if not able.any():
        panels[0].set_title("No run has attention at both ends", fontsize=9, loc="left")
        panels[-1].set_axis_off()
        return
    order = np.flatnonzero(able)[np.argsort(own[able])]
    run = int(order[(len(order) - 1) // 2])
    network = clustering_head_of(trajectory)
    tokens = reference_sequences(network.settings)
    tokens = tokens[np.linspace(0, len(tokens) - 1, min(_MAP_SEQUENCES, len(tokens))).round().astype(int)]
    maps = []
    for step in (int(trajectory["step"][0]), int(trajectory["step"][-1])):
        one = weights(trajectory, run, step)
        maps.append(network.attention(one, torch.from_numpy(tokens)).numpy())
    for axes, values, when in zip(panels[:2], maps, ("start", "end"), strict=True):
        image = axes.imshow(
            values,
            aspect="auto",
            cmap="cividis",
            vmin=0,
            vmax=max(each.max() for each in maps),
            interpolation="nearest",
        )
        if not network.settings.positions:
            axes.axvline(network.settings.sparsity - 0.5, color="white", linewidth=0.8, linestyle=":")
        axes.set_xlabel(f"position, {when}", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    drawn = panels[0].get_figure()
    assert drawn is not None  # these panels are of one
    drawn.colorbar(image, cax=panels[2], ticks=MaxNLocator(4))
    panels[1].set_yticks([])
    panels[0].set_ylabel("sequence", fontsize=9)
    seed = int(found["seed"].values[run])
    panels[0].set_title(f"Attention of seed {seed}: r = {own[run]:.2f}, the median run", fontsize=9, loc="left")


def _draw_phases(axes: Axes, found: xr.Dataset) -> None:
    """When clusters are told apart against when they form, of successful runs."""
    x, y = found["formed"].values, found["separated"].values
    good = found["successful"].values.astype(bool) & np.isfinite(x) & np.isfinite(y)
    epoch = found["epoch"].values
    last, least = float(epoch.max()), float(np.diff(epoch).min())  # a moment at 0 is drawn at the first frame after it
    for label in CIRCUIT_LABELS:
        of = good & (found["label"].values == label)
        if of.any():
            axes.plot(np.maximum(x[of], least), np.maximum(y[of], least), LABEL_MARKERS[label],
                color=LABEL_COLOURS[label],
                      markersize=5, alpha=0.85, linestyle="none", label=label)  # fmt: skip
    axes.plot([least, last], [least, last], color="0.4", linewidth=0.8, linestyle=":", label="at once")
    axes.set(xscale="log", yscale="log", xlim=(least / 1.3, last * 1.3), ylim=(least / 1.3, last * 1.3),
             xlabel="epoch at which clusters have formed", ylabel="epoch at which they are told apart")  # fmt: skip
    _plain(axes, f"Two phases, {int(good.sum())} successful runs")
    axes.legend(frameon=False, fontsize=7, loc="lower right", handletextpad=0.2)
