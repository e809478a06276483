"""An ensemble of runs as one value: its settings, size and recording, its identity, its
file, and its simulation."""

import dataclasses
import functools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dynamics.conditions import Comparison, Condition, find_condition
from dynamics.external_systems import (
    DivergenceGuard,
    check_first_step,
    create_external_system,
)
from dynamics.folders import existing_folder
from dynamics.loop import record_run
from dynamics.named_conditions import FrameTest
from dynamics.observers import ObservedSystem, Observer, source_digests
from dynamics.settings import (
    MAX_STEPS,
    EnsembleArguments,
    RecordMode,
    Settings,
    SettingsError,
    check_choice,
    check_integer,
    start_file,
)
from dynamics.settings_text import describe_settings, setting_texts
from dynamics.stopping import StoppingSystem, all_running
from dynamics.system import (
    SYSTEM_KINDS,
    EpochClock,
    System,
    SystemIdentity,
    check_backend,
    complete_settings,
    identify_system,
    system_class,
)
from dynamics.trajectory.description import (
    RecordingSchedule,
    describe_run,
    identity_digest,
    recorded_backend,
    recorded_variables,
    run_identity,
)
from dynamics.trajectory.netcdf import check_trajectory_path
from dynamics.trajectory.reader import closed_parts, open_trajectory
from dynamics.trajectory.recorder import create_recorder, find_finished_run

RUNS_FOLDER = Path("runs")


