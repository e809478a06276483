"""Plates of many runs of VC's network: ablations, transfer, gradient norms, sparsity."""

import sys

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from analysis import ablation, transfer
from analysis.clustering_heads.activation_sparsity import compared, sparsity
from analysis.clustering_heads.clusters import ideal_clusters
from analysis.gradients import most_eventful
from analysis.plots.figure_files import new_figure
from analysis.plots.gradients_figure import gradients_figure
from analysis.reproduction.figures.excerpts import loss_and_norms, successes
from analysis.reproduction.figures.figure import Chosen, Drawn, Material, Result, Sizes, alive, named
from analysis.reproduction.figures.settings_line import settings_line
from analysis.sparsity import figure as sparsity_figure
from analysis.transitions.gradient_peaks import coincidence
from dynamics.settings import SparseSettings
from dynamics.trajectory.netcdf import TrajectoryError
from dynamics.trajectory.reader import settings_of

# ------------------------------------------------------------------------------------------------- ablations

ABLATION_RUNS, ABLATION_POINTS, ABLATION_WIDTH = 32, 13, 1000
"""What can be had in a quarter of an hour, of the paper's 100 runs, 20 points and widths up to 10000."""


def ablations(sizes: Sizes) -> xr.Dataset:
    """The sweeps of `analysis.ablation`, found or made. Raises as that command does."""
    from dynamics.sweeps.run import combine, fill

    options = ablation.Options(
        runs=ABLATION_RUNS if sizes.runs is None else sizes.runs,
        points=ABLATION_POINTS,
        max_hidden=ABLATION_WIDTH,
        epochs=1000 if sizes.epochs is None else sizes.epochs,
    )
    grids = ablation.planned(options)
    fill(ablation.together(grids.values()), None, work=ablation.work)
    found = ablation.ablation({name: combine(each) for name, each in grids.items()})
    return found.assign_attrs(epochs=options.epochs)


ABLATIONS = Result("Ablations of VC's training recipe", "analysis.ablation", ablations)


def vc6(material: Material) -> Drawn:
    """Ablations of one run."""
    result = material.only
    figure = ablation.figure(result.isel(run=[0]))
    rule = (
        "The first run; along a panel it keeps its data, first weights and shuffles, so that only the setting changes."
    )
    return Drawn(figure, f"run 0 (seed {result.attrs['seed']})", ablation_line(result, 1), rule)


def vc7(material: Material) -> Drawn:
    """Ablations of many runs: mean and standard deviation."""
    result = material.only
    runs, names, settings = result.sizes["run"], ablation.panels_of(result), settings_of(result)
    if runs < 2:
        raise TrajectoryError("dimension run: found 1, a standard deviation needs 2 or more")
    assert isinstance(settings, SparseSettings)
    figure = new_figure(max(6.4, 3.3 * len(names)), 2.8)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        found = ablation.lines(result, name)
        ablation.draw_all(axes, found)
        ablation.dress(axes, name, [line.value for line in found], settings)
        axes.set_xlabel(ablation.PANELS[name], fontsize=9)
    panels[0].set_ylabel("test accuracy, share of runs", fontsize=9)
    panels[0].set_ylim(-0.04, 1.06)
    ablation.frame(figure, 2.8, f"Test accuracy after {result.attrs['epochs']} epochs, {runs} runs")
    rule = (
        "All runs. The band is the paper's, of ± one standard deviation; bars are 95% intervals of the mean. Runs that "
    )
    rule += "diverged are in no mean."
    return Drawn(figure, f"{runs} runs a value", ablation_line(result, runs), rule)


def ablation_line(result: xr.Dataset, runs: int) -> str:
    """The settings of a result of `analysis.ablation`, and how much of the paper's sweep it is."""
    settings = settings_of(result)
    assert isinstance(settings, SparseSettings)
    points = ", ".join(f"{result.sizes[name]} of {ablation.PANELS[name].split(':')[0]}" for name in
                       ablation.panels_of(result))  # fmt: skip
    task = f"p = {settings.vocab}, L = {settings.length}, k = {settings.sparsity}, d = {settings.dim}"
    size = f"{result.attrs['epochs']} epochs, {runs} run{'s' * (runs > 1)}"
    return f"sparse modular addition: {task}, {size}; values: {points}"


# -------------------------------------------------------------------------------------------------- transfer


def transfers(sizes: Sizes) -> xr.Dataset:
    """The ensembles of `analysis.transfer`, found or made. Raises as that command does."""
    usual = transfer.Options()
    options = transfer.Options(runs=sizes.runs or usual.runs, epochs=sizes.epochs or usual.epochs)
    return transfer.outcome(options, sys.stdout)[0]


