"""Figure of the progress measures: losses and phases of training, measures of the
logits and weights, the delay."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.output.counts import count_of
from analysis.panels import colours, figure_panels
from analysis.plots.curves import (
    curves_caption,
    draw_survival,
    plot_metric_curves,
    plot_quartile_band,
    set_log_loss_axis,
    times_of_frames,
)
from analysis.plots.figure_files import (
    annotate_panel,
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)
from analysis.statistics.survival import kaplan_meier

_PANELS: dict[str, dict[str, str]] = {
    "loss of parts of the logits": {
        "restricted_loss": "restricted loss",
        "excluded_loss": "excluded loss",
    },
    "Fourier components": {
        "embedding_gini": "Gini, embedding",
        "map_gini": "Gini, neuron-logit map",
        "key_fraction": "share of key frequencies",
    },
    "clock or pizza": {
        "gradient_symmetricity": "gradient symmetricity",
        "distance_irrelevance": "distance irrelevance",
        "component_circularity": "circularity",
    },
    "sum of squared weights": {"squared_weights": ""},
}
"""Title of each panel, and its measures with their names, which are short enough for
two columns of a legend below a column."""

_LABELS = ("measure (fraction)", "measure (fraction)", "sum of squares")
"""Labels of the panels of components, of clocks and of weights."""


@in_style
def plot_progress(trajectory: xr.Dataset, result: xr.Dataset) -> Figure:
    """Draw the result of `measure_progress` of a trajectory: medians over runs with
    quartiles, and the grokking delay.

    The phases are drawn at their median times, in runs that have all three.
    """
    title = curves_caption(trajectory)
    figure, panels = new_panels([4 / 3] * 6, title, 1.1, figure_panels.PROGRESS)
    time, unit = times_of_frames(result)
    plot_metric_curves(panels[0], trajectory, "loss")
    panels[0].set(title="loss", xlabel=unit)
    colour = iter(colours.series_colours(9))
    for panel, (title, measures) in zip(panels[1:], _PANELS.items(), strict=False):
        for name, label in measures.items():
            plot_quartile_band(panel, time, result[name], next(colour), label)
        panel.set(title=title, xlabel=unit, xlim=(time[0], max(time[-1], time[0] + 1)))
    parts = result[["restricted_loss", "excluded_loss"]].to_dataarray()
    set_log_loss_axis(panels[1], parts.quantile((0.25, 0.75), "run").values)
    panels[1].set_ylabel("loss (nats)")
    for panel in panels[2:4]:
        panel.set(ylim=(min(0.0, panel.get_ylim()[0]), 1.03))
    for panel, label in zip(panels[2:5], _LABELS, strict=True):
        panel.set_ylabel(label)
    panels[4].set(ylim=(0, None))
    for panel in panels[:4]:
        panel.legend()
    for panel in panels[:5]:
        _mark_phases(panel, result)
    entries = legend_entries(figure)
    phases = {name: entries[name] for name in colours.PHASES if name in entries}
    if phases:
        draw_legend(figure, phases)
    _plot_delay(panels[5], result)
    return figure


def _mark_phases(panel: Axes, result: xr.Dataset) -> None:
    """Draw a band for each phase, from the median of its beginning to that of its
    end."""
    phases = result[["begin", "end"]].transpose("run", "phase") / result.attrs["unit"]
    whole = phases.isel(run=np.isfinite(phases["end"].values).all(axis=1)).median("run")
    for phase in colours.PHASES:
        begin, end = (float(whole[name].sel(phase=phase)) for name in ("begin", "end"))
        if end > begin:
            panel.axvspan(
                begin,
                end,
                color=colours.colour(phase),
                alpha=colours.band_opacity(),
                linewidth=0,
                zorder=0,
                label=phase,
            )


def _plot_delay(panel: Axes, result: xr.Dataset) -> None:
    """Draw the fraction of the runs that have memorised and have not yet generalised,
    with its 95% interval."""
    delay = result["delay"].values / result.attrs["unit"]
    finite = np.isfinite(delay)
    unit = result.attrs["unit_of_time"]
    panel.set(
        title=(
            f"not yet generalised, of {count_of(finite.sum(), 'run')} that memorised"
            " (Kaplan-Meier, 95%)"
        ),
        ylim=(0, 1.03),
    )
    panel.set(
        xlabel=f"{unit}s since a training accuracy of .99", ylabel="fraction of runs"
    )
    if not finite.any():
        annotate_panel(panel, "no run has memorised")
        return
    curve = kaplan_meier(delay[finite], result["observed"].values[finite])
    end = max(delay[finite].max(), 1)
    draw_survival(panel, curve, colours.colour("ink"), end)
    panel.set_xlim(0, end)
