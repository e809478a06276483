"""Figures of many runs of VC's network: ablations, transfer, gradient norms,
sparsity."""

import sys

import xarray as xr

from analysis.clustering_heads.activation_sparsity import (
    compare_successes,
    measure_sparsity,
)
from analysis.clustering_heads.clusters import ideal_cluster_count
from analysis.clustering_heads.transfer_design import TransferDesign
from analysis.clustering_heads.vocabulary_transfer import TRANSFER_TITLE, run_transfer
from analysis.output.counts import count_of
from analysis.plots import ablation_figure
from analysis.plots.gradients_figure import plot_gradient_norms, plot_run_norms
from analysis.plots.sparsity_figure import plot_sparsity, plot_training_sparsity
from analysis.plots.transfer_figure import plot_transfer
from analysis.reproduction.experiment import RequiredRuns, SizeOverrides
from analysis.reproduction.figures.figure import (
    SPARSE,
    DrawnFigure,
    FigureData,
    PaperFigure,
    RequiredResult,
    RunChoice,
    name_run,
    own_style,
    settings_summary,
    sparse_settings,
)
from analysis.reproduction.figures.run_rules import runs_not_diverged
from analysis.transitions import ablations
from analysis.transitions.coincidence import most_eventful_run, peak_coincidence
from dynamics.errors import TrajectoryError
from dynamics.settings import SparseSettings
from dynamics.settings_text import describe_settings
from dynamics.sweeps.design import SweepDesign

# ---------------------------------------------------------------------------- ablations

DEFAULT_EPOCHS = 1000


def ablation_designs(sizes: SizeOverrides) -> dict[str, SweepDesign]:
    """The sweeps of the figures: the paper's, apart from widths up to 10000; these take
    half an hour on two cores instead of more than two hours."""
    runs = sizes.runs or 100
    epochs = sizes.epochs or DEFAULT_EPOCHS
    return ablations.plan_ablation(
        SparseSettings(), runs=runs, points=20, max_hidden=1000, epochs=epochs
    )


def _find_or_run_ablations(sizes: SizeOverrides) -> xr.Dataset:
    """The result of the sweeps, whose missing points are computed. Raises as
    `run_ablation`."""
    result, _ = ablations.run_ablation(ablation_designs(sizes))
    return result.assign_attrs(epochs=sizes.epochs or DEFAULT_EPOCHS)


ABLATIONS = RequiredResult(
    "Ablations of VC's training recipe",
    "analysis.paper ablation",
    _find_or_run_ablations,
)


def vc6(data: FigureData) -> DrawnFigure:
    """Ablations of one run."""
    seed = int(data.only.attrs["seed"])
    rule = (
        "The first run; data, initial weights and shuffles are the same in a panel:"
        " only the setting changes."
    )
    return _draw_ablations(data, data.only.isel(run=[0]), f"run 0 (seed {seed})", rule)


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
    return _draw_ablations(data, data.only, f"{count_of(runs, 'run')} a value", rule)


def _draw_ablations(
    data: FigureData, result: xr.Dataset, here: str, rule: str
) -> DrawnFigure:
    """The ablations of one run, or the means of several."""
    runs = result.sizes["run"]
    first = int(result.attrs["seed"])
    with own_style(data):
        drawn = ablation_figure.plot_ablation(result, with_first=False)
    points = ", ".join(
        f"{result.sizes[name]} of {ablations.ABLATION_PANELS[name].split(':')[0]}"
        for name in ablations.swept_settings(result)
    )
    about = (
        f"{describe_settings(sparse_settings(result))}, {result.attrs['epochs']} epochs,"
        f" {count_of(runs, 'run')}; values: {points}"
    )
    return DrawnFigure(drawn, here, rule, range(first, first + runs), about)


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


TRANSFERS = RequiredResult(
    TRANSFER_TITLE, "analysis.paper transfer", _find_or_run_transfers
)


def vc9(data: FigureData) -> DrawnFigure:
    """Accuracies of larger vocabularies, from scratch and finetuned."""
    result = data.only
    with own_style(data):
        drawn = plot_transfer(result, ideal_cluster_count(SparseSettings()))
    vocabs = [int(value) for value in result["vocab"].values]
    about = (
        f"{describe_settings(SparseSettings())}, {result.attrs['epochs']} epochs,"
        f" {count_of(result.sizes['run'], 'run')} a mark (the paper has 250 a bar)"
    )
    rule = (
        "All runs. Left and middle: the paper's figure; “pretrained only” is from"
        " scratch, for E and for 2E epochs, as the paper does not say which. Right:"
        " what it says of clusters in words."
    )
    return DrawnFigure(drawn, f"p = {vocabs[0]} to {vocabs[-1]}", rule, about=about)


# ----------------------------------------------------------------------- gradient norms


