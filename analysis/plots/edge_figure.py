"""Figure of the edge of stability."""

import xarray as xr
from matplotlib.figure import Figure

from analysis.linearization.curvature_table import median_interval
from analysis.panels import colours
from analysis.plots.curvature_figure import (
    colour_of,
    plot_statistic,
    step_limits,
    title_panel,
    use_log_axis,
)
from analysis.plots.figure_files import in_style, new_panels

_CURVES = {
    "relative_sharpness": ("Hessian, over 2/lr", "decaying"),
    "relative_preconditioned": ("preconditioned by Adam, over its limit", "fourth"),
}


@in_style
def plot_edge(result: xr.Dataset) -> Figure:
    """The result of `edge_of_stability`: the largest eigenvalues over their limits, and
    the loss."""
    runs = result.sizes["run"]
    title = f"Edge of stability: {result.attrs['model']}, " + (
        f"{runs} runs" if runs > 1 else "one run"
    )
    figure, (edge, loss) = new_panels([5 / 3, 4 / 3], title, height=1.1)
    for name, (label, role) in _CURVES.items():
        if result[name].notnull().any():
            plot_statistic(edge, result, name, colour_of(role), label, median_interval)
    edge.axhline(1, color=colours.colour("muted"), linestyle="--", label="limit")
    plot_statistic(loss, result, "loss", colour_of("third"), "loss", median_interval)
    edge.set(ylabel="fraction of the limit")
    loss.set(ylabel="loss")
    for panel in (edge, loss):
        panel.set(xlabel="step", xlim=step_limits(result["step"].values))
        use_log_axis(panel)
    edge.legend(ncols=2, loc="upper center")
    title_panel(edge, result, "largest eigenvalue over its limit", "medians")
    title_panel(loss, result, "training loss", "medians")
    return figure
