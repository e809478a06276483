"""Figures of local learning coefficients: along training, and by step size and
localisation."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from analysis.output.counts import count_of
from analysis.panels import figure_panels
from analysis.panels.colours import series_colours
from analysis.plots.curvature_figure import (
    count_of_runs,
    finish_panel,
    plot_statistic,
    use_log_axis,
)
from analysis.plots.curves import in_units_of_time, loss_label
from analysis.plots.figure_files import annotate_panel, in_style, new_panels
from analysis.plots.model_spectrum_figure import plot_errors

TRACES = 200
"""Points of a trace that are drawn."""


@in_style
def plot_learning_coefficients(result: xr.Dataset) -> Figure:
    """The result of `learning_coefficients`: the coefficient, the loss, and the chains
    of the last frame."""
    result = in_units_of_time(result)
    title = (
        f"Local learning coefficient: {result.attrs['model']}, {count_of_runs(result)}"
    )
    figure, (coefficient, loss, traces) = new_panels(
        [4 / 3] * 3, title, 1.1, figure_panels.LEARNING_COEFFICIENT
    )
    plot_statistic(coefficient, result["llc"], "decaying")
    what = "learning coefficient"
    if result.sizes["run"] == 1:
        plot_errors(coefficient, result["llc"], 2 * result["llc_error"], "decaying")
        errors = f"{what}, ± 2 standard errors"
    else:
        errors = what
    finish_panel(coefficient, result, errors, what)
    plot_statistic(loss, result["loss"], "train")
    label = loss_label(result.attrs["system"])
    finish_panel(loss, result, "training loss", label, log=True)
    last = result["trace"].isel(run=0, step=-1).values
    every = max(1, last.shape[1] // TRACES)
    draws = np.arange(last.shape[1])[::every]
    finite = last[np.isfinite(last).all(axis=1)]
    for chain, ink in zip(finite, series_colours(len(finite)), strict=True):
        traces.plot(draws, chain[::every], color=ink, linewidth=1, alpha=0.7)
    if not traces.lines:
        annotate_panel(traces, "all chains diverged")
    traces.set(xlabel="draw", ylabel="nβ (loss − loss of the frame)")
    chains = count_of(len(finite), "chain")
    traces.set_title(f"{chains} of the last frame of the first run")
    return figure


@in_style
def plot_calibration(result: xr.Dataset) -> Figure:
    """The result of `calibrate_chains`: the coefficient and the effective draws by step
    size, a curve for each localisation; crosses where chains diverged or drift."""
    title = f"Chains around step {result.attrs['step']}, by step size and localisation"
    figure, panels = new_panels([4 / 3] * 2, title, height=1.1)
    labels = ("learning coefficient", "effective number of draws")
    count = result.sizes["localisation"]
    palette = series_colours(count)
    for panel, name, words in zip(
        panels, ("llc", "effective_draws"), labels, strict=True
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
