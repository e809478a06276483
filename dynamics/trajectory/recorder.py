"""Writing trajectories so that nothing is lost or half-written, whatever happens to the process.

A run that fits in one part is written once. A longer one is written in parts, part-FIRST-LAST.nc in a
folder beside the file to be; each holds the frames since the part before and the exact state at its end.
At the end the parts are merged. Every file is written whole or not at all (`dynamics.trajectory.netcdf`).

A lock beside the file keeps a second writer out. It goes with the process that holds it.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

from dynamics.settings import SettingsError
from dynamics.trajectory.netcdf import RecordingError, StackedDatasets, TrajectoryError, open_group, write_sealed_file
from dynamics.trajectory.reader import (
    DIVERGED,
    DONE,
    RUNNING,
    STATUS_MEANINGS,
    VARIABLES,
    PartFile,
    check_parts_contiguous,
    closed_parts,
    open_trajectory,
    part_file_name,
    parts_folder,
    validate_trajectory,
)

PART_BYTES = 256 << 20
"""Frames in memory that make a part."""
PART_SECONDS = 60.0
"""Time since the last part that makes one."""


@dataclass(frozen=True)
class RecordingSchedule:
    """Which steps are recorded, and which keep a checkpoint, of a run of `steps` steps."""

    steps: int
    every: int
    first: int = 0
    origin: int = 0  # from which `every` is counted

    @property
    def spacing(self) -> int:
        """Steps between checkpoints: a power of two, so that there are 10 to 20 of them.

        The checkpoints of a longer run are thus among those of a shorter one, and a run that is extended
        ends with the same file as one that was long from the start.
        """
        spacing = 1
        while self.steps - self.first > 20 * spacing:
            spacing *= 2
        return spacing

    def records(self, step: int) -> bool:
        """Whether the frame at this step is kept."""
        return (step - self.origin) % self.every == 0 or step in (self.first, self.steps)

    def keeps_checkpoint(self, step: int) -> bool:
        """Whether the restart state at this step is kept."""
        return step % self.spacing == 0 or step in (self.first, self.steps)

    def next_stop(self, step: int) -> int:
        """The next step after this one of which something is kept."""
        frame = self.origin + ((step - self.origin) // self.every + 1) * self.every
        return min(self.steps, frame, (step // self.spacing + 1) * self.spacing)


class EpochClock(NamedTuple):
    """From where epochs are counted: a step, and the epoch that it is. Another where a branch changes their length."""

    step: int = 0
    epoch: float = 0.0

    def at(self, steps: Any, epoch_steps: int) -> Any:
        """The epoch of steps that come after, an epoch being so many."""
        return self.epoch + (steps - self.step) / epoch_steps


DEFAULT_CLOCK = EpochClock()


@dataclass(frozen=True)
class RunDescription:
    """What all parts of a run have in common."""

    dims: Mapping[str, tuple[str, ...]]  # of each recorded variable, after (run, step)
    state_dims: Mapping[str, tuple[str, ...]]  # of arrays of a restart state, after (checkpoint, run)
    coords: Mapping[str, np.ndarray]
    seeds: np.ndarray  # (run,)
    time_step: float
    epoch_steps: int  # 0 where there are no epochs
    attrs: Mapping[str, object]
    clock: EpochClock = DEFAULT_CLOCK

    def dataset(
        self, frames: Mapping[int, Mapping[str, np.ndarray]], reached: int, last_step: np.ndarray, done: bool
    ) -> xr.Dataset:
        """Frames by step, each name -> (run, ...), of runs that have reached a step, as one dataset."""
        steps = np.array(list(frames), dtype=np.int64)
        variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
            name: (("run", "step", *rest), np.stack([frame[name] for frame in frames.values()], axis=1))
            for name, rest in self.dims.items()
        }
        variables.update(_ends(reached, last_step, done))
        used = {dim for rest in self.dims.values() for dim in rest}
        coords = {name: (name, values) for name, values in self.coords.items() if name in used}
        coords["step"] = ("step", steps)
        coords["time"] = ("step", self.time_step * steps)
        if self.epoch_steps:
            coords["epoch"] = ("step", self.clock.at(steps, self.epoch_steps))
        coords["seed"] = ("run", self.seeds)
        return _described(xr.Dataset(variables, coords, dict(self.attrs)))


def _ends(reached: int, last_step: np.ndarray, done: bool) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The variables that say where each run stands."""
    status = np.where(last_step < reached, DIVERGED, DONE if done else RUNNING)
    return {"status": (("run",), status.astype(np.int8)), "last_step": (("run",), last_step.astype(np.int64))}


