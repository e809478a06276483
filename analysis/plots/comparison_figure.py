"""Figure of a comparison of two trajectories: structures, motion, shapes, and the force audit of a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.plots.figure_files import draw_intervals, new_figure, use_small_fonts
from analysis.statistics.intervals import binomial_interval

_SIDE_COLOURS = ("#1b6ca8", "#d1662f")
_DISTANCE_BINS = np.linspace(0, 1, 41).tolist()
_FIELD_COLOURS = ("#2a7f4f", "#c23b3b", "#7a5ea8", "#8a6d3b")


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
        _plot_audit(panels[2], comparison)
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


def _plot_audit(panels: Sequence[Axes], found: xr.Dataset) -> None:
    """Draw cosines, R² and weights of the force audit along training."""
    step = found["audit_step"].values
    part = found.sel(audit_target="gradient", audit_part="normalised")
    update = found["audit_cosine"].sel(audit_target="update", audit_part="normalised")
    whole = found["audit_cosine"].sel(audit_target="gradient", audit_part="whole")
    _plot_band(panels[0], step, part["audit_cosine"], "#1b6ca8", "law and -dL/dE")
    _plot_band(panels[0], step, update, "#d1662f", "law and applied update")
    _plot_band(panels[0], step, whole, "0.5", "law and -dL/dE, with shift and scaling")
    panels[0].set(title="audit: cosine", ylim=(-1, 1))
    _plot_band(panels[1], step, part["audit_r_squared"], "#1b6ca8", "four fields fitted")
    _plot_band(panels[1], step, part["audit_renamed_r_squared"], "0.5", "four fields, tokens renamed")
    _plot_band(panels[1], step, part["audit_law_r_squared"], "#2a7f4f", "the law, one free factor")
    panels[1].set(title="audit: R² of -dL/dE", ylim=(0, 1))
    for field, colour in zip(found["audit_field"].values, _FIELD_COLOURS, strict=True):
        label = str(field).replace("_", " ")
        _plot_band(panels[2], step, part["audit_weight"].sel(audit_field=field), colour, label)
    panels[2].set(title="audit: weight of each field in the fit")
    for panel in panels:
        panel.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        panel.set_xscale("symlog", linthresh=max(1, step[1] if len(step) > 1 else 1))
        panel.set_xlabel("step")
        panel.set_xlim(0, max(step[-1], 1))
        if labels := panel.get_legend_handles_labels()[1]:
            ncols = 1 + (len(labels) > 3)
            panel.legend(fontsize=7, frameon=False, ncols=ncols, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def _plot_band(panel: Axes, step: np.ndarray, values: xr.DataArray, colour: str, label: str) -> None:
    """Draw the median over runs with quartiles."""
    by_run = values.transpose("audit_run", "audit_step").values
    some = np.isfinite(by_run).any(axis=0)
    if not some.any():
        return
    low, middle, high = np.nanquantile(by_run[:, some], (0.25, 0.5, 0.75), axis=0)
    panel.fill_between(step[some], low, high, color=colour, alpha=0.18, linewidth=0)
    panel.plot(step[some], middle, color=colour, linewidth=1.3, label=label)
