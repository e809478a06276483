"""Writing trajectories so that nothing is lost or half-written, whatever happens to the process.

A run that fits in one part is written once. A longer one is written in parts, part-FIRST-LAST.nc in a
folder beside the file to be; each holds the frames since the part before and the exact state at its end.
At the end the parts are merged. Every file is written whole or not at all (`dynamics.storage`).

A lock beside the file keeps a second writer out. It goes with the process that holds it.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

from dynamics.storage import RecordingError, Stack, TrajectoryError, read_group, write_file
from dynamics.trajectory import DIVERGED, DONE, RUNNING, STATUS, VARIABLES, open_trajectory, part_files, parts_folder

PART_BYTES = 64 << 20
"""Frames in memory that make a part."""
PART_SECONDS = 60.0
"""Time since the last part that makes one."""


@dataclass(frozen=True)
class Schedule:
    """Which steps are recorded, and which keep a checkpoint, of a run of `steps` steps."""

    steps: int
    every: int
    first: int = 0

    @property
    def spacing(self) -> int:
        """Steps between checkpoints: `every` times a power of two, so that there are 10 to 20 of them.

        The checkpoints of a longer run are thus among those of a shorter one, and a run that is extended
        ends with the same file as one that was long from the start.
        """
        spacing = self.every
        while (self.steps - self.first) > 20 * spacing:
            spacing *= 2
        return spacing

    def records(self, step: int) -> bool:
        """Whether the frame at this step is kept."""
        return step % self.every == 0 or step in (self.first, self.steps)

    def keeps_checkpoint(self, step: int) -> bool:
        """Whether the restart state at this step is kept."""
        return step % self.spacing == 0 or step in (self.first, self.steps)

    def next_stop(self, step: int) -> int:
        """The next recorded step after this one."""
        return min(self.steps, (step // self.every + 1) * self.every)


@dataclass(frozen=True)
class Description:
    """What all parts of a run have in common."""

    dims: Mapping[str, tuple[str, ...]]  # of each recorded variable, after (run, step)
    state_dims: Mapping[str, tuple[str, ...]]  # of arrays of a restart state, after (checkpoint, run)
    coords: Mapping[str, np.ndarray]
    seeds: np.ndarray  # (run,)
    time_step: float
    attrs: Mapping[str, object]

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
    dataset["status"].attrs.update(flag_values=np.arange(3, dtype=np.int8), flag_meanings=" ".join(STATUS))
    return dataset


def save(trajectory: xr.Dataset, path: str | Path) -> None:
    """Write a dataset, such as a selection of runs from a trajectory, as a sealed file."""
    everything = np.arange(trajectory.sizes["step"])
    write_file(Path(path), {"": Stack([(trajectory, everything)], "step")}, trajectory.attrs)


def lock_of(path: Path) -> FileLock:
    """The lock that a writer of `path` holds."""
    return FileLock(path.with_name(f".{path.name}.lock"))


def is_locked(path: Path) -> bool:
    """Whether a process is writing `path`."""
    lock = lock_of(path)
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


def tidy_up(path: Path, reached: int) -> None:
    """Remove parts that a finished file holds: their writer died after merging them."""
    with contextlib.suppress(Timeout), lock_of(path).acquire(timeout=0):
        if parts := _parts_of(path):
            if parts[-1].end <= reached:
                shutil.rmtree(parts_folder(path))
        elif parts_folder(path).exists():
            shutil.rmtree(parts_folder(path))


class Part(NamedTuple):
    """A closed part: the state at `begin`, exclusive, to that at `end`."""

    path: Path
    begin: int
    end: int


def _parts_of(path: Path) -> list[Part]:
    return [Part(part, *map(int, part.stem.split("-")[1:])) for part in part_files(path)]


# --------------------------------------------------------------------------------------- a run in progress


class State(Protocol):
    """What a recorder reads of a system's state."""

    @property
    def step(self) -> int: ...

    @property
    def last_step(self) -> np.ndarray: ...  # (run,) `step`, or where a run diverged the last step before


Arrays = Mapping[str, np.ndarray]


class MemoryRecorder:
    """Keeps a run's frames in memory and gives them as one dataset."""

    def __init__(self, description: Description, schedule: Schedule) -> None:
        self.description, self.schedule = description, schedule
        self.frames: dict[int, Arrays] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def resume(self) -> Arrays | None:
        """The checkpoint from which to go on, if there is one."""
        return None

    def add(self, state: State, frame: Arrays, checkpoint: Callable[[Any], Arrays]) -> None:
        """Keep the frame of a state; `checkpoint` gives its exact state where that is kept too."""
        self.frames[state.step] = {name: frame[name] for name in self.description.dims}

    def suspend(self, state: State, checkpoint: Callable[[Any], Arrays]) -> None:
        """Make the run resumable from this state."""

    def finish(self, state: State, checkpoint: Callable[[Any], Arrays]) -> xr.Dataset:
        """The whole run as a dataset."""
        return self.description.dataset(self.frames, state.step, state.last_step, done=True)


