"""Figure of spectral densities along training."""

import xarray as xr
from matplotlib import rcParams
from matplotlib.figure import Figure

from analysis.panels import colours, figure_panels
from analysis.panels.common_panels import evenly_spaced_indices
from analysis.plots.curvature_figure import plot_statistic, step_limits
from analysis.plots.curves import (
    in_units_of_time,
    time_label,
    widths_of_coinciding,
)
from analysis.plots.figure_files import in_style, new_panels

_MOST_LINES = 3
"""Number of densities, of the first to the last frame, that can be told apart."""


@in_style
def plot_spectral_density(result: xr.Dataset) -> Figure:
    """The result of `spectral_density`: the densities of the first run, and the saddle
    index along training."""
    result = in_units_of_time(result)
    matrix = {"hessian": "Hessian"}.get(result.attrs["matrix"], "Gauss-Newton matrix")
    title = f"Spectral density of the {matrix}: {result.attrs['model']}"
    figure, (density, index) = new_panels(
        [2, 4 / 3], title, 1.1, figure_panels.SPECTRAL_DENSITY
    )
    steps = result["step"].values
    drawn = evenly_spaced_indices(len(steps), _MOST_LINES)
    widths = rcParams["lines.linewidth"] * widths_of_coinciding(len(drawn))
    shades = colours.ordered_colours(len(drawn))
    for place, width, colour in zip(drawn, widths, shades, strict=True):
        frame = result.isel(run=0, step=place)
        density.plot(
            frame["eigenvalue"],
            frame["density"],
            color=colour,
            linewidth=width,
            label=f"{steps[place]:g}",
        )
    largest = float(result["density"].isel(run=0).max())
    density.set(xlabel="eigenvalue", ylabel="density", yscale="log")
    density.set_ylim(1e-6 * largest, 1.2 * largest)
    density.set_title("density of the first run")
    index.set_title("saddle index")
    density.legend(title=time_label(result), ncols=2)
    plot_statistic(index, result["saddle_index"], "decaying")
    index.set(
        xlabel=time_label(result),
        ylabel="number of negative eigenvalues",
        xlim=step_limits(steps),
    )
    return figure
