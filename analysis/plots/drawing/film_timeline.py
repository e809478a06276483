"""The recorded frames that a film shows, of one scene or of two side by side, and how
long each is shown.

Scenes are synchronised by their times (`analysis.panels.frame_times`). Each scene shows
the last frame recorded by that time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.panels.frame_times import frame_times
from analysis.panels.scene import Scene
from dynamics.settings import SettingsError
from dynamics.trajectory import frames_at
from dynamics.trajectory.selection import Selection

EVENT_PACE, PLATEAU_PACE = 4.0, 1 / 3
"""Time for which a recorded frame near a drop, rise or spike is shown, and one in a
plateau, relative to others."""

MAX_FPS = 240
"""Most frames per second of a film."""

_FRAMES_BESIDE_EVENT = 2
"""Number of recorded frames before and after an event that are shown equally long."""


class FilmFrames(NamedTuple):
    """Recorded frames of a film, (frame, scene), and the number of film frames for
    which each is held, (frame,).

    fractions: how far the film is from each frame to the next recorded one that it
    shows, `following`, (frame,); None: it shows recorded frames only."""

    frames: np.ndarray
    holds: np.ndarray
    every: int = 1
    following: np.ndarray | None = None
    fractions: np.ndarray | None = None

    @property
    def length(self) -> int:
        """Total number of film frames."""
        return int(self.holds.sum())


def film_frames(
    scenes: Sequence[Scene],
    begin: int | None = None,
    end: int | None = None,
    every: int | None = 1,
    by_events: bool = False,
    last: int = 1,
    most: int = 80,
    selection: Selection = Selection(),
) -> FilmFrames:
    """Every recorded frame, or one in `every`, from step `begin` to `end` of the first
    scene, and the last one.

    every: None: chosen to show about `most` frames. by_events: whether the film is
    slower at drops, rises and spikes, and faster in plateaus, instead: it has as many
    frames as were recorded, or `most` if these are more. last: film frames for which
    the last frame is held. selection: frames instead of one in `every`. Raises
    SettingsError."""
    times = frame_times(scenes)
    low, high = (
        _time_of_step(name, scenes[0], times[0], step)
        for name, step in (("begin", begin), ("end", end))
    )
    both = np.unique(np.concatenate(times))
    both = both[
        (both >= (both[0] if low is None else low))
        & (both <= (both[-1] if high is None else high))
    ]
    if not len(both):
        raise SettingsError(
            "begin, end",
            f"{begin} to {end}",
            "steps with a recorded frame between them",
        )
    frames = np.stack([_frames_at(time, both) for time in times], axis=1)
    if by_events:
        chosen, holds = _frames_by_events(_paces(scenes, frames), most)
        every = 1
    else:
        every = -(-len(both) // most) if every is None else every
        if not selection.selects_frames:
            selection = Selection(every=every)
        every = selection.every or 1
        chosen = selection.indices(len(both))
        if selection.at:
            moments = times[0][frames_at(scenes[0].steps, selection.at)]
            chosen = np.flatnonzero(np.isin(both, moments))
        holds = np.ones(len(chosen), np.int64)
    holds[-1] = max(holds[-1], last)
    return FilmFrames(frames[chosen], holds, every)


def shown_steps(film: FilmFrames, steps: np.ndarray) -> np.ndarray:
    """The step of the first scene at each frame of a film, (frame,). steps: of its
    recorded frames."""
    shown = steps[film.frames[:, 0]]
    if film.following is None or film.fractions is None:
        return shown
    return shown + film.fractions * (steps[film.following[:, 0]] - shown)


def interpolate_film(film: FilmFrames, between: int) -> FilmFrames:
    """A film with a number of frames between two recorded ones, for each film frame of
    which the first one of these is held."""
    counts = film.holds * (between + 1)
    counts[-1] = 1
    following = np.append(film.frames[1:], film.frames[-1:], axis=0)
    fractions = np.concatenate([np.arange(count) / count for count in counts])
    holds = np.ones(len(fractions), np.int64)
    holds[-1] = film.holds[-1]
    return FilmFrames(
        film.frames.repeat(counts, axis=0),
        holds,
        film.every,
        following.repeat(counts, axis=0),
        fractions,
    )


def fit_duration(
    film: FilmFrames, seconds: float, fps: float
) -> tuple[FilmFrames, float]:
    """The film with a duration, and its frames per second: frames are held for longer,
    or there are more of them in a second. Raises SettingsError."""
    length = max(1, round(seconds * fps))
    if film.length <= length:
        ends = np.round(np.cumsum(film.holds) * length / film.length).astype(np.int64)
        return film._replace(holds=np.diff(ends, prepend=0)), fps
    fps = film.length / seconds
    if fps > MAX_FPS:
        allowed = f"at least {film.length / MAX_FPS:.1f} for {film.length} frames"
        raise SettingsError("duration", seconds, allowed)
    return film, fps


def _frames_by_events(paces: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the frames that a film shows, the first and the last among them, and
    the number of film frames for which each is held, by their paces (frame,)."""
    ends = np.cumsum(paces)
    length = min(len(paces), most)
    shown = np.searchsorted(ends, ends[-1] * (np.arange(length) + 0.5) / length)
    shown[0] = 0
    return np.unique(np.append(shown, len(paces) - 1), return_counts=True)


