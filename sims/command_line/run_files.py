"""The trajectories in a folder: their settings, their progress, and whether they can be
read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import xarray as xr

from dynamics.errors import MissingPackage, TrajectoryError, UnknownSystem
from dynamics.settings import (
    SETTINGS_CLASSES,
    RecordedSettings,
    Settings,
    SettingsError,
)
from dynamics.settings_text import describe_settings, setting_texts
from dynamics.system import present_numerics_version
from dynamics.trajectory.netcdf import is_locked, open_group
from dynamics.trajectory.reader import (
    is_result_file,
    last_step_of,
    open_trajectory,
    unfinished_files,
)
from dynamics.trajectory.schema import DIVERGED, RUNNING, STOPPED, read_settings

MAX_OPTION = 80
"""Longest option in the list, in characters."""
UNREADABLE, UNKNOWN_SYSTEM, OUTDATED = "unreadable", "unknown system", "outdated"
UNREGISTERED = "not registered"
"""Status of a file whose optimizer or schedule is not known here."""
OUTDATED_NOTE = (
    f"{OUTDATED}: this version computes these runs otherwise. They are read and analysed,"
    " but not continued, replayed or branched; the same command makes a new file, with"
    " --out only at another name or with --overwrite"
)
"""What can be done with runs of another numerics version."""


class RunFile(NamedTuple):
    """A row of the list of runs. Numbers of an unreadable file are None."""

    run: str
    """Name of the file."""
    status: str
    steps: str | None
    runs: int | None
    seed: int | None
    MB: float
    settings: str
    """The settings that differ from the defaults, as options; or the reason why the
    file cannot be read."""
    note: str = ""
    """Note that is printed once below the table."""


def list_run_files(folder: Path) -> list[Path]:
    """Paths of the trajectories in a folder: finished, interrupted, or being
    written."""
    names = {path.name for path in folder.glob("*.nc")}
    names |= {path.name.removesuffix(".parts") for path in folder.glob("*.nc.parts")}
    locked = {path.name[1:].removesuffix(".lock") for path in folder.glob(".*.nc.lock")}
    names |= {name for name in locked if is_locked(folder / name)}
    return [folder / name for name in sorted(names)]


def describe_run_file(path: Path, check: bool = False) -> RunFile | None:
    """The row of a trajectory, or None for a file that is the result of an analysis.

    check: read the file to its end and verify its checksum.
    """
    running = is_locked(path)
    try:
        with open_trajectory(path, check) as trajectory:
            return _describe(path, trajectory, check, running)
    except UnknownSystem as error:
        newest = (unfinished_files(path) or [path])[-1]
        with open_group(newest, thoroughly=False) as group:
            steps = int(group.attrs["steps"])
            runs = int(group.attrs["runs"])
            seed = int(group.attrs["seed"])
            system = str(group.attrs["system"])
        status = UNREGISTERED if system in SETTINGS_CLASSES else UNKNOWN_SYSTEM
        reason = re.sub(r"^attribute \w+: ", "", str(error).removeprefix(f"{path}: "))
        note = f"{status}: {reason}"
        return RunFile(
            path.name,
            status,
            str(steps),
            runs,
            seed,
            _megabytes(path),
            system,
            note,
        )
    except TrajectoryError as error:
        if path.is_file() and is_result_file(path):
            return None
        reason = str(error).removeprefix(f"{path}: ").split(" (")[0]
        state = "running" if running else UNREADABLE
        return RunFile(path.name, state, None, None, None, _megabytes(path), reason)


def _describe(
    path: Path, trajectory: xr.Dataset, check: bool, running: bool
) -> RunFile:
    attrs = trajectory.attrs
    reached = int(trajectory["step"][-1])
    unfinished = unfinished_files(path)
    diverged = int((trajectory["status"] == DIVERGED).sum())
    stopped = int((trajectory["status"] == STOPPED).sum())
    if unfinished:
        with open_group(unfinished[-1], thoroughly=check) as newest:
            attrs = newest.attrs
            reached = last_step_of(unfinished[-1])
    status = "done" if (trajectory["status"] != RUNNING).all() else "incomplete"
    status = "running" if running else "interrupted" if unfinished else status
    status += f", {diverged} diverged" if diverged else ""
    status += f", {stopped} stopped" if stopped else ""
    settings = read_settings(trajectory)
    outdated = _is_outdated(attrs, settings)
    status += f", {OUTDATED}" if outdated else ""
    steps = int(attrs["steps"])
    progress = str(steps) if reached == steps else f"{reached} of {steps}"
    runs = attrs["runs"]
    seed = attrs["seed"]
    options = _changed_options(attrs, settings)
    note = OUTDATED_NOTE if outdated else ""
    size = _megabytes(path)
    return RunFile(
        path.name, status, progress, int(runs), int(seed), size, options, note
    )


def _is_outdated(attrs: dict[str, object], settings: Settings) -> bool:
    """Whether this program computes a run otherwise than the one that recorded it."""
    try:
        present = present_numerics_version(settings)
    except (SettingsError, MissingPackage):
        return False
    return present is not None and attrs["numerics_version"] != present


def _megabytes(path: Path) -> float:
    files = [*unfinished_files(path), path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def _changed_options(attrs: dict[str, object], settings: Settings) -> str:
    """The settings that differ from the defaults, as options of the command line; long
    ones in words."""
    options = setting_texts(settings, form="option")
    in_words = setting_texts(settings)
    words = [
        option if len(option) <= MAX_OPTION else f"({short})"
        for option, short in zip(options, in_words, strict=True)
    ]
    if isinstance(settings, RecordedSettings):
        words = [describe_settings(settings)]
    if attrs["every"] != settings.default_every:
        words.append(f"--every {attrs['every']}")
    if attrs["record"] != "all":
        words.append(f"--record {attrs['record']}")
    if "until" in attrs:
        words.append(f"--until {shlex.quote(str(attrs['until']))}")
    if "derived" in attrs:
        words.append(f"({attrs['derived']})")
    if "branched_at" in attrs:
        words.append(f"(a branch at step {attrs['branched_at']})")
    return " ".join(words) or "defaults"