def _described(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with the attributes that explain its variables."""
    for name in dataset.variables:
        if known := VARIABLES.get(str(name)):
            dataset[name].attrs.update(long_name=known.long_name, units="1")
    dataset["status"].attrs.update(flag_values=np.arange(3, dtype=np.int8), flag_meanings=" ".join(STATUS_MEANINGS))
    return dataset


def save_trajectory(trajectory: xr.Dataset, path: str | Path) -> None:
    """Write a dataset, such as a selection of runs from a trajectory, as a sealed file without restart states.

    It is marked as `derived`, so that no simulation takes it for its own or goes on from it, and is not
    written over a file that exists. Raises TrajectoryError, RecordingError.
    """
    path = Path(path)
    if not trajectory.sizes.get("run"):
        validate_trajectory(trajectory)  # says so
    seeds = trajectory["seed"].values
    derived = trajectory.assign_attrs(seed=int(seeds[0]), runs=len(seeds), derived="a selection or a branch")
    derived = validate_trajectory(derived.transpose("run", "step", ...))
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(path):
        if path.exists() or closed_parts(path):
            raise RecordingError(f"{path}: exists already")
        write_sealed_file(
            path, {"": StackedDatasets([(derived, np.arange(derived.sizes["step"]))], "step")}, derived.attrs
        )


# ------------------------------------------------------------------------------------------------ the lock


def trajectory_lock(path: Path) -> FileLock:
    """The lock that a writer of `path` holds."""
    return FileLock(path.with_name(f".{path.name}.lock"))


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of `path`, or raise RecordingError."""
    lock = trajectory_lock(path)
    try:
        lock.acquire(timeout=1, poll_interval=0.05)  # a listing may hold it for a moment
    except Timeout:
        if not Path(lock.lock_file).exists():  # nor can it be made
            raise RecordingError(f"{path}: cannot be written") from None
        raise RecordingError(f"{path}: another process is writing it") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process is writing `path`; False where that cannot be told."""
    lock = trajectory_lock(path)
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False


def remove_merged_parts(path: Path, reached: int, check_same: Callable[[Mapping[str, Any]], None]) -> None:
    """Remove parts that a finished file holds: their writer died after merging them. Others are left alone."""
    if not parts_folder(path).is_dir() or any(part.end > reached for part in closed_parts(path)):
        return  # there is nothing, or the run is being extended
    with (
        contextlib.suppress(Timeout, OSError, TrajectoryError, SettingsError),
        trajectory_lock(path).acquire(timeout=0),
    ):
        parts = closed_parts(path)
        for part in parts:
            with open_group(part.path) as root:
                check_same(root.attrs)
        _remove(path, parts)


def _remove(path: Path, parts: list[PartFile]) -> None:
    for part in parts:
        part.path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # what is not ours stays
        parts_folder(path).rmdir()


# --------------------------------------------------------------------------------------- a run in progress


class State(Protocol):
    """What a recorder reads of a system's state."""

    @property
    def step(self) -> int: ...

    @property
    def last_step(self) -> np.ndarray: ...  # (run,) `step`, or where a run diverged the last step before


Arrays = Mapping[str, np.ndarray]
StateReader = Callable[[Any], Arrays]
"""A system's `observe` or `checkpoint`, of a state."""


class Recorder(Protocol):
    """What the loop needs of a recorder; a context manager."""

    schedule: RecordingSchedule

    @property
    def path(self) -> Path | None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def resume(self) -> Arrays | None:
        """The checkpoint from which to go on, if there is one."""

    def start_anew(self) -> None:
        """Forget what was there before: the first state is about to be added."""

    def lacks(self, step: int) -> bool:
        """Whether the schedule wants a frame of the step resumed from, and there is none yet."""

    def add(self, state: State, observe: StateReader, checkpoint: StateReader) -> None:
        """Keep of a state what the schedule wants."""

    def wants_rest(self) -> bool:
        """Whether it is time to `suspend` and go on."""

    def suspend(self, state: State, checkpoint: StateReader) -> None:
        """Make the run resumable from this state."""

    def finish(self, state: State, checkpoint: StateReader) -> xr.Dataset:
        """The whole run."""


class MemoryRecorder:
    """Keeps a run's frames in memory and gives them as one dataset."""

    def __init__(self, description: RunDescription, schedule: RecordingSchedule) -> None:
        self.path: Path | None = None
        self.description, self.schedule = description, schedule
        self.frames: dict[int, Arrays] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def resume(self) -> Arrays | None:
        """Nothing to go on from."""
        return None

    def start_anew(self) -> None:
        """Nothing was there before."""

    def lacks(self, step: int) -> bool:
        """Never: nothing is resumed."""
        return False

    def add(self, state: State, observe: StateReader, checkpoint: StateReader) -> None:
        """Keep the frame of a state, if it is to be recorded."""
        if self.schedule.records(state.step):
            frame = observe(state)
            self.frames[state.step] = {name: frame[name] for name in self.description.dims}

    def wants_rest(self) -> bool:
        """Never."""
        return False

    def suspend(self, state: State, checkpoint: StateReader) -> None:
        """Memory does not outlive the process."""

    def finish(self, state: State, checkpoint: StateReader) -> xr.Dataset:
        """The whole run as a dataset."""
        return self.description.dataset(self.frames, state.step, state.last_step, done=True)


class FileRecorder(MemoryRecorder):
    """Writes a run to `path`, by parts where it is long. Entering it takes the lock.

    check_same: called with the root attributes of whatever is found at `path` or in its parts; raises if
    they are those of another run.
    """

    path: Path

    def __init__(
        self,
        path: Path,
        description: RunDescription,
        schedule: RecordingSchedule,
        check_same: Callable[[Mapping[str, Any]], None],
        overwrite: bool = False,
    ) -> None:
        super().__init__(description, schedule)
        self.path, self.check_same, self.overwrite = path, check_same, overwrite
        self.states: dict[int, Arrays] = {}
        self.held = contextlib.ExitStack()
        self.last_frame = -1  # step of the last frame on disk
        self.part_begins = schedule.first  # step at which the part in memory begins
        self.part_since = time.monotonic()
        self.bytes = 0

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordingError(f"{self.path}: cannot be written ({error.strerror})") from None
        folder = parts_folder(self.path)
        if folder.exists() and not folder.is_dir():
            raise RecordingError(f"{folder}: is in the way of the folder for parts")
        self.held.enter_context(hold_lock(self.path))
        ours = re.compile(rf"\.({re.escape(self.path.name)}|part-\d+-\d+\.nc)\.\d+\.\d+\.tmp")
        for left in (*self.path.parent.glob(".*.tmp"), *folder.glob(".*.tmp")):
            if ours.fullmatch(left.name):
                with contextlib.suppress(OSError):
                    left.unlink()
        return self

    def __exit__(self, *error: object) -> None:
        self.held.close()

    def resume(self) -> Arrays | None:
        """The last state on disk, of the finished file or of the parts that go on from it."""
        if self.overwrite:
            return None
        position, parts = self.schedule.first, closed_parts(self.path)
        if self.path.exists():
            with open_trajectory(self.path) as finished:
                self.check_same(finished.attrs)
                position = self.last_frame = int(finished["step"][-1])
            if parts and parts[-1].end <= position:  # died between merging and tidying up
                self._check_parts(parts)
                _remove(self.path, parts)
                parts = []
        elif not parts:
            return None
        self._check_parts(parts)
        position = check_parts_contiguous(parts, position)
        if position > self.schedule.steps:
            allowed = f"at least {position}, which {self.path} has reached, or --overwrite"
            raise SettingsError("steps", self.schedule.steps, allowed)
        self.part_begins = position
        with open_group(parts[-1].path if parts else self.path, "checkpoint") as states:
            last = states.isel(checkpoint=-1).load()
        return {"step": last["checkpoint"].values, **{str(name): last[name].values for name in last.data_vars}}

    def _check_parts(self, parts: list[PartFile]) -> None:
        """See that parts are of this run, and where their last frame is."""
        for part in parts:
            with open_group(part.path) as root:
                self.check_same(root.attrs)
                if "step" in root.dims:
                    self.last_frame = max(self.last_frame, int(root["step"][-1]))

    def start_anew(self) -> None:
        """Remove what is there, if that was asked for."""
        if self.overwrite:
            self.path.unlink(missing_ok=True)
            _remove(self.path, closed_parts(self.path))

    def lacks(self, step: int) -> bool:
        """Whether the run was stopped between frames, at what is now the last step."""
        return self.schedule.records(step) and self.last_frame < step

    def add(self, state: State, observe: StateReader, checkpoint: StateReader) -> None:
        super().add(state, observe, checkpoint)
        kept = [self.frames.get(state.step, {})]
        if self.schedule.keeps_checkpoint(state.step):
            self._keep(state, checkpoint)
            kept.append(self.states[state.step])
        self.bytes += sum(array.nbytes for arrays in kept for array in arrays.values())

    def wants_rest(self) -> bool:
        """Whether enough has gathered, or enough time has passed, for a part."""
        return self.bytes > PART_BYTES or time.monotonic() - self.part_since > PART_SECONDS

    def suspend(self, state: State, checkpoint: StateReader) -> None:
        """Close a part that ends with this state."""
        if state.step == self.part_begins and not self.frames:
            return
        self._keep(state, checkpoint)
        self._write(parts_folder(self.path) / part_file_name(self.part_begins, state.step), state, done=False)
        self.frames, self.states, self.bytes = {}, {}, 0
        self.part_begins, self.part_since = state.step, time.monotonic()

    def finish(self, state: State, checkpoint: StateReader) -> xr.Dataset:
        """Close the run: written at once if all of it is in memory, else merged from its parts."""
        if self.path.exists() or closed_parts(self.path):
            self.suspend(state, checkpoint)
            self._merge(state)
        else:
            self._keep(state, checkpoint)
            self._write(self.path, state, done=True)
        _remove(self.path, closed_parts(self.path))
        return open_trajectory(self.path)

    def _keep(self, state: State, checkpoint: StateReader) -> None:
        """Keep a restart state, whose step, and what else is a number, may be one of Python's."""
        self.states[state.step] = {name: np.asarray(values) for name, values in checkpoint(state).items()}

    def _write(self, path: Path, state: State, done: bool) -> None:
        states = _checkpoint_dataset(self.states, self.description)
        groups = {"checkpoint": StackedDatasets([(states, np.arange(len(self.states)))], "checkpoint")}
        if self.frames:
            dataset = self.description.dataset(self.frames, state.step, state.last_step, done)
            groups = {"": StackedDatasets([(dataset, np.arange(len(self.frames)))], "step"), **groups}
        write_sealed_file(path, groups, self.description.attrs, _check_whole if done else lambda path: None)

    def _merge(self, state: State) -> None:
        paths = ([self.path] if self.path.exists() else []) + [part.path for part in closed_parts(self.path)]
        with contextlib.ExitStack() as files:
            frames = [files.enter_context(open_group(path)) for path in paths]
            frames = [piece for piece in frames if "step" in piece.dims]
            states = [files.enter_context(open_group(path, "checkpoint")) for path in paths]
            ended = _described(frames[-1].assign(_ends(state.step, state.last_step, done=True)))
            groups = {
                "": _kept([*frames[:-1], ended], "step", self.schedule.records),
                "checkpoint": _kept(states, "checkpoint", self.schedule.keeps_checkpoint),
            }
            write_sealed_file(self.path, groups, self.description.attrs, _check_whole)


def _check_whole(path: Path) -> None:
    open_trajectory(path).close()


def _kept(pieces: list[xr.Dataset], along: str, keeps: Callable[[int], bool]) -> StackedDatasets:
    """What the schedule keeps of pieces laid end to end; where two hold the same step, the first one's."""
    kept, reached = [], -1
    for piece in pieces:
        steps = piece[along].values
        kept.append((piece, np.flatnonzero([step > reached and keeps(int(step)) for step in steps])))
        reached = max(reached, int(steps[-1]))
    return StackedDatasets(kept, along)


def _checkpoint_dataset(states: Mapping[int, Arrays], description: RunDescription) -> xr.Dataset:
    """States by step as variables (checkpoint, run, ...)."""
    variables = {}
    for name in next(iter(states.values())):
        if name == "step":
            continue
        values = np.stack([state[name] for state in states.values()])
        rest = description.state_dims.get(name, ())
        if len(rest) != values.ndim - 2:  # a system may keep more, or less, of a variable than it shows
            rest = tuple(f"{name}_{k}" for k in range(values.ndim - 2))
        variables[name] = (("checkpoint", "run", *rest), values)
    attrs = {"long_name": "step of an exact restart state", "units": "1"}
    steps = ("checkpoint", np.array(list(states), dtype=np.int64), attrs)
    return xr.Dataset(variables, {"checkpoint": steps, "seed": ("run", description.seeds)})
