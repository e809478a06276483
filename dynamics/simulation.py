"""The one loop: advance a system, observe it, record it, show progress; replay and branch; where runs live.

A system is anything that follows `System`. The loop knows nothing else about it.
"""

import dataclasses
import importlib
import os
import shutil
import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol

import numpy as np
import xarray as xr
from tqdm import tqdm

from dynamics.errors import MissingPackage
from dynamics.initial_conditions import HASH_SEPARATOR
from dynamics.particles.system import ParticleSystem
from dynamics.provenance import (
    BRANCH_ATTRIBUTES,
    METRIC_VARIABLES,
    SystemDescription,
    check_same_run,
    describe_run,
    identity_digest,
    run_identity,
)
from dynamics.settings import (
    SETTINGS_CLASSES,
    ModularSettings,
    ParticleSettings,
    Settings,
    SettingsError,
    SparseSettings,
    check_choice,
    check_integer,
)
from dynamics.settings_checks import check_system_name
from dynamics.system_checks import check_system, create_external_system
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.netcdf import TrajectoryError
from dynamics.trajectory.reader import (
    IDENTITY_ATTRIBUTES,
    check_file_unchanged,
    checkpoints,
    closed_parts,
    open_trajectory,
    read_settings,
    run_indices,
    truncate_trajectory,
    validate_trajectory,
)
from dynamics.trajectory.recorder import (
    Arrays,
    EpochClock,
    FileRecorder,
    MemoryRecorder,
    Recorder,
    RecordingSchedule,
    RunDescription,
    State,
    remove_merged_parts,
)

RUNS_FOLDER = Path("runs")
SIGNAL_SECONDS = 0.5
"""How long the loop may be deaf to a signal, single steps aside."""

RecordMode = Literal["all", "metrics"]


class System(SystemDescription, Protocol):
    """A dynamical system whose state is a set of points, for a whole ensemble of runs.

    A class that inherits from it takes over the defaults of `Described`, and cannot be made where it lacks a method.
    """

    @abstractmethod
    def working_bytes(self, runs: int) -> int:
        """Memory that a run takes, known before any is taken."""

    @abstractmethod
    def initial(self, seeds: np.ndarray) -> State:
        """The state at step 0, one run a seed."""

    @abstractmethod
    def advance(self, state: State, steps: int) -> State:
        """The state `steps` steps later."""

    @abstractmethod
    def observe(self, state: State) -> Arrays:
        """One frame, leading run axis."""

    @abstractmethod
    def checkpoint(self, state: State) -> Arrays:
        """All that `restore` needs, exactly: `step`, and arrays with a leading run axis."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> State:
        """The state of which `checkpoint` gave the arrays, or some of its runs."""


def _training(name: str) -> Callable[..., Any]:
    """A system of `dynamics.training.system`, for which torch is imported when it is first asked for."""

    def make(settings: Settings, device: str = "auto") -> Any:
        try:
            training = importlib.import_module("dynamics.training.system")
        except ImportError as error:
            if error.name != "torch":
                raise
            how = "pip install 'training-dynamics[train]'"
            raise MissingPackage(f"training needs torch, which comes with: {how}") from None
        return getattr(training, name)(settings, device)

    return make


class SystemRegistry(dict[str, Callable[..., Any]]):
    """A table of systems that says what to do about one that is not there."""

    def __missing__(self, name: str) -> NoReturn:
        allowed = "one of " + ", ".join(self) + ", or one that `register` of dynamics.simulation was told of"
        raise SettingsError("system of the settings", name, allowed)


SYSTEM_CLASSES = SystemRegistry(
    {
        ParticleSettings.system: ParticleSystem,
        ModularSettings.system: _training("ModularSystem"),
        SparseSettings.system: _training("SparseSystem"),
    }
)
"""What makes a system, from settings and device, by the `system` that settings and trajectories name."""


BUILT_IN_SYSTEMS = tuple(SYSTEM_CLASSES)
"""Those that need not be looked at before they begin."""


def register(settings: type[Settings], system: Callable[..., Any]) -> None:
    """Make a system from outside known to `simulate` and to everything that reads trajectories.

    Again for the same class is fine. Raises SettingsError for a name that another settings class has.
    """
    check_system_name(settings, SETTINGS_CLASSES)
    SETTINGS_CLASSES[settings.system] = settings
    SYSTEM_CLASSES[settings.system] = system


def create_system(settings: Settings, device: str = "auto") -> Any:
    """The system of settings; of one from outside it is seen that it has all it needs. Raises SettingsError."""
    factory = SYSTEM_CLASSES[settings.system]
    return (
        factory(settings, device)
        if settings.system in BUILT_IN_SYSTEMS
        else create_external_system(factory, settings, device)
    )


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM; what was done is on disk, and the same call, without overwrite, goes on from there."""

    def __init__(self, signum: int, path: Path | None, step: int, steps: int) -> None:
        self.signum, self.path, self.step, self.steps = signum, path, step, steps
        self.resumable = path is not None
        super().__init__(f"interrupted at step {step} of {steps}" + (f"; {path} can be resumed" if path else ""))


