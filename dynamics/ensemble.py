"""An ensemble of runs as one value: its settings, size and recording, its identity, its
file, and its simulation."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dynamics.ensemble_arguments import EnsembleArguments
from dynamics.loop import record_run
from dynamics.observers import Observer, source_digests, with_observers
from dynamics.provenance import identity_digest, run_identity
from dynamics.run_checks import (
    MAX_STEPS,
    RUNS_FOLDER,
    backend_to_continue,
    check_differs_from_source,
    check_resources,
    check_trajectory_path,
    find_finished_run,
)
from dynamics.settings import (
    RecordMode,
    Settings,
    check_choice,
    check_integer,
)
from dynamics.settings_text import describe_settings, setting_texts
from dynamics.start_files import start_file
from dynamics.system_checks import check_first_step
from dynamics.system_creation import (
    create_external_system,
    create_system,
    system_identity,
)
from dynamics.system_kinds import SYSTEM_KINDS, SystemIdentity
from dynamics.trajectory.description import RecordingSchedule, describe_run
from dynamics.trajectory.recorder import create_recorder


@dataclasses.dataclass(frozen=True)
class Ensemble(EnsembleArguments):
    """An ensemble of runs: everything that determines its trajectory and its file.

    Parameters
    ----------
    settings, runs, seed, steps, every, record, device, backend, observe
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

    observe: Mapping[str, Observer] | None = dataclasses.field(default=None, hash=False)
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
        return self._identity_with(self._system_identity())

    @property
    def path(self) -> Path:
        """The default file, runs/SYSTEM-HASH.nc, with a hash of the identity; relative
        to the current folder. Raises SettingsError, MissingPackage."""
        digest = identity_digest(self.identity)
        return RUNS_FOLDER / f"{self.settings.system}-{digest}.nc"

    def resolved(self) -> "Ensemble":
        """The same ensemble with the device and the backend that "auto" selects here,
        and with the hash of its start file. Raises SettingsError, MissingPackage."""
        system = self._system_identity()
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
        selected = self._system_identity()
        schedule = self.schedule
        path = None if out is None else check_trajectory_path(out)
        if self.backend == "auto" and path is not None and not overwrite:
            backend = backend_to_continue(path, selected)
            selected = selected._replace(backend_name=backend)
        identity = self._identity_with(selected)
        if path is not None:
            check_differs_from_source(path, start_file(self.settings))
            if not overwrite:
                finished_run = find_finished_run(path, identity, schedule.steps)
                if finished_run is not None:
                    return finished_run
        settings, device = selected.settings, selected.device
        backend = selected.backend_name or "auto"
        system = create_system(settings, device, backend=backend)
        check_resources(system, self.runs, schedule, self.record, path)
        if path is not None:
            path = path.absolute()  # code of the user may change the folder
        seeds = self.seed + np.arange(self.runs)
        if settings.system not in SYSTEM_KINDS:
            check_first_step(create_external_system(settings, device), seeds)
        system = with_observers(system, self.observe, seeds)
        description = describe_run(system, identity, schedule.steps)
        recorder = create_recorder(path, description, schedule, identity, overwrite)
        return record_run(
            system, recorder, lambda received: system.initial(seeds), progress
        )

    def check_resources(self, path: Path) -> None:
        """Check that the ensemble fits into memory, and its file on the disk. Raises
        SettingsError."""
        system = create_system(
            self.settings, self.device, runs=self.runs, backend=self.backend
        )
        check_resources(system, self.runs, self.schedule, self.record, path)

    def _system_identity(self) -> SystemIdentity:
        return system_identity(self.settings, self.device, self.runs, self.backend)

    def _identity_with(self, system: SystemIdentity) -> dict[str, Any]:
        every = self.schedule.every
        identity = run_identity(system, self.runs, self.seed, every, self.record)
        if self._observers:
            identity["observers"] = self._observers
        return identity


def run_path(
    settings: Settings,
    runs: int,
    seed: int,
    every: int | None = None,
    record: RecordMode = "all",
    device: str = "auto",
    backend: str = "auto",
) -> Path:
    """Return the default file of an ensemble, `Ensemble.path`.

    Parameters
    ----------
    settings, runs, seed, every, record, device, backend
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
    return Ensemble(settings, runs, seed, None, every, record, device, backend).path
