"""Writing trajectories such that a killed process leaves only complete files and the
run can be continued.

A short run is written once. A longer one is written in parts
(`dynamics.trajectory.reader`): each contains the frames since the previous part and the
exact state at its end. When the run is finished, the parts are merged. Every file is
written completely or not at all, by one process at a time
(`dynamics.trajectory.netcdf`)."""

import contextlib
import dataclasses
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr

from dynamics.errors import RecordingError, TrajectoryError
from dynamics.settings import SettingsError
from dynamics.system import Arrays, State, System
from dynamics.trajectory.description import (
    RecordingSchedule,
    RunDescription,
    add_variable_attributes,
    check_same_run,
    final_variables,
    stopped_in,
)
from dynamics.trajectory.netcdf import (
    StackedDatasets,
    check_backslash,
    hold_lock,
    open_group,
    resolve_link,
    write_sealed_file,
)
from dynamics.trajectory.reader import (
    PartFile,
    check_parts_contiguous,
    closed_parts,
    open_trajectory,
    part_file_name,
    parts_folder,
    truncate_trajectory,
    unfinished_files,
)
from dynamics.trajectory.schema import (
    DIVERGED,
    STOPPED,
    describe_variables,
    validate_trajectory,
)

PART_BYTES = 256 << 20
"""Size of the frames in memory above which a part is written."""
PART_SECONDS = 60.0
"""Time since the last part after which another one is written."""


def save_trajectory(
    trajectory: xr.Dataset, path: str | Path, overwrite: bool = False
) -> None:
    """Write a dataset, such as a selection of runs, as a trajectory file without
    restart states.

    The file gets the attribute `derived`, so that no simulation continues it.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A valid trajectory; a single run is selected as ``isel(run=[3])``, which keeps
        the dimension.
    path : str or Path
        The file, NAME.nc.
    overwrite : bool
        Replace an existing file.

    Raises
    ------
    TrajectoryError
        If the dataset does not follow the schema.
    RecordingError
        If the file exists or cannot be written.

    Examples
    --------
    >>> from dynamics import ParticleSettings, open_trajectory
    >>> from dynamics import save_trajectory, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=6, steps=3)
    >>> save_trajectory(trajectory.isel(run=[1, 4]), "two.nc")
    >>> open_trajectory("two.nc")["seed"].values
    array([1, 4])
    """
    if not isinstance(trajectory, xr.Dataset):
        found = f"found a {type(trajectory).__name__}, expected an xarray.Dataset"
        raise TrajectoryError(f"trajectory: {found}")
    path = resolve_link(path)
    check_backslash(path)
    if not trajectory.sizes.get("run") or "seed" not in trajectory:
        validate_trajectory(trajectory)  # raises
    seeds = trajectory["seed"].values
    derived = trajectory.assign_attrs(seed=int(seeds[0]), runs=len(seeds))
    derived.attrs.setdefault("derived", "a selection or a branch")
    derived = validate_trajectory(derived.transpose("run", "step", ...))
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(path):
        if closed_parts(path) or (path.exists() and not overwrite):
            raise RecordingError(
                f"{path}: exists already; overwrite replaces a finished file"
            )
        frames = StackedDatasets([(derived, np.arange(derived.sizes["step"]))], "step")
        write_sealed_file(path, {"": frames}, derived.attrs)


def find_finished_run(
    path: Path, identity: Mapping[str, Any], steps: int
) -> xr.Dataset | None:
    """The trajectory at `path`, truncated to `steps` steps; None if it does not exist
    or is shorter. It may be shorter if all of its runs have ended at a condition.

    Raises SettingsError if it belongs to a run with another identity, or has no frame
    at step `steps`."""
    if not path.exists():
        return None
    trajectory = open_trajectory(path)
    check_same_run(path, trajectory.attrs, identity)
    recorded = trajectory["step"].values
    if not reaches(trajectory, steps):
        trajectory.close()
        return None
    steps = min(steps, int(recorded[-1]))
    if steps not in recorded:
        allowed = (
            f"a recorded step of {path} (every {identity['every']}), another --out, or"
            " --overwrite"
        )
        raise SettingsError("steps", f"{steps} steps", allowed)
    remove_merged_parts(path, int(recorded[-1]), identity)
    return truncate_trajectory(trajectory, steps)


