"""Figure of the edge of stability."""

import xarray as xr
from matplotlib.figure import Figure

from analysis.linearization.curvature_table import fraction_heading
from analysis.panels import figure_panels
from analysis.panels.colours import colour
from analysis.plots.curvature_figure import (
    count_of_runs,
    finish_panel,
    plot_statistic,
)
from analysis.plots.curves import in_units_of_time, loss_label
from analysis.plots.figure_files import in_style, new_panels

_CURVES = {
    "relative_sharpness": ("Hessian", "decaying"),
    "relative_preconditioned": ("preconditioned, over its limit", "fourth"),
}


@in_style
def plot_edge(result: xr.Dataset) -> Figure:
    """The result of `edge_of_stability`: the largest eigenvalues over their limits, and
    the loss."""
    result = in_units_of_time(result)
    title = f"Edge of stability: {result.attrs['model']}, {count_of_runs(result)}"
    figure, (edge, loss) = new_panels([5 / 3, 4 / 3], title, 1.1, figure_panels.EDGE)
    for name, (label, role) in _CURVES.items():
        if name == "relative_sharpness":
            label = f"{label}, {fraction_heading(result)}"
        if result[name].notnull().any():
            plot_statistic(edge, result[name], role, label)
    edge.axhline(1, color=colour("muted"), linestyle="--", label="limit")
    plot_statistic(loss, result["loss"], "train")
    what = "largest eigenvalue over its limit"
    ylabel = "fraction of the limit"
    finish_panel(edge, result, what, ylabel, log=True, columns=2)
    label = loss_label(result.attrs["system"])
    finish_panel(loss, result, "training loss", label, log=True)
    return figure
