"""Reading trajectories: finished files, and the parts of a run that is not finished, as `xarray.Dataset`.

Files are sealed (`dynamics.trajectory.netcdf`): `open_trajectory` refuses one that was cut short or in which a bit has
changed. `xarray.open_dataset` reads them without this check.
"""

import os
from pathlib import Path

import numpy as np
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.trajectory.netcdf import open_group
from dynamics.trajectory.parts import check_parts_contiguous, closed_parts, first_step_of_parts, parts_folder
from dynamics.trajectory.schema import DONE, validate_trajectory


def _loaded(path: Path, group: str | None = None) -> xr.Dataset:
    with open_group(path, group) as part:
        return part.load()


def open_trajectory(path: str | Path, thoroughly: bool = True) -> xr.Dataset:
    """A finished run, or the frames that an unfinished one has written so far, validated.

    Variables of a finished run are read from the file when they are used. thoroughly: check the whole
    file's seal, and not only that there is one. Raises TrajectoryError.
    """
    path = Path(path)
    if not path.name:
        raise TrajectoryError(f"{path}: is a folder")
    try:
        trajectory = open_group(path, thoroughly=thoroughly) if os.path.isfile(path) else _open_parts(path)
    except TrajectoryError:
        if not os.path.isfile(path):
            raise
        trajectory = open_group(path, thoroughly=thoroughly)  # its parts were merged as we read them
    try:
        return validate_trajectory(trajectory)
    except TrajectoryError as error:
        raise type(error)(f"{path}: {error}") from None


def _open_parts(path: Path) -> xr.Dataset:
    parts = closed_parts(path)
    if not parts:
        started = parts_folder(path).exists()
        raise TrajectoryError(f"{path}: " + ("no frame of it is on disk yet" if started else "no such file"))
    check_parts_contiguous(parts, first_step_of_parts(parts))
    frames = [piece for piece in (_loaded(part.path) for part in parts) if "step" in piece.dims]
    if not frames:
        raise TrajectoryError(f"{path}: no frame of it is on disk yet")
    trajectory = xr.concat(frames, "step", data_vars="minimal", coords="minimal", compat="override", join="override")
    trajectory.attrs = dict(frames[-1].attrs)
    reached = int(trajectory["step"][-1])  # the part may have gone on beyond its last frame
    trajectory["last_step"] = np.minimum(frames[-1]["last_step"], reached)
    trajectory["status"] = frames[-1]["status"]
    trajectory.encoding["source"] = str(path.absolute())
    return trajectory


def checkpoints(path: str | Path) -> xr.Dataset:
    """The exact restart states of a run: variables (checkpoint, run, ...), coordinates `checkpoint` and `seed`.

    Raises TrajectoryError.
    """
    path = Path(path)
    if os.path.isfile(path) or not (parts := closed_parts(path)):
        return open_group(path, "checkpoint")
    check_parts_contiguous(parts, first_step_of_parts(parts))
    states = [_loaded(part.path, "checkpoint") for part in parts]
    joined = xr.concat(states, "checkpoint", data_vars="minimal", coords="minimal", compat="override", join="override")
    return joined.drop_duplicates("checkpoint")


def check_file_unchanged(trajectory: xr.Dataset, path: Path) -> None:
    """Raise TrajectoryError if another run has taken the file's place since the dataset was opened."""
    newest = closed_parts(path)[-1:] if not path.exists() else []
    with open_group(newest[0].path if newest else path) as now:
        for name in ("system", "config_json", "numerics_version", "device"):
            if now.attrs.get(name) != trajectory.attrs.get(name):
                raise TrajectoryError(f"{path}: another run has been written there since this one was opened")


def source_path(trajectory: xr.Dataset) -> Path:
    """The file a dataset was read from."""
    if "source" not in trajectory.encoding:
        raise TrajectoryError("the dataset was never written, so it has no restart states")
    return Path(trajectory.encoding["source"])


def run_indices(data: xr.Dataset, seeds: np.ndarray) -> list[int]:
    """Where along `run` the members with these seeds stand."""
    place = {int(seed): row for row, seed in enumerate(data["seed"].values)}
    missing = [int(seed) for seed in seeds if int(seed) not in place]
    if missing:
        raise TrajectoryError(f"variable seed: no run of seed {missing[0]} is there any more")
    return [place[int(seed)] for seed in seeds]


def truncate_trajectory(trajectory: xr.Dataset, steps: int) -> xr.Dataset:
    """A run as it was when it had come to a recorded step, a valid trajectory of its own."""
    if steps not in trajectory["step"]:
        raise TrajectoryError(f"variable step: {steps} is not recorded")
    cut = trajectory.sel(step=slice(None, steps))
    if steps == int(trajectory["step"][-1]):
        return cut
    status = np.where(cut["last_step"] < steps, cut["status"], DONE).astype(np.int8)
    cut["status"] = cut["status"].copy(data=status)
    cut["last_step"] = cut["last_step"].copy(data=np.minimum(cut["last_step"], steps))
    return cut.assign_attrs(steps=steps)