def _frames_at(times: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Last frame recorded by each moment, or the first frame."""
    return np.maximum(np.searchsorted(times, moments, side="right") - 1, 0)


def _paces(scenes: Sequence[Scene], frames: np.ndarray) -> np.ndarray:
    """Relative times for which frames (frame, scene) are shown, (frame,): the longest
    of any scene."""
    paces = np.ones(frames.shape)
    for pace, column, scene in zip(paces.T, frames.T, scenes, strict=True):
        in_plateau = np.zeros(len(pace), bool)
        at_event = np.zeros(len(pace), bool)
        for mark in scene.marks:
            is_plateau = mark.kind == "plateau"
            beside = 0 if is_plateau else _FRAMES_BESIDE_EVENT
            first = np.searchsorted(scene.steps, mark.begin, side="right") - 1 - beside
            last = np.searchsorted(scene.steps, mark.end) + beside
            span = in_plateau if is_plateau else at_event
            span |= (column >= first) & (column <= last)
        pace[in_plateau] = PLATEAU_PACE
        pace[at_event] = EVENT_PACE
    return paces.max(axis=1)


def nearest_frame(scene: Scene, step: int) -> int:
    """Recorded frame nearest to a step, the earlier of two; -1 means the last step.
    Raises SettingsError."""
    if step == -1:
        return len(scene.steps) - 1
    _check_step("step", scene, step, ", or -1, the last")
    return int(np.abs(scene.steps - step).argmin())


def simultaneous_frames(scenes: Sequence[Scene], frame: int) -> list[int]:
    """Frames of all scenes when the first scene is at a frame."""
    first, *others = frame_times(scenes)
    return [frame, *(int(_frames_at(other, first[frame])) for other in others)]


def _time_of_step(
    name: str, scene: Scene, times: np.ndarray, step: int | None
) -> float | None:
    if step is None:
        return None
    _check_step(name, scene, step)
    return float(np.interp(step, scene.steps, times))


def _check_step(name: str, scene: Scene, step: int, more: str = "") -> None:
    """Raise SettingsError unless a scene has a step; the message says where a run
    diverged."""
    if not scene.steps[0] <= step <= scene.steps[-1]:
        status = scene.facts.get("status", "")
        end = f" ({status})" if status.startswith(("diverged", "stopped")) else ""
        raise SettingsError(
            name, step, f"a step from {scene.steps[0]} to {scene.steps[-1]}{end}{more}"
        )
