"""Figure of `sims.sparse` and `sims.transformer`: losses and accuracies of an ensemble,
and final accuracies; of a transformer that adds also the embeddings of a run in the
planes of its strongest frequencies."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis.clustering_heads.learning_outcome import (
    SUCCESS_THRESHOLDS,
    final_accuracies,
)
from analysis.output.counts import count_of
from analysis.panels import colours
from analysis.panels.run_scene import build_scene
from analysis.panels.scene import Panel, Points, Scene
from analysis.plots.curves import curves_caption, plot_metric_curves
from analysis.plots.figure_files import (
    draw_legend,
    in_style,
    legend_entries,
    new_panels,
)
from analysis.plots.run_choice import select_run
from dynamics.errors import TrajectoryError
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings, TransformerSettings
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import read_settings
from dynamics.trajectory.success import exceeds


@in_style
def plot_learning(trajectory: xr.Dataset) -> Figure:
    """Draw loss and accuracy of every split over epochs, of successful and of failed
    runs, and a histogram of the final test accuracies; of the training accuracies if
    there is no test split. Below, the embeddings of the first successful transformer in
    the planes of its strongest frequencies."""
    test = final_accuracies(trajectory)[_last_split(trajectory)]
    split = _last_split(trajectory)
    groups = _runs_by_success(trajectory)
    planes = _frequency_planes(trajectory)
    widths = [4 / (2 * len(groups) + 1)] * (2 * len(groups) + 1) + [1.0] * len(
        planes.panels if planes else ()
    )
    figure, panels = new_panels(widths, _learning_title(trajectory, test))
    for place, (name, runs) in enumerate(groups.items()):
        for axes, metric in zip(
            panels[2 * place :], ("loss", "accuracy"), strict=False
        ):
            plot_metric_curves(axes, runs, metric)
            axes.set_title(
                count_of(runs.sizes["run"], name) if name else curves_caption(runs)
            )
    entries = legend_entries(figure)
    if max(runs.sizes["run"] for runs in groups.values()) > 1:
        entries["bands: quartiles of runs"] = tuple(
            Patch(
                color=artist.get_color(), alpha=colours.interval_opacity(), linewidth=0
            )
            for artist in entries.values()
        )
    draw_legend(figure, entries, handler_map={tuple: HandlerTuple(ndivide=None, pad=0)})
    _plot_final_accuracies(panels[2 * len(groups)], test, split)
    if planes:
        for axes, panel in zip(
            panels[2 * len(groups) + 1 :], planes.panels, strict=True
        ):
            _plot_plane(axes, panel, planes.arrays([0])[panel.name][0])
        panels[2 * len(groups) + 1].set_ylabel(f"seed {planes.facts['seed']}")
    return figure


def _frequency_planes(trajectory: xr.Dataset) -> Scene | None:
    """The panels of the planes, at the last step of the first successful run; None for
    other networks and tasks, and where weights were not recorded."""
    settings = read_settings(trajectory)
    if (
        not isinstance(settings, TransformerSettings)
        or settings.task != "add"
        or "embedding" not in trajectory
    ):
        return None
    names = [f"frequency_{place}" for place in range(1, 1 + min(4, settings.n // 2))]
    try:
        return build_scene(
            trajectory.isel(step=[-1]),
            select_run(trajectory, "run", None)[0],
            panels=names,
        )
    except TrajectoryError:  # the run has diverged
        return None


def _plot_plane(axes: Axes, panel: Panel, places: np.ndarray) -> None:
    """Draw the embeddings (token, 2) in a plane; the label says how strong its
    frequency is."""
    (points,) = panel.layers
    assert isinstance(points, Points)
    axes.scatter(
        places[:, 0],
        places[:, 1],
        s=14 if len(places) <= 60 else 5,
        c=points.colours,
        linewidths=0,
    )
    axes.set(
        xlim=panel.x,
        ylim=panel.y,
        xticks=[],
        yticks=[],
        box_aspect=1,
        xlabel=panel.note,
        title=panel.title,
    )


def _last_split(trajectory: xr.Dataset) -> str:
    return "test" if "test" in trajectory["split"].values else "train"


def _runs_by_success(trajectory: xr.Dataset) -> dict[str, xr.Dataset]:
    """Successful and other runs by the name of one; a single run, or none, is not
    divided."""
    if trajectory.sizes["run"] == 1:
        return {"": trajectory}
    last = (
        trajectory["accuracy"].sel(split=_last_split(trajectory)).isel(step=-1).values
    )
    successful = exceeds(last, SUCCESS_ACCURACY) & not_diverged(trajectory)
    groups = {
        "successful run": trajectory.isel(run=successful),
        "failed run": trajectory.isel(run=~successful),
    }
    return {name: runs for name, runs in groups.items() if runs.sizes["run"]}


def _learning_title(trajectory: xr.Dataset, test: np.ndarray) -> str:
    settings = read_settings(trajectory)
    assert isinstance(settings, SparseSettings | TransformerSettings)
    above = int(exceeds(test, SUCCESS_ACCURACY).sum())
    outcome = (
        f"accuracy above {SUCCESS_ACCURACY:g} in {above} of"
        f" {count_of(trajectory.sizes['run'], 'run')}"
    )
    if isinstance(settings, SparseSettings):
        task = (
            f"Sum of {settings.sparsity} of {settings.length} tokens modulo"
            f" {settings.vocab}"
        )
    else:
        task = OPERATION_TITLES[settings.task].format(n=settings.n)
    return (
        f"{task}, {float(trajectory['epoch'][-1]):g} epochs:"
        f" {outcome if len(test) else 'all runs diverged'}"
    )


OPERATION_TITLES = {
    "add": "a + b modulo {n}",
    "subtract": "a \N{MINUS SIGN} b modulo {n}",
    "multiply": "a b modulo {n}",
    "quadratic": "a² + ab + b² modulo {n}",
    "symmetric": "Composition in the symmetric group S{n}",
    "dihedral": "Composition in the dihedral group D{n}",
}
"""The tasks of the transformer in words."""


def _plot_final_accuracies(axes: Axes, test: np.ndarray, split: str) -> None:
    bins = np.linspace(0, 1, 51).tolist()
    counts, *_ = axes.hist(
        np.minimum(test, 1 - 1e-9),
        bins=bins,
        color=colours.colour("test"),
        orientation="horizontal",
    )
    axes.set_xlim(0, 1.05 * max(1.0, np.max(counts)))
    for limit, side in zip(SUCCESS_THRESHOLDS[:2], ("top", "bottom"), strict=True):
        axes.axhline(limit, color=colours.colour("muted"), linewidth=0.8, linestyle=":")
        axes.annotate(
            f"{limit:g}",
            (1, limit),
            (3, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=colours.colour("muted"),
            ha="left",
            va=side,
        )
    axes.set(
        ylim=(-0.03, 1.03),
        xlabel="number of runs",
        ylabel="accuracy",
        title=f"{split} accuracy at the end",
    )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
