"""Figure of the two phases of learning: sequence embeddings before, between and after the two drops of the loss."""

import numpy as np
import xarray as xr

from analysis.plots.panels import build_scene, run_events
from analysis.plots.scenes.common_panels import RecordedRun
from analysis.reproduction.figures import frames
from analysis.reproduction.figures.figure import DrawnFigure, FigureData, RunChoice, name_run
from analysis.transitions.loss_events import event_table, first_two_drops, trajectory_scalar
from dynamics.errors import TrajectoryError
from dynamics.training.finetuning import successful_runs
from dynamics.trajectory.reader import truncate_trajectory

WIDTH = 1500
"""Of all panels, in pixels."""
MARGIN = 0.15
"""How much of the time until the last snapshot is shown after it."""


def vc5(data: FigureData) -> DrawnFigure:
    """Sequence embeddings and level lines at four moments, with the loss."""
    trajectory = data.only
    found = first_two_drops(event_table(trajectory_scalar(trajectory, "loss")), trajectory.sizes["run"])
    chosen = data.choose(lambda: run_with_median_drop_gap(found, successful_runs(trajectory)))
    steps, moments = trajectory["step"].values, drop_snapshots(trajectory, found, chosen.run)
    until = int(steps[steps <= moments[-1] + MARGIN * (moments[-1] - steps[0])][-1])
    events = run_events(RecordedRun(trajectory, chosen.run))  # of the whole run: its length decides what counts as one
    marks = [mark for mark in events if (mark.begin if mark.kind == "drop" else mark.middle) <= until]
    shown = truncate_trajectory(trajectory, until)
    scene = build_scene(shown, chosen.run, side=frames.SIDE, panels=("transform_map", "loss"), marks=marks)
    at = np.searchsorted(scene.steps, moments).tolist()
    width = frames.SMALL_WIDTH if data.small else WIDTH
    figure = frames.plot_frames_in_blocks(scene, at, ["(1)", "(2)", "(3)", "(4)"], 1, width)
    epochs = ", ".join(f"{epoch:g}" for epoch in scene.clock[at])
    rule = f"Chosen: {chosen.why}. (1) as the first drop of the training loss begins, (2) as it ends, (3) as the "
    rule += f"second one begins, (4) as it ends, as analysis.events finds them: epochs {epochs} (the paper: 244, 260, "
    rule += "340, 365). Above, sequence embeddings upon the map of classes; below, the loss with a cursor at the "
    rule += f"snapshot, until epoch {scene.clock[-1]:g} of {trajectory['epoch'].values[-1]:g}; grey: the drops."
    return DrawnFigure(figure, f"{name_run(trajectory, chosen.run)}, epochs {epochs}", rule)


def run_with_median_drop_gap(found: xr.Dataset, success: np.ndarray) -> RunChoice:
    """Of the successful runs with two drops that in which the phase between them has the median length."""
    between = found["between"].values
    able = np.flatnonzero(np.isfinite(between) & (between > 0) & success)
    word = "successful runs in which these lie apart"
    if not len(able):
        able, word = np.flatnonzero(np.isfinite(between)), "runs with two drops, NONE of them successful"
    if not len(able):
        told = f"found no run with two drops of the loss among {len(between)}; more or longer runs may have"
        raise TrajectoryError(told)
    run = int(able[np.argsort(between[able], kind="stable")[(len(able) - 1) // 2]])
    return RunChoice(run, f"the one with the median time between its two drops, of {len(able)} {word}")


def drop_snapshots(trajectory: xr.Dataset, found: xr.Dataset, run: int) -> list[int]:
    """Recorded steps at or before the beginning of each drop of a run, and at or after its end, in the order of time.

    Raises TrajectoryError where the loss has no two drops.
    """
    if not np.isfinite(found["between"].values[run]):
        raise TrajectoryError(f"run {run}: found {int(found['drops'][run])} drops of the loss, expected two")
    steps = trajectory["step"].values
    before = steps[np.searchsorted(steps, found["begin"].values[run], "right") - 1]
    after = steps[np.minimum(np.searchsorted(steps, found["end"].values[run]), len(steps) - 1)]
    return [int(before[0]), int(after[0]), int(max(before[1], after[0])), int(after[1])]
