"""The one loop: advance a system, observe it, record it, show progress; replay and branch; where runs live.

A system is anything that follows `System`. The loop knows nothing else about it.
"""

import dataclasses
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, Protocol

import numba
import numpy as np
import xarray as xr
from tqdm import tqdm

from dynamics.particles import ParticleSystem
from dynamics.recorder import Arrays, Description, FileRecorder, MemoryRecorder, Schedule, State, tidy_up
from dynamics.settings import SETTINGS, ParticleSettings, Settings, SettingsError, check_choice, check_whole
from dynamics.storage import TrajectoryError
from dynamics.trajectory import (
    SCHEMA_VERSION,
    checkpoints,
    open_trajectory,
    part_files,
    read_group,
    settings_of,
)

RUNS_FOLDER = Path("runs")
SLICE_SECONDS = 0.5
"""How long the loop may be deaf to a signal, single steps aside."""

Record = Literal["all", "metrics"]
METRICS = ("gradient_norm", "update_norm", "loss", "accuracy")


class System(Protocol):
    """A dynamical system whose state is a set of points, for a whole ensemble of runs."""

    numerics_version: int
    """Raised whenever a change alters results."""
    device: str
    """Kind of device: cpu or cuda."""
    settings: Settings
    """Their JSON in the file makes the run repeatable."""
    variables: dict[str, tuple[str, ...]]
    """What `observe` returns: name -> dims after (run, step)."""

    def working_bytes(self, runs: int) -> int:
        """Memory that a run takes, known before any is taken."""

    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the dimensions that `variables` names."""

    def initial(self, seeds: np.ndarray) -> State:
        """The state at step 0, one run a seed."""

    def advance(self, state: State, steps: int) -> State:
        """The state `steps` steps later."""

    def observe(self, state: State) -> Arrays:
        """One frame, leading run axis."""

    def checkpoint(self, state: State) -> Arrays:
        """All that `restore` needs, exactly: `step`, and arrays with a leading run axis."""

    def restore(self, arrays: Arrays) -> State:
        """The state of which `checkpoint` gave the arrays, or some of its runs."""


SYSTEMS: dict[str, type] = {ParticleSettings.system: ParticleSystem}
"""System class by the `system` that settings and trajectories name."""


def register(settings: type[Settings], system: type) -> None:
    """Make a system from outside known to `simulate` and to everything that reads trajectories."""
    SETTINGS[settings.system] = settings
    SYSTEMS[settings.system] = system


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM; what was done is on disk, and the same call goes on from there."""

    def __init__(self, signum: int, path: Path | None, step: int, steps: int) -> None:
        self.signum, self.path, self.step, self.steps = signum, path, step, steps
        super().__init__(f"interrupted at step {step} of {steps}")


# ---------------------------------------------------------------------------------------------- simulate


