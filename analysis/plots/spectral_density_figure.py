"""Figure of spectral densities along training."""

import xarray as xr
from matplotlib.figure import Figure

from analysis.panels import colours, figure_panels
from analysis.plots.curvature_figure import plot_statistic, step_limits
from analysis.plots.figure_files import in_style, new_panels


@in_style
def plot_spectral_density(result: xr.Dataset) -> Figure:
    """The result of `spectral_density`: the densities of the first run, and the saddle
    index along training."""
    matrix = {"hessian": "Hessian"}.get(result.attrs["matrix"], "Gauss-Newton matrix")
    title = f"Spectral density of the {matrix}: {result.attrs['model']}"
    figure, (density, index) = new_panels(
        [2, 4 / 3], title, 1.1, figure_panels.SPECTRAL_DENSITY
    )
    steps = result["step"].values
    for place, colour in enumerate(colours.ordered_colours(len(steps))):
        frame = result.isel(run=0, step=place)
        density.plot(
            frame["eigenvalue"], frame["density"], color=colour, label=f"{steps[place]}"
        )
    largest = float(result["density"].isel(run=0).max())
    density.set(xlabel="eigenvalue", ylabel="density", yscale="log")
    density.set_ylim(1e-6 * largest, 1.2 * largest)
    density.set_title("density of the first run")
    index.set_title("saddle index")
    density.legend(title="step", ncols=2)
    plot_statistic(index, result["saddle_index"], "decaying")
    index.set(
        xlabel="step", ylabel="number of negative eigenvalues", xlim=step_limits(steps)
    )
    return figure
