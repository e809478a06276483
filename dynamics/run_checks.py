"""Checks before a run begins: memory and disk space, its file, and whether it exists
already."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dynamics.folders import existing_folder, expand_home
from dynamics.provenance import FIRST_BACKEND, check_same_run
from dynamics.settings import SettingsError
from dynamics.system import System
from dynamics.system_kinds import SystemIdentity
from dynamics.trajectory.description import RecordingSchedule, recorded_variables
from dynamics.trajectory.netcdf import resolve_link
from dynamics.trajectory.parts import closed_parts
from dynamics.trajectory.reader import open_trajectory, truncate_trajectory
from dynamics.trajectory.recorder import remove_merged_parts

RUNS_FOLDER = Path("runs")
MAX_STEPS = 2**53
"""Largest number of steps: all integers up to this one are exact in float64."""


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
        result = f"{_size(working + frame)} needed"
        owner = "device's " if on_device else ""
        allowed = f"at most the {owner}memory of {_size(most)}"
        raise SettingsError(", ".join([*sizes_of, "runs"]), result, allowed)
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


# --------------------------------------------------------------------------------- file


def check_trajectory_path(out: str | Path) -> Path:
    """Check the path of a trajectory to be written; return it, or the target of a
    symbolic link.

    Raises SettingsError.
    """
    allowed = "the name of a file that ends in .nc and is no longer than 180 bytes"
    names_folder = str(out).endswith(os.sep)
    out = expand_home(out, "out")
    try:
        path = resolve_link(out)
        short = (
            len(path.name.encode()) <= 180
        )  # the limit is 255; temporary files have longer names
        named = (
            path.suffix == ".nc"
            and "\0" not in str(path)
            and not names_folder
            and not path.is_symlink()  # a loop
        )
        if path.exists() and not path.is_file():
            allowed = f"a file; this is a {'folder' if path.is_dir() else 'device'}"
        elif short and named:
            return path
    except (OSError, ValueError):
        pass
    raise SettingsError("out", out, allowed)


def backend_to_continue(path: Path, system: SystemIdentity) -> str:
    """The backend of the run that is already at a path, if the system has it, otherwise
    that of the system."""
    if not system.backends or not (path.exists() or closed_parts(path)):
        return system.backend_name
    with open_trajectory(path) as trajectory:
        result = str(trajectory.attrs.get("backend", FIRST_BACKEND))
    return result if result in system.backends else system.backend_name


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


def find_finished_run(
    path: Path, identity: Mapping[str, Any], steps: int
) -> xr.Dataset | None:
    """The trajectory at `path`, truncated to `steps` steps; None if it does not exist
    or is shorter.

    Raises SettingsError if it belongs to a run with another identity, or has no frame
    at step `steps`."""
    if not path.exists():
        return None
    trajectory = open_trajectory(path)
    check_same_run(path, trajectory.attrs, identity)
    recorded = trajectory["step"].values
    if recorded[-1] < steps:
        trajectory.close()
        return None
    if steps not in recorded:
        allowed = (
            f"a recorded step of {path} (every {identity['every']}), another --out, or"
            " --overwrite"
        )
        raise SettingsError("steps", steps, allowed)
    remove_merged_parts(path, int(recorded[-1]), identity)
    return truncate_trajectory(trajectory, steps)