TRANSFERS = Result(transfer.TITLE, "analysis.transfer", transfers)


def vc9(material: Material) -> Drawn:
    """Accuracies of larger vocabularies, from scratch and finetuned."""
    result = material.only
    figure = transfer.figure(result, ideal_clusters(SparseSettings()))
    vocabs = [int(each) for each in result["vocab"].values]
    about = f"sparse modular addition: L = 12, k = 5, d = 2, h = 32, {result.attrs['epochs']} epochs, "
    about += f"{result.sizes['run']} runs a mark (the paper has 250 a bar)"
    rule = (
        "All runs. Left and middle: the paper's figure; “pretrained only” is from scratch, for E and for 2E epochs, as "
    )
    rule += "the paper does not say which. Right: what it says of clusters in words."
    return Drawn(figure, f"p = {vocabs[0]} to {vocabs[-1]}", about, rule)


# -------------------------------------------------------------------------------------------- gradient norms


def gradient_norms(material: Material) -> Drawn:
    """Loss, accuracy and gradient norms of a run, and all runs against chance (VC figures 15, 16, 18, 19)."""
    trajectory = material.only
    found = coincidence(trajectory)
    run = eventful(found, trajectory) if material.run is None else Chosen(material.run, "the run that was asked for")
    figure = gradients_figure(trajectory, found, run.run)
    figure.suptitle("")  # which says less than the plate's
    if material.small:
        loss_and_norms(figure)
    settings = settings_of(trajectory)
    assert isinstance(settings, SparseSettings)
    batches = "full batch" if settings.batch == settings.data else f"mini-batches of {settings.batch}"
    rule = (
        f"Above, the paper's figure: {run.why}. Below: how many drops and spikes of all runs go with a peak of the "
        "norm, against chance."
    )
    here = f"{named(trajectory, run.run)}, {batches}, d = {settings.dim}"
    return Drawn(figure, here, settings_line(trajectory), rule)


def eventful(found: xr.Dataset, trajectory: xr.Dataset) -> Chosen:
    """The first run with most drops of the loss, and among these most spikes."""
    if not len(alive(trajectory)):
        raise TrajectoryError("dimension run: found no run that has not diverged, expected one at least")
    run = most_eventful(found["events"].values)
    drops, spikes = (int(each) for each in found["events"].values[run][:2])
    why = f"the first run with most drops of the loss, {drops}, and among these most spikes, {spikes}"
    return Chosen(run, f"{why}, of {trajectory.sizes['run']} runs")


# -------------------------------------------------------------------------------------------------- sparsity

SPARSITY_RUNS = 20
"""Of the paper."""


def some_runs(trajectory: xr.Dataset) -> xr.Dataset:
    """The first twenty runs. Raises TrajectoryError for a single one."""
    if trajectory.sizes["run"] < 2:
        raise TrajectoryError("dimension run: found 1, successes against failures need 2 or more")
    return trajectory.isel(run=slice(SPARSITY_RUNS))


def vc17(material: Material) -> Drawn:
    """Sparsity of activations against the threshold, of twenty runs."""
    trajectory = some_runs(material.only)
    found = compared(sparsity(trajectory))
    settings = settings_of(trajectory)
    assert isinstance(settings, SparseSettings)
    figure = sparsity_figure([found], [f"d = {settings.dim}"])
    if material.small:
        successes(figure, [(0, "training data"), (2, "test data")])
    return Drawn(figure, counted(found), settings_line(trajectory), SPARSITY_RULE.format(found.sizes["run"]))


SPARSITY_RULE = (
    "The first {} runs. Success: test accuracy above .9. The paper has one pair of panels and does not say of which "
    "data; here they are of training and of test data."
)


def counted(found: xr.Dataset) -> str:
    """How many have succeeded."""
    return f"{int(np.nansum(found['success'].values))} of {found.sizes['run']} runs successful"


def vc20(material: Material) -> Drawn:
    """The same for several dimensions of the embeddings."""
    trajectories = [some_runs(each) for each in material.datasets]
    found = [compared(sparsity(each)) for each in trajectories]
    dims = [settings_of(each).dim for each in trajectories]  # type: ignore[attr-defined]
    names = [f"d = {dim}, {int(np.nansum(each['success'].values))} of {each.sizes['run']}" for dim, each in
             zip(dims, found, strict=True)]  # fmt: skip
    figure: Figure = sparsity_figure(found, names)
    if material.small:
        successes(figure, [(4 * row, name) for row, name in enumerate(names)])
    rule = SPARSITY_RULE.format(found[0].sizes["run"]) + " Beside each row: how many are successful."
    return Drawn(figure, f"d = {', '.join(map(str, dims))}", settings_line(*trajectories), rule)
