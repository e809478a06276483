"""Figure of a comparison of two trajectories: structures, motion, shapes, and the force
audit of a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.panels import colours, figure_panels
from analysis.plots.audit_figure import plot_audit_panels
from analysis.plots.curves import fill_interval
from analysis.plots.figure_files import (
    draw_intervals,
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)
from analysis.statistics.intervals import binomial_interval, drop_non_finite

_DISTANCES = {
    "within_first": "",
    "within_second": "",
    "between": "distances between the two",
}
"""Histograms of shape distances, and their names beside those of both sides."""
_SIDES = ("first", "second")
_DISTANCE_BINS = np.linspace(0, 1, 41).tolist()


@in_style
def plot_comparison(comparison: xr.Dataset, names: Sequence[str]) -> Figure:
    """Draw the result of `compare_trajectories`, with the force audit in a third row if
    it has one."""
    audited = "audit_cosine" in comparison
    names_of_panels = (
        figure_panels.COMPARISON if audited else figure_panels.COMPARISON[:6]
    )
    widths = [4 / 3] * len(names_of_panels)
    figure, panels = new_panels(widths, names=names_of_panels)
    _plot_structures(panels[0], panels[1], comparison)
    _plot_shape_distances(panels[2], comparison)
    _plot_curve(
        panels[3],
        comparison,
        "speed",
        "speed of the embedding",
        "speed (per step or epoch)",
    )
    _plot_curve(
        panels[4],
        comparison,
        "gradient_norm",
        "norm of gradient or force",
        "norm / largest median",
        relative=True,
    )
    _plot_curve(
        panels[5],
        comparison,
        "displacement",
        "distance from the start",
        "distance / largest median",
        relative=True,
    )
    if audited:
        audit = comparison[
            [name for name in comparison.variables if str(name).startswith("audit_")]
        ]
        plot_audit_panels(
            panels[6:],
            audit.rename(
                {name: str(name)[6:] for name in (*audit.variables, "audit_run")}
            ),
        )
        side = _SIDES.index(comparison.attrs["audited"])
        system = _systems(comparison)[side]
        one = (
            system if system not in _systems(comparison)[:side] else f"second {system}"
        )
        for panel in panels[6:]:
            panel.set_title(f"{one}: {panel.get_title()}")
    lines = [Line2D([], [], color=colour) for colour in _side_colours(comparison)]
    sides = dict(zip(_numbered(names), lines, strict=True))
    between = legend_entries(figure, panels[2:3])
    draw_legend(figure, sides | between)
    return figure


def _systems(comparison: xr.Dataset) -> list[str]:
    return [str(comparison.attrs[f"{side}_system"]) for side in _SIDES]


def _side_colours(comparison: xr.Dataset) -> list[str]:
    return colours.system_colours(_systems(comparison))


def _numbered(names: Sequence[str]) -> list[str]:
    """Names that differ, also of two runs of one file."""
    return (
        [f"{name} ({at})" for at, name in enumerate(names, 1)]
        if names[0] == names[1]
        else list(names)
    )


def _plot_structures(fractions: Axes, counts: Axes, comparison: xr.Dataset) -> None:
    """Draw the percentages of circles, and histograms of the imperfections of the other
    runs."""
    others = []
    inks = _side_colours(comparison)
    for at, side in enumerate(_SIDES):
        circle = drop_non_finite(comparison[f"{side}_circle"].values)
        if len(circle):
            percentage = 100 * np.array(
                binomial_interval(int(circle.sum()), len(circle))
            )
            fractions.bar(at, percentage[0], color=inks[at], width=0.6)
            draw_intervals(
                fractions, at, percentage, color=colours.colour("ink"), capsize=4
            )
        others.append(
            drop_non_finite(
                comparison[f"{side}_imperfections"]
                .where(comparison[f"{side}_circle"] == 0)
                .values
            )
        )
    both = np.concatenate(others)
    if both.size:
        bins = np.linspace(
            both.min() - 0.5, max(both.max() + 0.5, both.min() + 9.5), 21
        ).tolist()
        for values, colour in zip(others, inks, strict=True):
            if values.size:
                counts.hist(
                    values, bins=bins, color=colour, density=True, histtype="step"
                )
        if both.max() >= 10_000:
            counts.locator_params(axis="x", nbins=4)
    systems = _systems(comparison)
    fractions.set_xticks(range(2), systems if len(set(systems)) > 1 else _SIDES)
    fractions.set(
        xlim=(-0.7, 1.7),
        ylabel="% of runs",
        title="runs that end as circles, 95% intervals",
    )
    counts.set(
        title="grid imperfections of other runs",
        xlabel="imperfections",
        ylabel="density",
    )


def _plot_shape_distances(panel: Axes, result: xr.Dataset) -> None:
    """Draw histograms of the shape distances within and between both sides."""
    inks = (*_side_colours(result), colours.colour("ink"))
    kinds = dict(zip(_DISTANCES, inks, strict=True))
    for name, colour in kinds.items():
        values = drop_non_finite(result[name].values)
        label = _DISTANCES[name]
        if values.size:
            panel.hist(
                values,
                bins=_DISTANCE_BINS,
                histtype="step",
                color=colour,
                density=True,
                label=label,
            )
    if result.attrs.get("paired"):
        own = drop_non_finite(np.diag(result["between"].values))
        if own.size:
            panel.hist(
                own,
                bins=_DISTANCE_BINS,
                density=True,
                color=colours.colour("ink"),
                alpha=0.25,
                label="between runs with the same start",
            )
    panel.set(title="shape distance of end states", xlim=(0, 1))
    panel.set(
        xlabel="Procrustes distance, after relabelling by units", ylabel="density"
    )


def _plot_curve(
    panel: Axes,
    result: xr.Dataset,
    name: str,
    title: str,
    label: str,
    relative: bool = False,
) -> None:
    """Draw median and quartiles over runs; relative: divided by the largest median."""
    time = result["normalised_time"].values
    for side, colour in zip(_SIDES, _side_colours(result), strict=True):
        low, middle, high = result[name].sel(side=side).values
        unit = (
            np.nanmax(middle) if relative and np.nanmax(middle, initial=0) > 0 else 1.0
        )
        fill_interval(panel, time, low / unit, high / unit, colour)
        panel.plot(time, middle / unit, color=colour)
    positive = np.nan_to_num(result[name].values) > 0
    if name != "displacement" and positive.any():
        panel.set_yscale("log")
    panel.set(
        title=f"{title}, median and quartiles",
        xlabel="normalised time",
        xlim=(0, 1),
        ylabel=label,
    )