def simulate(
    settings: Settings,
    runs: int = 100,
    seed: int = 0,
    steps: int | None = None,
    every: int | None = None,
    record: Record = "all",
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
    steps = settings.default_steps if steps is None else steps
    every = settings.default_every if every is None else every
    check_whole("runs", runs, 1, 10_000_000)
    check_whole("seed", seed, 0, 2**62)
    check_whole("steps", steps, 0, 2**53)
    check_whole("every", every, 1, 2**53)
    check_choice("record", record, ("all", "metrics"))
    system = SYSTEMS[settings.system](settings, device)
    what = identity(system, runs, seed, every, record)
    schedule = Schedule(steps, every)
    check_size(system, runs, schedule, record, Path(out).absolute().parent if out else None)
    if out is None:
        recorder = MemoryRecorder(describe(system, what, steps), schedule)
    else:
        path = Path(out)
        if not overwrite and (done := finished(path, what, steps)) is not None:
            tidy_up(path, int(done["step"][-1]))
            return done
        recorder = FileRecorder(path, describe(system, what, steps), schedule, overwrite)
    with recorder:
        return _record(system, recorder, seed + np.arange(runs), progress)


def _record(system: System, recorder: MemoryRecorder, seeds: np.ndarray, progress: bool) -> xr.Dataset:
    """From the recorder's last checkpoint, or the initial state, to the end of its schedule."""
    if (arrays := recorder.resume()) is None:
        state = system.initial(seeds)
        recorder.add(state, system.observe(state), system.checkpoint)
    else:
        state = system.restore(arrays)
    return _advance_to_end(system, state, recorder, progress)


def _advance_to_end(system: System, state: State, recorder: MemoryRecorder, progress: bool) -> xr.Dataset:
    schedule = recorder.schedule
    pace = Pace()
    bar = tqdm(total=schedule.steps, initial=state.step, unit="step", disable=None if progress else True, leave=False)
    with bar, signals() as received:
        while state.step < schedule.steps:
            stop = schedule.next_stop(state.step)
            while state.step < stop and not received:
                before = state.step
                with pace.measure(stop - before) as number:
                    state = system.advance(state, number)
                bar.update(state.step - before)
            if state.step == stop:
                recorder.add(state, system.observe(state), system.checkpoint)
            if received:
                recorder.suspend(state, system.checkpoint)
                raise Interrupted(received[0], getattr(recorder, "path", None), state.step, schedule.steps)
    return recorder.finish(state, system.checkpoint)


class Pace:
    """How many steps to take at a time so that a signal is heard soon."""

    def __init__(self) -> None:
        self.seconds_per_step = SLICE_SECONDS

    @contextmanager
    def measure(self, wanted: int) -> Iterator[int]:
        number = max(1, min(wanted, int(SLICE_SECONDS / self.seconds_per_step)))
        begin = time.perf_counter()
        yield number
        self.seconds_per_step = max(1e-9, (time.perf_counter() - begin) / number)


@contextmanager
def signals() -> Iterator[list[int]]:
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


# ------------------------------------------------------------------------------------- what a run is, where


def identity(system: System, runs: int, seed: int, every: int, record: str, **more: object) -> dict[str, object]:
    """What tells one run from another, as root attributes of its file. The number of steps is not part of it."""
    return {
        "system": system.settings.system,
        "config_json": json.dumps(dataclasses.asdict(system.settings), sort_keys=True),
        "seed": seed,
        "runs": runs,
        "every": every,
        "record": record,
        "device": system.device,
        "numerics_version": system.numerics_version,
        **more,
    }


def _comparable(what: Mapping[str, object]) -> dict[str, object]:
    """An identity with its settings spelled out; a start counts by content, not by the name of its file."""
    flat = {name: value for name, value in what.items() if name != "config_json"}
    flat |= json.loads(str(what["config_json"]))
    if "start" in flat:
        flat["start"] = str(flat["start"]).rpartition("#")[2]
    return flat


def run_path(
    settings: Settings, runs: int, seed: int, every: int | None = None, record: Record = "all", device: str = "auto"
) -> Path:
    """Where a run lives by default: runs/SYSTEM-HASH.nc, the hash over all that `identity` names."""
    every = settings.default_every if every is None else every
    system = SYSTEMS[settings.system](settings, device)
    text = json.dumps(_comparable(identity(system, runs, seed, every, record)), sort_keys=True)
    return RUNS_FOLDER / f"{settings.system}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.nc"


def finished(path: Path, what: Mapping[str, object], steps: int) -> xr.Dataset | None:
    """The run at `path` if it is this one and has got as far; None if there is more to do."""
    if path.exists():
        trajectory = open_trajectory(path)
        _check_same(path, trajectory.attrs, what)
        recorded = trajectory["step"].values
        if recorded[-1] < steps:
            return None
        if steps not in recorded:
            allowed = f"a recorded step of {path} (every {what['every']}), another --out, or --overwrite"
            raise SettingsError("steps", steps, allowed)
        return trajectory.sel(step=slice(None, steps))
    for part in part_files(path)[-1:]:
        with read_group(part) as last, read_group(part, "checkpoint") as group:
            _check_same(path, last.attrs, what)
            reached = int(group["checkpoint"][-1])
        if reached > steps:
            raise SettingsError("steps", steps, f"at least {reached}, which {path} has reached, or --overwrite")
    return None


def _check_same(path: Path, found: Mapping[str, object], asked: Mapping[str, object]) -> None:
    here, wanted = _comparable({name: found.get(name, "") for name in asked}), _comparable(asked)
    for name, value in wanted.items():
        if here.get(name) != value:
            raise SettingsError(
                "out",
                f"{path} with {name}={here.get(name)}",
                f"a file with {name}={value}, or a new one, or --overwrite",
            )


def describe(system: System, what: Mapping[str, object], steps: int) -> Description:
    """Everything about a run that is known before it starts."""
    record_all = what["record"] == "all"
    dims = {name: rest for name, rest in system.variables.items() if record_all or name in METRICS}
    seeds = int(str(what["seed"])) + np.arange(int(str(what["runs"])), dtype=np.int64)
    settings = system.settings
    attrs = {
        "title": f"Trajectory of {len(seeds)} runs of the {settings.system} system",
        "Conventions": "CF-1.11",
        "schema_version": SCHEMA_VERSION,
        **what,
        "modulus": settings.n,
        "steps": steps,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": _git_commit(),
        "package_versions": json.dumps(_package_versions()),
        "threads": numba.get_num_threads(),
        "ensemble_width": len(seeds),
        "comment": "All values are dimensionless. config_json holds the settings; frames of a run after its "
        "last_step repeat it; group /checkpoint holds exact restart states; the last line is a SHA-256.",
    }
    return Description(dims, system.variables, system.coords(), seeds, settings.time_step, attrs)


def _git_commit() -> str:
    """The commit this program runs from, "+" if changed since, or "unknown"."""
    try:
        command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=40"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _package_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("training-dynamics", "numpy", "numba", "xarray", "netCDF4"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def check_size(system: System, runs: int, schedule: Schedule, record: str, folder: Path | None) -> None:
    """Refuse, before anything is allocated, what cannot fit into memory or on the disk."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    sizes = {name: len(values) for name, values in system.coords().items()}
    kept = [rest for name, rest in system.variables.items() if record == "all" or name in METRICS]
    frame = 8 * runs * sum(int(np.prod([sizes[dim] for dim in rest], dtype=np.float64)) for rest in kept)
    frames = schedule.steps // schedule.every + 2
    working = system.working_bytes(runs)
    if working + frame > memory:
        raise SettingsError(
            "n, dim, runs", f"a need of {_gigabytes(working + frame)}", f"memory of {_gigabytes(memory)}"
        )
    if folder is None:
        if frames * frame > memory:
            raise SettingsError(
                "steps, every", f"frames of {_gigabytes(frames * frame)}", f"memory of {_gigabytes(memory)}"
            )
        return
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if frames * frame > free > 0:
        raise SettingsError(
            "steps, every", f"frames of {_gigabytes(frames * frame)}", f"a disk with {_gigabytes(free)} free"
        )


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


# --------------------------------------------------------------------------------------- replay and branch


def replay(
    trajectory: str | Path | xr.Dataset, run: int | None, step: int, until: int, every: int = 1, progress: bool = False
) -> xr.Dataset:
    """The same run again from `step` to `until`, recorded every `every` steps; run=None replays all runs.

    Starts from the nearest checkpoint, or from the seed for a trajectory that was never written; the
    frames are bit for bit those of the original.
    """
    return _continue(trajectory, run, step, until, every, {}, progress)


def branch(
    trajectory: str | Path | xr.Dataset,
    step: int,
    *,
    run: int | None = None,
    until: int | None = None,
    every: int | None = None,
    progress: bool = False,
    **changes: Any,
) -> xr.Dataset:
    """What would have happened had settings changed at `step`: the exact state then, the new settings since."""
    source = _opened(trajectory)
    until = int(source["step"][-1]) if until is None else until
    every = int(source.attrs["every"]) if every is None else every
    return _continue(source, run, step, until, every, changes, progress)


def _opened(trajectory: str | Path | xr.Dataset) -> xr.Dataset:
    return trajectory if isinstance(trajectory, xr.Dataset) else open_trajectory(trajectory)


def _continue(
    trajectory: str | Path | xr.Dataset,
    run: int | None,
    step: int,
    until: int,
    every: int,
    changes: Mapping[str, Any],
    progress: bool,
) -> xr.Dataset:
    source = _opened(trajectory)
    before = settings_of(source)
    unknown = set(changes) - {field.name for field in dataclasses.fields(before)}
    if unknown:
        raise SettingsError(sorted(unknown)[0], changes[sorted(unknown)[0]], f"a setting of {before.system}")
    check_whole("step", step, int(source["step"][0]), 2**53)
    check_whole("until", until, step, 2**53)
    check_whole("every", every, 1, 2**53)
    rows = slice(None) if run is None else [range(source.sizes["run"])[run]]
    system = SYSTEMS[before.system](before, str(source.attrs["device"]))
    state = _state_at(system, source, rows, step)
    system = SYSTEMS[before.system](dataclasses.replace(before, **changes), str(source.attrs["device"]))
    if {name: len(v) for name, v in system.coords().items()} != {name: source.sizes[name] for name in system.coords()}:
        raise SettingsError(", ".join(changes), "a change of the state's shape", "settings that leave it as it is")
    seeds = source["seed"].values[rows]
    what = identity(system, len(seeds), int(seeds[0]), every, "all", branched_at=step)
    description = dataclasses.replace(describe(system, what, until), seeds=seeds)
    recorder = MemoryRecorder(description, Schedule(until, every, first=step))
    recorder.add(state, system.observe(state), system.checkpoint)
    return _advance_to_end(system, state, recorder, progress)


def _state_at(system: System, source: xr.Dataset, rows: slice | list[int], step: int) -> State:
    """The exact state of some runs at a step, from the nearest checkpoint at or before it."""
    path = source.encoding.get("source")
    if path is None:
        if int(source["step"][0]) != 0:
            raise TrajectoryError("a branch that was never written has no checkpoint to start from")
        state = system.initial(source["seed"].values[rows])
    else:
        with checkpoints(path) as group:
            known = group["checkpoint"].values
            at = int(np.searchsorted(known, step, side="right")) - 1
            arrays = {str(name): group[name].isel(checkpoint=at, run=rows).values for name in group.data_vars}
        state = system.restore({"step": known[at], **arrays})
    return system.advance(state, step - state.step)
