"""Figure of the noise of gradients along training."""

import xarray as xr
from matplotlib.figure import Figure

from analysis.panels import figure_panels
from analysis.plots.curvature_figure import (
    count_of_runs,
    finish_panel,
    plot_statistic,
)
from analysis.plots.curves import in_units_of_time
from analysis.plots.figure_files import in_style, new_panels

_PANELS = (
    (
        "noise scale",
        "noise scale (examples)",
        {"noise_scale": ("noise scale", "fourth")},
        True,
    ),
    (
        "size of noise and gradient",
        "squared norm",
        {
            "noise_trace": ("trace of the noise", "growing"),
            "squared_gradient": ("squared gradient", "decaying"),
        },
        True,
    ),
    (
        "effective rank of the noise",
        "effective rank",
        {"noise_rank": ("rank", "growing")},
        False,
    ),
    (
        "along the Hessian's leading eigenvectors",
        "fraction of the whole",
        {
            "noise_along_hessian": ("noise", "growing"),
            "gradient_along_hessian": ("gradient", "decaying"),
        },
        False,
    ),
)
"""Title, quantity, curves with their labels and colours, and whether the axis is
logarithmic."""


@in_style
def plot_gradient_noise(result: xr.Dataset) -> Figure:
    """The result of `gradient_noise`: noise scale, sizes, rank, and alignment with the
    Hessian."""
    title = f"Noise of the gradients: {result.attrs['model']}, {count_of_runs(result)}"
    figure, panels = new_panels([2] * 4, title, 1.1, figure_panels.NOISE)
    result = in_units_of_time(result)
    result = result.assign(squared_gradient=result["gradient_size"] ** 2)
    for panel, (what, quantity, curves, log) in zip(panels, _PANELS, strict=True):
        for name, (label, role) in curves.items():
            plot_statistic(panel, result[name], role, label)
        if quantity.startswith("fraction"):
            panel.set_ylim(-0.03, 1.03)
        columns = 2 if len(curves) > 1 else 0
        finish_panel(panel, result, what, quantity, log=log, columns=columns)
    return figure
