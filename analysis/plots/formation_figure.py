"""Figure of structure over time: its measures, when it forms, and the frequencies of
one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.panels import colours, figure_panels
from analysis.plots.curves import fill_interval
from analysis.plots.figure_files import (
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)
from analysis.statistics.survival import kaplan_meier
from analysis.structures.formation_table import FormationResult, mean_structure_measure
from analysis.structures.formation_times import STRUCTURE_MEASURES, chance_levels

_EVENTS = ("structure", "circle", "grid", "imperfections")
"""The events that are drawn; more could not be distinguished."""

_STYLES = ("-", "--")
_PANELS = {
    "circle_distance": "distance",
    "grid_distance": "distance",
    "imperfections": "imperfections",
    "dominant_fraction": "fraction of the power",
}
"""The measures that are drawn, and the labels of their axes."""


@in_style
def plot_formation(results: Sequence[FormationResult], run: int) -> Figure:
    """Draw means of the measures over runs with 95% bands, fractions of runs in which
    structure has formed, and the frequencies of one run (its index) of each trajectory.

    The means are of runs that end as circles and of other runs, or if there are two
    trajectories, of each."""
    *measures, onsets, frequencies = figure_panels.FORMATION
    names = [
        name for name in measures if any(name in result.measures for result in results)
    ]
    widths = [4 / len(names)] * len(names) + [4 / (1 + len(results))] * (
        1 + len(results)
    )
    fields = [onsets] + [frequencies] * len(results)
    drawn, panels = new_panels(widths, height=1.2, names=[*names, *fields])
    for panel, name in zip(panels, names, strict=False):
        _plot_measure(panel, results, name)
    rest = panels[len(names) :]
    _plot_fractions(rest[0], results)
    if rest[0].get_legend_handles_labels()[1]:
        rest[0].legend()
    entries = legend_entries(drawn, panels[: len(names)])
    entries["1 in 100 by chance"] = Line2D(
        [], [], color=colours.colour("muted"), linestyle=":"
    )
    draw_legend(drawn, entries)
    for panel, result in zip(rest[1:], results, strict=True):
        mesh = _plot_frequencies(panel, result, run)
    rest[-1].figure.colorbar(mesh, ax=rest[-1], label="fraction of the power")
    for panel in panels:
        panel.xaxis.set_major_formatter("{x:g}")
    return drawn


def _group_colours(results: Sequence[FormationResult]) -> list[str]:
    return colours.system_colours([result.system for result in results])


def _groups(results: Sequence[FormationResult]) -> list[tuple[str, xr.Dataset]]:
    """The names of the groups of runs that are averaged, and their measures."""
    if len(results) > 1:
        return [(result.name, result.measures) for result in results]
    result = results[0].measures
    circle = result["circle"].values[:, -1] == 1
    both = [
        ("end as circles", result.isel(run=circle)),
        ("other runs", result.isel(run=~circle)),
    ]
    return [
        (f"{name} ({item.sizes['run']})", item)
        for name, item in both
        if item.sizes["run"]
    ]


def _plot_measure(panel: Axes, results: Sequence[FormationResult], name: str) -> None:
    """Draw the means of a measure, and the median over runs of the level that it exceeds
    by chance in one run of a hundred."""
    of_groups = _group_colours(results)
    for (label, result), colour in zip(_groups(results), of_groups, strict=False):
        if name not in result:
            panel.text(
                0.97,
                0.97,
                f"not known for {label}",
                transform=panel.transAxes,
                ha="right",
                va="top",
            )
            continue
        moment = result["moment"].values
        means = np.array(
            [mean_structure_measure(result, name, at) for at in range(len(moment))]
        )
        fill_interval(panel, moment, means[:, 1], means[:, 2], colour)
        panel.plot(moment, means[:, 0], color=colour, label=label)
    levels = [
        float(np.median(chance_levels(result.measures, name)))
        if name in result.measures
        else None
        for result in results
    ]
    alike = len(set(levels)) == 1
    for level, colour in zip(levels[:1] if alike else levels, of_groups, strict=False):
        if level is not None:
            panel.axhline(
                level, color=colours.colour("muted") if alike else colour, linestyle=":"
            )
    panel.set(
        xlim=(0, 1),
        ylim=(0, None),
        xlabel="normalised time",
        xticks=(0, 0.5, 1),
        ylabel=_PANELS[name],
        title=STRUCTURE_MEASURES[name],
    )


def _plot_fractions(panel: Axes, results: Sequence[FormationResult]) -> None:
    """Draw the Kaplan-Meier estimate of the fraction of runs with each event, with a
    line style per trajectory."""
    for result, style in zip(results, _STYLES, strict=False):
        for event in result.onsets["event"].values:
            if event not in _EVENTS:
                continue
            here = result.onsets.sel(event=event)
            meier = kaplan_meier(here["onset"].values, here["formed"].values == 1)
            labels = panel.get_legend_handles_labels()[1]
            label = str(event) if event not in labels else None
            x = np.append(meier.time, 1.0)
            waiting = np.append(meier.fraction, meier.fraction[-1])
            inks = [colours.colour("ink"), *colours.series_colours(3)]
            colour = inks[_EVENTS.index(str(event))]
            panel.step(
                x, 1 - waiting, where="post", color=colour, linestyle=style, label=label
            )
            if event == "structure":
                low, high = (
                    np.append(values, values[-1]) for values in (meier.low, meier.high)
                )
                look: dict[str, Any] = {
                    "facecolor": colour,
                    "alpha": colours.interval_opacity(),
                    "linewidth": 0,
                }
                if style != "-":
                    look = {
                        "facecolor": "none",
                        "edgecolor": colours.colour("muted"),
                        "hatch": "////",
                        "linewidth": 0.6,
                    }
                name = result.name if len(results) > 1 else "structure"
                panel.fill_between(
                    x,
                    1 - low,
                    1 - high,
                    step="post",
                    label=f"95%, {name}",
                    **look,
                )
    title = "runs in which each has formed"
    if len(results) > 1:
        title += f" (dashed: {results[1].name})"
    panel.set(
        xlim=(0, 1),
        ylim=(0, 1.02),
        xlabel="normalised time",
        xticks=(0, 0.5, 1),
        ylabel="fraction of runs",
        title=title,
    )


def _plot_frequencies(panel: Axes, item: FormationResult, run: int) -> QuadMesh:
    """Draw the fractions of the power at each frequency over time."""
    result = item.measures.isel(run=run)
    fractions = result["power_fraction"].transpose("frequency", "step").values
    mesh = panel.pcolormesh(
        result["moment"].values,
        result["frequency"].values,
        fractions,
        shading="nearest",
        cmap=colours.QUANTITY_MAP,
        vmin=0,
        vmax=1,
    )
    kind = "circle" if result["circle"].values[-1] == 1 else "no circle"
    panel.set(
        xlim=(0, 1),
        xlabel="normalised time",
        xticks=(0, 0.5, 1),
        ylabel="frequency k of $Z_N$",
        title=f"{item.name}, seed {int(result['seed'])}: {kind} at the end",
    )
    if len(fractions) <= 12:
        panel.set_yticks(result["frequency"].values)
    return mesh
