"""Figures of local learning coefficients: along training, and by step size and
localisation."""

import numpy as np
import xarray as xr
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

TRACES = 200
"""Points of a trace that are drawn."""


@in_style
def plot_learning_coefficients(result: xr.Dataset) -> Figure:
    """The result of `learning_coefficients`: the coefficient, the loss, and the chains
    of the last frame."""
    runs = result.sizes["run"]
    title = f"Local learning coefficient: {result.attrs['model']}, " + (
        f"{runs} runs" if runs > 1 else "one run"
    )
    figure, (coefficient, loss, traces) = new_panels([4 / 3] * 3, title, height=1.1)
    plot_statistic(
        coefficient, result, "llc", colour_of("decaying"), "llc", median_interval
    )
    if runs == 1:
        coefficient.errorbar(
            result["step"],
            result["llc"][0],
            2 * result["llc_error"][0],
            color=colour_of("decaying"),
            linewidth=0,
            elinewidth=1.2,
            capsize=3,
        )
    coefficient.set(ylabel="learning coefficient")
    what = "± 2 standard errors" if runs == 1 else "median"
    title_panel(coefficient, result, f"learning coefficient, {what}", "medians")
    plot_statistic(loss, result, "loss", colour_of("third"), "loss", median_interval)
    use_log_axis(loss)
    loss.set(ylabel="training loss")
    title_panel(loss, result, "loss of the frames", "medians")
    for panel in (coefficient, loss):
        panel.set(xlabel="step", xlim=step_limits(result["step"].values))
    last = result["trace"].isel(run=0, step=-1).values
    every = max(1, last.shape[1] // TRACES)
    draws = np.arange(last.shape[1])[::every]
    for chain in last[np.isfinite(last).all(axis=1)]:
        traces.plot(draws, chain[::every], color=colours.colour("muted"), alpha=0.5)
    if not traces.lines:
        annotate_panel(traces, "all chains diverged")
    traces.set(xlabel="draw", ylabel="beta_n (L - L of the frame)")
    traces.set_title("chains of the last frame of the first run")
    return figure


@in_style
def plot_calibration(result: xr.Dataset) -> Figure:
    """The result of `calibrate_chains`: the coefficient and the effective draws by step
    size, a curve for each localisation; crosses where chains diverged or drift."""
    title = f"Chains around step {result.attrs['step']}, by step size and localisation"
    figure, panels = new_panels([4 / 3] * 2, title, height=1.1)
    names = ("learning coefficient", "effective number of draws")
    count = result.sizes["localisation"]
    palette = colours.series_colours(count)
    for panel, name, words in zip(
        panels, ("llc", "effective_draws"), names, strict=True
    ):
        for index in range(count):
            curve = result.isel(localisation=index)
            panel.plot(
                curve["step_size"],
                curve[name],
                color=palette[index],
                marker="o",
                label=f"{float(curve['localisation']):g}",
            )
        panel.set(xlabel="step size", ylabel=words, xscale="log")
        use_log_axis(panel)
        panel.legend(title="localisation", ncols=2)
    return figure
