"""Figure of the noise of gradients along training."""

import xarray as xr
from matplotlib.figure import Figure

from analysis.linearization.curvature_table import median_interval
from analysis.plots.curvature_figure import (
    colour_of,
    plot_statistic,
    step_limits,
    title_panel,
    use_log_axis,
)
from analysis.plots.figure_files import in_style, new_panels

_PANELS = (
    ("noise scale", "examples", {"noise_scale": ("noise scale", "decaying")}, True),
    (
        "size of noise and gradient",
        "squared norm",
        {
            "noise_trace": ("trace of the noise", "growing"),
            "squared_gradient": ("squared gradient", "third"),
        },
        True,
    ),
    ("effective rank of the noise", "rank", {"noise_rank": ("rank", "fourth")}, False),
    (
        "along the Hessian's leading eigenvectors",
        "fraction",
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
    runs = result.sizes["run"]
    title = f"Noise of the gradients: {result.attrs['model']}, " + (
        f"{runs} runs" if runs > 1 else "one run"
    )
    figure, panels = new_panels([4 / 3] * 4, title, height=1.1)
    result = result.assign(squared_gradient=result["gradient_size"] ** 2)
    for panel, (what, quantity, curves, is_log) in zip(panels, _PANELS, strict=True):
        for name, (label, role) in curves.items():
            colour = colour_of(role)
            plot_statistic(panel, result, name, colour, label, median_interval)
        panel.set(
            xlabel="step", ylabel=quantity, xlim=step_limits(result["step"].values)
        )
        if is_log:
            use_log_axis(panel)
        elif quantity == "fraction":
            panel.set_ylim(-0.03, 1.25)
        if len(curves) > 1:
            panel.legend(ncols=2, loc="upper center")
        title_panel(panel, result, what, "medians")
    return figure
