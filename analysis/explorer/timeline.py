"""The time line of one run, or of two that are compared: its times, and the frame of
each run at each time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.panels.common_panels import MAX_FRAMES, evenly_spaced_indices
from analysis.panels.scene import Scene
from analysis.plots.drawing.film_timeline import run_fraction

COMPARE_BY = {"clock": "epoch or step", "step": "step", "share": "fraction of the run"}
"""The quantity by which the frames of two runs are matched."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times of a time line, and the frame of each run at each time."""

    times: np.ndarray  # (index,) increasing
    frames: tuple[
        np.ndarray, ...
    ]  # for each run: (index,) int32, index among its kept frames
    unit: str
    values: tuple[np.ndarray, ...]  # for each run: (kept,) times of its kept frames

    def place(self, lane: int, scene: Scene, frames: np.ndarray, step: float) -> int:
        """The index on the time line of a step of a run."""
        value = np.interp(step, scene.steps[frames], self.values[lane])
        return int(
            np.clip(
                np.searchsorted(self.times, value, side="right") - 1,
                0,
                len(self.times) - 1,
            )
        )


def make_timeline(
    scenes: Sequence[Scene], frames: Sequence[np.ndarray], by: str = "clock"
) -> Timeline:
    """The time line of runs with the frames that were kept. by: a key of `COMPARE_BY`.

    Two runs with different units of time are matched by the fraction of the run, as in
    a film."""
    if by == "clock" and len({scene.unit for scene in scenes}) > 1:
        by = "share"
    if by == "step":
        along = [scene.steps for scene in scenes]
    else:
        clocks = [np.asarray(scene.clock, float) for scene in scenes]
        along = clocks if by == "clock" else [run_fraction(clock) for clock in clocks]
    values = tuple(
        np.asarray(item, np.float64)[some]
        for item, some in zip(along, frames, strict=True)
    )
    times = np.unique(np.concatenate(values))
    times = times[evenly_spaced_indices(len(times), MAX_FRAMES)]
    places = tuple(
        np.clip(
            np.searchsorted(value, times, side="right") - 1, 0, len(value) - 1
        ).astype(np.int32)
        for value in values
    )
    return Timeline(times, places, scenes[0].unit if by == "clock" else by, values)