def reaches(trajectory: xr.Dataset, steps: int) -> bool:
    """Whether a finished trajectory has `steps` steps, or ends before because all of
    its runs have ended at a condition or diverged."""
    ended = np.isin(trajectory["status"].values, (STOPPED, DIVERGED)).all()
    has_ended = "until" in trajectory.attrs and bool(ended)
    return has_ended or int(trajectory["step"][-1]) >= steps


def remove_merged_parts(path: Path, reached: int, identity: Mapping[str, Any]) -> None:
    """Remove the parts of a finished file whose writer was killed after merging them;
    parts of other runs are kept."""
    if not parts_folder(path).is_dir() or any(
        part.end > reached for part in closed_parts(path)
    ):
        return  # there are none, or the run is being extended
    with (
        contextlib.suppress(OSError, RecordingError, TrajectoryError, SettingsError),
        hold_lock(path),
    ):
        parts = closed_parts(path)
        for part in parts:
            with open_group(part.path) as root:
                check_same_run(path, root.attrs, identity)
        remove_parts(path, parts)


def remove_parts(path: Path, parts: list[PartFile]) -> None:
    """Remove parts and frames after them, and their folder if nothing else is in it."""
    after = parts_folder(path).glob("frames-*.nc")
    for file in (*(part.path for part in parts), *after):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other files in the folder are kept
        parts_folder(path).rmdir()


class MemoryRecorder:
    """Keeps the frames of a run in memory. A context manager, with the interface of
    `FileRecorder`."""

    path: Path | None = None

    def __init__(
        self, description: RunDescription, schedule: RecordingSchedule
    ) -> None:
        self.description = description
        self.schedule = schedule
        self.frames: dict[int, Arrays] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def resume(self) -> Arrays | None:
        """The restart state from which the run continues; None for a new run."""
        return None

    def discard_existing(self) -> None:
        """Remove the files of an earlier run; called after the first state has been
        computed."""

    def lacks_frame(self, step: int) -> bool:
        """Whether the frame at `step`, from which the run continues, must still be
        recorded."""
        return False

    def add(self, state: State, system: System) -> None:
        """Keep the frame and the restart state of this state if the schedule includes
        its step."""
        if self.schedule.records(state.step):
            frame = system.observe(state)
            self.frames[state.step] = {
                name: frame[name] for name in self.description.dims
            }

    def part_is_due(self) -> bool:
        """Whether it is time to call `close_part`."""
        return False

    def close_part(self, state: State, system: System) -> None:
        """Write the frames in memory to disk, so that the run can be continued from
        this state."""

    def finish(self, state: State, system: System) -> xr.Dataset:
        """The trajectory of the run, which ends with this state."""
        return self.description.dataset(self.frames, ends_of(state, done=True))

    def end_at(self, step: int) -> None:
        """End the run at a recorded step, before the last one."""
        self.schedule = dataclasses.replace(self.schedule, steps=step)
        attrs = {**self.description.attrs, "steps": step}
        self.description = dataclasses.replace(self.description, attrs=attrs)