@dataclasses.dataclass(frozen=True)
class Ensemble(EnsembleArguments):
    """An ensemble of runs: everything that determines its trajectory and its file.

    Parameters
    ----------
    settings, runs, seed, steps, every, record, device, backend, until, observe
        As in `dynamics.simulate`.

    Raises
    ------
    SettingsError
        If an argument is not valid; device and backend are checked when they are used.

    Examples
    --------
    >>> from dynamics import Ensemble, ParticleSettings
    >>> ensemble = Ensemble(ParticleSettings(n=5, fa=2.0), runs=3, steps=20)
    >>> str(ensemble.path)
    'runs/particles-0de4441b964e.nc'
    >>> ensemble.describe()
    'particles, N = 5, f_a = 2: 3 runs from seed 0, 20 steps'
    >>> dict(ensemble.simulate()["embedding"].sizes)
    {'run': 3, 'step': 21, 'token': 5, 'axis': 2}
    """

    until: str | FrameTest | None = None  # type: ignore[assignment]
    observe: Mapping[str, Observer] | None = dataclasses.field(default=None, hash=False)
    _condition: Condition | None = dataclasses.field(
        init=False, repr=False, default=None
    )
    _observers: str = dataclasses.field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        check_choice("record", self.record, ("all", "metrics"))
        limits = {"runs": (1, 10_000_000), "seed": (0, 2**62)}
        if self.steps is not None:
            limits["steps"] = (0, MAX_STEPS)
        if self.every is not None:
            limits["every"] = (1, MAX_STEPS)
        for name, (low, high) in limits.items():
            number = check_integer(name, getattr(self, name), low, high)
            object.__setattr__(self, name, number)
        if self.until is not None:
            condition = find_condition(self.until)
            object.__setattr__(self, "_condition", condition)
            if isinstance(condition, Comparison):
                object.__setattr__(self, "until", str(condition))
        if self.observe:
            object.__setattr__(self, "_observers", source_digests(self.observe))

    @property
    def schedule(self) -> RecordingSchedule:
        """The steps that are recorded. Raises SettingsError."""
        steps, every = self.steps, self.every
        if steps is None:
            steps = self.settings.default_steps
        if every is None:
            every = self.settings.default_every
        return RecordingSchedule(
            check_integer("steps", steps, 0, MAX_STEPS),
            check_integer("every", every, 1, MAX_STEPS),
        )

    @property
    def identity(self) -> dict[str, Any]:
        """The attributes that distinguish the runs from others; the number of steps is
        not among them. Raises SettingsError, MissingPackage."""
        return self._identity_with(self._system_identity)

    @property
    def path(self) -> Path:
        """The default file, runs/SYSTEM-HASH.nc, with a hash of the identity; relative
        to the current folder. Raises SettingsError, MissingPackage."""
        digest = identity_digest(self.identity)
        return RUNS_FOLDER / f"{self.settings.system}-{digest}.nc"

    def resolved(self) -> "Ensemble":
        """The same ensemble with the device and the backend that "auto" selects here,
        and with the hash of its start file. Raises SettingsError, MissingPackage."""
        system = self._system_identity
        return dataclasses.replace(
            self,
            settings=system.settings,
            device=system.device,
            backend=system.backend_name or "auto",
        )

    def describe(self) -> str:
        """The ensemble in words: its task, the main settings and those that differ from
        the defaults, and its size."""
        runs = f"{self.runs} run{'s' if self.runs > 1 else ''} from seed {self.seed}"
        size = f"{runs}, {self.schedule.steps} steps"
        if self._condition is not None:
            size += f", until {self._condition}"
        return f"{describe_settings(self.settings)}: {size}"

    def code(self) -> str:
        """The call of `simulate` that computes the ensemble."""
        settings = ", ".join(setting_texts(self.settings, form="code"))
        fields = dataclasses.fields(EnsembleArguments)[1:]
        values = {field.name: getattr(self, field.name) for field in fields}
        named = [
            f"{field.name}={values[field.name]!r}"
            for field in fields
            if field.name in ("runs", "seed") or values[field.name] != field.default
        ]
        name = type(self.settings).__name__
        return f"simulate({name}({settings}), {', '.join(named)})"

    def simulate(
        self,
        out: str | Path | None = None,
        overwrite: bool = False,
        progress: bool = True,
        observe: Mapping[str, Observer] | None = None,
    ) -> xr.Dataset:
        """The trajectory of the ensemble, computed or read from `out`.

        Parameters and errors are those of `dynamics.simulate`."""
        if observe is not None:
            ensemble = dataclasses.replace(self, observe=observe)
            return ensemble.simulate(out, overwrite, progress)
        identified = self._system_identity
        schedule = self.schedule
        path = None if out is None else check_trajectory_path(out)
        if self.device == "auto" and path is not None and not overwrite:
            device = device_to_continue(path, identified)
            if device != identified.device:
                ensemble = dataclasses.replace(self, device=device)
                return ensemble.simulate(out, overwrite, progress)
        if self.backend == "auto" and path is not None and not overwrite:
            backend = backend_to_continue(path, identified)
            identified = identified._replace(backend_name=backend)
        identity = self._identity_with(identified)
        if path is not None:
            check_differs_from_source(path, start_file(self.settings))
            if not overwrite:
                finished_run = find_finished_run(path, identity, schedule.steps)
                if finished_run is not None:
                    return finished_run
        system = build_system(identified)
        check_resources(system, self.runs, schedule, self.record, path)
        if path is not None:
            path = path.absolute()  # code of the user may change the folder
        seeds = self.seed + np.arange(self.runs)
        if self.settings.system not in SYSTEM_KINDS:
            external = create_external_system(identified.settings, identified.device)
            check_first_step(external, seeds[:2])
        if self.observe:
            system = ObservedSystem(system, self.observe, seeds)
        if self._condition is not None:
            system = StoppingSystem(  # type: ignore[assignment]
                system, all_running(self.runs), self._condition, schedule
            )
        description = describe_run(system, identity, schedule.steps)
        recorder = create_recorder(path, description, schedule, identity, overwrite)
        return record_run(
            system, recorder, lambda received: system.initial(seeds), progress
        )

    def check_resources(self, path: Path) -> None:
        """Check that the ensemble fits into memory, and its file on the disk. Raises
        SettingsError."""
        system = build_system(self._system_identity)
        check_resources(system, self.runs, self.schedule, self.record, path)

    @functools.cached_property
    def _system_identity(self) -> SystemIdentity:
        return system_identity(self.settings, self.device, self.runs, self.backend)

    def _identity_with(self, system: SystemIdentity) -> dict[str, Any]:
        every = self.schedule.every
        identity = run_identity(system, self.runs, self.seed, every, self.record)
        if self._observers:
            identity["observers"] = self._observers
        if self._condition is not None:
            identity["until"] = str(self._condition)
        return identity


def run_path(
    settings: Settings,
    runs: int,
    seed: int,
    every: int | None = None,
    record: RecordMode = "all",
    device: str = "auto",
    backend: str = "auto",
    until: str | FrameTest | None = None,
) -> Path:
    """Return the default file of an ensemble, `Ensemble.path`.

    Parameters
    ----------
    settings, runs, seed, every, record, device, backend, until
        As in `Ensemble`.

    Returns
    -------
    Path
        Relative to the current folder.

    Examples
    --------
    >>> from dynamics import ParticleSettings, run_path
    >>> str(run_path(ParticleSettings(fa=2.0), runs=100, seed=0))
    'runs/particles-781a98ee2adb.nc'
    """
    return Ensemble(
        settings, runs, seed, None, every, record, device, backend, until
    ).path


# ------------------------------------------------------------------------------- system


def system_identity(
    settings: Settings, device: str, runs: int, backend: str
) -> SystemIdentity:
    """What the identity of a run contains of its system. Only an external system is
    created for it. Raises as `create_system`."""
    if settings.system in SYSTEM_KINDS:
        return identify_system(settings, device, runs, backend)
    system = create_external_system(complete_settings(settings), device)
    check_backend(backend, system.backends, settings.system, system.device)
    if backend == "auto":
        backend = system.fastest_backend(runs) if system.backends else ""
    return SystemIdentity(
        system.settings,
        system.device,
        system.numerics_version,
        system.backends,
        backend or system.backend_name,
    )


