"""What a run is: its identity, by which it is found again, and the attributes that tell it in its file."""

import dataclasses
import functools
import hashlib
import json
import platform
import subprocess
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numba
import numpy as np

from dynamics.settings import Settings, SettingsError
from dynamics.trajectory.reader import IDENTITY_ATTRIBUTES, SCHEMA_VERSION
from dynamics.trajectory.recorder import DEFAULT_CLOCK, EpochClock, RunDescription

BRANCH_ATTRIBUTES = ("branched_at", "branch_of")
"""Further attributes of a run that begins in the middle of another: at which step, and of which run, by `digest`."""

METRIC_VARIABLES = ("gradient_norm", "update_norm", "loss", "accuracy")
"""Variables that a run with record="metrics" keeps."""


class SystemDescription(Protocol):
    """What a system tells of itself; see `dynamics.simulation.System` for all of it."""

    settings: Settings
    """Their JSON in the file makes the run repeatable."""
    variables: dict[str, tuple[str, ...]]
    """What `observe` returns: name -> dims after (run, step)."""
    numerics_version: int = 1
    """Raised whenever a change alters results."""
    device: str = "cpu"
    """Kind of device: cpu or cuda."""
    ensemble_width: int = 0
    """Runs of the ensemble of which those at hand are some, where bits depend on that; else 0."""
    clock: EpochClock = DEFAULT_CLOCK
    """From where epochs are counted, where there are any."""

    @abstractmethod
    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the dimensions that `variables` names."""


def run_identity(system: SystemDescription, runs: int, seed: int, every: int, record: str) -> dict[str, Any]:
    """What tells one run from another, as root attributes of its file (`trajectory.IDENTITY`)."""
    values = {
        "system": system.settings.system,
        "config_json": json.dumps(dataclasses.asdict(system.settings), sort_keys=True),
        "seed": seed,
        "runs": runs,
        "every": every,
        "record": record,
        "device": system.device,
        "numerics_version": system.numerics_version,
    }
    assert tuple(values) == IDENTITY_ATTRIBUTES
    return values


def identity_digest(what: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits over an identity."""
    branch = {name: what[name] for name in BRANCH_ATTRIBUTES if name in what}
    return hashlib.sha256(json.dumps(_comparable(what) | branch, sort_keys=True).encode()).hexdigest()[:12]


def check_same_run(path: Path, found: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise SettingsError if the root attributes found at a path are not those of the run asked for."""
    if "derived" in found or ("branched_at" in found) != ("branched_at" in asked):
        allowed = "the file of a whole run, or a new one, or --overwrite"
        what = found.get("derived", "a branch" if "branched_at" in found else "a run that is no branch")
        raise SettingsError("out", f"{path} with {what}", allowed)
    for name in BRANCH_ATTRIBUTES:
        if found.get(name) != asked.get(name):
            allowed = f"a file with {name}={asked.get(name)}, or a new one, or --overwrite"
            raise SettingsError("out", f"{path} with {name}={found.get(name)}", allowed)
    here, wanted = _comparable({name: found.get(name, "{}") for name in IDENTITY_ATTRIBUTES}), _comparable(asked)
    for name, value in wanted.items():
        if name == "start" and here.get(name) != value:
            what = f"{path}, whose run began from another file, or from this one before it changed"
            raise SettingsError("out", what, "a new file, or --overwrite")
        if here.get(name) != value:
            allowed = f"a file with {name}={value}, or a new one, or --overwrite"
            raise SettingsError("out", f"{path} with {name}={here.get(name)}", allowed)


def _comparable(what: Mapping[str, Any]) -> dict[str, Any]:
    """An identity with its settings spelled out; a start counts by content, not by the name of its file."""
    flat = {name: value for name, value in what.items() if name not in ("config_json", *BRANCH_ATTRIBUTES)}
    flat |= json.loads(what["config_json"])
    if "start" in flat:
        flat["start"] = flat["start"].rpartition("#")[2]
    return flat


def describe_run(system: SystemDescription, what: Mapping[str, Any], steps: int) -> RunDescription:
    """Everything about a run that is known before it starts."""
    kept = {
        name: dims for name, dims in system.variables.items() if what["record"] == "all" or name in METRIC_VARIABLES
    }
    seeds = what["seed"] + np.arange(what["runs"], dtype=np.int64)
    settings = system.settings
    attrs = {
        "title": f"Trajectory of {len(seeds)} runs of the {settings.system} system",
        "Conventions": "CF-1.11",
        "schema_version": SCHEMA_VERSION,
        **what,
        "modulus": settings.modulus,
        "steps": steps,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": git_commit(),
        "package_versions": json.dumps(package_versions()),
        "threads": numba.get_num_threads(),
        "ensemble_width": max(len(seeds), system.ensemble_width),
        "comment": "All values are dimensionless; a step is an optimizer update or an integrator step. config_json "
        "holds the settings; frames of a run after its last_step repeat it; group /checkpoint holds exact restart "
        "states; the last line is a SHA-256.",
    }
    return RunDescription(
        kept, system.variables, system.coords(), seeds, settings.time_step, settings.epoch_steps, attrs
    )


@functools.cache
def git_commit() -> str:
    """The commit this program runs from, "+" if changed since, or "unknown" where it is installed."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        for command in (
            ["ls-files", "--error-unmatch", Path(__file__).name],
            ["describe", "--always", "--dirty=+", "--abbrev=40"],
        ):
            done = subprocess.run([*git, *command], capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def package_versions() -> dict[str, str]:
    """Versions of what results depend on, by name; "unknown" for what is not installed."""
    versions = {"python": platform.python_version()}
    for name in ("training-dynamics", "numpy", "numba", "xarray", "netCDF4", "torch"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions
