"""Recomputing part of a recorded run: unchanged (`replay`), or with different settings
(`branch`)."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dynamics.conditions import Condition, find_condition
from dynamics.ensemble import (
    RUNS_FOLDER,
    check_differs_from_source,
    check_resources,
    create_system,
)
from dynamics.errors import Interrupted, TrajectoryError
from dynamics.loop import StepPacer, record_run, restore_state
from dynamics.named_conditions import FrameTest
from dynamics.observers import ObservedSystem, Observer, source_digests
from dynamics.settings import (
    MAX_STEPS,
    RecordMode,
    Settings,
    SettingsError,
    changed_settings,
    check_choice,
    check_integer,
)
from dynamics.stopping import (
    NEVER,
    StoppingState,
    StoppingSystem,
    all_running,
    stop_steps,
)
from dynamics.system import EpochClock, State, System
from dynamics.trajectory.description import (
    IDENTITY_ATTRIBUTES,
    METRIC_VARIABLES,
    OPTIONAL_ATTRIBUTES,
    RecordingSchedule,
    RunDescription,
    describe_run,
    identity_digest,
    recorded_backend,
    run_identity,
)
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.netcdf import check_trajectory_path
from dynamics.trajectory.reader import (
    check_file_unchanged,
    checkpoints,
    open_trajectory,
    run_indices,
)
from dynamics.trajectory.recorder import (
    MemoryRecorder,
    create_recorder,
    find_finished_run,
)
from dynamics.trajectory.schema import (
    check_variable_recorded,
    read_settings,
    validate_trajectory,
)


def replay(
    trajectory: str | Path | xr.Dataset,
    run: int | None,
    step: int,
    until: int,
    every: int = 1,
    progress: bool = False,
) -> xr.Dataset:
    """Compute the steps `step` to `until` of a recorded run again, to record them more
    often.

    The computation starts from the last restart state at or before `step`, or from step
    0 if the trajectory was never written to a file. The frames are bitwise identical to
    the original ones; a run that has stopped at a condition stops at the same step.

    Parameters
    ----------
    trajectory : str, Path or xarray.Dataset
        A trajectory, or its file.
    run : int or None
        Index along `run`; None: all runs.
    step, until : int
        First and last step.
    every : int
        Steps between recorded frames.
    progress : bool
        Show a progress bar.

    Returns
    -------
    xarray.Dataset
        A trajectory that begins at `step`.

    Raises
    ------
    SettingsError
        If an argument is not valid.
    TrajectoryError
        If the trajectory has no restart states, or was computed by a version of this
        program whose results differ.

    Examples
    --------
    >>> from dynamics import ParticleSettings, replay, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=20, every=10)
    >>> replay(trajectory, run=1, step=4, until=6)["step"].values
    array([4, 5, 6])
    """
    source = open_source(trajectory)
    until = check_integer("until", until, check_branch_step(source, step), MAX_STEPS)
    seeds = _seeds(source, run)
    system = _recorded_system(source)
    every = check_integer("every", every, 1, MAX_STEPS)
    identity = run_identity(system, len(seeds), int(seeds[0]), every, "all")
    schedule = RecordingSchedule(until, every, step, system.clock.step)
    recorder = MemoryRecorder(
        _describe_part(system, identity, seeds, schedule), schedule
    )
    stopping = StoppingSystem(system, stop_steps(source, seeds))
    return record_run(
        stopping,  # type: ignore[arg-type]
        recorder,
        lambda received: stopping.begin(state_at(source, seeds, step, received)),
        progress,
    )


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
    observe: Mapping[str, Observer] | None = None,
    condition: str | FrameTest | None = None,
    **changes: Any,
) -> xr.Dataset:
    """Continue a recorded run from its exact state at `step` with other settings.

    A run that has stopped before `step` has no such state, and stays as it is.

    Parameters
    ----------
    trajectory : str, Path or xarray.Dataset
        A trajectory, or its file.
    step : int
        Step at which the branch begins; it need not be recorded.
    run : int, optional
        Index along `run`; default: all runs.
    until : int, optional
        Last step. Default: that of the original, or the step at its last epoch if
        `changes` alter the steps per epoch.
    every : int, optional
        Steps between recorded frames; default: as in the original.
    record, out, overwrite, progress, observe
        As in `simulate`.
    condition : str or callable, optional
        Condition at which a run ends before the last step, as the argument `until` of
        `simulate`. Default: none, also if the original has one.
    **changes
        Settings that differ from those of the original.

    Returns
    -------
    xarray.Dataset
        A trajectory that begins at `step`.

    Raises
    ------
    SettingsError
        If an argument is not valid, or a change alters the shape of the state.
    TrajectoryError
        If the trajectory has no restart states, or was computed by a version of this
        program whose results differ.
    RecordingError
        If `out` cannot be written.

    Examples
    --------
    >>> from dynamics import ParticleSettings, branch, read_settings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=20)
    >>> weaker = branch(trajectory, 10, fa=0.5)
    >>> weaker.sizes["step"], read_settings(weaker).fa
    (11, 0.5)
    """
    source = open_source(trajectory)
    check_choice("record", record, ("all", "metrics"))
    seeds = _seeds(source, run)
    system = changed_system(source, check_branch_step(source, step), changes)
    until = check_integer(
        "until",
        default_end(source, system) if until is None else until,
        step,
        MAX_STEPS,
    )
    identity = branch_identity(
        system, source, seeds, step, _checked_every(source, system, every), record
    )
    if observe:
        identity["observers"] = source_digests(observe)
    found = None
    if condition is not None:
        found = find_condition(condition)
        identity["until"] = str(found)
    schedule = RecordingSchedule(until, identity["every"], step, system.clock.step)
    return record_branch(
        source,
        system,
        identity,
        schedule,
        seeds,
        lambda received: continued_state(
            system, state_at(source, seeds, step, received), seeds
        ),
        out,
        overwrite,
        progress,
        observe,
        condition=found,
        ends=_stopped_before(source, seeds, step),
    )


def record_branch(
    source: xr.Dataset,
    system: System,
    identity: Mapping[str, Any],
    schedule: RecordingSchedule,
    seeds: np.ndarray,
    first_state: Callable[[list[int]], State],
    out: str | Path | None,
    overwrite: bool,
    progress: bool,
    observe: Mapping[str, Observer] | None = None,
    run_coords: Mapping[str, np.ndarray] | None = None,
    condition: Condition | None = None,
    ends: np.ndarray | None = None,
) -> xr.Dataset:
    """The trajectory of runs that begin with a state of other runs; it is read from
    `out` if it is there.

    run_coords: further coordinates (run,). condition: at which runs end. ends: (run,)
    steps at which runs have stopped before, or NEVER. Raises as `branch` does."""
    path = None if out is None else check_trajectory_path(out)
    if path is not None:
        check_differs_from_source(path, source.encoding.get("source"))
        if not overwrite:
            finished_run = find_finished_run(path, identity, schedule.steps)
            if finished_run is not None:
                return finished_run
    check_resources(system, len(seeds), schedule, identity["record"], path)
    if observe:
        system = ObservedSystem(system, observe, seeds)
    begin = first_state
    if ends is None:
        ends = all_running(len(seeds))
    if condition is not None or (ends != NEVER).any():
        stopping = StoppingSystem(system, ends, condition, schedule)
        system = stopping  # type: ignore[assignment]
        begin = lambda received: stopping.begin(first_state(received))  # noqa: E731
    description = _describe_part(system, identity, seeds, schedule)
    description = dataclasses.replace(description, run_coords=run_coords or {})
    recorder = create_recorder(path, description, schedule, identity, overwrite)
    return record_run(system, recorder, begin, progress)


def _stopped_before(source: xr.Dataset, seeds: np.ndarray, step: int) -> np.ndarray:
    """The steps at which runs have stopped before a step, (run,), or NEVER."""
    ends = stop_steps(source, seeds)
    return np.where(ends < step, ends, NEVER)


def branch_path(
    trajectory: str | Path | xr.Dataset,
    step: int,
    every: int | None = None,
    record: RecordMode = "all",
    condition: str | FrameTest | None = None,
    **changes: Any,
) -> Path:
    """The default file of a branch of all runs, runs/SYSTEM-HASH.nc. Raises as `branch`
    does."""
    source = open_source(trajectory)
    system = changed_system(source, check_branch_step(source, step), changes)
    every = _checked_every(source, system, every)
    identity = branch_identity(
        system, source, _seeds(source, None), step, every, record
    )
    if condition is not None:
        identity["until"] = str(find_condition(condition))
    return RUNS_FOLDER / f"{system.settings.system}-{identity_digest(identity)}.nc"


def branch_step(
    trajectory: str | Path | xr.Dataset, step: int, epoch: float, **changes: Any
) -> int:
    """The step at which a branch reaches an epoch, counted from the beginning of the
    run. Raises as `branch` does."""
    source = open_source(trajectory)
    system = changed_system(source, check_branch_step(source, step), changes)
    clock = system.clock
    return clock.step + round(
        (epoch - clock.epoch) * max(1, system.settings.epoch_steps)
    )


def check_branch_step(source: xr.Dataset, step: int) -> int:
    """A step from which a trajectory can be continued. Raises SettingsError."""
    return check_integer("step", step, int(source["step"][0]), MAX_STEPS)


def final_embedding(trajectory: xr.Dataset) -> xr.DataArray:
    """The last embedding of every run that has not diverged; of a run that has stopped
    at a condition that where it stopped.

    If the trajectory contains only metrics, the embedding is computed from the nearest
    restart state.

    Parameters
    ----------
    trajectory : xarray.Dataset

    Returns
    -------
    xarray.DataArray
        (run, token, axis), with the coordinate `seed`.

    Raises
    ------
    TrajectoryError
        If the trajectory contains only metrics and there are no restart states, or if
        its system has no embedding.

    Examples
    --------
    >>> from dynamics import ParticleSettings, final_embedding, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=20, record="metrics")
    >>> final_embedding(trajectory).shape
    (3, 5, 2)
    """
    last = int(trajectory["step"][-1])
    frames = (
        trajectory
        if "embedding" in trajectory
        else replay(trajectory, None, last, last)
    )
    check_variable_recorded(frames, "embedding")
    runs = np.flatnonzero(not_diverged(trajectory))
    final = (
        frames["embedding"]
        .isel(step=-1, drop=True)
        .assign_coords(seed=trajectory["seed"])
    )
    return final.isel(run=runs).transpose("run", "token", "axis")


# --------------------------------------------------------------------------- the source


def open_source(trajectory: str | Path | xr.Dataset) -> xr.Dataset:
    source = (
        trajectory
        if isinstance(trajectory, xr.Dataset)
        else open_trajectory(trajectory)
    )
    if not source.sizes.get("run"):
        validate_trajectory(source)  # raises
    return source


def _seeds(source: xr.Dataset, run: int | None) -> np.ndarray:
    """The seed of the run with index `run`, or the seeds of all runs for None."""
    count = source.sizes["run"]
    runs = range(count) if run is None else [check_integer("run", run, 0, count - 1)]
    return source["seed"].values[list(runs)]


def _recorded_system(
    source: xr.Dataset,
    settings: Settings | None = None,
    clock: EpochClock | None = None,
) -> System:
    """The system of a trajectory, optionally with other settings or another clock.

    Raises TrajectoryError if the trajectory has another numerics version.
    """
    recorded = EpochClock(
        int(source.attrs.get("clock_step", 0)),
        float(source.attrs.get("clock_epoch", 0.0)),
    )
    settings = settings or read_settings(source)
    system = create_system(
        settings,
        str(source.attrs["device"]),
        int(source.attrs["ensemble_width"]),
        clock or recorded,
        backend=str(source.attrs.get("backend", "auto")),
    )
    if system.backends and "backend" not in source.attrs:
        system.backend_name = recorded_backend(source.attrs)
    recorded_version = source.attrs["numerics_version"]
    current = system.numerics_version
    if recorded_version != current:
        message = (
            f"attribute numerics_version: found {recorded_version}, this program computes as"
            f" version {current}"
        )
        recorded_method = json.loads(source.attrs["config_json"]).get("method")
        if recorded_method == "tree" and not getattr(settings, "uses_mesh", True):
            message += (
                "; the forces of the run are fast sums, which this program has in two"
                " dimensions only, and direct sums do not continue them"
            )
        raise TrajectoryError(message)
    return system


def state_at(
    source: xr.Dataset, seeds: np.ndarray, step: int, received: list[int]
) -> State:
    """The exact state of the runs with these seeds at a step, from the last restart
    state at or before it. Raises TrajectoryError, Interrupted."""
    return next(states_at(source, seeds, [step], received))


def states_at(
    source: xr.Dataset, seeds: np.ndarray, steps: Sequence[int], received: list[int]
) -> Iterator[State]:
    """The exact states of the runs with these seeds at increasing steps. Raises as
    `state_at` does."""
    path = source.encoding.get("source")
    if "derived" in source.attrs or ("branched_at" in source.attrs and path is None):
        raise TrajectoryError(
            "a selection or branch has no restart states; replay or branch the run it"
            " is from"
        )
    if "copies" in source.attrs:
        raise TrajectoryError(
            "copies of several states cannot be replayed or branched; replay or branch"
            " the run they are from"
        )
    system = StoppingSystem(_recorded_system(source), stop_steps(source, seeds))
    pacer = StepPacer()
    state = (
        system.initial(seeds)
        if path is None
        else _nearest_state(system, source, Path(path), seeds, steps[0])
    )
    for step in steps:
        if path is not None:
            nearest = _nearest_state(system, source, Path(path), seeds, step)
            state = max(state, nearest, key=lambda item: item.step)
        while state.step < step:
            if received:
                raise Interrupted(received[0], None, state.step, step)
            with pacer.measure(step - state.step) as number:
                state = system.advance(state, number)
        yield state.inner


def continued_state(system: System, state: State, seeds: np.ndarray) -> State:
    """The state of runs with these seeds as a system with other settings continues it:
    particles that had no noise get its seeds."""
    with_noise = getattr(system, "with_noise", None)
    return state if with_noise is None else with_noise(state, seeds)


def _nearest_state(
    system: StoppingSystem,
    source: xr.Dataset,
    path: Path,
    seeds: np.ndarray,
    step: int,
) -> StoppingState:
    """The state at the last restart state at or before a step."""
    check_file_unchanged(source, path)
    with checkpoints(path) as states:
        saved_steps = states["checkpoint"].values
        at = int(np.searchsorted(saved_steps, step, side="right")) - 1
        nearest = states.isel(checkpoint=at, run=run_indices(states, seeds)).load()
    arrays = {str(name): nearest[name].values for name in nearest.data_vars}
    return restore_state(system, {"step": saved_steps[at], **arrays})  # type: ignore


# --------------------------------------------------------------------------- the branch


def _describe_part(
    system: System,
    identity: Mapping[str, Any],
    seeds: np.ndarray,
    schedule: RecordingSchedule,
) -> RunDescription:
    """The description of a run that begins at a step of another one."""
    description = describe_run(system, identity, schedule.steps)
    clock = system.clock
    begin = {
        "branched_at": schedule.first,
        "clock_step": clock.step,
        "clock_epoch": clock.epoch,
    }
    return dataclasses.replace(
        description, seeds=seeds, attrs={**description.attrs, **begin}, clock=clock
    )


def branch_identity(
    system: System,
    source: xr.Dataset,
    seeds: np.ndarray,
    step: int,
    every: int,
    record: str,
) -> dict[str, Any]:
    names = [
        *IDENTITY_ATTRIBUTES,
        *(name for name in OPTIONAL_ATTRIBUTES if name in source.attrs),
    ]
    attributes = {name: source.attrs[name] for name in names}
    origin = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in attributes.items()
    }
    identity = run_identity(system, len(seeds), int(seeds[0]), every, record)
    return {**identity, "branched_at": step, "branch_of": identity_digest(origin)}


def _checked_every(source: xr.Dataset, system: System, every: int | None) -> int:
    """Steps between the frames of a branch. By default as in the original; if that is
    the default of the original's settings, the default of the branch's settings."""
    if every is None:
        every = int(source.attrs["every"])
        if every == read_settings(source).default_every:
            every = system.settings.default_every
    return check_integer("every", every, 1, MAX_STEPS)


def default_end(source: xr.Dataset, system: System) -> int:
    """The default last step of a branch: that of the original, or the step at its last
    epoch if the steps per epoch change."""
    last = int(source["step"][-1])
    before = read_settings(source)
    if before.epoch_steps == system.settings.epoch_steps:
        return last
    epochs = float(source["epoch"][-1]) - system.clock.epoch
    return max(
        system.clock.step,
        system.clock.step + round(epochs * system.settings.epoch_steps),
    )


def changed_system(source: xr.Dataset, step: int, changes: Mapping[str, Any]) -> System:
    """The system of a trajectory with settings changed from a step on. Raises
    SettingsError.

    If the length of an epoch changes, a new epoch begins at this step.
    """
    before = read_settings(source)
    unknown = sorted(
        set(changes) - {field.name for field in dataclasses.fields(before)}
    )
    if unknown:
        raise SettingsError(
            unknown[0], changes[unknown[0]], f"a setting of {before.system}"
        )
    for name in changes:
        if name.startswith("start"):
            raise SettingsError(
                name,
                changes[name],
                "no change: a branch begins with the state of the trajectory",
            )
    settings = changed_settings(before, changes)
    system = _recorded_system(source, settings)
    shape = state_shape(_recorded_system(source))
    if state_shape(system) != shape:
        name = next(
            (
                change
                for change in changes
                if _changes_shape(source, before, change, changes)
            ),
            next(iter(changes)),
        )
        allowed = (
            f"{getattr(before, name)} as before: a branch keeps the shape of the state"
        )
        raise SettingsError(name, changes[name], allowed)
    if before.epoch_steps != settings.epoch_steps:
        clock = EpochClock(step, system.clock.at(step, before.epoch_steps))
        return _recorded_system(source, settings, clock)
    return system


def _changes_shape(
    source: xr.Dataset, before: Settings, name: str, changes: Mapping[str, Any]
) -> bool:
    """Whether one of several changes alters the shape of the state by itself."""
    try:
        alone = changed_settings(before, {name: changes[name]})
    except SettingsError:
        return False
    return state_shape(_recorded_system(source, alone)) != state_shape(
        _recorded_system(source)
    )


def state_shape(system: System) -> dict[str, tuple[int, ...]]:
    """Shapes of the variables of a state, without metrics."""
    sizes = {dim: len(values) for dim, values in system.coords().items()}
    recorded = {
        name: dims
        for name, dims in system.variables.items()
        if name not in METRIC_VARIABLES
    }
    return {name: tuple(sizes[dim] for dim in dims) for name, dims in recorded.items()}
