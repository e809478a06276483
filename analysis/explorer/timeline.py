"""The time line of one run, or of two that are looked at together: its moments, and which frame each run has there."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.plots.drawing.film_timeline import frame_times, run_fraction
from analysis.plots.scenes.common_panels import MAX_FRAMES, evenly_spaced_indices
from analysis.plots.scenes.scene import Scene

COMPARE_BY = {"clock": "epoch or step", "step": "step", "share": "share of the run"}
"""What two runs have in common at a moment."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """The moments that can be looked at, and which of its frames each run has there."""

    times: np.ndarray  # (place,) increasing
    frames: tuple[np.ndarray, ...]  # of each run: (place,) int32, into the frames that are kept of it
    unit: str
    values: tuple[np.ndarray, ...]  # of each run: (kept,) where its frames lie on the line

    def place(self, lane: int, scene: Scene, frames: np.ndarray, step: float) -> int:
        """The place of a step of a run of whose frames some are kept."""
        value = np.interp(step, scene.steps[frames], self.values[lane])
        return int(np.clip(np.searchsorted(self.times, value, side="right") - 1, 0, len(self.times) - 1))


def make_timeline(scenes: Sequence[Scene], frames: Sequence[np.ndarray], by: str = "clock") -> Timeline:
    """The time line of runs of which some frames are kept; `by`, of `BY`, is what they share.

    Of two that do not count time alike it is the share of the run that is over, as in a film.
    """
    if by == "clock" and len({scene.unit for scene in scenes}) > 1:
        by = "share"
    along = {"clock": frame_times, "step": _steps, "share": _shares}[by](scenes)
    values = tuple(np.asarray(each, np.float64)[some] for each, some in zip(along, frames, strict=True))
    times = np.unique(np.concatenate(values))
    times = times[evenly_spaced_indices(len(times), MAX_FRAMES)]
    places = tuple(
        np.clip(np.searchsorted(each, times, side="right") - 1, 0, len(each) - 1).astype(np.int32) for each in values
    )
    return Timeline(times, places, scenes[0].unit if by == "clock" else by, values)


def _steps(scenes: Sequence[Scene]) -> list[np.ndarray]:
    return [scene.steps for scene in scenes]


def _shares(scenes: Sequence[Scene]) -> list[np.ndarray]:
    """Of the run that is over, by its clock."""
    return [run_fraction(np.asarray(scene.clock, float)) for scene in scenes]
