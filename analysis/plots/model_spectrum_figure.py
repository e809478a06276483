"""Figure of the curvature of a recorded model along its run.

The title of each panel states what its lines and bands are; bands are omitted if there
are too few runs."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.linearization.curvature_table import median_interval
from analysis.panels import colours
from analysis.plots.curvature_figure import (
    annotate_panel,
    colour_of,
    plot_statistic,
    step_limits,
    title_panel,
    use_log_axis,
)
from analysis.plots.figure_files import in_style, new_panels
from analysis.statistics.intervals import mean_interval


@in_style
def plot_model_curvature(result: xr.Dataset) -> Figure:
    """Panels of the result of `model_curvature`."""
    runs = result.sizes["run"]
    what = f"{result.attrs['model']}, {result.attrs['parameters']} parameters"
    title = (
        f"Curvature along a run: {what}, {f'{runs} runs' if runs > 1 else 'one run'}"
    )
    figure, panels = new_panels([4 / 3] * 6, title, height=1.1)
    _eigenvalues(panels[0], result)
    _sharpness(panels[1], result)
    _trace(panels[2], result)
    _fractions(panels[3], result)
    _preconditioned(panels[4], result)
    _loss(panels[5], result)
    for panel in panels:
        panel.set(xlabel="step", xlim=step_limits(result["step"].values))
    return figure


def _eigenvalues(panel: Axes, result: xr.Dataset) -> None:
    """Both ends of the spectrum of the first run."""
    step, values = result["step"].values, result["eigenvalue"].isel(run=0).values
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0) or 1.0
    half = values.shape[1] // 2
    for part, colour, label in (
        (values[:, half:], colour_of("decaying"), "largest"),
        (values[:, :half], colour_of("growing"), "smallest"),
    ):
        panel.scatter(
            np.broadcast_to(step[:, None], part.shape),
            part,
            s=9,
            color=colour,
            label=label,
            linewidths=0,
        )
    panel.set_yscale("symlog", linthresh=10.0 ** np.floor(np.log10(size) - 4))
    low, high = panel.get_ylim()
    panel.set(ylabel="eigenvalue (dimensionless)", ylim=(low, max(high, size) * 30))
    panel.set_title(
        f"{half} eigenvalues at each end, seed {int(result['seed'].values[0])}"
    )
    panel.legend(markerscale=2, ncols=2, loc="upper center")


def _sharpness(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(
        panel, result, "sharpness", colour_of("decaying"), "sharpness", median_interval
    )
    if result["relative_sharpness"].notnull().any():
        limit = result.assign(limit=result["sharpness"] / result["relative_sharpness"])
        plot_statistic(
            panel,
            limit,
            "limit",
            colours.colour("muted"),
            "2/lr",
            median_interval,
            band=False,
        )
    panel.set(ylabel="eigenvalue (dimensionless)")
    use_log_axis(panel)
    title_panel(panel, result, "largest eigenvalue against 2/lr", "medians")
    panel.legend(ncols=2, loc="upper center")


def _trace(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(panel, result, "trace", colour_of("third"), "trace", median_interval)
    if result.sizes["run"] == 1:
        trace, error = (result[name].values[0] for name in ("trace", "trace_error"))
        panel.errorbar(
            result["step"],
            trace,
            error,
            color=colour_of("third"),
            linewidth=0,
            elinewidth=1.2,
            capsize=3,
        )
    panel.set(ylabel="trace (dimensionless)")
    what = (
        "trace of the Hessian"
        if result.sizes["run"] > 1
        else "trace of the Hessian ± standard error"
    )
    title_panel(panel, result, what, "median")


def _fractions(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(
        panel,
        result,
        "gradient_fraction",
        colour_of("decaying"),
        "gradient",
        mean_interval,
    )
    plot_statistic(
        panel, result, "update_fraction", colour_of("growing"), "update", mean_interval
    )
    count = result.attrs["eigenvalues"]
    panel.axhline(
        count / result.attrs["parameters"],
        color=colours.colour("muted"),
        linestyle=":",
        label="chance",
    )
    panel.set(ylabel="fraction of the squared norm", ylim=(-0.03, 1.2))
    title_panel(
        panel,
        result,
        f"gradient and next update along {count} leading eigenvectors",
        "means",
    )
    panel.legend(ncols=3, loc="upper center")


def _preconditioned(panel: Axes, result: xr.Dataset) -> None:
    panel.set(ylabel="fraction of the limit")
    if result["relative_preconditioned"].notnull().any():
        plot_statistic(
            panel,
            result,
            "relative_preconditioned",
            colour_of("fourth"),
            "preconditioned by Adam",
            median_interval,
        )
        panel.axhline(
            1, color=colours.colour("muted"), linestyle="--", label="limit of stability"
        )
        use_log_axis(panel)
        panel.legend(ncols=2, loc="upper center")
    else:
        annotate_panel(panel, "second moments are not recorded")
    title_panel(
        panel,
        result,
        "largest eigenvalue preconditioned by Adam, over its limit",
        "medians",
    )


def _loss(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(panel, result, "loss", colour_of("third"), "loss", median_interval)
    plot_statistic(
        panel,
        result,
        "gradient_size",
        colour_of("fourth"),
        "norm of its gradient",
        median_interval,
    )
    use_log_axis(panel)
    title_panel(panel, result, "the given loss", "medians")
    panel.legend(ncols=2, loc="upper center")
