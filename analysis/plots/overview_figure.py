"""Figure of several measures of a run on one time axis, with its events."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.panels import colours, figure_panels
from analysis.plots.curvature_figure import step_limits
from analysis.plots.curves import in_units_of_time, loss_label, time_label
from analysis.plots.figure_files import (
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)

_WIDTH = 6
"""Of a panel, so that each has a row of its own."""

_QUANTITIES = {
    "llc": "learning coefficient",
    "rank": "effective rank",
    "formation": "norm ratio",
    "gradient": "norm of the gradient",
    "force": "norm of the force",
    "speed": "speed of the embedding",
}
"""Names of the measures that differ from those of the option."""


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
    unit = result.attrs.get("unit", 1.0)
    result = in_units_of_time(result)
    steps = result["step"].values
    palette = colours.series_colours(len(names))
    for panel, name, colour in zip(panels, names, palette, strict=False):
        values = result["measure"].sel(name=name).values
        if name == "loss":
            colour = colours.colour("train")
        for index in [*range(len(values)), run]:
            finite = np.isfinite(values[index])
            line: dict[str, Any] = {
                "color": colours.colour("muted"),
                "linewidth": 0.6,
                "alpha": 0.7,
                "label": "other runs",
            }
            if index == run:
                marker = "." if finite.sum() < 40 else ""
                line = {"color": colour, "linewidth": 1.4, "marker": marker}
            panel.plot(steps[finite], values[index][finite], **line)
        _draw_events(panel, result, run, unit)
        label = _word(name)
        if name == "loss":
            label = loss_label(result.attrs["system"], "training")
        panel.set(ylabel=label, xlabel=time_label(result), xlim=step_limits(steps))
        positive = values[np.isfinite(values)]
        if positive.min() > 0 and (name == "loss" or np.ptp(np.log10(positive)) > 1.5):
            panel.set_yscale("log")
    for panel in panels[len(names) :]:
        for index, colour in enumerate(palette[1:]):
            pair = result.isel(pair=index)
            label = ", ".join(map(_word, str(pair["pair"].values).split(", ")))
            panel.plot(pair["lag"], pair["correlation"], color=colour, label=label)
            for chance in (-pair["chance"], pair["chance"]):
                panel.axhline(float(chance), color=colour, linestyle=":")
        panel.set(
            title="changes of two measures; dotted: 95% by chance",
            xlabel="lag of the second measure behind the first (frames)",
            ylabel="rank correlation",
            ylim=(-1.05, 1.05),
        )
        panel.legend(ncols=4)
    draw_legend(figure, legend_entries(figure, panels[: len(names)]))
    return figure


def _word(name: str) -> str:
    """The quantity of a measure."""
    return _QUANTITIES.get(name, name.replace("_", " "))


def _draw_events(panel: Axes, result: xr.Dataset, run: int, unit: float) -> None:
    """Draw the events of the loss of a run. unit: of time, in steps."""
    if "event" not in result.dims:
        return
    for index in np.flatnonzero(result["of_run"] == run):
        event = result.isel(event=index)
        kind = str(event["event_kind"].values)
        if kind == "spike":
            colour = colours.colour("spike")
            at = float(event["event_middle"]) / unit
            panel.axvline(at, color=colour, linewidth=0.8, label=kind)
        elif kind in {"drop", "plateau"}:
            colour = colours.colour("drop" if kind == "drop" else "band")
            begin, end = (
                float(event[f"event_{name}"]) / unit for name in ("begin", "end")
            )
            opacity = colours.band_opacity() if kind == "drop" else 1.0
            panel.axvspan(
                begin, end, color=colour, alpha=opacity, linewidth=0, label=kind
            )
