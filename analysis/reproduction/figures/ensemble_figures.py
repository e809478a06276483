"""Figures of many runs of VC's network: ablations, transfer, gradient norms,
sparsity."""

import itertools
import sys

import xarray as xr

from analysis.clustering_heads.activation_sparsity import (
    compare_successes,
    measure_sparsity,
)
from analysis.clustering_heads.clusters import ideal_cluster_count
from analysis.clustering_heads.transfer_design import TransferDesign
from analysis.clustering_heads.vocabulary_transfer import TRANSFER_TITLE, run_transfer
from analysis.plots import ablation_figure
from analysis.plots.gradients_figure import plot_gradient_norms
from analysis.plots.sparsity_figure import plot_sparsity
from analysis.plots.transfer_figure import plot_transfer
from analysis.reproduction.experiment import SizeOverrides
from analysis.reproduction.figures import excerpts, figure
from analysis.reproduction.figures.figure import (
    DrawnFigure,
    FigureData,
    RequiredResult,
    RunChoice,
    sparse_settings,
)
from analysis.reproduction.figures.run_rules import runs_not_diverged
from analysis.reproduction.figures.settings_line import settings_summary
from analysis.transitions import ablations
from analysis.transitions.coincidence import most_eventful_run, peak_coincidence
from dynamics.errors import TrajectoryError
from dynamics.settings import SparseSettings
from dynamics.sweeps.design import SweepDesign

# ---------------------------------------------------------------------------- ablations

DEFAULT_EPOCHS = 1000


def ablation_designs(sizes: SizeOverrides) -> dict[str, SweepDesign]:
    """The sweeps of the figures: the paper's, apart from widths up to 10000; these take
    half an hour on two cores instead of more than two hours."""
    runs, epochs = sizes.runs or 100, sizes.epochs or DEFAULT_EPOCHS
    return ablations.plan_ablation(
        SparseSettings(), runs=runs, points=20, max_hidden=1000, epochs=epochs
    )


def _find_or_run_ablations(sizes: SizeOverrides) -> xr.Dataset:
    """The result of the sweeps, whose missing points are computed. Raises as
    `run_ablation`."""
    result, _ = ablations.run_ablation(ablation_designs(sizes))
    return result.assign_attrs(epochs=sizes.epochs or DEFAULT_EPOCHS)


ABLATIONS = RequiredResult(
    "Ablations of VC's training recipe", "analysis.ablation", _find_or_run_ablations
)


def vc6(data: FigureData) -> DrawnFigure:
    """Ablations of one run."""
    seed = int(data.only.attrs["seed"])
    rule = (
        "The first run; data, initial weights and shuffles are the same in a panel:"
        " only the setting changes."
    )
    return _draw_ablations(
        data, data.only.isel(run=[0]), f"run 0 (seed {seed})", rule, "accuracy"
    )


def vc7(data: FigureData) -> DrawnFigure:
    """Ablations of many runs: mean and standard deviation."""
    runs = data.only.sizes["run"]
    if runs < 2:
        raise TrajectoryError(
            "dimension run: found 1, a standard deviation needs 2 or more"
        )
    rule = (
        "All runs that have not diverged. The band is the paper's, of ± one standard"
        " deviation; bars are 95% "
        "intervals of the mean."
    )
    return _draw_ablations(
        data, data.only, f"{runs} runs a value", rule, "mean accuracy"
    )


def _draw_ablations(
    data: FigureData, result: xr.Dataset, here: str, rule: str, quantity: str
) -> DrawnFigure:
    """The ablations of one run, or the means of several; `shown`: what is drawn of
    them."""
    runs, first = result.sizes["run"], int(result.attrs["seed"])
    with figure.own_style(data):
        drawn = ablation_figure.plot_ablation(result, with_first=False)
    for axes, name in zip(drawn.axes, ablations.swept_settings(result), strict=True):
        axes.set_label(f"{quantity} by {ablations.ABLATION_PANELS[name].split(':')[0]}")
    return DrawnFigure(
        drawn,
        here,
        rule,
        range(first, first + runs),
        _format_ablation_settings(result, runs),
    )


def _format_ablation_settings(result: xr.Dataset, runs: int) -> str:
    """The settings of a result of `analysis.ablation`, and how much of the paper's
    sweep it is."""
    settings, names = sparse_settings(result), ablations.swept_settings(result)
    points = ", ".join(
        f"{result.sizes[name]} of {ablations.ABLATION_PANELS[name].split(':')[0]}"
        for name in names
    )
    task = (
        f"p = {settings.vocab}, L = {settings.length}, k = {settings.sparsity}, d ="
        f" {settings.dim}"
    )
    size = f"{result.attrs['epochs']} epochs, {runs} run{'s' * (runs > 1)}"
    return f"sparse modular addition: {task}, {size}; values: {points}"


# ----------------------------------------------------------------------------- transfer


def transfer_design(sizes: SizeOverrides) -> TransferDesign:
    """The design of figure 9 at some sizes."""
    return TransferDesign(
        runs=sizes.runs or TransferDesign.runs,
        epochs=sizes.epochs or TransferDesign.epochs,
    )


def _find_or_run_transfers(sizes: SizeOverrides) -> xr.Dataset:
    """The result of the transfer experiment, found or computed. Raises as
    `run_transfer` does."""
    return run_transfer(transfer_design(sizes), sys.stdout)[0]


TRANSFERS = RequiredResult(TRANSFER_TITLE, "analysis.transfer", _find_or_run_transfers)