class FileRecorder(MemoryRecorder):
    """Writes a run to `path`, in parts if it is long. Entering the context acquires the
    lock.

    identity: the result of `run_identity`; an existing file of another run raises
    SettingsError."""

    path: Path

    def __init__(
        self,
        path: Path,
        description: RunDescription,
        schedule: RecordingSchedule,
        identity: Mapping[str, Any],
        overwrite: bool = False,
    ) -> None:
        super().__init__(description, schedule)
        self.path = path.absolute()  # a change of folder does not move the file
        self.identity = identity
        self.overwrite = overwrite
        self.states: dict[int, Arrays] = {}
        self.complete = True
        """Whether a run that ends has all its frames; else it is never done."""
        self.held = contextlib.ExitStack()
        self.last_frame = -1  # step of the last frame on disk
        self.part_begins = schedule.first  # step at which the part in memory begins
        self.part_since = time.monotonic()
        self.bytes = 0

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordingError(
                f"{self.path}: cannot be written ({error.strerror})"
            ) from None
        folder = parts_folder(self.path)
        if folder.exists() and not folder.is_dir():
            raise RecordingError(
                f"{folder}: is a file, expected a folder for parts of the run"
            )
        self.held.enter_context(hold_lock(self.path))
        ours = re.compile(
            rf"\.({re.escape(self.path.name)}|part-\d+-\d+\.nc)\.\d+\.\d+\.tmp"
        )
        for left in (*self.path.parent.glob(".*.tmp"), *folder.glob(".*.tmp")):
            if ours.fullmatch(left.name):
                with contextlib.suppress(OSError):
                    left.unlink()
        return self

    def __exit__(self, *error: object) -> None:
        self.held.close()

    def resume(self) -> Arrays | None:
        """The last restart state on disk: that of the last part, or of the finished
        file."""
        if self.overwrite:
            return None
        position = self.schedule.first
        parts = closed_parts(self.path)
        if self.path.exists():
            with open_trajectory(self.path) as finished:
                check_same_run(self.path, finished.attrs, self.identity)
                self.last_frame = int(finished["step"][-1])
            with open_group(self.path, "checkpoint") as states:
                position = int(states["checkpoint"][-1])
            if (
                parts and parts[-1].end <= position
            ):  # its writer was killed after merging them
                self._check_parts(parts)
                remove_parts(self.path, parts)
                parts = []
        elif not parts:
            return None
        self._check_parts(parts)
        position = check_parts_contiguous(parts, position)
        if position > self.schedule.steps:
            allowed = (
                f"at least {position}, which {self.path} has reached, or --overwrite"
            )
            raise SettingsError("steps", f"{self.schedule.steps} steps", allowed)
        self.part_begins = position
        with open_group(parts[-1].path if parts else self.path, "checkpoint") as states:
            last = states.isel(checkpoint=-1).load()
        return {
            "step": last["checkpoint"].values,
            **{str(name): last[name].values for name in last.data_vars},
        }

    def _check_parts(self, parts: list[PartFile]) -> None:
        """Check that the parts are of this run, and find their last frame."""
        for part in parts:
            with open_group(part.path) as root:
                check_same_run(self.path, root.attrs, self.identity)
                if "step" in root.dims:
                    self.last_frame = max(self.last_frame, int(root["step"][-1]))

    def discard_existing(self) -> None:
        """Remove the file and its parts, if they are to be overwritten."""
        if self.overwrite:
            self.path.unlink(missing_ok=True)
            remove_parts(self.path, closed_parts(self.path))

    def lacks_frame(self, step: int) -> bool:
        """Whether the run was stopped at `step` before its frame was recorded, and the
        schedule includes it now."""
        return self.schedule.records(step) and self.last_frame < step

    def add(self, state: State, system: System) -> None:
        super().add(state, system)
        held = [self.frames.get(state.step, {})]
        if self.schedule.keeps_checkpoint(state.step):
            self.keep_state(state, system)
            held.append(self.states[state.step])
        self.bytes += sum(array.nbytes for arrays in held for array in arrays.values())

    def part_is_due(self) -> bool:
        """Whether the data in memory exceed `PART_BYTES`, or `PART_SECONDS` have passed
        since the last part."""
        return (
            self.bytes > PART_BYTES or time.monotonic() - self.part_since > PART_SECONDS
        )

    def close_part(self, state: State, system: System) -> None:
        """Write a part that ends with this state."""
        if state.step == self.part_begins and not self.frames:
            return
        self.keep_state(state, system)
        self.write(
            parts_folder(self.path) / part_file_name(self.part_begins, state.step),
            state,
            done=False,
        )
        self.frames = {}
        self.states = {}
        self.bytes = 0
        self.part_begins = state.step
        self.part_since = time.monotonic()

    def finish(self, state: State, system: System) -> xr.Dataset:
        """Write the run, at once if all of it is in memory, else by merging its
        parts."""
        self.finish_at(state, state, system)
        return open_trajectory(self.path)

    def finish_at(self, now: State, last: State, system: System) -> None:
        """Write the run whose state is `now` and whose frames end at `last`."""
        if self.exists():
            self.close_part(now, system)
            if closed_parts(self.path):
                self.merge(last)
        else:
            self.keep_state(now, system)
            self.write(self.path, last, done=True)
        remove_parts(self.path, closed_parts(self.path))

    def exists(self) -> bool:
        """Whether the file or parts of it exist."""
        return self.path.exists() or bool(unfinished_files(self.path))

    def keep_state(self, state: State, system: System) -> None:
        """Keep the restart state; numbers in it, such as the step, become arrays."""
        self.states[state.step] = {
            name: np.asarray(values)
            for name, values in system.checkpoint(state).items()
        }

    def write(self, path: Path, state: State, done: bool) -> None:
        """Write the frames and restart states in memory, of a run that has reached this
        state."""
        groups = {}
        if self.frames:
            ends = ends_of(state, done and self.complete)
            dataset = self.description.dataset(self.frames, ends)
            places = np.arange(len(self.frames))
            groups[""] = StackedDatasets([(dataset, places)], "step")
        if self.states:
            states = _checkpoint_dataset(self.states, self.description)
            places = np.arange(len(self.states))
            groups["checkpoint"] = StackedDatasets([(states, places)], "checkpoint")
        write_sealed_file(
            path,
            groups,
            self.description.attrs,
            _check_opens if done else lambda path: None,
        )

    def merge(self, state: State) -> None:
        """Write the finished run, which ends with this state, from its parts."""
        finished = [self.path] if self.path.exists() else []
        with_states = finished + [part.path for part in closed_parts(self.path)]
        with contextlib.ExitStack() as files:
            frames = [
                files.enter_context(open_group(path))
                for path in finished + unfinished_files(self.path)
            ]
            frames = [piece for piece in frames if "step" in piece.dims]
            states = [
                files.enter_context(open_group(path, "checkpoint"))
                for path in with_states
            ]
            ends = ends_of(state, self.complete)
            ended = add_variable_attributes(
                frames[-1].assign({name: ("run", ends[name]) for name in ends})
            )
            groups = {
                "": kept_entries([*frames[:-1], ended], "step", self.schedule.records)
            }
            merged = self.merge_states(states)
            if merged.length:
                groups["checkpoint"] = merged
            write_sealed_file(self.path, groups, self.description.attrs, _check_opens)

    def merge_states(self, states: list[xr.Dataset]) -> StackedDatasets:
        """The restart states of the finished file, from those of its parts."""
        return kept_entries(states, "checkpoint", self.schedule.keeps_checkpoint)


