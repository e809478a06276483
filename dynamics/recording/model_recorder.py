"""The recorder of a model that is trained by a loop of its own, whose number of steps
is not known before its end."""

import dataclasses
import time
from typing import Any, Self

import numpy as np
import xarray as xr

from dynamics.errors import RecordingError, TrajectoryError
from dynamics.settings import SettingsError
from dynamics.system import Arrays, State
from dynamics.trajectory import recorder
from dynamics.trajectory.description import RecordingSchedule, RunDescription
from dynamics.trajectory.netcdf import StackedDatasets, open_group
from dynamics.trajectory.reader import (
    closed_parts,
    open_trajectory,
    part_file_name,
    parts_folder,
)
from dynamics.trajectory.recorder import remove_parts
from dynamics.trajectory.schema import DIVERGED

FIRST_PART_SECONDS = 1.0
"""Time after which the first part is written. Later parts follow when the time since
the beginning has doubled, and at the latest after
`dynamics.trajectory.recorder.PART_SECONDS`."""
_PAUSE = 100
"""Shortest time between parts, in times that it takes to write one."""
RESTART_STATE = "restart_state"
"""Name of the variable that contains the bytes of a restart state."""


@dataclasses.dataclass(frozen=True)
class OpenSchedule(RecordingSchedule):
    """A schedule that keeps each frame that it is given, and restart states at the
    multiples of `restart_every`."""

    restart_every: int = 0

    def records(self, step: int) -> bool:
        """True: the recording has already selected its frames."""
        return True

    def keeps_checkpoint(self, step: int) -> bool:
        """Whether the restart state at this step is kept."""
        return step == self.steps or (
            self.restart_every > 0 and step > 0 and step % self.restart_every == 0
        )


@dataclasses.dataclass(frozen=True)
class Position:
    """The position of a recording, with the interface of a state of a system."""

    step: int
    last_step: np.ndarray  # (run,)

    @classmethod
    def at(cls, step: int, last_step: int | None = None) -> Self:
        """At a step, the last one with finite values unless `last_step` names
        another."""
        return cls(step, np.array([step if last_step is None else last_step]))


class ModelRecorder(recorder.FileRecorder):
    """Writes the frames and restart states of a model to a file, in parts."""

    schedule: OpenSchedule

    def __enter__(self) -> "ModelRecorder":
        super().__enter__()
        self.began = self.part_since = time.monotonic()
        self.part_took = 0.0
        return self

    def part_is_due(self) -> bool:
        """Whether the data in memory, or the time since the last part, call for another
        part."""
        waits = max(
            FIRST_PART_SECONDS, self.part_since - self.began, _PAUSE * self.part_took
        )
        waited = time.monotonic() - self.part_since
        return self.bytes > recorder.PART_BYTES or waited > min(
            recorder.PART_SECONDS, waits
        )

    def close_part(self, state: State, system: Any) -> None:
        """Write a part that ends with this state."""
        begin = time.monotonic()
        super().close_part(state, system)
        self.part_took = self.part_since - begin

    def close_with_later_frames(self, last: State) -> int:
        """Write a part that ends with the last restart state in memory, and the frames
        after it, up to the last one, which are read until the run continues from that
        state.

        Returns the step of the last restart state on disk, from which the run
        continues; 0 if there is none."""
        frames = self.frames
        folder = parts_folder(self.path)
        if self.states:
            step = max(self.states)
            self.frames = {
                place: frame for place, frame in frames.items() if place <= step
            }
            path = folder / part_file_name(self.part_begins, step)
            self.write(path, Position.at(step), done=False)
            self.states, self.part_begins = {}, step
        parts = closed_parts(self.path)
        begin = parts[-1].end if parts else 0
        self.frames = {
            place: frame
            for place, frame in frames.items()
            if place > begin or not parts
        }
        if self.frames:
            name = part_file_name(begin, last.step, "frames")
            self.write(folder / name, last, done=False)
            self.frames = {}
        return begin

    def finish_without_state(self, last: State) -> None:
        """Write the run, whose state at its end is not known, without a restart state
        there."""
        self._end_at(last)
        if self.exists():
            self.close_with_later_frames(last)
            self.merge(last)
        else:
            self.write(self.path, last, done=True)
        remove_parts(self.path, closed_parts(self.path))

    def resume(self) -> Arrays | None:
        """The last restart state on disk. Raises RecordingError if the finished file
        has none."""
        finished = self.path.exists() and not self.overwrite
        if finished and not closed_parts(self.path):
            try:
                open_group(self.path, "checkpoint").close()
            except TrajectoryError:
                open_group(self.path).close()  # raises if the file is damaged
                raise RecordingError(
                    f"{self.path}: has no restart state at its end, as its last weights"
                    " were changed before the recording ended; overwrite=True replaces"
                    " it"
                ) from None
        try:
            return super().resume()
        except SettingsError as error:
            found, allowed = (
                text.replace("time_step=", "learning rate ").replace(
                    "--overwrite (overwrite=True in Python)", "overwrite=True"
                )
                for text in (str(error.found), str(error.allowed))
            )
            raise SettingsError("path", found, allowed) from None

    def merge_states(self, states: list[xr.Dataset]) -> StackedDatasets:
        """The restart states of the finished file. States of another size than the last
        one are left out."""
        size = states[-1].sizes[f"{RESTART_STATE}_0"]
        return super().merge_states(
            [state for state in states if state.sizes[f"{RESTART_STATE}_0"] == size]
        )

    def has_diverged(self) -> bool:
        """Whether the finished file contains a run that has diverged."""
        if not self.path.exists():
            return False
        with open_trajectory(self.path) as finished:
            return bool((finished["status"] == DIVERGED).any())

    def begin(self, description: RunDescription) -> None:
        """Set the description of the run, and remove files that are to be overwritten.
        Raises SettingsError if the variables are not those of the parts on disk."""
        self.description = description
        self.discard_existing()
        remove_parts(self.path, [])  # frames after the restart state
        written = (
            [self.path]
            if self.path.exists()
            else [part.path for part in closed_parts(self.path)]
        )
        for path in written:
            with open_group(path) as part:
                if "step" not in part.dims:
                    continue
                splits = part["split"].values.tolist() if "split" in part else []
                now = (
                    description.coords["split"].tolist()
                    if "split" in description.coords
                    else []
                )
                names = sorted(
                    name
                    for name in map(str, part.data_vars)
                    if "step" in part[name].dims
                )
                if (names, splits) != (sorted(description.dims), now):
                    what = (
                        f"{', '.join(sorted(description.dims))} of splits"
                        f" {', '.join(now)}"
                    )
                    allowed = (
                        f"the variables of {path}: {', '.join(names)} of splits"
                        f" {', '.join(splits)}"
                    )
                    raise SettingsError("recorded variables", what, allowed)

    def finish_at(self, now: State, last: State, system: Any) -> None:
        """Write the run, whose number of steps is known now."""
        self.schedule = dataclasses.replace(self.schedule, steps=now.step)
        self._end_at(last)
        super().finish_at(now, last, system)

    def _end_at(self, last: State) -> None:
        self.add_attributes(steps=last.step)

    def add_attributes(self, **attributes: Any) -> None:
        """Add attributes to the file."""
        attrs = {**self.description.attrs, **attributes}
        self.description = dataclasses.replace(self.description, attrs=attrs)


def padded(data: np.ndarray, length: int) -> np.ndarray:
    """Bytes with zeros after them, at least `length` long; longer ones have a multiple
    of 64 KiB."""
    return np.pad(
        data, (0, length - len(data) if len(data) <= length else -len(data) % (1 << 16))
    )
