"""Figure of the two phases of learning: sequence embeddings before, between and after the two drops of the loss."""

import dataclasses
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.plots.panels import build_scene, run_events
from analysis.plots.scenes.common_panels import RecordedRun
from analysis.plots.scenes.scene import EventMark
from analysis.reproduction.figures.circuits import SIDE, SMALL_WIDTH
from analysis.reproduction.figures.figure import DrawnFigure, FigureData, RunChoice, name_run
from analysis.reproduction.figures.frames import plot_frames_in_blocks
from analysis.transitions.loss_events import event_table, first_two_drops, trajectory_scalar
from dynamics.errors import TrajectoryError
from dynamics.training.finetuning import successful_runs
from dynamics.trajectory.reader import truncate_trajectory

PANELS = ("transform_map", "loss")
WIDTH = 1500
"""Of all panels, in pixels."""
MARGIN = 0.15
"""How much of the time until the last snapshot is shown after it."""


class DropSnapshots(NamedTuple):
    """Recorded steps at which the first drop begins and ends, and the second begins and ends."""

    begin: int
    end: int
    second_begin: int
    second_end: int


def vc5(data: FigureData) -> DrawnFigure:
    """Sequence embeddings and level lines at four moments, with the loss."""
    trajectory = data.only
    found = first_two_drops(event_table(trajectory_scalar(trajectory, "loss")), trajectory.sizes["run"])
    chosen = data.choose(lambda: run_with_median_drop_gap(found, successful_runs(trajectory)))
    check_two_drops(found, chosen.run)
    moments = drop_snapshots(trajectory, found, chosen.run)
    steps = trajectory["step"].values
    until = steps[steps <= moments.second_end + MARGIN * (moments.second_end - steps[0])][-1]
    marks = _events_until(trajectory, chosen.run, int(until))
    made = build_scene(truncate_trajectory(trajectory, int(until)), chosen.run, side=SIDE, panels=PANELS, marks=marks)
    frames = [int(np.flatnonzero(made.steps == step)[0]) for step in moments]
    blocks = [dataclasses.replace(made, title=f"({place})") for place in range(1, 1 + len(frames))]
    figure = plot_frames_in_blocks(blocks, frames, PANELS, 1, SMALL_WIDTH if data.small else WIDTH)
    epochs = ", ".join(f"{made.clock[frame]:g}" for frame in frames)
    rule = (
        f"Chosen: {chosen.why}. (1) as the first drop of the training loss begins, (2) as it ends, (3) as the "
        f"second one begins, (4) as it ends, as analysis.events finds them: epochs {epochs} (the paper: 244, 260, 340, "
        "365). Above, sequence embeddings upon the map of classes; below, the loss with a cursor at the snapshot, "
        f"until epoch {made.clock[-1]:g} of {trajectory['epoch'].values[-1]:g}; grey: the drops."
    )
    return DrawnFigure(figure, f"{name_run(trajectory, chosen.run)}, epochs {epochs}", rule)


def _events_until(trajectory: xr.Dataset, run: int, until: int) -> list[EventMark]:
    """The events of a whole run up to a step: what counts as one depends on how long the run is."""
    marks = run_events(RecordedRun(trajectory, run))
    return [mark for mark in marks if (mark.begin if mark.kind == "drop" else mark.middle) <= until]


def run_with_median_drop_gap(found: xr.Dataset, success: np.ndarray) -> RunChoice:
    """Of the successful runs with two drops that in which the phase between them has the median length."""
    between = found["between"].values
    able = np.flatnonzero(np.isfinite(between) & (between > 0) & success)
    word = "successful runs in which these lie apart"
    if not len(able):
        able, word = np.flatnonzero(np.isfinite(between)), "runs with two drops, NONE of them successful"
    if not len(able):
        raise TrajectoryError(
            f"found no run with two drops of the loss among {len(between)}; more or longer runs may have"
        )
    run = int(able[np.argsort(between[able], kind="stable")[(len(able) - 1) // 2]])
    return RunChoice(run, f"the one with the median time between its two drops, of {len(able)} {word}")


def check_two_drops(found: xr.Dataset, run: int) -> None:
    """Check that the loss of a run has two drops. Raises TrajectoryError."""
    if not np.isfinite(found["between"].values[run]):
        raise TrajectoryError(f"run {run}: found {int(found['drops'][run])} drops of the loss, expected two")


def drop_snapshots(trajectory: xr.Dataset, found: xr.Dataset, run: int) -> DropSnapshots:
    """The recorded steps at or before the begin of a drop, and at or after its end."""
    steps = trajectory["step"].values
    begin, end = found["begin"].values[run], found["end"].values[run]
    before = [int(steps[np.searchsorted(steps, moment, "right") - 1]) for moment in begin]
    after = [int(steps[min(np.searchsorted(steps, moment), len(steps) - 1)]) for moment in end]
    return DropSnapshots(before[0], after[0], max(before[1], after[0]), after[1])
