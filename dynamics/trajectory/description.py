"""The description of a run before it begins: its identity, which determines its file, its
recorded steps, the coordinates and attributes of its file, and the versions of the
software that computes it."""

import contextlib
import functools
import hashlib
import json
import platform
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numba
import numpy as np
import xarray as xr

from dynamics.settings import (
    FILE_SETTINGS,
    Settings,
    SettingsError,
    saved_settings,
)
from dynamics.system import DEFAULT_CLOCK, EpochClock, State, System, SystemIdentity
from dynamics.trajectory.schema import (
    CONVENTIONS,
    DIVERGED,
    DONE,
    RUNNING,
    SCHEMA_VERSION,
    STATUS_MEANINGS,
    STOPPED,
    describe_variables,
)
from dynamics.version import VERSION

Frames = Mapping[int, Mapping[str, np.ndarray]]
"""Frames by step; each maps the name of a variable to an array (run, ...)."""


@dataclass(frozen=True)
class RecordingSchedule:
    """The steps at which a run of `steps` steps records a frame, and those at which it
    records a restart state."""

    steps: int
    every: int
    first: int = 0
    origin: int = 0  # the step from which `every` is counted

    @property
    def spacing(self) -> int:
        """Steps between restart states: a power of two such that there are 10 to 20 of
        them.

        The restart states of a longer run are therefore a subset of those of a shorter
        one, and a run that was extended gives the same file as one that was computed at
        its full length at once."""
        spacing = 1
        while self.steps - self.first > 20 * spacing:
            spacing *= 2
        return spacing

    def records(self, step: int) -> bool:
        """Whether the frame at this step is kept."""
        return self.is_on_grid(step) or step in (self.first, self.steps)

    def is_on_grid(self, step: int) -> bool:
        """Whether `every` counts this step; the first and the last one need not be."""
        return (step - self.origin) % self.every == 0

    def next_on_grid(self, step: int) -> int:
        """The first step after this one that `every` counts."""
        return self.origin + ((step - self.origin) // self.every + 1) * self.every

    def keeps_checkpoint(self, step: int) -> bool:
        """Whether the restart state at this step is kept."""
        return step % self.spacing == 0 or step in (self.first, self.steps)

    def next_stop(self, step: int) -> int:
        """The first step after this one at which a frame or a restart state is kept."""
        frame = self.next_on_grid(step)
        return min(self.steps, frame, (step // self.spacing + 1) * self.spacing)


@dataclass(frozen=True)
class RunDescription:
    """The data that all parts of a run have in common."""

    dims: Mapping[str, tuple[str, ...]]  # of each recorded variable, after (run, step)
    state_dims: Mapping[
        str, tuple[str, ...]
    ]  # of arrays of a restart state, after (checkpoint, run)
    coords: Mapping[str, np.ndarray]
    seeds: np.ndarray  # (run,)
    time_step: float
    epoch_steps: int  # 0 where there are no epochs
    attrs: Mapping[str, object]
    clock: EpochClock = DEFAULT_CLOCK
    run_coords: Mapping[str, np.ndarray] = field(
        default_factory=dict
    )  # further, (run,)
    times: Mapping[int, float] | None = None  # by step, of steps of different sizes

    def dataset(self, frames: Frames, ends: Mapping[str, np.ndarray]) -> xr.Dataset:
        """The frames as one dataset, with the `final_variables` of the runs."""
        steps = np.array(list(frames), dtype=np.int64)
        variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
            name: (
                ("run", "step", *rest),
                np.stack([frame[name] for frame in frames.values()], axis=1),
            )
            for name, rest in self.dims.items()
        }
        variables.update({name: (("run",), values) for name, values in ends.items()})
        used = {dim for rest in self.dims.values() for dim in rest}
        coords = {
            name: (name, values) for name, values in self.coords.items() if name in used
        }
        coords["step"] = ("step", steps)
        times = self.time_step * steps
        if self.times is not None:
            times = np.array([self.times[int(step)] for step in steps])
        coords["time"] = ("step", times)
        if self.epoch_steps:
            coords["epoch"] = ("step", self.clock.at(steps, self.epoch_steps))
        for name, values in {"seed": self.seeds, **self.run_coords}.items():
            coords[name] = ("run", values)
        return add_variable_attributes(xr.Dataset(variables, coords, dict(self.attrs)))


def describe_run(
    system: System, identity: Mapping[str, Any], steps: int
) -> RunDescription:
    """The description of a run of `steps` steps with the identity that `run_identity`
    returned."""
    recorded = recorded_variables(system, identity["record"])
    settings = system.settings
    width = max(identity["runs"], system.ensemble_width)
    attrs = describe_origin(settings, identity, steps, numba.get_num_threads(), width)
    observed = observer_names(system)
    return RunDescription(
        recorded,
        {name: dims for name, dims in system.variables.items() if name not in observed},
        system.coords(),
        seeds_of(identity),
        settings.time_step,
        settings.epoch_steps,
        attrs,
        times=getattr(settings, "elapsed_times", None),
    )


def seeds_of(identity: Mapping[str, Any]) -> np.ndarray:
    """The seed of each run of an ensemble, (run,)."""
    return identity["seed"] + np.arange(identity["runs"], dtype=np.int64)


def describe_origin(
    settings: Settings,
    identity: Mapping[str, Any],
    steps: int,
    threads: int,
    width: int,
) -> dict[str, object]:
    """The root attributes of a run with the identity that `run_identity` returned."""
    return {
        "title": (
            f"Trajectory of {identity['runs']} runs of the {settings.system} system"
        ),
        "analyses": _analyses(settings),
        "Conventions": CONVENTIONS,
        "history": f"written by training-dynamics {VERSION}",
        "schema_version": SCHEMA_VERSION,
        **identity,
        "modulus": settings.modulus,
        "steps": steps,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": git_commit(),
        "package_versions": json.dumps(package_versions()),
        "threads": threads,
        "ensemble_width": width,
        "comment": (
            "All values are dimensionless; a step is an optimizer update or an"
            " integrator step. config_json holds the settings; frames of a run after"
            " its last_step repeat it; group /checkpoint holds exact restart states;"
            " the last line is a SHA-256."
        ),
    }


def _analyses(settings: Settings) -> str:
    """What can be done with a trajectory next, in a line that xarray shows."""
    example = "circles" if settings.modulus else "embedding_speed"
    return f"analysis.{example}(trajectory); all: python -m analysis"


def recorded_variables(system: System, record: str) -> dict[str, tuple[str, ...]]:
    """The variables that are recorded, with their dimensions: all, or for "metrics"
    only the metrics and the values of observers."""
    names = {*METRIC_VARIABLES, *observer_names(system)}
    return {
        name: dims
        for name, dims in system.variables.items()
        if record == "all" or name in names
    }


def observer_names(system: System) -> Collection[str]:
    """Names of the variables that a user's observers add to a system."""
    return getattr(system, "observers", ())


def final_variables(
    reached: int,
    last_step: np.ndarray,
    done: bool,
    stopped: np.ndarray | bool = False,
) -> dict[str, np.ndarray]:
    """The variables `status` and `last_step` (run,) of runs that have reached step
    `reached`; stopped: (run,) whether a run has ended at a condition."""
    status = np.where(last_step < reached, DIVERGED, DONE if done else RUNNING)
    status = np.where(stopped, STOPPED, status)
    return {
        "status": status.astype(np.int8),
        "last_step": last_step.astype(np.int64),
    }


def stopped_in(state: State) -> np.ndarray:
    """Whether each run of a state has stopped at a condition, (run,)."""
    none: np.ndarray = np.zeros(len(state.last_step), bool)
    return getattr(state, "stopped", none)


def add_variable_attributes(dataset: xr.Dataset) -> xr.Dataset:
    """Add the descriptions of the schema to the variables of a dataset in place; return
    the dataset."""
    describe_variables(dataset)
    dataset["status"].attrs.update(
        flag_values=np.arange(len(STATUS_MEANINGS), dtype=np.int8),
        flag_meanings=" ".join(STATUS_MEANINGS),
    )
    return dataset


# ----------------------------------------------------------------------------- identity

IDENTITY_ATTRIBUTES = (
    "system",
    "config_json",
    "seed",
    "runs",
    "every",
    "record",
    "device",
    "numerics_version",
)
"""Root attributes that distinguish one run from another. The number of steps is not
among them."""

BRANCH_ATTRIBUTES = ("branched_at", "branch_of")
"""Further attributes of a branch: the step at which it begins, and the digest of the
run that it begins from."""

OPTIONAL_ATTRIBUTES = (*BRANCH_ATTRIBUTES, "copies", "backend", "observers", "until")
"""Those of a branch, the states and displacements of its copies as JSON, the backend of
a system that has a choice of several, the names and source hashes of observers as JSON,
and the condition at which runs end."""

FIRST_BACKENDS = {"cpu": "simd", "cuda": "torch"}
"""The backend of files without the attribute, which were written when there was only
one, by the kind of device."""


def recorded_backend(attributes: Mapping[Any, Any]) -> str:
    """The backend that has computed a run, from the attributes of its file."""
    first = FIRST_BACKENDS.get(str(attributes.get("device", "cpu")), "")
    return str(attributes.get("backend", first))


METRIC_VARIABLES = (
    "gradient_norm",
    "update_norm",
    "loss",
    "accuracy",
    "learning_rate",
)
"""Variables that are recorded with record="metrics"."""


def run_identity(
    system: System | SystemIdentity, runs: int, seed: int, every: int, record: str
) -> dict[str, Any]:
    """The attributes `IDENTITY_ATTRIBUTES` of a run of a system, and its backend if
    there is a choice of several."""
    identity = identity_of(
        system.settings,
        runs,
        seed,
        every,
        record,
        system.device,
        system.numerics_version,
    )
    return (
        {**identity, "backend": system.backend_name}
        if system.backend_name
        else identity
    )


def identity_of(
    settings: Settings,
    runs: int,
    seed: int,
    every: int,
    record: str = "all",
    device: str = "cpu",
    version: int = 1,
) -> dict[str, Any]:
    """The attributes `IDENTITY_ATTRIBUTES` of a run with these settings, simulated or
    recorded."""
    config = json.dumps(saved_settings(settings), sort_keys=True)
    values = (settings.system, config, seed, runs, every, record, device, version)
    return dict(zip(IDENTITY_ATTRIBUTES, values, strict=True))


def identity_digest(identity: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits of the SHA-256 of an identity."""
    values = _comparable(identity)
    if values.get("backend") == FIRST_BACKENDS.get(values["device"], ""):
        del values["backend"]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def check_same_run(
    path: Path, recorded: Mapping[str, Any], identity: Mapping[str, Any]
) -> None:
    """Raise SettingsError if the root attributes recorded in a file are not those of the
    run with this identity."""
    if "derived" in recorded or ("branched_at" in recorded) != (
        "branched_at" in identity
    ):
        what = recorded.get(
            "derived",
            "a branch" if "branched_at" in recorded else "a run that is not a branch",
        )
        raise SettingsError(
            "out", f"{path} with {what}", f"the file of a whole run, {_OTHERWISE}"
        )
    names = (
        name
        for name in (*IDENTITY_ATTRIBUTES, *OPTIONAL_ATTRIBUTES)
        if name in recorded
    )
    absent = {"observers": "{}", "until": ""}
    there = _comparable(
        {
            "config_json": "{}",
            "backend": recorded_backend(recorded),
            **absent,
            **{name: recorded[name] for name in names},
        }
    )
    here = _comparable({**absent, **identity})
    settings_there = json.loads(recorded.get("config_json", "{}"))
    differ = {
        name: here.get(name, "default")
        for name in dict.fromkeys([*here, *settings_there])
        if there.get(name) != here.get(name)
    }
    if "system" in differ:  # settings of different systems are not compared
        differ = {"system": differ["system"]}
    if "start" in differ:
        what = (
            f"{path}, whose run began from another file, or from this one before it"
            " changed"
        )
        raise SettingsError("out", what, _OTHERWISE.removeprefix("or "))
    if differ:
        before = ", ".join(f"{name}={there.get(name, 'default')}" for name in differ)
        now = ", ".join(f"{name}={value}" for name, value in differ.items())
        raise SettingsError(
            "out", f"{path} with {before}", f"a file with {now}, {_OTHERWISE}"
        )


_OTHERWISE = "or a new file, or --overwrite (overwrite=True in Python)"


def _comparable(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The identity with one entry for each setting; a file that settings name is
    identified by its content, not its name."""
    flat = {name: value for name, value in identity.items() if name != "config_json"}
    flat |= json.loads(identity["config_json"])
    for name in FILE_SETTINGS.intersection(flat):
        flat[name] = flat[name].rpartition("#")[2]
    return flat


# ----------------------------------------------------------------------------- versions


@functools.cache
def git_commit() -> str:
    """The git commit of the program, with "+" if files have changed since; "unknown"
    for an installed package."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        for command in (
            ["ls-files", "--error-unmatch", Path(__file__).name],
            ["describe", "--always", "--dirty=+", "--abbrev=40"],
        ):
            done = subprocess.run(
                [*git, *command], capture_output=True, text=True, timeout=5, check=True
            )
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on, as far as they are
    installed."""
    versions = {"python": platform.python_version(), "training-dynamics": VERSION}
    for name in ("numpy", "numba", "xarray", "netCDF4", "torch"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
