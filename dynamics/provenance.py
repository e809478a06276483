"""The identity of a run, which determines its file, and the versions of the software
that computed it."""

import functools
import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from dynamics.settings import Settings, SettingsError, saved_settings
from dynamics.system import System, SystemIdentity

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

OPTIONAL_ATTRIBUTES = (*BRANCH_ATTRIBUTES, "copies", "backend", "observers")
"""Those of a branch, the states and displacements of its copies as JSON, the backend of a system that has a choice of several, and the
names and source hashes of observers as JSON."""

FIRST_BACKEND = "simd"
"""The backend of files without the attribute, which were written when there was only
one."""

METRIC_VARIABLES = ("gradient_norm", "update_norm", "loss", "accuracy")
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
    if values.get("backend") == FIRST_BACKEND:
        del values["backend"]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def check_same_run(
    path: Path, result: Mapping[str, Any], identity: Mapping[str, Any]
) -> None:
    """Raise SettingsError if the root attributes found in a file are not those of the
    run with this identity."""
    if "derived" in result or ("branched_at" in result) != ("branched_at" in identity):
        what = result.get(
            "derived",
            "a branch" if "branched_at" in result else "a run that is not a branch",
        )
        raise SettingsError(
            "out", f"{path} with {what}", f"the file of a whole run, {_OTHERWISE}"
        )
    names = (
        name for name in (*IDENTITY_ATTRIBUTES, *OPTIONAL_ATTRIBUTES) if name in result
    )
    there = _comparable(
        {
            "config_json": "{}",
            "backend": FIRST_BACKEND,
            "observers": "{}",
            **{name: result[name] for name in names},
        }
    )
    differ = {
        name: value
        for name, value in _comparable({"observers": "{}", **identity}).items()
        if there.get(name) != value
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
        before = ", ".join(f"{name}={there.get(name)}" for name in differ)
        now = ", ".join(f"{name}={value}" for name, value in differ.items())
        raise SettingsError(
            "out", f"{path} with {before}", f"a file with {now}, {_OTHERWISE}"
        )


_OTHERWISE = "or a new file, or --overwrite"


def _comparable(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The identity with one entry for each setting; a start file is identified by its
    content, not its name."""
    flat = {name: value for name, value in identity.items() if name != "config_json"}
    flat |= json.loads(identity["config_json"])
    if "start" in flat:
        flat["start"] = flat["start"].rpartition("#")[2]
    return flat


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
    """Versions of Python and of the packages that results depend on; "unknown" for
    those not installed."""
    versions = {"python": platform.python_version()}
    for name in ("training-dynamics", "numpy", "numba", "xarray", "netCDF4", "torch"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions
