"""Figures of many runs of VC's network: ablations, transfer, gradient norms, sparsity."""

import sys

import numpy as np
import xarray as xr

from analysis.clustering_heads.activation_sparsity import compare_successes, measure_sparsity
from analysis.clustering_heads.clusters import ideal_cluster_count
from analysis.clustering_heads.transfer_design import TransferDesign
from analysis.clustering_heads.vocabulary_transfer import TRANSFER_TITLE, run_transfer
from analysis.plots.ablation_figure import (
    add_title_and_legend,
    decorate_ablation_panel,
    plot_ablation,
    plot_ablation_means,
)
from analysis.plots.figure_files import new_figure
from analysis.plots.gradients_figure import plot_gradient_norms
from analysis.plots.sparsity_figure import plot_sparsity
from analysis.plots.transfer_figure import plot_transfer
from analysis.reproduction.figures.excerpts import keep_loss_and_norm_panels, keep_success_and_failure_panels
from analysis.reproduction.figures.figure import (
    DrawnFigure,
    FigureData,
    RequiredResult,
    RunChoice,
    name_run,
    runs_not_diverged,
    sparse_settings,
)
from analysis.reproduction.figures.settings_line import settings_summary
from analysis.reproduction.verification.required_runs import SizeOverrides
from analysis.transitions.ablations import ABLATION_PANELS, ablation_table, plan_ablation, run_ablation, swept_settings
from analysis.transitions.coincidence import most_eventful_run, peak_coincidence
from dynamics.errors import TrajectoryError
from dynamics.settings import SparseSettings
from dynamics.sweeps.design import SweepDesign

# ------------------------------------------------------------------------------------------------- ablations

ABLATION_RUNS, ABLATION_POINTS, ABLATION_WIDTH = 100, 20, 1000
"""The paper's, apart from widths up to 10000: these take half an hour on two cores instead of more than two hours."""


def ablation_designs(sizes: SizeOverrides) -> dict[str, SweepDesign]:
    """The sweeps of the figures."""
    return plan_ablation(
        SparseSettings(),
        runs=ABLATION_RUNS if sizes.runs is None else sizes.runs,
        points=ABLATION_POINTS,
        max_hidden=ABLATION_WIDTH,
        epochs=1000 if sizes.epochs is None else sizes.epochs,
    )


def _find_or_run_ablations(sizes: SizeOverrides) -> xr.Dataset:
    """The result of the sweeps, whose missing points are computed. Raises as `run_ablation`."""
    result, _ = run_ablation(ablation_designs(sizes))
    return result.assign_attrs(epochs=1000 if sizes.epochs is None else sizes.epochs)


ABLATIONS = RequiredResult("Ablations of VC's training recipe", "analysis.ablation", _find_or_run_ablations)


def vc6(data: FigureData) -> DrawnFigure:
    """Ablations of one run."""
    result = data.only
    figure = plot_ablation(result.isel(run=[0]))
    rule = "The first run; data, initial weights and shuffles are the same in a panel: only the setting changes."
    return DrawnFigure(figure, f"run 0 (seed {result.attrs['seed']})", rule, _format_ablation_settings(result, 1))


def vc7(data: FigureData) -> DrawnFigure:
    """Ablations of many runs: mean and standard deviation."""
    result = data.only
    runs, names, settings = result.sizes["run"], swept_settings(result), sparse_settings(result)
    if runs < 2:
        raise TrajectoryError("dimension run: found 1, a standard deviation needs 2 or more")
    figure = new_figure(max(6.4, 3.3 * len(names)), 2.8)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        points = ablation_table(result, [name])
        plot_ablation_means(axes, points)
        decorate_ablation_panel(axes, name, points["value"], settings)
        axes.set_xlabel(ABLATION_PANELS[name], fontsize=9)
    panels[0].set_ylabel("test accuracy, fraction of runs", fontsize=9)
    panels[0].set_ylim(-0.04, 1.06)
    add_title_and_legend(figure, 2.8, f"Test accuracy after {result.attrs['epochs']} epochs, {runs} runs")
    rule = "All runs that have not diverged. The band is the paper's, of ± one standard deviation; bars are 95% "
    rule += "intervals of the mean."
    return DrawnFigure(figure, f"{runs} runs a value", rule, _format_ablation_settings(result, runs))


def _format_ablation_settings(result: xr.Dataset, runs: int) -> str:
    """The settings of a result of `analysis.ablation`, and how much of the paper's sweep it is."""
    settings = sparse_settings(result)
    points = ", ".join(f"{result.sizes[name]} of {ABLATION_PANELS[name].split(':')[0]}" for name in
                       swept_settings(result))  # fmt: skip
    task = f"p = {settings.vocab}, L = {settings.length}, k = {settings.sparsity}, d = {settings.dim}"
    size = f"{result.attrs['epochs']} epochs, {runs} run{'s' * (runs > 1)}"
    return f"sparse modular addition: {task}, {size}; values: {points}"


# -------------------------------------------------------------------------------------------------- transfer


def _find_or_run_transfers(sizes: SizeOverrides) -> xr.Dataset:
    """The result of the transfer experiment, found or computed. Raises as `run_transfer` does."""
    return run_transfer(transfer_design(sizes), sys.stdout)[0]


def transfer_design(sizes: SizeOverrides) -> TransferDesign:
    """The design of figure 9 at some sizes."""
    return TransferDesign(runs=sizes.runs or TransferDesign.runs, epochs=sizes.epochs or TransferDesign.epochs)


TRANSFERS = RequiredResult(TRANSFER_TITLE, "analysis.transfer", _find_or_run_transfers)


def vc9(data: FigureData) -> DrawnFigure:
    """Accuracies of larger vocabularies, from scratch and finetuned."""
    result = data.only
    figure = plot_transfer(result, ideal_cluster_count(SparseSettings()))
    vocabs = [int(each) for each in result["vocab"].values]
    about = f"sparse modular addition: L = 12, k = 5, d = 2, h = 32, {result.attrs['epochs']} epochs, "
    about += f"{result.sizes['run']} runs a mark (the paper has 250 a bar)"
    rule = "All runs. Left and middle: the paper's figure; “pretrained only” is from scratch, for E and for 2E epochs, "
    rule += "as the paper does not say which. Right: what it says of clusters in words."
    return DrawnFigure(figure, f"p = {vocabs[0]} to {vocabs[-1]}", rule, about)


# -------------------------------------------------------------------------------------------- gradient norms


def vc_gradient_norms(data: FigureData) -> DrawnFigure:
    """Loss, accuracy and gradient norms of a run, and all runs against chance (VC figures 15, 16, 18, 19)."""
    trajectory = data.only
    found = peak_coincidence(trajectory)
    run = data.choose(lambda: _most_eventful_run(found, trajectory))
    figure = plot_gradient_norms(trajectory, found, run.run)
    figure.suptitle("")  # which says less than the figure's
    if data.small:
        keep_loss_and_norm_panels(figure)
    settings = sparse_settings(trajectory)
    batches = "full batch" if settings.batch == settings.data else f"mini-batches of {settings.batch}"
    rule = (
        f"Above, the paper's figure: {run.why}. Below: how many drops and spikes of all runs go with a peak of the "
        "norm, against chance."
    )
    here = f"{name_run(trajectory, run.run)}, {batches}, d = {settings.dim}"
    return DrawnFigure(figure, here, rule)


def _most_eventful_run(found: xr.Dataset, trajectory: xr.Dataset) -> RunChoice:
    """The first run with most drops of the loss, and among these most spikes."""
    if not len(runs_not_diverged(trajectory)):
        raise TrajectoryError("dimension run: found no run that has not diverged, expected one at least")
    run = most_eventful_run(found["events"].values)
    drops, spikes = (int(each) for each in found["events"].values[run][:2])
    why = f"the first run with most drops of the loss, {drops}, and among these most spikes, {spikes}"
    return RunChoice(run, f"{why}, of {trajectory.sizes['run']} runs")


# -------------------------------------------------------------------------------------------------- sparsity

SPARSITY_RUNS = 20
"""Of the paper."""


def _first_twenty_runs(trajectory: xr.Dataset) -> xr.Dataset:
    """The first twenty runs. Raises TrajectoryError for a single one."""
    if trajectory.sizes["run"] < 2:
        raise TrajectoryError("dimension run: found 1, successes against failures need 2 or more")
    return trajectory.isel(run=slice(SPARSITY_RUNS))


def vc17(data: FigureData) -> DrawnFigure:
    """Sparsity of activations against the threshold, of twenty runs."""
    trajectory = _first_twenty_runs(data.only)
    about = settings_summary(trajectory)
    found = compare_successes(measure_sparsity(trajectory))
    figure = plot_sparsity([found], [f"d = {sparse_settings(trajectory).dim}"])
    if data.small:
        keep_success_and_failure_panels(figure, [(0, "training data"), (2, "test data")])
    return DrawnFigure(figure, f"{_count_successes(found)} runs successful", _format_sparsity_rule(found), about)


def _format_sparsity_rule(found: xr.Dataset) -> str:
    return (
        f"The first {found.sizes['run']} runs. Success: test accuracy above .9. The paper has one pair of panels and "
        "does not say of which data; here they are of training and of test data."
    )


def _count_successes(found: xr.Dataset) -> str:
    return f"{int(np.nansum(found['success'].values))} of {found.sizes['run']}"


def vc20(data: FigureData) -> DrawnFigure:
    """The same for several dimensions of the embeddings."""
    trajectories = [_first_twenty_runs(each) for each in data.datasets]
    found = [compare_successes(measure_sparsity(each)) for each in trajectories]
    dims = [sparse_settings(each).dim for each in trajectories]
    names = [f"d = {dim}, {_count_successes(each)}" for dim, each in zip(dims, found, strict=True)]
    figure = plot_sparsity(found, names)
    if data.small:
        keep_success_and_failure_panels(figure, [(4 * row, name) for row, name in enumerate(names)])
    rule = f"{_format_sparsity_rule(found[0])} Beside each row: how many are successful."
    return DrawnFigure(figure, f"d = {', '.join(map(str, dims))}", rule, settings_summary(*trajectories))