# ---------------------------------------------------------------------------------------------- simulate


def simulate(
    settings: Settings,
    runs: int = 100,
    seed: int = 0,
    steps: int | None = None,
    every: int | None = None,
    record: RecordMode = "all",
    device: str = "auto",
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    progress: bool = True,
) -> xr.Dataset:
    """Run an ensemble and give its trajectory; member r has seed `seed + r` and depends on it alone.

    steps: how far (default: the system's). every: steps between recorded frames. record: "metrics" leaves
    the embedding and weights out of the frames. out: a file to write; without it nothing is written. An
    `out` that holds a finished run of the same settings is only read, an interrupted one goes on, and more
    `steps` extend it. Raises SettingsError, RecordingError, TrajectoryError, Interrupted.
    """
    runs = check_integer("runs", runs, 1, 10_000_000)
    seed = check_integer("seed", seed, 0, 2**62)
    check_choice("record", record, ("all", "metrics"))
    system = create_system(settings, device)
    steps = check_integer("steps", settings.default_steps if steps is None else steps, 0, 2**53)
    every = check_integer("every", settings.default_every if every is None else every, 1, 2**53)
    what = run_identity(system, runs, seed, every, record)
    schedule = RecordingSchedule(steps, every)
    recorder: Recorder
    if out is None:
        check_memory_and_disk(system, runs, schedule, record, None)
        recorder = MemoryRecorder(describe_run(system, what, steps), schedule)
    else:
        path = check_trajectory_path(out)
        check_differs_from_source(path, getattr(system.settings, "start", "random").split(HASH_SEPARATOR)[0])
        if not overwrite and (done := find_finished_run(path, what, steps)) is not None:
            return done
        check_memory_and_disk(system, runs, schedule, record, path)

        def same(found: Mapping[str, Any]) -> None:
            check_same_run(path, found, what)

        recorder = FileRecorder(path, describe_run(system, what, steps), schedule, same, overwrite)
    if settings.system not in BUILT_IN_SYSTEMS:
        check_system(
            create_system(settings, device), seed + np.arange(runs)
        )  # another one, which may keep what it likes
    with deferred_signals() as received, recorder:
        return _record(system, recorder, lambda: system.initial(seed + np.arange(runs)), received, progress)


def _record(
    system: System, recorder: Recorder, first: Callable[[], State], received: list[int], progress: bool
) -> xr.Dataset:
    """From the recorder's last checkpoint, or the first state, to the end of its schedule."""
    arrays = recorder.resume()
    if arrays is None:
        state = first()
        recorder.start_anew()
    else:
        state = _restored(system, arrays)
    if arrays is None or recorder.lacks(state.step):
        recorder.add(state, system.observe, system.checkpoint)
    return _advance_to_end(system, state, recorder, received, progress)


