"""Figure of the force audit of a network: cosines, R² and weights of the force fields
along its training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.forces.law_words import law_words
from analysis.output.counts import count_of
from analysis.panels import colours, figure_panels
from analysis.plots.curves import (
    plot_quartile_band,
    set_early_time_axis,
    times_of_frames,
)
from analysis.plots.figure_files import in_style, new_panels


@in_style
def plot_audit(audit: xr.Dataset, name: str) -> Figure:
    """Draw the result of `audit_forces`: medians over runs with quartiles. name: that
    of the trajectory."""
    runs = count_of(audit.sizes["run"], "run")
    title = f"{name}: force audit of {runs}, medians with quartiles"
    in_planes = "plane_cosine" in audit
    widths = [2.0] * 4 if in_planes else [4 / 3] * 3
    names = figure_panels.AUDIT[: len(widths)]
    figure, panels = new_panels(widths, title, 1.15, names)
    plot_audit_panels(panels[:3], audit)
    if in_planes:
        _plot_planes(panels[3], audit)
    return figure


def plot_audit_panels(panels: Sequence[Axes], audit: xr.Dataset) -> None:
    """Draw cosines, R² and weights of the force audit along training."""
    step, unit = times_of_frames(audit)
    law, other = colours.series_colours(2)
    reference = colours.colour("muted")
    part = audit.sel(target="gradient", part="normalised")
    update = audit["cosine"].sel(target="update", part="normalised")
    whole = audit["cosine"].sel(target="gradient", part="whole")
    plot_quartile_band(
        panels[0], step, part["cosine"], law, "law and −dL/dE, normalised"
    )
    plot_quartile_band(panels[0], step, update, other, "law and applied update")
    plot_quartile_band(
        panels[0], step, whole, reference, "law and −dL/dE with translation, scaling"
    )
    panels[0].set(title="agreement of directions", ylabel="cosine", ylim=(-1, 1))
    fields = law_words(audit).fields
    plot_quartile_band(panels[1], step, part["r_squared"], law, f"{fields} fitted")
    plot_quartile_band(
        panels[1],
        step,
        part["renamed_r_squared"],
        reference,
        f"{fields}, tokens renamed",
    )
    plot_quartile_band(
        panels[1], step, part["law_r_squared"], other, "the law, one free factor"
    )
    panels[1].set(title="fit to −dL/dE", ylabel="R²", ylim=(0, 1))
    several = colours.series_colours(2 + audit.sizes["field"])[2:]
    for field, colour in zip(audit["field"].values, several, strict=True):
        label = str(field).replace("_", " ")
        plot_quartile_band(
            panels[2],
            step,
            part["weight"].sel(field=field),
            colour,
            label,
            linestyle="--" if label.startswith("unlike") else "-",
        )
    panels[2].set(title="weight of each field in the fit", ylabel="weight")
    for panel in panels:
        _decorate(panel, step, unit)


def _plot_planes(panel: Axes, audit: xr.Dataset) -> None:
    """Draw the cosine and R² in the planes of the key frequencies, the mean over the
    planes of each run."""
    planes = audit.sel(target="gradient").mean("frequency")
    step, unit = times_of_frames(audit)
    law, other = colours.series_colours(2)
    reference = colours.colour("muted")
    plot_quartile_band(
        panel, step, planes["plane_cosine"], other, "cosine of law and −dL/dE"
    )
    fitted = f"R², {law_words(audit).fields} fitted"
    plot_quartile_band(panel, step, planes["plane_r_squared"], law, fitted)
    plot_quartile_band(
        panel, step, planes["plane_renamed_r_squared"], reference, "R², tokens renamed"
    )
    panel.set(
        title="in the planes of the key frequencies",
        ylabel="cosine, or R²",
        ylim=(-1, 1),
    )
    _decorate(panel, step, unit)


def _decorate(panel: Axes, step: np.ndarray, unit: str) -> None:
    """Draw the zero line, the axis of time and the legend."""
    panel.axhline(0, color=colours.colour("faint"), linewidth=0.8, zorder=0)
    set_early_time_axis(panel, step, unit)
    if labels := panel.get_legend_handles_labels()[1]:
        columns = 1 + (len(labels) > 3)
        panel.legend(ncols=columns)