def ends_of(state: State, done: bool) -> dict[str, np.ndarray]:
    """The variables `status` and `last_step` (run,) of runs in a state."""
    return final_variables(state.step, state.last_step, done, stopped_in(state))


def _check_opens(path: Path) -> None:
    open_trajectory(path).close()


def kept_entries(
    pieces: list[xr.Dataset], along: str, keeps: Callable[[int], bool]
) -> StackedDatasets:
    """The entries of consecutive pieces that the schedule keeps; if two have the same
    step, the first one."""
    parts = []
    reached = -1
    for piece in pieces:
        steps = piece[along].values
        parts.append(
            (
                piece,
                np.flatnonzero([step > reached and keeps(int(step)) for step in steps]),
            )
        )
        reached = max(reached, int(steps[-1]))
    return StackedDatasets(parts, along)


def _checkpoint_dataset(
    states: Mapping[int, Arrays], description: RunDescription
) -> xr.Dataset:
    """Restart states by step as one dataset, variables (checkpoint, run, ...)."""
    variables = {}
    for name in next(iter(states.values())):
        if name == "step":
            continue
        values = np.stack([state[name] for state in states.values()])
        rest = description.state_dims.get(name, ())
        # the array may have another shape than the variable of that name
        if len(rest) != values.ndim - 2:
            rest = tuple(f"{name}_{k}" for k in range(values.ndim - 2))
        variables[name] = (("checkpoint", "run", *rest), values)
    steps = ("checkpoint", np.array(list(states), dtype=np.int64))
    return describe_variables(
        xr.Dataset(variables, {"checkpoint": steps, "seed": ("run", description.seeds)})
    )


def create_recorder(
    path: Path | None,
    description: RunDescription,
    schedule: RecordingSchedule,
    identity: Mapping[str, Any],
    overwrite: bool = False,
) -> MemoryRecorder:
    """A recorder that writes to `path`, or keeps the frames in memory if there is
    none."""
    if path is None:
        return MemoryRecorder(description, schedule)
    return FileRecorder(path, description, schedule, identity, overwrite)