def build_system(
    identity: SystemIdentity,
    ensemble_width: int | None = None,
    clock: EpochClock | None = None,
) -> System:
    """The system of an identity; an external one is wrapped in a `DivergenceGuard`.

    ensemble_width, clock: those of a recorded run that is replayed or branched."""
    system: Any
    if identity.settings.system in SYSTEM_KINDS:
        factory = system_class(identity.settings.system)
        system = factory(identity.settings, identity.device)
    else:
        system = create_external_system(identity.settings, identity.device)
    system.backend_name = identity.backend_name
    if ensemble_width is not None:
        system.ensemble_width = ensemble_width
    if clock is not None:
        system.clock = clock
    if identity.settings.system in SYSTEM_KINDS:
        return system
    return DivergenceGuard(system)  # type: ignore[return-value]


def create_system(
    settings: Settings,
    device: str = "auto",
    ensemble_width: int | None = None,
    clock: EpochClock | None = None,
    runs: int = 1,
    backend: str = "auto",
) -> System:
    """The system of these settings; an external one is checked, and wrapped in a
    `DivergenceGuard`.

    ensemble_width, clock: those of a recorded run that is replayed or branched.
    backend: "auto" is the fastest one for `runs` runs. Raises SettingsError,
    MissingPackage."""
    identity = system_identity(settings, device, runs, backend)
    return build_system(identity, ensemble_width, clock)


# ------------------------------------------------------------------------------- checks


def check_resources(
    system: System,
    runs: int,
    schedule: RecordingSchedule,
    record: str,
    path: Path | None,
) -> None:
    """Check, before anything is allocated, that a run fits into memory and on the disk
    and its folder is writable.

    path: the file to be written; None if the frames stay in memory. Raises
    SettingsError."""
    memory = physical_memory()
    sizes = {name: len(values) for name, values in system.coords().items()}
    recorded = recorded_variables(system, record).values()
    frame = (
        8
        * runs
        * sum(
            int(np.prod([sizes[dim] for dim in dims], dtype=np.float64))
            for dims in recorded
        )
    )
    parts = [] if path is None else closed_parts(path)
    begin = parts[-1].end if parts else schedule.first
    frames, missing = (
        frame * ((schedule.steps - step) // schedule.every + 2)
        for step in (schedule.first, begin)
    )
    working = system.working_bytes(runs)
    on_device = getattr(system, "device_memory", 0)
    most = on_device or memory
    if working + frame > most:
        sizes_of = [
            name
            for name in ("n", "data", "hidden", "dim")
            if hasattr(system.settings, name)
        ]
        needed = f"{_size(working + frame)} needed"
        owner = "device's " if on_device else ""
        allowed = f"at most the {owner}memory of {_size(most)}"
        raise SettingsError(", ".join([*sizes_of, "runs"]), needed, allowed)
    if path is None:
        if frames > memory:
            raise SettingsError(
                "steps, every",
                f"frames of {_size(frames)}",
                f"memory of {_size(memory)}",
            )
        return
    folder = existing_folder(path)
    missing -= path.stat().st_size if path.exists() else 0
    free = shutil.disk_usage(folder).free
    if missing > free > 0:
        raise SettingsError(
            "steps, every",
            f"frames of {_size(frames)} in all, {_size(missing)} not yet on the disk",
            f"a disk with {_size(free)} free",
        )


def physical_memory() -> int:
    """Memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count > 2**29 else f"{count / 2**20:.1f} MiB"


def device_to_continue(path: Path, system: SystemIdentity) -> str:
    """The device of the run that is already at a path, if this machine has a CUDA
    device, otherwise that of the system."""
    kind = SYSTEM_KINDS.get(system.settings.system)
    has_choice = kind is not None and kind.finds_cuda()
    if not has_choice or not (path.exists() or closed_parts(path)):
        return system.device
    with open_trajectory(path) as trajectory:
        return str(trajectory.attrs["device"])


def backend_to_continue(path: Path, system: SystemIdentity) -> str:
    """The backend of the run that is already at a path, if the system has it, otherwise
    that of the system."""
    if not system.backends or not (path.exists() or closed_parts(path)):
        return system.backend_name
    with open_trajectory(path) as trajectory:
        backend = recorded_backend(trajectory.attrs)
    return backend if backend in system.backends else system.backend_name


def check_differs_from_source(path: Path, source: str | None) -> None:
    """Refuse to write a run over the file that it begins from. Raises SettingsError."""
    if (
        source is not None
        and path.exists()
        and Path(source).exists()
        and path.samefile(source)
    ):
        raise SettingsError(
            "out", path, "another file than the one that this run begins from"
        )
