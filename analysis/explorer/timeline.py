"""The time line of one run, or of two that are compared: its times, and the frame of
each run at each time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.panels.common_panels import MAX_FRAMES, evenly_spaced_indices
from analysis.panels.frame_times import compares_by_run_fraction, frame_times
from analysis.panels.scene import Scene


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times of a time line, and the frame of each run at each time."""

    times: np.ndarray  # (index,) increasing
    frames: tuple[
        np.ndarray, ...
    ]  # for each run: (index,) int32, index among its kept frames
    unit: str
    values: tuple[np.ndarray, ...]  # for each run: (kept,) times of its kept frames

    def index_of_step(
        self, lane: int, scene: Scene, frames: np.ndarray, step: float
    ) -> int:
        """The index on the time line of a step of a run."""
        time = np.interp(step, scene.steps[frames], self.values[lane])
        return int(_last_before(self.times, time))


def make_timeline(scenes: Sequence[Scene], frames: Sequence[np.ndarray]) -> Timeline:
    """The time line of runs with the frames that were kept, synchronised as in a
    film."""
    along = zip(frame_times(scenes), frames, strict=True)
    values = tuple(times.astype(np.float64)[kept] for times, kept in along)
    times = np.unique(np.concatenate(values))
    times = times[evenly_spaced_indices(len(times), MAX_FRAMES)]
    places = tuple(_last_before(value, times).astype(np.int32) for value in values)
    unit = "share" if compares_by_run_fraction(scenes) else scenes[0].unit
    return Timeline(times, places, unit, values)


def _last_before(times: np.ndarray, at: np.ndarray | float) -> np.ndarray:
    """The index of the last time that is not later than others, or of the first."""
    return np.maximum(np.searchsorted(times, at, side="right") - 1, 0)
