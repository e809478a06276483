"""Figure of the spectra of weights along training."""

import numpy as np
import xarray as xr
from matplotlib import rcParams
from matplotlib.figure import Figure

from analysis.panels import figure_panels
from analysis.panels.colours import layer_labels, ordered_colours
from analysis.plots.curvature_figure import step_limits, use_log_axis
from analysis.plots.curves import (
    in_units_of_time,
    largest_layers,
    layer_looks,
    plot_quartile_band,
    time_label,
    widths_of_coinciding,
)
from analysis.plots.figure_files import draw_legend, in_style, new_panels

_PANELS = {
    "effective_rank": ("effective rank", "rank"),
    "distance": ("distance from the start", "distance"),
    "update_alignment": ("cosine of successive changes", "cosine"),
}
"""Titles of the panels, and the labels of their axes."""


_MOST_BANDS = 4
"""Largest number of layers whose cosines have bands. More bands would overlap."""


@in_style
def plot_weight_spectra(result: xr.Dataset) -> Figure:
    """The result of `weight_spectra`: ranks, distances and alignments of the eight
    layers that move farthest, and the singular values of the layer with the largest
    rank."""
    runs = result.sizes["run"]
    words = f"medians and quartiles of {runs} runs" if runs > 1 else "1 run"
    title = f"Spectra of the weights: {result.attrs['system']}, {words}"
    result = in_units_of_time(result)
    figure, panels = new_panels([2] * 4, title, 1.1, figure_panels.WEIGHT_SPECTRA)
    measured = np.flatnonzero(result["norm"].notnull().any(["run", "layer"]))
    last = result.isel(step=measured[-1] if measured.size else -1).median("run")
    layers = result["layer"].values.tolist()
    drawn = largest_layers(last["distance"].values)
    labels = np.array(layer_labels(layers))
    looks = layer_looks(labels[drawn].tolist())
    widths = rcParams["lines.linewidth"] * widths_of_coinciding(len(drawn))
    step = result["step"].values
    for panel, variable in zip(panels, _PANELS, strict=False):
        title, ylabel = _PANELS[variable]
        band = variable != "update_alignment" or len(drawn) <= _MOST_BANDS
        for place, look, width in zip(drawn, looks, widths, strict=True):
            values = result[variable].isel(layer=place)
            plot_quartile_band(panel, step, values, band=band, linewidth=width, **look)
        medians = "" if band or runs == 1 else ", medians"
        panel.set(title=f"{title}{medians}", ylabel=ylabel)
    panels[2].set_ylim(min(panels[2].dataLim.y0, 0) - 0.05, 1.05)
    largest = int(np.argmax(last["effective_rank"].fillna(0).values))
    spectrum = result["singular_value"].isel(layer=largest).median("run")
    spectrum = spectrum.dropna("value", how="all")
    shades = ordered_colours(spectrum.sizes["value"])
    for values, shade in zip(spectrum.transpose("value", "step"), shades, strict=True):
        panels[3].plot(step, values, color=shade)
    use_log_axis(panels[3])
    panels[3].set(
        ylabel="singular value",
        title=(
            f"singular values of {labels[largest]}, largest dark"
            f"{'; medians' if runs > 1 else ''}"
        ),
    )
    for panel in panels:
        panel.set(xlabel=time_label(result), xlim=step_limits(step))
    draw_legend(figure)
    return figure