class FileRecorder(MemoryRecorder):
    """Writes a run to `path`, by parts where it is long. Entering it takes the lock."""

    def __init__(self, path: Path, description: Description, schedule: Schedule, overwrite: bool = False) -> None:
        super().__init__(description, schedule)
        self.path, self.overwrite = path, overwrite
        self.states: dict[int, Arrays] = {}
        self.lock = lock_of(path)
        self.part_begins = 0  # step at which the part in memory begins
        self.part_since = time.monotonic()

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.lock.acquire(timeout=0)
        except Timeout:
            raise RecordingError(f"{self.path}: another process is writing it") from None
        except OSError as error:
            raise RecordingError(f"{self.path}: cannot be written ({error.strerror})") from None
        for left in (*self.path.parent.glob(f".{self.path.name}.*.tmp"), *parts_folder(self.path).glob(".*.tmp")):
            left.unlink(missing_ok=True)
        if self.overwrite:
            self.path.unlink(missing_ok=True)
            shutil.rmtree(parts_folder(self.path), ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def resume(self) -> Arrays | None:
        """The last state on disk, of the finished file or of the parts that go on from it."""
        reached = None
        if self.path.exists():
            with read_group(self.path) as finished:
                reached = int(finished["step"][-1])
        parts = _parts_of(self.path)
        if reached is not None and parts and parts[-1].end <= reached:  # died between merging and tidying up
            shutil.rmtree(parts_folder(self.path))
            parts = []
        position = 0 if reached is None else reached
        for part in parts:
            if part.begin != position:
                raise TrajectoryError(
                    f"{part.path}: begins at step {part.begin}, expected {position}: a part is missing"
                )
            position = part.end
        if reached is None and not parts:
            return None
        self.part_begins = position
        with read_group(parts[-1].path if parts else self.path, "checkpoint") as group:
            last = group.isel(checkpoint=-1).load()
        return {"step": last["checkpoint"].values, **{str(name): last[name].values for name in last.data_vars}}

    def add(self, state: State, frame: Arrays, checkpoint: Callable[[Any], Arrays]) -> None:
        super().add(state, frame, checkpoint)
        if self.schedule.keeps_checkpoint(state.step):
            self.states[state.step] = checkpoint(state)
        size = len(self.frames) * sum(array.nbytes for array in frame.values())
        if size > PART_BYTES or time.monotonic() - self.part_since > PART_SECONDS:
            self.suspend(state, checkpoint)

    def suspend(self, state: State, checkpoint: Callable[[Any], Arrays]) -> None:
        """Close a part that ends with this state."""
        if state.step == self.part_begins and not self.frames:
            return
        self.states[state.step] = checkpoint(state)
        part = parts_folder(self.path) / f"part-{self.part_begins:015d}-{state.step:015d}.nc"
        self._write(part, state, done=False)
        self.frames, self.states = {}, {}
        self.part_begins, self.part_since = state.step, time.monotonic()

    def finish(self, state: State, checkpoint: Callable[[Any], Arrays]) -> xr.Dataset:
        """Close the run: written at once if all of it is in memory, else merged from its parts."""
        if self.path.exists() or _parts_of(self.path):
            self.suspend(state, checkpoint)
            self._merge(state)
        else:
            self.states[state.step] = checkpoint(state)
            self._write(self.path, state, done=True)
        shutil.rmtree(parts_folder(self.path), ignore_errors=True)
        return open_trajectory(self.path)

    def _write(self, path: Path, state: State, done: bool) -> None:
        states = _checkpoint_dataset(self.states, self.description.state_dims)
        groups = {"checkpoint": Stack([(states, np.arange(len(self.states)))], "checkpoint")}
        if self.frames:
            dataset = self.description.dataset(self.frames, state.step, state.last_step, done)
            groups = {"": Stack([(dataset, np.arange(len(self.frames)))], "step"), **groups}
        write_file(path, groups, self.description.attrs)

    def _merge(self, state: State) -> None:
        paths = ([self.path] if self.path.exists() else []) + [part.path for part in _parts_of(self.path)]
        with contextlib.ExitStack() as files:
            frames = [files.enter_context(read_group(path)) for path in paths]
            frames = [piece for piece in frames if "step" in piece.dims]
            states = [files.enter_context(read_group(path, "checkpoint")) for path in paths]
            ended = _described(frames[-1].assign(_ends(state.step, state.last_step, done=True)))
            groups = {
                "": _kept([*frames[:-1], ended], "step", self.schedule.records),
                "checkpoint": _kept(states, "checkpoint", self.schedule.keeps_checkpoint),
            }
            write_file(self.path, groups, self.description.attrs)


def _kept(pieces: list[xr.Dataset], along: str, keeps: Callable[[int], bool]) -> Stack:
    return Stack([(piece, np.flatnonzero([keeps(int(step)) for step in piece[along]])) for piece in pieces], along)


def _checkpoint_dataset(states: Mapping[int, Arrays], dims: Mapping[str, tuple[str, ...]]) -> xr.Dataset:
    """States by step as variables (checkpoint, run, ...)."""
    variables = {}
    for name in next(iter(states.values())):
        if name == "step":
            continue
        values = np.stack([state[name] for state in states.values()])
        rest = dims.get(name, ())
        if len(rest) != values.ndim - 2:
            rest = tuple(f"{name}_{k}" for k in range(values.ndim - 2))
        variables[name] = (("checkpoint", "run", *rest), values)
    steps = np.array(list(states), dtype=np.int64)
    attrs = {"long_name": "step of an exact restart state", "units": "1"}
    return xr.Dataset(variables, {"checkpoint": ("checkpoint", steps, attrs)})