def _restored(system: System, arrays: Arrays) -> State:
    try:
        return system.restore(arrays)
    except KeyError as missing:
        raise TrajectoryError(f"the restart state has no {missing}: it was written by another version") from None


def _advance_to_end(
    system: System, state: State, recorder: Recorder, received: list[int], progress: bool
) -> xr.Dataset:
    """Advance to the end of the schedule; a signal, once received, is obeyed as soon as a step is done."""
    schedule, pace = recorder.schedule, StepPacer()
    with tqdm(
        total=schedule.steps, initial=state.step, unit="step", disable=None if progress else True, leave=False
    ) as bar:
        while state.step < schedule.steps and not received:
            stop, before = schedule.next_stop(state.step), state.step
            with pace.measure(stop - before) as number:
                state = system.advance(state, number)
            bar.update(state.step - before)
            if state.step == stop:
                recorder.add(state, system.observe, system.checkpoint)
            if recorder.wants_rest():
                recorder.suspend(state, system.checkpoint)
    if state.step < schedule.steps:
        recorder.suspend(state, system.checkpoint)
        raise Interrupted(received[0], recorder.path, state.step, schedule.steps)
    trajectory = recorder.finish(state, system.checkpoint)
    if received:
        raise Interrupted(received[0], recorder.path, state.step, schedule.steps)
    return trajectory


class StepPacer:
    """How many steps to take at a time so that a signal is heard soon."""

    def __init__(self) -> None:
        self.seconds_per_step = SIGNAL_SECONDS

    @contextmanager
    def measure(self, wanted: int) -> Iterator[int]:
        number = max(1, min(wanted, int(SIGNAL_SECONDS / self.seconds_per_step)))
        begin = time.perf_counter()
        yield number
        self.seconds_per_step = max(1e-9, (time.perf_counter() - begin) / number)


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Collect the first SIGINT or SIGTERM instead of stopping in mid-step; a second one stops at once."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def handle(signum: int, frame: object) -> None:
        received.append(signum)
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ------------------------------------------------------------------------------------------- where runs live


def run_path(
    settings: Settings, runs: int, seed: int, every: int | None = None, record: RecordMode = "all", device: str = "auto"
) -> Path:
    """Where a run lives by default: runs/SYSTEM-HASH.nc, the hash over all that `identity` names."""
    system = create_system(settings, device)
    every = settings.default_every if every is None else every
    return RUNS_FOLDER / f"{settings.system}-{identity_digest(run_identity(system, runs, seed, every, record))}.nc"


def check_trajectory_path(out: str | Path) -> Path:
    """The path of a trajectory to be written, if it can be one."""
    path = Path(out)
    try:
        short = len(os.fsencode(path.name)) <= 180  # of 255, which leaves room for the names of temporaries
        fits = path.suffix == ".nc" and short and "\0" not in str(path) and not path.is_dir()
    except (OSError, ValueError):
        fits = False
    if not fits:
        raise SettingsError("out", out, "the name of a file that ends in .nc and is no longer than 180 bytes")
    return path


def check_differs_from_source(path: Path, source: str | None) -> None:
    """Refuse to write a run over the file that it begins from."""
    if source is not None and path.exists() and Path(source).exists() and path.samefile(source):
        raise SettingsError("out", path, "another file than the one that this run begins from")


def find_finished_run(path: Path, what: Mapping[str, Any], steps: int) -> xr.Dataset | None:
    """The run at `path` if it is this one and has got as far; None if there is more to do."""
    if not path.exists():
        return None
    trajectory = open_trajectory(path)
    check_same_run(path, trajectory.attrs, what)
    recorded = trajectory["step"].values
    if recorded[-1] < steps:
        trajectory.close()
        return None
    if steps not in recorded:
        allowed = f"a recorded step of {path} (every {what['every']}), another --out, or --overwrite"
        raise SettingsError("steps", steps, allowed)
    remove_merged_parts(path, int(recorded[-1]), lambda found: check_same_run(path, found, what))
    return truncate_trajectory(trajectory, steps)


