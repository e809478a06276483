"""Figure of several measures of a run on one time axis, with its events."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.panels import colours, figure_panels
from analysis.plots.curvature_figure import step_limits
from analysis.plots.curves import loss_label
from analysis.plots.figure_files import in_style, new_panels

_WIDTH = 6
"""Of a panel, so that each has a row of its own."""


@in_style
def plot_overview(result: xr.Dataset, run: int = 0) -> Figure:
    """The result of `run_overview`: a panel for each measure, of one run and faintly of
    the others, with the drops, plateaus and spikes of this run; below them the lagged
    correlations of the changes of the first measure with those of the others."""
    names = result["name"].values.tolist()
    seed = int(result["seed"][run])
    title = f"Measures of a run: {result.attrs['system']}, seed {seed}"
    correlated = figure_panels.OVERVIEW if result.sizes["pair"] else ()
    widths = [_WIDTH] * (len(names) + len(correlated))
    figure, panels = new_panels(widths, title, 0.7, [*names, *correlated])
    steps = result["step"].values
    palette = colours.series_colours(len(names))
    for panel, name, colour in zip(panels, names, palette, strict=False):
        values = result["measure"].sel(name=name).values
        for index in [*range(len(values)), run]:
            finite = np.isfinite(values[index])
            line: dict[str, Any] = {"color": colours.colour("faint"), "linewidth": 0.5}
            if index == run:
                marker = "." if finite.sum() < 40 else ""
                line = {"color": colour, "linewidth": 1.4, "marker": marker}
            panel.plot(steps[finite], values[index][finite], **line)
        _draw_events(panel, result, run)
        label = loss_label(result.attrs["system"]) if name == "loss" else name
        panel.set(ylabel=label, xlim=step_limits(steps))
        positive = values[np.isfinite(values)]
        if positive.min() > 0 and (name == "loss" or np.ptp(np.log10(positive)) > 1.5):
            panel.set_yscale("log")
        panel.set_xlabel("step; bands: drops and plateaus, lines: spikes")
    for panel in panels[len(names) :]:
        for index, colour in enumerate(palette[1:]):
            pair = result.isel(pair=index)
            label = str(pair["pair"].values)
            panel.plot(pair["lag"], pair["correlation"], color=colour, label=label)
            for chance in (-pair["chance"], pair["chance"]):
                panel.axhline(float(chance), color=colour, linestyle=":", linewidth=0.8)
        panel.set(
            xlabel="lag of the second in frames",
            ylabel="correlation",
            ylim=(-1.05, 1.05),
        )
        panel.legend(ncols=4)
    return figure


def _draw_events(panel: Axes, result: xr.Dataset, run: int) -> None:
    if "event" not in result.dims:
        return
    for index in np.flatnonzero(result["of_run"] == run):
        event = result.isel(event=index)
        kind = str(event["event_kind"].values)
        if kind == "spike":
            colour = colours.colour("spike")
            panel.axvline(float(event["event_middle"]), color=colour, linewidth=0.8)
        elif kind in {"drop", "plateau"}:
            colour = colours.colour("drop" if kind == "drop" else "faint")
            begin, end = float(event["event_begin"]), float(event["event_end"])
            panel.axvspan(begin, end, color=colour, alpha=0.2, linewidth=0)
