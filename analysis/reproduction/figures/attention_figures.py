"""Figure of the attention of VC's network: maps at the start and at the end of
training."""

import numpy as np
from matplotlib.figure import Figure

from analysis.clustering_heads.init_dependence import attention_start_end_correlation
from analysis.output.counts import count_of
from analysis.panels.colours import QUANTITY_MAP
from analysis.panels.run_scene import build_scene
from analysis.panels.scene import Image, Scene
from analysis.plots.figure_files import new_figure
from analysis.reproduction.figures.figure import (
    SPARSE,
    DrawnFigure,
    FigureData,
    PaperFigure,
    RunChoice,
    name_run,
)
from analysis.reproduction.figures.run_rules import index_nearest_median
from dynamics.errors import TrajectoryError
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.trajectory.success import successful_runs


def vc8(data: FigureData) -> DrawnFigure:
    """Attention at the start and at the end of training."""
    trajectory = data.only
    network = clustering_head_of(trajectory)
    own = np.diagonal(attention_start_end_correlation(trajectory).values)
    chosen = data.choose(
        lambda: run_with_median_attention(own, successful_runs(trajectory))
    )
    figure = _plot_attention_maps(
        build_scene(trajectory, chosen.run, panels=["attention"])
    )
    rule = (
        f"Chosen: {chosen.why}; its maps correlate by {own[chosen.run]:.2f}. Each row"
        " is a sequence, its "
        f"{network.settings.sparsity} non-spurious tokens first. Rows sum to 1."
    )
    return DrawnFigure(
        figure,
        f"attention of {name_run(trajectory, chosen.run)}",
        rule,
        [int(trajectory["seed"][chosen.run])],
    )


def _plot_attention_maps(scene: Scene) -> Figure:
    """The attention in the first and the last frame, a map each, with the sequences
    beside the first and one scale."""
    (image,) = scene.panels[0].layers
    assert isinstance(image, Image)
    height = 0.16 * len(image.rows) + 1.2
    figure = new_figure(7.8, height, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    values = scene.arrays([0, len(scene.steps) - 1])["attention"]
    for axes, weights, epoch, word in zip(
        panels, values, scene.clock[[0, -1]], ("start", "end"), strict=True
    ):
        drawn = axes.imshow(
            weights,
            aspect="auto",
            cmap=QUANTITY_MAP,
            vmin=0,
            vmax=image.high,
            interpolation="nearest",
        )
        axes.set_xticks(range(len(image.columns)), image.columns)
        axes.set_xlabel("position, from 0")
        axes.set_title(f"{word} of training, {scene.unit} {epoch:g}")
        axes.grid(visible=False)
    panels[0].set_yticks(range(len(image.rows)), image.rows, family="monospace")
    bar = figure.colorbar(drawn, ax=panels, aspect=60)
    bar.set_label("attention (fraction)")
    return figure


def run_with_median_attention(own: np.ndarray, success: np.ndarray) -> RunChoice:
    """The successful run whose correlation of attention at start and end is nearest to
    the median. Raises TrajectoryError."""
    finite = np.isfinite(own)
    able = np.flatnonzero(finite & success)
    words = count_of(len(able), "successful run")
    if not len(able):
        able = np.flatnonzero(finite)
        words = f"{count_of(len(able), 'run')}, NONE of them successful"
    if not len(able):
        raise TrajectoryError(
            "dimension run: found none that has attention at both ends, expected one at"
            " least"
        )
    run = index_nearest_median(able, own[able])
    return RunChoice(run, f"the median correlation of the two maps among {words}")


FIGURES = (
    PaperFigure(
        "vc8",
        "attention at the start and the end of training, p = 2",
        SPARSE,
        "1 minute",
        vc8,
        one_run=True,
    ),
)
