"""The time of a film: which recorded frames it shows, of one scene or of two side by side, and how long each.

Scenes of one unit of time go by their clocks; others, such as a network counted in epochs beside particles counted in
steps, by the share of the run that is over. Of each the last frame recorded by then is shown.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.plots.scenes.scene import Scene
from dynamics.settings import SettingsError

EVENT_HOLD = 4
"""Film frames that a recorded frame is held for around drops and spikes."""

_HELD_EVENTS = ("drop", "spike")
_FRAMES_BESIDE_EVENT = 2
"""Recorded frames before and after an event that are shown as slowly."""


class FilmFrames(NamedTuple):
    """What a film shows: (shown, scene) recorded frames, and (shown,) for how many film frames."""

    frames: np.ndarray
    holds: np.ndarray

    @property
    def length(self) -> int:
        """In film frames."""
        return int(self.holds.sum())


def compares_by_run_fraction(scenes: Sequence[Scene]) -> bool:
    """Whether scenes go by the share of their run that is over, as they count time in other units."""
    return len({scene.unit for scene in scenes}) > 1


def frame_times(scenes: Sequence[Scene]) -> list[np.ndarray]:
    """When each recorded frame of each scene is: by its clock, or, where units differ, by the share that is over."""
    clocks = [np.asarray(scene.clock, float) for scene in scenes]
    return [run_fraction(clock) for clock in clocks] if compares_by_run_fraction(scenes) else clocks


def run_fraction(clock: np.ndarray) -> np.ndarray:
    """How much of a run is over at each frame, by its clock: (frame,), from 0 to 1."""
    return (clock - clock[0]) / max(clock[-1] - clock[0], 1e-300)


def film_frames(
    scenes: Sequence[Scene],
    begin: int | None = None,
    end: int | None = None,
    every: int = 1,
    by_events: bool = False,
    last: int = 1,
) -> FilmFrames:
    """Every recorded frame, or every so many-th, from a step of the first scene to another, the last one always.

    by_events: whether frames near drops and spikes are held for `SLOW` film frames. last: film frames for which the
    last is held. Raises SettingsError.
    """
    at = frame_times(scenes)
    low, high = (_moment(name, scenes[0], at[0], step) for name, step in (("begin", begin), ("end", end)))
    both = np.unique(np.concatenate(at))
    both = both[(both >= (both[0] if low is None else low)) & (both <= (both[-1] if high is None else high))]
    if not len(both):
        raise SettingsError("begin, end", f"{begin} to {end}", "steps with a recorded frame between them")
    shown = both[::every] if (len(both) - 1) % every == 0 else np.append(both[::every], both[-1])
    frames = np.stack([np.maximum(np.searchsorted(each, shown, side="right") - 1, 0) for each in at], axis=1)
    holds = np.ones(len(shown), np.int64)
    if by_events:
        holds[_frames_near_events(scenes, frames)] = EVENT_HOLD
    holds[-1] = max(holds[-1], last)
    return FilmFrames(frames, holds)


def _frames_near_events(scenes: Sequence[Scene], frames: np.ndarray) -> np.ndarray:
    """Which of the frames shown (shown, scene) are near an event of their scene, (shown,) bool."""
    near = np.zeros(len(frames), bool)
    for place, scene in enumerate(scenes):
        for mark in scene.marks:
            if mark.kind in _HELD_EVENTS:
                first = np.searchsorted(scene.steps, mark.begin, side="right") - 1 - _FRAMES_BESIDE_EVENT
                last = np.searchsorted(scene.steps, mark.end) + _FRAMES_BESIDE_EVENT
                near |= (frames[:, place] >= first) & (frames[:, place] <= last)
    return near


def nearest_frame(scene: Scene, step: int) -> int:
    """The recorded frame nearest to a step, the earlier of two; -1 is the last. Raises SettingsError."""
    steps = scene.steps
    if step == -1:
        return len(steps) - 1
    if not steps[0] <= step <= steps[-1]:
        raise SettingsError("step", step, f"from {steps[0]} to {steps[-1]}{_divergence_note(scene)}, or -1, the last")
    return int(np.abs(steps - step).argmin())


def _divergence_note(scene: Scene) -> str:
    """Why a run has no more steps, where it diverged."""
    status = scene.facts.get("status", "")
    return f" ({status})" if status.startswith("diverged") else ""


def simultaneous_frames(scenes: Sequence[Scene], frame: int) -> list[int]:
    """The frames of all scenes when the first one is at a frame."""
    at = frame_times(scenes)
    return [frame, *(max(0, int(np.searchsorted(each, at[0][frame], side="right")) - 1) for each in at[1:])]


def _moment(name: str, scene: Scene, at: np.ndarray, step: int | None) -> float | None:
    if step is None:
        return None
    if not scene.steps[0] <= step <= scene.steps[-1]:
        raise SettingsError(name, step, f"a step from {scene.steps[0]} to {scene.steps[-1]}{_divergence_note(scene)}")
    return float(np.interp(step, scene.steps, at))
