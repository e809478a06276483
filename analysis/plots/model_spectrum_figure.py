"""Figure of the curvature of a recorded model along its run.

The title of each panel states what its lines and bands are; bands are omitted if there
are too few runs."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.panels.colours import colour
from analysis.plots.curvature_figure import (
    colour_of,
    count_of_runs,
    finish_panel,
    linear_range,
    plot_statistic,
)
from analysis.plots.curves import in_units_of_time
from analysis.plots.figure_files import annotate_panel, in_style, new_panels
from analysis.statistics.intervals import mean_interval


@in_style
def plot_model_curvature(result: xr.Dataset) -> Figure:
    """Panels of the result of `model_curvature`."""
    result = in_units_of_time(result)
    what = f"{result.attrs['model']}, {result.attrs['parameters']} parameters"
    title = f"Curvature along a run: {what}, {count_of_runs(result)}"
    drawings = {
        "eigenvalues": _eigenvalues,
        "sharpness": _sharpness,
        "trace": _trace,
        "fractions": _fractions,
        "preconditioned": _preconditioned,
        "loss": _loss,
    }
    figure, panels = new_panels([4 / 3] * 6, title, 1.1, list(drawings))
    for panel, draw in zip(panels, drawings.values(), strict=True):
        draw(panel, result)
    return figure


def _eigenvalues(panel: Axes, result: xr.Dataset) -> None:
    """Both ends of the spectrum of the first run."""
    step = result["step"].values
    values = result["eigenvalue"].isel(run=0).values
    finite = values[np.isfinite(values)]
    half = values.shape[1] // 2
    for part, role, label in (
        (values[:, half:], "decaying", "largest"),
        (values[:, :half], "growing", "smallest"),
    ):
        steps = np.broadcast_to(step[:, None], part.shape)
        look: dict[str, Any] = {"s": 9, "color": colour_of(role), "linewidths": 0}
        panel.scatter(steps, part, label=label, **look)
    linear = linear_range(finite, 4)
    panel.set_yscale("symlog", linthresh=linear)
    what = f"{half} eigenvalues at each end, seed {int(result['seed'].values[0])}"
    finish_panel(panel, result, what, f"eigenvalue\n(linear to {linear:g})")
    panel.set_title(what)
    panel.legend(ncols=2)


def _sharpness(panel: Axes, result: xr.Dataset) -> None:
    sharpness = result["sharpness"]
    formula = result.attrs["limit_formula"]
    plot_statistic(panel, sharpness, "decaying", "sharpness")
    if np.isfinite(result["limit"].values).any():
        plot_statistic(panel, result["limit"], "muted", formula, band=False)
    what = f"largest eigenvalue against {formula}"
    ylabel = "eigenvalue"
    finish_panel(panel, result, what, ylabel, log=True, columns=2)


def _trace(panel: Axes, result: xr.Dataset) -> None:
    what = "trace of the Hessian"
    plot_statistic(panel, result["trace"], "third")
    if result.sizes["run"] == 1:
        what += " ± standard error"
        plot_errors(panel, result["trace"], result["trace_error"], "third")
    finish_panel(panel, result, what, "trace", "median")


def plot_errors(
    panel: Axes, values: xr.DataArray, errors: xr.DataArray, role: str
) -> None:
    """Draw bars of the errors of values (run, step) of the first run."""
    panel.errorbar(
        values["step"],
        values[0],
        errors[0],
        linewidth=0,
        elinewidth=1.2,
        capsize=3,
        color=colour_of(role),
    )


def _fractions(panel: Axes, result: xr.Dataset) -> None:
    for name, role in (("gradient", "decaying"), ("update", "growing")):
        values = result[f"{name}_fraction"]
        plot_statistic(panel, values, role, name, mean_interval)
    count = result.attrs["eigenvalues"]
    chance = count / result.attrs["parameters"]
    panel.axhline(chance, color=colour("muted"), linestyle=":", label="chance")
    panel.set_ylim(-0.03, 1.03)
    what = f"gradient and next update along {count} leading eigenvectors"
    ylabel = "fraction of the squared norm"
    finish_panel(panel, result, what, ylabel, "means", columns=3)


def _preconditioned(panel: Axes, result: xr.Dataset) -> None:
    values = result["relative_preconditioned"]
    recorded = bool(values.notnull().any())
    if recorded:
        plot_statistic(panel, values, "fourth", "preconditioned")
        label = "limit of stability"
        panel.axhline(1, color=colour("muted"), linestyle="--", label=label)
    else:
        annotate_panel(panel, "second moments are not recorded")
    what = "largest eigenvalue, preconditioned, over its limit"
    ylabel = "fraction of the limit"
    finish_panel(panel, result, what, ylabel, log=recorded, columns=2 * recorded)


def _loss(panel: Axes, result: xr.Dataset) -> None:
    plot_statistic(panel, result["loss"], "third", "loss")
    plot_statistic(panel, result["gradient_size"], "fourth", "norm of its gradient")
    finish_panel(panel, result, "the given loss", "loss, or norm", log=True, columns=2)
