"""Figure of structure over time: its measures, when it forms, and the frequencies of one run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.plots.figure_files import new_figure, use_small_fonts
from analysis.statistics.survival import kaplan_meier
from analysis.structures.formation_table import FormationResult, mean_structure_measure
from analysis.structures.formation_times import STRUCTURE_MEASURES

_COLOURS = ("#0072b2", "#d55e00")
_EVENT_COLOURS = {"structure": "0.2", "circle": "#0072b2", "grid": "#d55e00", "imperfections": "#e69f00"}
"""The events that are drawn; more could not be distinguished."""

_STYLES = ("-", "--")
_PANELS = ("circle_distance", "grid_distance", "imperfections", "dominant_fraction")


def plot_formation(results: Sequence[FormationResult], run: int) -> Figure:
    """Draw means of the measures over runs with 95% bands, fractions of runs in which structure has formed, and the
    frequencies of one run (its index) of each trajectory.

    The means are of runs that end as circles and of other runs, or if there are two trajectories, of each.
    """
    drawn = new_figure(14.0, 7.4)
    halves = drawn.add_gridspec(2, 1, hspace=0.34, left=0.05, right=0.94, top=0.91, bottom=0.135)
    names = [name for name in _PANELS if any(name in each.measures for each in results)]
    panels = halves[0].subgridspec(1, len(names), wspace=0.24).subplots(squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        _plot_measure(panel, results, name)
    lines, labels = panels[0].get_legend_handles_labels()
    lines.append(Line2D([], [], color="0.4", linestyle=":", linewidth=1))
    labels.append("1 in 100 random embeddings")
    drawn.legend(lines, labels, loc="upper center", ncols=3, frameon=False, fontsize=9)
    widths = [1.2, *(1.0 for _ in results)]
    rest = halves[1].subgridspec(1, len(widths), wspace=0.2, width_ratios=widths).subplots(squeeze=False)[0]
    _plot_fractions(rest[0], results)
    for panel, each in zip(rest[1:], results, strict=True):
        mesh = _plot_frequencies(panel, each, run)
    box = rest[-1].get_position()
    bar = drawn.colorbar(mesh, cax=drawn.add_axes((0.95, box.y0, 0.01, box.height)))
    bar.set_label("fraction of the power", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    return drawn


def _groups(results: Sequence[FormationResult]) -> list[tuple[str, xr.Dataset]]:
    """The names of the groups of runs that are averaged, and their measures."""
    if len(results) > 1:
        return [(each.name, each.measures) for each in results]
    found = results[0].measures
    circle = found["circle"].values[:, -1] == 1
    both = [("runs that end as circles", found.isel(run=circle)), ("other runs", found.isel(run=~circle))]
    return [(f"{name} ({each.sizes['run']})", each) for name, each in both if each.sizes["run"]]


def _plot_measure(panel: Axes, results: Sequence[FormationResult], name: str) -> None:
    """Draw the means of a measure, and the level that one random embedding in a hundred is beyond."""
    for (label, found), colour in zip(_groups(results), _COLOURS, strict=False):
        if name not in found:
            panel.text(0.97, 0.97, f"not known of {label}", transform=panel.transAxes, ha="right", va="top", fontsize=8)
            continue
        moment = found["moment"].values
        means = np.array([mean_structure_measure(found, name, at) for at in range(len(moment))])
        panel.fill_between(moment, means[:, 1], means[:, 2], color=colour, alpha=0.25, linewidth=0)
        panel.plot(moment, means[:, 0], color=colour, linewidth=1.5, label=label)
    levels = [float(each.measures["chance"].sel(measure=name)) if name in each.measures else None for each in results]
    alike = len(set(levels)) == 1
    for level, colour in zip(levels[:1] if alike else levels, _COLOURS, strict=False):
        if level is not None:
            panel.axhline(level, color="0.4" if alike else colour, linestyle=":", linewidth=1)
    panel.set(xlim=(0, 1), ylim=(0, None), xlabel="normalised time", title=STRUCTURE_MEASURES[name])
    use_small_fonts(panel)


def _plot_fractions(panel: Axes, results: Sequence[FormationResult]) -> None:
    """Draw the Kaplan-Meier estimate of the fraction of runs with each event, with a line style per trajectory."""
    for each, style in zip(results, _STYLES, strict=False):
        for event in each.onsets["event"].values:
            if event not in _EVENT_COLOURS:
                continue
            here = each.onsets.sel(event=event)
            found = kaplan_meier(here["onset"].values, here["formed"].values == 1)
            labels = panel.get_legend_handles_labels()[1]
            label = str(event) if event not in labels else None
            x, waiting = np.append(found.time, 1.0), np.append(found.fraction, found.fraction[-1])
            colour = _EVENT_COLOURS[str(event)]
            panel.step(x, 1 - waiting, where="post", color=colour, linestyle=style, linewidth=1.4, label=label)
            if event == "structure":
                low, high = (np.append(values, values[-1]) for values in (found.low, found.high))
                panel.fill_between(x, 1 - low, 1 - high, step="post", color=colour, alpha=0.12, linewidth=0)
    title = "fraction of runs in which each has formed"
    title += f" (dashed: {results[1].name}; bands: 95%)" if len(results) > 1 else ", with the 95% band of structure"
    panel.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="normalised time", title=title)
    panel.legend(
        title="polygon, perfect grid and frequency are in the table", title_fontsize=8, fontsize=8, frameon=False,
        loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4, columnspacing=0.9, handlelength=1.3,
    )  # fmt: skip
    use_small_fonts(panel)


def _plot_frequencies(panel: Axes, each: FormationResult, run: int) -> QuadMesh:
    """Draw the fractions of the power at each frequency over time."""
    found = each.measures.isel(run=run)
    fractions = found["power_fraction"].transpose("frequency", "step").values
    mesh = panel.pcolormesh(
        found["moment"].values, found["frequency"].values, fractions, shading="nearest", cmap="viridis", vmin=0, vmax=1
    )
    kind = "a circle" if found["circle"].values[-1] == 1 else "no circle"
    panel.set(
        xlim=(0, 1), xlabel="normalised time", ylabel="frequency k of $Z_N$",
        title=f"{each.name}: run {run} (seed {int(found['seed'])}), at the end {kind}",
    )  # fmt: skip
    if len(fractions) <= 12:
        panel.set_yticks(found["frequency"].values)
    use_small_fonts(panel)
    return mesh
