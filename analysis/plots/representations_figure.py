"""Figure of the dimension and similarity of activations along training."""

import xarray as xr
from matplotlib.figure import Figure

from analysis.panels.colours import named_colours
from analysis.plots.curvature_figure import step_limits
from analysis.plots.curves import plot_quartile_band
from analysis.plots.figure_files import in_style, new_panels

_PANELS = {
    "participation_ratio": "participation ratio",
    "cka_to_last": "CKA with the last frame",
    "procrustes_to_last": "Procrustes distance from the last frame",
    "cka_between_runs": "CKA between runs",
}


@in_style
def plot_representations(result: xr.Dataset) -> Figure:
    """The result of `representation_measures`: medians and quartiles over runs, a curve
    for each layer."""
    title = f"Activations on the probe: {result.sizes['run']} runs"
    figure, panels = new_panels([4 / 3] * 4, title, height=1.1)
    names = result["layer"].values.tolist()
    step = result["step"].values
    for panel, (variable, label) in zip(panels, _PANELS.items(), strict=True):
        for name, colour in zip(names, named_colours(names), strict=True):
            values = result[variable].sel(layer=name)
            plot_quartile_band(panel, step, values, colour, name)
        panel.set(xlabel="step", ylabel=label, xlim=step_limits(step))
        if variable.startswith("cka"):
            panel.set_ylim(-0.03, 1.03)
    panels[0].legend()
    return figure
