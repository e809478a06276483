"""The picture of structure over time: its measures, when it has formed, and one run's frequencies."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.plots.figure_files import new_figure
from analysis.statistics.survival import kaplan_meier
from analysis.structures.formation_times import STRUCTURE_MEASURES, mean_measure

COLOURS = ("#0072b2", "#d55e00")
EVENT_COLOURS = {"structure": "0.2", "circle": "#0072b2", "grid": "#d55e00", "imperfections": "#e69f00"}
"""What is drawn of what forms; more would not be told apart."""

STYLES = ("-", "--")
PANELS = ("circle_distance", "grid_distance", "imperfections", "dominant_share")


class FormationResult(NamedTuple):
    """A trajectory's name and system, what was `measured` of it and its `onsets`."""

    name: str
    system: str
    measures: xr.Dataset
    onsets: xr.Dataset


def plot_formation(seen: Sequence[FormationResult], run: int) -> Figure:
    """Means of the measures over runs with their 95% bands, shares of runs in which structure has formed, and the
    frequencies of one run (its place) of each trajectory.

    Measures of one trajectory are shown apart for runs that end as circles and others, those of two by trajectory.
    """
    drawn = new_figure(14.0, 7.4)
    halves = drawn.add_gridspec(2, 1, hspace=0.34, left=0.05, right=0.94, top=0.91, bottom=0.135)
    names = [name for name in PANELS if any(name in each.measures for each in seen)]
    panels = halves[0].subgridspec(1, len(names), wspace=0.24).subplots(squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        _draw_measure(panel, seen, name)
    lines, labels = panels[0].get_legend_handles_labels()
    lines.append(Line2D([], [], color="0.4", linestyle=":", linewidth=1))
    labels.append("1 in 100 random embeddings")
    drawn.legend(lines, labels, loc="upper center", ncols=3, frameon=False, fontsize=9)
    widths = [1.2, *(1.0 for _ in seen)]
    rest = halves[1].subgridspec(1, len(widths), wspace=0.2, width_ratios=widths).subplots(squeeze=False)[0]
    _draw_formed(rest[0], seen)
    for panel, each in zip(rest[1:], seen, strict=True):
        mesh = _draw_frequencies(panel, each, run)
    top, bottom = rest[-1].get_position().y1, rest[-1].get_position().y0
    bar = drawn.colorbar(mesh, cax=drawn.add_axes((0.95, bottom, 0.01, top - bottom)))
    bar.set_label("share of the power", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    return drawn


def _groups(seen: Sequence[FormationResult]) -> list[tuple[str, xr.Dataset]]:
    """Which runs are averaged, and what they are called."""
    if len(seen) > 1:
        return [(each.name, each.measures) for each in seen]
    found = seen[0].measures
    circle = found["circle"].values[:, -1] == 1
    both = [("runs that end as circles", found.isel(run=circle)), ("other runs", found.isel(run=~circle))]
    return [(f"{name} ({each.sizes['run']})", each) for name, each in both if each.sizes["run"]]


def _draw_measure(panel: Axes, seen: Sequence[FormationResult], name: str) -> None:
    """A measure's means of those that have it, and the level that one random embedding in a hundred is beyond."""
    for (label, found), colour in zip(_groups(seen), COLOURS, strict=False):
        if name not in found:
            panel.text(0.97, 0.97, f"not known of {label}", transform=panel.transAxes, ha="right", va="top", fontsize=8)
            continue
        moment = found["moment"].values
        means = np.array([mean_measure(found, name, at) for at in range(len(moment))])
        panel.fill_between(moment, means[:, 1], means[:, 2], color=colour, alpha=0.25, linewidth=0)
        panel.plot(moment, means[:, 0], color=colour, linewidth=1.5, label=label)
    levels = [float(each.measures["chance"].sel(measure=name)) if name in each.measures else None for each in seen]
    alike = len(set(levels)) == 1
    for level, colour in zip(levels[:1] if alike else levels, COLOURS, strict=False):
        if level is not None:
            panel.axhline(level, color="0.4" if alike else colour, linestyle=":", linewidth=1)
    panel.set(xlim=(0, 1), ylim=(0, None), xlabel="normalised time", title=STRUCTURE_MEASURES[name])
    _small(panel)


def _draw_formed(panel: Axes, seen: Sequence[FormationResult]) -> None:
    """One minus the Kaplan-Meier share of runs still waiting, for some events, a style for each trajectory."""
    for each, style in zip(seen, STYLES, strict=False):
        for event in each.onsets["event"].values:
            if event not in EVENT_COLOURS:
                continue
            here = each.onsets.sel(event=event)
            found = kaplan_meier(here["onset"].values, here["formed"].values == 1)
            told = panel.get_legend_handles_labels()[1]
            label = str(event) if event not in told else None
            x, waiting = np.append(found.time, 1.0), np.append(found.fraction, found.fraction[-1])
            colour = EVENT_COLOURS[str(event)]
            panel.step(x, 1 - waiting, where="post", color=colour, linestyle=style, linewidth=1.4, label=label)
            if event == "structure":
                low, high = (np.append(values, values[-1]) for values in (found.low, found.high))
                panel.fill_between(x, 1 - low, 1 - high, step="post", color=colour, alpha=0.12, linewidth=0)
    title = "share of runs in which it has formed"
    title += f" (dashed: {seen[1].name}; bands: 95%)" if len(seen) > 1 else ", with the 95% band of structure"
    panel.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="normalised time", title=title)
    below = (0.5, -0.15)
    panel.legend(
        fontsize=8,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=below,
        ncols=4,
        title="polygon, perfect grid and frequency are in the table",
        title_fontsize=8,
        columnspacing=0.9,
        handlelength=1.3,
    )
    _small(panel)


def _draw_frequencies(panel: Axes, each: FormationResult, run: int):
    found = each.measures.isel(run=run)
    shares = found["power_share"].transpose("frequency", "step").values
    mesh = panel.pcolormesh(
        found["moment"].values, found["frequency"].values, shares, shading="nearest", cmap="viridis", vmin=0, vmax=1
    )
    kind = "a circle" if found["circle"].values[-1] == 1 else "no circle"
    panel.set(
        xlim=(0, 1), xlabel="normalised time", ylabel="frequency k of $Z_N$",
        title=f"{each.name}: run {run} (seed {int(found['seed'])}), at the end {kind}",
    )  # fmt: skip
    if len(shares) <= 12:
        panel.set_yticks(found["frequency"].values)
    _small(panel)
    return mesh


def _small(panel: Axes) -> None:
    panel.title.set_fontsize(9)
    panel.tick_params(labelsize=8)
    panel.xaxis.label.set_fontsize(8)
    panel.yaxis.label.set_fontsize(8)
    panel.spines[["top", "right"]].set_visible(False)