def check_memory_and_disk(
    system: System, runs: int, schedule: RecordingSchedule, record: str, path: Path | None
) -> None:
    """Refuse, before anything is allocated, what cannot fit into memory or on the disk."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    sizes = {name: len(values) for name, values in system.coords().items()}
    kept = [rest for name, rest in system.variables.items() if record == "all" or name in METRIC_VARIABLES]
    frame = 8 * runs * sum(int(np.prod([sizes[dim] for dim in rest], dtype=np.float64)) for rest in kept)
    frames = frame * ((schedule.steps - schedule.first) // schedule.every + 2)
    working = system.working_bytes(runs)
    if working + frame > memory:
        sizes_of = [name for name in ("n", "data", "hidden", "dim") if hasattr(system.settings, name)]
        found, allowed = f"a need of {_size(working + frame)}", f"memory of {_size(memory)}"
        raise SettingsError(", ".join([*sizes_of, "runs"]), found, allowed)
    if path is None:
        if frames > memory:
            raise SettingsError("steps, every", f"frames of {_size(frames)}", f"memory of {_size(memory)}")
    elif not closed_parts(path):  # a run that goes on has part of what it needs
        folder = path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if frames > free > 0:
            raise SettingsError("steps, every", f"frames of {_size(frames)}", f"a disk with {_size(free)} free")


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count > 2**29 else f"{count / 2**20:.1f} MiB"


# --------------------------------------------------------------------------------------- replay and branch


def final_embedding(trajectory: xr.Dataset) -> xr.DataArray:
    """The last embedding (run, token, axis) of every run that has not diverged, with the seeds.

    Where frames hold metrics alone it is replayed from the nearest restart state. Raises TrajectoryError.
    """
    last = int(trajectory["step"][-1])
    frames = trajectory if "embedding" in trajectory else replay(trajectory, None, last, last)
    alive = np.flatnonzero(not_diverged(trajectory, last))
    ends = frames["embedding"].isel(step=-1, drop=True).assign_coords(seed=trajectory["seed"])
    return ends.isel(run=alive).transpose("run", "token", "axis")


def replay(
    trajectory: str | Path | xr.Dataset, run: int | None, step: int, until: int, every: int = 1, progress: bool = False
) -> xr.Dataset:
    """The same run again from `step` to `until`, recorded every `every` steps.

    run: its place along `run`; None replays all. Starts from the nearest checkpoint, or from the seed for a
    trajectory that was never written; the frames are bit for bit those of the original. Raises
    SettingsError, TrajectoryError, Interrupted.
    """
    source = _opened(trajectory)
    until = check_integer("until", until, check_branch_step(source, step), 2**53)
    seeds, system = _seeds(source, run), _system_of(source)
    what = run_identity(system, len(seeds), int(seeds[0]), check_integer("every", every, 1, 2**53), "all")
    schedule = RecordingSchedule(until, every, step, system.clock.step)
    recorder = MemoryRecorder(_description(system, what, seeds, until, step), schedule)
    with deferred_signals() as received, recorder:
        return _record(system, recorder, lambda: _state_at(source, seeds, step, received), received, progress)


def branch(
    trajectory: str | Path | xr.Dataset,
    step: int,
    *,
    run: int | None = None,
    until: int | None = None,
    every: int | None = None,
    record: RecordMode = "all",
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **changes: Any,
) -> xr.Dataset:
    """What would have happened had settings changed at `step`: the exact state then, the new settings since.

    until, every: as in the original by default, in epochs where these change their length. out: a file to write, which
    is found again, resumed and extended as those of `simulate` are. Raises as `replay` does, and RecordingError.
    """
    source = _opened(trajectory)
    check_choice("record", record, ("all", "metrics"))
    seeds, system = _seeds(source, run), _changed(source, check_branch_step(source, step), changes)
    until = check_integer("until", _end(source, system) if until is None else until, step, 2**53)
    every = _spacing(source, system, every)
    what = _branch_identity(system, source, seeds, step, every, record)
    description = _description(system, what, seeds, until, step)
    schedule = RecordingSchedule(until, every, step, system.clock.step)
    recorder: Recorder
    if out is None:
        recorder = MemoryRecorder(description, schedule)
        check_memory_and_disk(system, len(seeds), schedule, record, None)
    else:
        path = check_trajectory_path(out)
        check_differs_from_source(path, source.encoding.get("source"))
        if not overwrite and (done := find_finished_run(path, what, until)) is not None:
            return done
        check_memory_and_disk(system, len(seeds), schedule, record, path)
        recorder = FileRecorder(path, description, schedule, lambda found: check_same_run(path, found, what), overwrite)
    with deferred_signals() as received, recorder:
        return _record(system, recorder, lambda: _state_at(source, seeds, step, received), received, progress)


def branch_path(
    trajectory: str | Path | xr.Dataset, step: int, every: int | None = None, record: RecordMode = "all", **changes: Any
) -> Path:
    """Where a branch of all runs lives by default: runs/SYSTEM-HASH.nc. Raises as `branch` does."""
    source = _opened(trajectory)
    system = _changed(source, check_branch_step(source, step), changes)
    every = _spacing(source, system, every)
    what = _branch_identity(system, source, _seeds(source, None), step, every, record)
    return RUNS_FOLDER / f"{system.settings.system}-{identity_digest(what)}.nc"


def _spacing(source: xr.Dataset, system: System, every: int | None) -> int:
    """Steps between the frames of a branch: those asked for, or as in the original, where that is an epoch an epoch."""
    if every is None:
        every = int(source.attrs["every"])
        if every == read_settings(source).default_every:
            every = system.settings.default_every
    return check_integer("every", every, 1, 2**53)


def _end(source: xr.Dataset, system: System) -> int:
    """The last step of a branch that is as long as its original, in epochs where these are of another length."""
    last, before = int(source["step"][-1]), read_settings(source)
    if before.epoch_steps == system.settings.epoch_steps:
        return last
    epochs = float(source["epoch"][-1]) - system.clock.epoch
    return max(system.clock.step, system.clock.step + round(epochs * system.settings.epoch_steps))


def branch_step(trajectory: str | Path | xr.Dataset, step: int, epoch: float, **changes: Any) -> int:
    """The step of a branch that is an epoch, counted from the run's beginning. Raises as `branch` does."""
    source = _opened(trajectory)
    system = _changed(source, check_branch_step(source, step), changes)
    clock = system.clock
    return clock.step + round((epoch - clock.epoch) * max(1, system.settings.epoch_steps))