def vc9(data: FigureData) -> DrawnFigure:
    """Accuracies of larger vocabularies, from scratch and finetuned."""
    result = data.only
    with figure.own_style(data):
        drawn = plot_transfer(result, ideal_cluster_count(SparseSettings()))
    vocabs = [int(value) for value in result["vocab"].values]
    about = (
        "sparse modular addition: L = 12, k = 5, d = 2, h = 32,"
        f" {result.attrs['epochs']} epochs, "
        f"{result.sizes['run']} runs a mark (the paper has 250 a bar)"
    )
    rule = (
        "All runs. Left and middle: the paper's figure; “pretrained only” is from"
        " scratch, for E and for 2E epochs, "
        "as the paper does not say which. Right: what it says of clusters in words."
    )
    return DrawnFigure(drawn, f"p = {vocabs[0]} to {vocabs[-1]}", rule, about=about)


# ----------------------------------------------------------------------- gradient norms


def vc15(data: FigureData) -> DrawnFigure:
    """Loss, accuracy and gradient norms of a run, and all runs against chance (VC
    figures 15, 16, 18, 19)."""
    trajectory = data.only
    coincidence = peak_coincidence(trajectory)
    chosen = data.choose(lambda: _most_eventful_run(coincidence, trajectory))
    drawn = plot_gradient_norms(trajectory, coincidence, chosen.run)
    drawn.suptitle("")  # which says less than the figure's
    for axes in drawn.axes:
        axes.set_label(
            " ".join(axes.get_title().split())
            .removesuffix(" (nats)")
            .replace(" running median,", "")
        )
    if data.small:
        excerpts.keep_run_panels(drawn)
    settings = sparse_settings(trajectory)
    batches = (
        "full batch"
        if settings.batch == settings.data
        else f"mini-batches of {settings.batch}"
    )
    rule = f"Chosen: {chosen.why}. " + figure.panel_sentences(drawn, NORM_PANELS)
    here = f"{figure.name_run(trajectory, chosen.run)}, {batches}, d = {settings.dim}"
    return DrawnFigure(drawn, here, rule, [int(trajectory["seed"][chosen.run])])


NORM_PANELS = {
    "loss": "Loss, accuracy and gradient norms of this run are the paper's figure.",
    "drops": (
        "Below: percentage of the drops and spikes of all runs with a peak of the norm,"
        " and the percentage expected by chance."
    ),
    "mean rank": (
        "Below at the right: rank correlation of norm and decrease of the loss, mean"
        " over all runs."
    ),
}
"""Sentences about the panels of gradient norms, by how their names begin."""


def _most_eventful_run(result: xr.Dataset, trajectory: xr.Dataset) -> RunChoice:
    """The first run with most drops of the loss, and among these most spikes."""
    runs_not_diverged(trajectory)  # raises an error where there is none
    run = most_eventful_run(result["events"].values)
    drops, spikes = (int(value) for value in result["events"].values[run][:2])
    why = (
        f"the first run with most drops of the loss, {drops}, and among these most"
        f" spikes, {spikes}"
    )
    return RunChoice(run, f"{why}, of {trajectory.sizes['run']} runs")


# ----------------------------------------------------------------------------- sparsity


def vc17(data: FigureData) -> DrawnFigure:
    """Sparsity of activations against the threshold, of twenty runs with each dimension
    (VC figures 17, 20)."""
    if any(dataset.sizes["run"] < 2 for dataset in data.datasets):
        raise TrajectoryError(
            "dimension run: found 1, successes against failures need 2 or more"
        )
    trajectories = [
        dataset.isel(run=slice(20)) for dataset in data.datasets
    ]  # as many as in the paper
    successes = [
        compare_successes(measure_sparsity(trajectory)) for trajectory in trajectories
    ]
    dims = [f"d = {sparse_settings(trajectory).dim}" for trajectory in trajectories]
    counts = [
        f"{int(item['success'].sum())} of {item.sizes['run']}" for item in successes
    ]
    rule = (
        f"The first {successes[0].sizes['run']} runs. Success: test accuracy above .9. The"
        " paper has one pair of panels "
        "and does not say of which data. "
    )
    if len(successes) == 1:
        drawn = plot_sparsity(successes, dims)
        panels = [(0, "success and failure"), (1, "test accuracy")]
        here = f"{counts[0]} runs successful"
    else:
        names = [f"{dim}, {count}" for dim, count in zip(dims, counts, strict=True)]
        drawn = plot_sparsity(successes, names)
        panels = [(4 * row, name) for row, name in enumerate(names)]
        here = ", ".join([dims[0], *(dim.removeprefix("d = ") for dim in dims[1:])])
        rule += "Beside each d: how many are successful. "
    for axes, (_, split, kind) in zip(
        drawn.axes, itertools.product(dims, SPLITS, KINDS), strict=False
    ):
        axes.set_label(f"{split} data, {kind}")
    drawn.axes[-1].set_label("<colorbar>")
    if data.small:
        excerpts.keep_sparsity_panels(drawn, panels)
    splits = [
        split for split in SPLITS if figure.panel_sentences(drawn, {split: split})
    ]
    rule += f"Here: activations on {' and '.join(splits)} data."
    return DrawnFigure(
        drawn,
        here,
        rule,
        trajectories[0]["seed"].values.tolist(),
        settings_summary(*trajectories),
    )


SPLITS, KINDS = ("training", "test"), ("success and failure", "by accuracy")
"""Of the panels of sparsity, in their order: the data on which activations are counted,
and the meaning of colours."""
