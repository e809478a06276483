"""Figure of the two phases of learning: sequence embeddings before, between and after
the two drops of the loss."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from analysis.output.counts import count_of
from analysis.panels.colours import colour, named_colours
from analysis.panels.run_scene import build_scene
from analysis.panels.scene import Scene
from analysis.plots.curves import set_width_of_split
from analysis.plots.drawing.artists import make_layer_artist
from analysis.plots.figure_files import new_figure
from analysis.reproduction.figures.figure import (
    SPARSE,
    DrawnFigure,
    FigureData,
    PaperFigure,
    RunChoice,
    name_run,
)
from analysis.transitions.loss_events import (
    event_table,
    first_two_drops,
    trajectory_scalar,
)
from dynamics.errors import TrajectoryError
from dynamics.trajectory.reader import truncate_trajectory
from dynamics.trajectory.success import successful_runs

SIDE = 200
"""Of a class map, in pixels."""
WIDTH = 7.8
"""Of the figure, in inches."""
MARGIN = 0.15
"""How much of the time until the last snapshot is shown after it."""


def vc5(data: FigureData) -> DrawnFigure:
    """Sequence embeddings on the map of classes at four moments, and the loss with
    these moments."""
    trajectory = data.only
    result = first_two_drops(
        event_table(trajectory_scalar(trajectory, "loss")), trajectory.sizes["run"]
    )
    chosen = data.choose(
        lambda: run_with_median_drop_gap(result, successful_runs(trajectory))
    )
    steps = trajectory["step"].values
    moments = drop_snapshots(trajectory, result, chosen.run)
    until = int(steps[steps <= moments[-1] + MARGIN * (moments[-1] - steps[0])][-1])
    truncated = truncate_trajectory(trajectory, until)
    scene = build_scene(truncated, chosen.run, side=SIDE, panels=("transform_map",))
    at = np.searchsorted(scene.steps, moments).tolist()
    spans = np.stack(
        [result[name].values[chosen.run] for name in ("begin", "end")], axis=1
    )
    drops = np.interp(spans, trajectory["step"], trajectory["epoch"])
    figure = _plot_maps_and_loss(
        scene, at, truncated["loss"].isel(run=chosen.run), drops
    )
    epochs = ", ".join(f"{epoch:g}" for epoch in scene.clock[at])
    rule = (
        f"Chosen: {chosen.why}. (1) as the first drop of the training loss begins, (2)"
        " as it ends, (3) as the "
        "second one begins, (4) as it ends, as analysis.events finds them: epochs"
        f" {epochs} (the paper: 244, 260, "
        "340, 365). Above, sequence embeddings on the map of classes, a colour for each"
        " multiset of the "
        f"non-spurious tokens; below, the loss until epoch {scene.clock[-1]:g} of"
        f" {trajectory['epoch'].values[-1]:g}."
    )
    here = f"the two drops of {name_run(trajectory, chosen.run)}, epochs {epochs}"
    seeds = [int(trajectory["seed"][chosen.run])]
    return DrawnFigure(figure, here, rule, seeds)


def _plot_maps_and_loss(
    scene: Scene, at: Sequence[int], loss: xr.DataArray, drops: np.ndarray
) -> Figure:
    """Sequence embeddings on the map of classes at some frames, above the losses (step,
    split) of the run with lines at these frames; drops: epochs at which the drops begin
    and end, (drop, 2)."""
    figure = new_figure(WIDTH, 5.1)
    grid = figure.add_gridspec(
        2,
        len(at),
        left=0.09,
        right=0.965,
        top=0.94,
        bottom=0.15,
        hspace=0.42,
        wspace=0.12,
    )
    below = figure.add_subplot(grid[1, :])
    for place, frame in enumerate(at):
        epoch = scene.clock[frame]
        axes = figure.add_subplot(grid[0, place])
        _draw_frame_panel(axes, scene, frame, 0.7)
        axes.set_title(f"({place + 1}) epoch {epoch:g}")
        axes.grid(visible=False)
        axes.set(xlabel="axis 1", ylabel="axis 2" if place == 0 else "")
        axes.tick_params(labelleft=place == 0)  # the limits are those of all maps
        below.axvline(epoch, color=colour("ink"), linewidth=1, linestyle="--")
        # on alternating sides of the line, so that numbers do not overlap
        side, shift = (("right", -3), ("left", 3))[place % 2]
        below.annotate(
            f"({place + 1})",
            (epoch, 1),
            xycoords=("data", "axes fraction"),
            xytext=(shift, 1),
            textcoords="offset points",
            ha=side,
        )
    splits = loss["split"].values.astype(str).tolist()
    for split, rgb in zip(splits, named_colours(splits), strict=True):
        (line,) = below.plot(
            scene.clock, loss.sel(split=split), color=rgb, linewidth=1.2, label=split
        )
        set_width_of_split(line, split)
    for place, (begin, end) in enumerate(drops):
        below.axvspan(
            begin,
            end,
            color=colour("band"),
            zorder=0,
            label="_" * place + "drops of the training loss",
        )
    below.set(
        yscale="log",
        xlim=(scene.clock[0], scene.clock[-1]),
        xlabel="epoch",
        ylabel="loss (nats)",
    )
    below.yaxis.set_minor_formatter(NullFormatter())
    # the losses may be anywhere in the axes
    below.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncol=len(splits) + 1)
    return figure


def _draw_frame_panel(axes: Axes, scene: Scene, frame: int, px: float) -> None:
    """Draw the first panel of a scene at a frame. px: size in points of a layout pixel,
    which sets that of marks."""
    panel = scene.panels[0]
    axes.set(xlim=panel.x, ylim=panel.y, autoscale_on=False)
    arrays = scene.arrays([frame], [panel.name])
    for place, layer in enumerate(panel.layers):
        artist = make_layer_artist(axes, panel, layer, place, px)
        artist.show(
            arrays[layer.array][0] if hasattr(layer, "array") else np.empty(0), frame
        )
        for item in artist.moving:
            item.set_animated(False)


def run_with_median_drop_gap(result: xr.Dataset, success: np.ndarray) -> RunChoice:
    """Of the successful runs with two drops that in which the phase between them has
    the median length."""
    between = result["between"].values
    able = np.flatnonzero(np.isfinite(between) & (between > 0) & success)
    words = f"{count_of(len(able), 'successful run')} in which these lie apart"
    if not len(able):
        able = np.flatnonzero(np.isfinite(between))
        words = f"{count_of(len(able), 'run')} with two drops, NONE of them successful"
    if not len(able):
        message = (
            f"found no run with two drops of the loss among {len(between)}; more or"
            " longer runs may have"
        )
        raise TrajectoryError(message)
    run = int(able[np.argsort(between[able], kind="stable")[(len(able) - 1) // 2]])
    return RunChoice(
        run,
        f"the one with the median time between its two drops, of {words}",
    )


def drop_snapshots(trajectory: xr.Dataset, result: xr.Dataset, run: int) -> list[int]:
    """Recorded steps at or before the beginning of each drop of a run, and at or after
    its end, in the order of time.

    Raises TrajectoryError where the loss has no two drops.
    """
    if not np.isfinite(result["between"].values[run]):
        raise TrajectoryError(
            f"run {run}: found {int(result['drops'][run])} drops of the loss,"
            " expected two"
        )
    steps = trajectory["step"].values
    before = steps[np.searchsorted(steps, result["begin"].values[run], "right") - 1]
    after = steps[
        np.minimum(np.searchsorted(steps, result["end"].values[run]), len(steps) - 1)
    ]
    return [int(before[0]), int(after[0]), int(max(before[1], after[0])), int(after[1])]


FIGURES = (
    PaperFigure(
        "vc5",
        "two-phase learning: the map of classes with the sequence embeddings where the"
        " two drops of the loss begin and end, as they are found",
        SPARSE,
        "1 minute",
        vc5,
        one_run=True,
    ),
)