def vc15(data: FigureData) -> DrawnFigure:
    """Loss, accuracy and gradient norms of a run, and all runs against chance (VC
    figures 15, 16, 18, 19); in a small picture without the latter."""
    trajectory = data.only
    coincidence = peak_coincidence(trajectory)
    chosen = data.choose(lambda: _most_eventful_run(coincidence, trajectory))
    settings = sparse_settings(trajectory)
    batches = (
        "full batch"
        if settings.batch == settings.data
        else f"mini-batches of {settings.batch}"
    )
    rule = (
        f"Chosen: {chosen.why}. Loss, accuracy and gradient norms of this run are the"
        " paper's figure; the norms are shown by their running medians and by how far"
        " they are above these."
    )
    if data.small:
        with own_style(data):
            drawn = plot_run_norms(trajectory, chosen.run)
    else:
        drawn = plot_gradient_norms(trajectory, coincidence, chosen.run)
        drawn.suptitle("")  # which says less than the figure's
        rule += (
            " Below: percentage of the drops and spikes of all runs with a peak of the"
            " norm, and the percentage expected by chance. Below at the right: rank"
            " correlation of norm and decrease of the loss, mean over all runs."
        )
    here = f"{name_run(trajectory, chosen.run)}, {batches}, d = {settings.dim}"
    return DrawnFigure(drawn, here, rule, [int(trajectory["seed"][chosen.run])])


def _most_eventful_run(result: xr.Dataset, trajectory: xr.Dataset) -> RunChoice:
    """The first run with most drops of the loss, and among these most spikes."""
    runs_not_diverged(trajectory)  # raises an error where there is none
    run = most_eventful_run(result["events"].values)
    drops, spikes = (int(value) for value in result["events"].values[run][:2])
    why = (
        f"the first run with most drops of the loss, {drops}, and among these most"
        f" spikes, {spikes}"
    )
    return RunChoice(run, f"{why}, of {count_of(trajectory.sizes['run'], 'run')}")


# ----------------------------------------------------------------------------- sparsity


def vc17(data: FigureData) -> DrawnFigure:
    """Sparsity of activations against the threshold, of twenty runs with each dimension
    (VC figures 17, 20); in a small picture on training data only."""
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
        " paper has one pair of panels and does not say of which data. Here:"
        f" activations on {'training' if data.small else 'training and test'} data."
    )
    names = dims
    here = f"{counts[0]} runs successful"
    if len(successes) > 1:
        names = [f"{dim}, {count}" for dim, count in zip(dims, counts, strict=True)]
        here = ", ".join([dims[0], *(dim.removeprefix("d = ") for dim in dims[1:])])
        rule += " Beside each d: how many are successful."
    if data.small:
        with own_style(data):
            drawn = plot_training_sparsity(successes, names)
    else:
        drawn = plot_sparsity(successes, names)
    seeds = trajectories[0]["seed"].values.tolist()
    return DrawnFigure(drawn, here, rule, seeds, settings_summary(*trajectories))


# -------------------------------------------------------------------------- the figures


def _mini_batches(dim: int, runs: int = 20) -> RequiredRuns:
    """VC's network with embeddings of a dimension, whose weights are not needed."""
    return RequiredRuns(SparseSettings(dim=dim), runs, weights=False)


def _full_batches(dim: int) -> RequiredRuns:
    """The same with all data in a batch, so that an epoch is one update."""
    settings = SparseSettings(batch=SparseSettings.data, dim=dim)
    return RequiredRuns(settings, 20, epochs=4000, every=4, weights=False)


NORMS = "losses, accuracies and gradient norms of a run trained on"
DIMENSIONS = (
    *SPARSE,
    RequiredRuns(SparseSettings(dim=3), 20),
    *(RequiredRuns(SparseSettings(dim=dim), 20, every=0) for dim in (4, 8, 16, 32)),
)

FIGURES = (
    PaperFigure(
        "vc6",
        "test accuracy of one run against batch size, width, learning rate, MLP"
        " discount",
        (ABLATIONS,),
        "30 minutes",
        vc6,
    ),
    PaperFigure(
        "vc7",
        "mean and standard deviation of the test accuracy of 100 runs against batch"
        " size, width, learning rate, MLP discount",
        (ABLATIONS,),
        "30 minutes",
        vc7,
    ),
    PaperFigure(
        "vc9",
        "accuracy for p = 2 to 10 from scratch and finetuned from p = 2",
        (TRANSFERS,),
        "10 minutes",
        vc9,
    ),
    PaperFigure(
        "vc15",
        f"{NORMS} full batches, 4000 updates (unknown in VC)",
        (_full_batches(2),),
        "2 minutes",
        vc15,
        one_run=True,
    ),
    PaperFigure(
        "vc16",
        f"{NORMS} mini-batches",
        (_mini_batches(2, 100),),
        "1 minute",
        vc15,
        one_run=True,
    ),
    PaperFigure(
        "vc17",
        "sparsity of activations against the threshold, 20 runs",
        SPARSE,
        "1 minute",
        vc17,
    ),
    PaperFigure(
        "vc18",
        f"{NORMS} full batches, d = 3",
        (_full_batches(3),),
        "2 minutes",
        vc15,
        one_run=True,
    ),
    PaperFigure(
        "vc19",
        f"{NORMS} mini-batches, d = 3",
        (_mini_batches(3),),
        "20 s",
        vc15,
        one_run=True,
    ),
    PaperFigure(
        "vc20",
        "sparsity of activations against the threshold, 20 runs each with d = 2, 3, 4, 8,"
        " 16 and 32",
        DIMENSIONS,
        "5 minutes",
        vc17,
    ),
)
