"""Figure of a comparison of two trajectories: structures, motion, shapes, and the force audit of a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.plots.audit_figure import plot_audit_panels
from analysis.plots.figure_files import draw_intervals, new_figure, use_small_fonts
from analysis.statistics.intervals import binomial_interval

_SIDE_COLOURS = ("#1b6ca8", "#d1662f")
_DISTANCE_BINS = np.linspace(0, 1, 41).tolist()


def plot_comparison(comparison: xr.Dataset, names: Sequence[str]) -> Figure:
    """Draw the result of `compare_trajectories`, with the force audit in a third row if it has one."""
    audited = "audit_cosine" in comparison
    figure = new_figure(11, 10.6 if audited else 7.0)
    panels = figure.subplots(3 if audited else 2, 3)
    _plot_structures(panels[0, 0], panels[0, 1], comparison)
    _plot_shape_distances(panels[0, 2], comparison)
    _plot_curve(panels[1, 0], comparison, "speed", "speed of the embedding", relative=False)
    _plot_curve(panels[1, 1], comparison, "gradient_norm", "norm of gradient or force / largest", relative=True)
    _plot_curve(panels[1, 2], comparison, "displacement", "distance from the start / largest", relative=True)
    if audited:
        audit = comparison[[name for name in comparison.variables if str(name).startswith("audit_")]]
        plot_audit_panels(panels[2], audit.rename({name: str(name)[6:] for name in (*audit.variables, "audit_run")}))
    use_small_fonts(*panels.flat, title=10)
    lines = [Line2D([], [], color=colour) for colour in _SIDE_COLOURS]
    figure.legend(lines, names, loc="upper center", ncols=2, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    return figure


def _plot_structures(fractions: Axes, counts: Axes, comparison: xr.Dataset) -> None:
    """Draw the percentages of circles, and histograms of the imperfections of the other runs."""
    others = []
    for at, side in enumerate(("first", "second")):
        circle = _finite(comparison[f"{side}_circle"].values)
        if len(circle):
            percentage = 100 * np.array(binomial_interval(int(circle.sum()), len(circle)))
            fractions.bar(at, percentage[0], color=_SIDE_COLOURS[at], width=0.6)
            draw_intervals(fractions, at, percentage, color="0.2", capsize=4, linewidth=1)
        others.append(_finite(comparison[f"{side}_imperfections"].where(comparison[f"{side}_circle"] == 0).values))
    both = np.concatenate(others)
    if both.size:
        bins = np.linspace(both.min() - 0.5, max(both.max() + 0.5, both.min() + 9.5), 21).tolist()
        for values, colour in zip(others, _SIDE_COLOURS, strict=True):
            if values.size:
                counts.hist(values, bins=bins, color=colour, alpha=0.6, density=True)
    fractions.set_xticks([0, 1], ["first", "second"])
    fractions.set(xlim=(-0.7, 1.7), ylabel="%", title="circles, 95% interval")
    counts.set(title="imperfections of other runs", xlabel="imperfections", ylabel="density")


def _finite(values: np.ndarray) -> np.ndarray:
    """The finite ones of some values, (value,)."""
    return values[np.isfinite(values)]


def _plot_shape_distances(panel: Axes, found: xr.Dataset) -> None:
    """Draw histograms of the shape distances within and between both sides."""
    kinds = {"within_first": _SIDE_COLOURS[0], "within_second": _SIDE_COLOURS[1], "between": "0.35"}
    for name, colour in kinds.items():
        values, label = _finite(found[name].values), name.replace("_", " ")
        if values.size:
            panel.hist(values, bins=_DISTANCE_BINS, histtype="step", color=colour, density=True, label=label)
    if found.attrs.get("paired"):
        own = _finite(np.diag(found["between"].values))
        if own.size:
            panel.hist(own, bins=_DISTANCE_BINS, density=True, color="0.35", alpha=0.25, label="same start")
    panel.set(title="shape distance of end states", xlim=(0, 1))
    panel.set(xlabel="Procrustes, relabelled by units", ylabel="density")
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=7, frameon=False, loc="upper center")


def _plot_curve(panel: Axes, found: xr.Dataset, name: str, title: str, relative: bool) -> None:
    """Draw median and quartiles over runs; relative: divided by the largest median."""
    time = found["normalised_time"].values
    for side, colour in zip(("first", "second"), _SIDE_COLOURS, strict=True):
        low, middle, high = found[name].sel(side=side).values
        unit = np.nanmax(middle) if relative and np.nanmax(middle, initial=0) > 0 else 1.0
        panel.fill_between(time, low / unit, high / unit, color=colour, alpha=0.2, linewidth=0)
        panel.plot(time, middle / unit, color=colour, linewidth=1.4)
    positive = np.nan_to_num(found[name].values) > 0
    if name != "displacement" and positive.any():
        panel.set_yscale("log")
    panel.set(title=title, xlabel="normalised time", xlim=(0, 1))