def _branch_identity(
    system: System, source: xr.Dataset, seeds: np.ndarray, step: int, every: int, record: str
) -> dict[str, Any]:
    names = [*IDENTITY_ATTRIBUTES, *(name for name in BRANCH_ATTRIBUTES if name in source.attrs)]
    found = {name: source.attrs[name] for name in names}
    origin = {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()}
    plain = run_identity(system, len(seeds), int(seeds[0]), every, record)
    return {**plain, "branched_at": step, "branch_of": identity_digest(origin)}


def _description(system: System, what: Mapping[str, Any], seeds: np.ndarray, until: int, step: int) -> RunDescription:
    plain, clock = describe_run(system, what, until), system.clock
    attrs = {**plain.attrs, "branched_at": step, "clock_step": clock.step, "clock_epoch": clock.epoch}
    return dataclasses.replace(plain, seeds=seeds, attrs=attrs, clock=clock)


def _opened(trajectory: str | Path | xr.Dataset) -> xr.Dataset:
    source = trajectory if isinstance(trajectory, xr.Dataset) else open_trajectory(trajectory)
    if not source.sizes.get("run"):
        validate_trajectory(source)  # says so
    return source


def check_branch_step(source: xr.Dataset, step: int) -> int:
    """A step from which a trajectory can go on. Raises SettingsError."""
    return check_integer("step", step, int(source["step"][0]), 2**53)


