"""Figure of the dimension and similarity of activations along training."""

import xarray as xr
from matplotlib.figure import Figure

from analysis.output.counts import count_of
from analysis.panels.colours import named_colours
from analysis.plots.curvature_figure import step_limits
from analysis.plots.curves import (
    in_units_of_time,
    plot_quartile_band,
    time_label,
)
from analysis.plots.figure_files import draw_legend, in_style, new_panels

_PANELS = {
    "participation_ratio": "participation ratio",
    "cka_to_last": "CKA with the last frame",
    "procrustes_to_last": "Procrustes distance from the last frame",
    "cka_between_runs": "CKA between runs",
}

_NAMES = {
    "participation_ratio": "dimension",
    "cka_to_last": "cka",
    "procrustes_to_last": "procrustes",
    "cka_between_runs": "runs",
}
"""Names of the panels."""


@in_style
def plot_representations(result: xr.Dataset) -> Figure:
    """The result of `representation_measures`: medians and quartiles over runs, a curve
    for each layer."""
    result = in_units_of_time(result)
    runs = result.sizes["run"]
    title = f"Activations on the probe: {count_of(runs, 'run')}"
    if runs > 1:
        title += ", medians and quartiles"
    of_panels = {**_PANELS}
    if runs == 1:
        del of_panels["cka_between_runs"]
    figure, panels = new_panels(
        [4 / 3 if runs == 1 else 2] * len(of_panels),
        title,
        1.1,
        [_NAMES[name] for name in of_panels],
    )
    names = result["layer"].values.tolist()
    step = result["step"].values
    for panel, (variable, label) in zip(panels, of_panels.items(), strict=True):
        for name, colour in zip(names, named_colours(names), strict=True):
            values = result[variable].sel(layer=name)
            plot_quartile_band(panel, step, values, colour, name)
        panel.set(xlabel=time_label(result), ylabel=label, xlim=step_limits(step))
        if variable.startswith("cka"):
            panel.set_ylim(-0.03, 1.03)
    draw_legend(figure)
    return figure