def _seeds(source: xr.Dataset, run: int | None) -> np.ndarray:
    """The seeds of one run, by its place, or of all."""
    count = source.sizes["run"]
    rows = range(count) if run is None else [check_integer("run", run, 0, count - 1)]
    return source["seed"].values[list(rows)]


def _system_of(source: xr.Dataset, settings: Settings | None = None) -> System:
    """The system of a trajectory, or one of other settings that computes as it does. Raises TrajectoryError."""
    before = read_settings(source)
    system = create_system(settings or before, str(source.attrs["device"]))
    if source.attrs["numerics_version"] != system.numerics_version:
        found, known = source.attrs["numerics_version"], system.numerics_version
        raise TrajectoryError(f"attribute numerics_version: found {found}, this program computes as {known} does")
    system.ensemble_width = int(source.attrs["ensemble_width"])
    system.clock = EpochClock(int(source.attrs.get("clock_step", 0)), float(source.attrs.get("clock_epoch", 0.0)))
    return system


def _changed(source: xr.Dataset, step: int, changes: Mapping[str, Any]) -> System:
    """The system of a trajectory with other settings from a step on, of the same shape. Raises SettingsError.

    Where the length of an epoch changes, a new one begins with the step.
    """
    before = read_settings(source)
    unknown = set(changes) - {field.name for field in dataclasses.fields(before)}
    if unknown:
        raise SettingsError(sorted(unknown)[0], changes[sorted(unknown)[0]], f"a setting of {before.system}")
    begun = [name for name in changes if name.startswith("start")]
    if begun:
        raise SettingsError(begun[0], changes[begun[0]], "its own: a branch begins with the state of the trajectory")
    system, shape = _system_of(source, dataclasses.replace(before, **changes)), _state_shape(_system_of(source))
    if _state_shape(system) != shape:
        name = next((each for each in changes if _changes_shape(source, before, each, changes)), next(iter(changes)))
        raise SettingsError(name, changes[name], f"{getattr(before, name)} as before: a branch keeps the state's shape")
    if before.epoch_steps != system.settings.epoch_steps:
        system.clock = EpochClock(step, system.clock.at(step, before.epoch_steps))
    return system


def _changes_shape(source: xr.Dataset, before: Settings, name: str, changes: Mapping[str, Any]) -> bool:
    """Whether one of several changes alters the shape of a state by itself."""
    try:
        alone = dataclasses.replace(before, **{name: changes[name]})
    except SettingsError:
        return False
    return _state_shape(_system_of(source, alone)) != _state_shape(_system_of(source))


def _state_shape(system: System) -> dict[str, tuple[int, ...]]:
    """Shapes of the variables that make a state, metrics aside."""
    sizes = {dim: len(values) for dim, values in system.coords().items()}
    kept = {name: dims for name, dims in system.variables.items() if name not in METRIC_VARIABLES}
    return {name: tuple(sizes[dim] for dim in dims) for name, dims in kept.items()}


def _state_at(source: xr.Dataset, seeds: np.ndarray, step: int, received: list[int]) -> State:
    """The exact state of the members with these seeds at a step, from the nearest checkpoint at or before it."""
    written = source.encoding.get("source") is not None
    if "derived" in source.attrs or ("branched_at" in source.attrs and not written):
        raise TrajectoryError("a selection or branch has no restart states; replay or branch the run it is from")
    system = _system_of(source)
    if (name := source.encoding.get("source")) is None:
        state = system.initial(seeds)
    else:
        path = Path(name)
        check_file_unchanged(source, path)
        with checkpoints(path) as states:
            known = states["checkpoint"].values
            at = int(np.searchsorted(known, step, side="right")) - 1
            nearest = states.isel(checkpoint=at, run=run_indices(states, seeds)).load()
        arrays = {str(name): nearest[name].values for name in nearest.data_vars}
        state = _restored(system, {"step": known[at], **arrays})
    pace = StepPacer()
    while state.step < step:
        if received:
            raise Interrupted(received[0], None, state.step, step)
        with pace.measure(step - state.step) as number:
            state = system.advance(state, number)
    return state
