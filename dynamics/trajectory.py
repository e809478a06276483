"""The trajectory: what a run of any system leaves behind, an `xarray.Dataset` in one NetCDF-4 file.

Dimensions are known by name, never by order. `VARIABLES` is the schema; the root attributes say what was
run; the group /checkpoint holds exact restart states. NaN never means "missing": a run that diverged
repeats its last finite frame after `last_step`, and readers mask those frames.

Files are sealed (`dynamics.storage`): `xarray.open_dataset` reads them as they are, `open_trajectory` refuses
one that was cut short or in which a single bit has changed.
"""

import json
from collections.abc import Hashable
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import xarray as xr

from dynamics.settings import SETTINGS, Settings
from dynamics.storage import TrajectoryError, read_group

SCHEMA_VERSION = 1

RUNNING, DONE, DIVERGED = range(3)
STATUS = ("running", "done", "diverged")


class Variable(NamedTuple):
    """A row of the schema."""

    dims: tuple[str, ...]
    dtypes: tuple[str, ...]
    long_name: str


_EACH = ("run", "step")
_FLOAT = ("float32", "float64")

VARIABLES: dict[str, Variable] = {
    "embedding": Variable((*_EACH, "token", "axis"), _FLOAT, "particle positions = token embeddings"),
    "gradient_norm": Variable(
        (*_EACH, "layer"), _FLOAT, "norm of the gradient, or force, that the last update used; at step 0 the first"
    ),
    "update_norm": Variable((*_EACH, "layer"), _FLOAT, "norm of the last update; 0 at step 0"),
    "loss": Variable((*_EACH, "split"), _FLOAT, "mean cross-entropy over the whole split"),
    "accuracy": Variable((*_EACH, "split"), _FLOAT, "share of the split classified correctly"),
    "hidden_weight": Variable((*_EACH, "hidden", "axis"), _FLOAT, "W_h of the linear layer (CA)"),
    "hidden_bias": Variable((*_EACH, "hidden"), _FLOAT, "b_h of the linear layer (CA)"),
    "output_weight": Variable((*_EACH, "class", "hidden"), _FLOAT, "W_o of the output layer (CA)"),
    "output_bias": Variable((*_EACH, "class"), _FLOAT, "b_o of the output layer (CA)"),
    "position_embedding": Variable((*_EACH, "position", "axis"), _FLOAT, "P(t) (VC)"),
    "query": Variable((*_EACH, "axis"), _FLOAT, "attention query q (VC)"),
    "value": Variable((*_EACH, "axis", "axis_in"), _FLOAT, "value matrix V (VC)"),
    "receptor": Variable((*_EACH, "hidden", "axis"), _FLOAT, "receptors w_i of the MLP (VC)"),
    "receptor_bias": Variable((*_EACH, "hidden"), _FLOAT, "biases b_i of the MLP (VC)"),
    "assembler": Variable((*_EACH, "hidden", "axis"), _FLOAT, "assemblers u_i of the MLP (VC)"),
    "transform_bias": Variable((*_EACH, "axis"), _FLOAT, "output bias of the MLP (VC)"),
    "status": Variable(("run",), ("int8",), "state of each run"),
    "last_step": Variable(("run",), ("int64",), "last step with finite values; later frames repeat it"),
    "step": Variable(("step",), ("int64",), "optimizer updates or integrator steps"),
    "time": Variable(("step",), ("float64",), "step size x step"),
    "seed": Variable(("run",), ("int64",), "seed of each run"),
}

REQUIRED = ("status", "last_step", "step", "time", "seed", "gradient_norm", "update_norm")

ATTRIBUTES = {
    "Conventions": str,
    "schema_version": int,
    "system": str,
    "numerics_version": int,
    "modulus": int,
    "config_json": str,
    "seed": int,
    "runs": int,
    "every": int,
    "record": str,
    "created_at": str,
    "git_commit": str,
    "package_versions": str,
    "device": str,
    "threads": int,
    "ensemble_width": int,
}


# ----------------------------------------------------------------------------------------------- reading


def parts_folder(path: str | Path) -> Path:
    """Where the parts of an unfinished run stand: a folder beside the file it will become."""
    path = Path(path)
    return path.with_name(path.name + ".parts")


def part_files(path: str | Path) -> list[Path]:
    """The closed parts of an unfinished run, in order of their steps."""
    return sorted(parts_folder(path).glob("part-*.nc"))


def _loaded(path: Path) -> xr.Dataset:
    with read_group(path) as part:
        return part.load()


def open_trajectory(path: str | Path) -> xr.Dataset:
    """A finished run, or the frames that an unfinished one has written so far, validated.

    Variables of a finished run are read from the file when they are used. Raises TrajectoryError.
    """
    path = Path(path)
    if path.is_file():
        trajectory = read_group(path)
    elif parts := part_files(path):
        frames = [part for part in map(_loaded, parts) if "step" in part.dims]
        if not frames:
            raise TrajectoryError(f"{path}: no frame of it is on disk yet")
        trajectory = xr.concat(
            frames, "step", data_vars="minimal", coords="minimal", compat="override", join="override"
        )
        trajectory.attrs = dict(frames[-1].attrs)
        trajectory["last_step"] = frames[-1]["last_step"]
        trajectory["status"] = frames[-1]["status"]
    else:
        started = parts_folder(path).exists()
        raise TrajectoryError(f"{path}: " + ("no frame of it is on disk yet" if started else "no such file"))
    try:
        return validate(trajectory)
    except TrajectoryError as error:
        raise TrajectoryError(f"{path}: {error}") from None


def checkpoints(path: str | Path) -> xr.Dataset:
    """The exact restart states of a finished run: variables (checkpoint, run, ...), coordinate `checkpoint`."""
    return read_group(Path(path), "checkpoint")


def settings_of(trajectory: xr.Dataset) -> Settings:
    """The settings with which a trajectory was made."""
    system = trajectory.attrs["system"]
    if system not in SETTINGS:
        raise TrajectoryError(f"attribute system: found {system!r}, known are {', '.join(SETTINGS)}")
    try:
        values = json.loads(trajectory.attrs["config_json"])
        unknown = set(values) - {field.name for field in fields(SETTINGS[system])}
        if unknown:
            raise TrajectoryError(f"attribute config_json: unknown setting {sorted(unknown)[0]!r}")
        return msgspec.convert(values, SETTINGS[system], strict=True)
    except (ValueError, TypeError) as error:  # JSON, types and SettingsError alike
        raise TrajectoryError(f"attribute config_json: {error}") from None


def end_embedding(trajectory: xr.Dataset) -> xr.DataArray:
    """The last embedding (run, token, axis) of every run that has not diverged, with the seeds.

    Where frames hold metrics alone it is read from the restart state at that step.
    """
    last = int(trajectory["step"][-1])
    if "embedding" in trajectory:
        embedding = trajectory["embedding"].isel(step=-1)
    else:
        with checkpoints(_source(trajectory)) as group:
            if last not in group["checkpoint"]:
                raise TrajectoryError(f"step {last}: the frames hold metrics alone, and no restart state is at it")
            embedding = group["embedding"].sel(checkpoint=last).load()
    alive = np.flatnonzero(trajectory["last_step"].values >= last)
    return embedding.assign_coords(seed=trajectory["seed"]).isel(run=alive).transpose("run", "token", "axis")


def _source(trajectory: xr.Dataset) -> Path:
    if "source" not in trajectory.encoding:
        raise TrajectoryError("the dataset was never written, so it has no restart states")
    return Path(trajectory.encoding["source"])


# -------------------------------------------------------------------------------------------- validation


def validate(trajectory: xr.Dataset) -> xr.Dataset:
    """The dataset itself if it follows the schema; otherwise TrajectoryError says where it does not."""
    for name, kind in ATTRIBUTES.items():
        found = trajectory.attrs.get(name)
        if not isinstance(found, kind) and not (kind is int and isinstance(found, np.integer)):
            raise TrajectoryError(f"attribute {name}: found {found!r}, expected {kind.__name__}")
    if trajectory.attrs["schema_version"] != SCHEMA_VERSION:
        found = trajectory.attrs["schema_version"]
        raise TrajectoryError(f"attribute schema_version: found {found}, this program reads {SCHEMA_VERSION}")
    for name in REQUIRED:
        if name not in trajectory.variables:
            raise TrajectoryError(f"variable {name}: missing")
    for variable in trajectory.variables:
        _validate_variable(variable, trajectory)
    _validate_steps(trajectory)
    _validate_runs(trajectory)
    settings_of(trajectory)
    return trajectory


def _validate_variable(name: Hashable, trajectory: xr.Dataset) -> None:
    expected, found = VARIABLES.get(str(name)), trajectory[name]
    if expected is None:  # a system's own variable, or a coordinate
        return
    if set(found.dims) != set(expected.dims) or len(found.dims) != len(expected.dims):
        raise TrajectoryError(f"variable {name}: found dimensions {found.dims}, expected {expected.dims}")
    if found.dtype.name not in expected.dtypes:
        raise TrajectoryError(f"variable {name}: found {found.dtype}, expected {' or '.join(expected.dtypes)}")


def _validate_steps(trajectory: xr.Dataset) -> None:
    steps = trajectory["step"].values
    first = trajectory.attrs.get("branched_at", 0)
    if steps.size == 0 or steps[0] != first or (np.diff(steps) <= 0).any():
        raise TrajectoryError(f"variable step: found {steps[:3]}..., expected increasing from {first}")
    if not np.isfinite(trajectory["time"].values).all():
        raise TrajectoryError("variable time: found a value that is not finite")


def _validate_runs(trajectory: xr.Dataset) -> None:
    status, last = trajectory["status"].values, trajectory["last_step"].values
    steps = trajectory["step"].values
    if status.size == 0 or not np.isin(status, range(len(STATUS))).all():
        raise TrajectoryError(f"variable status: found {status[:3]}, expected 0 to {len(STATUS) - 1}")
    if (last < steps[0]).any() or (last > steps[-1]).any():
        raise TrajectoryError(f"variable last_step: found {last.min()}..{last.max()}, expected steps up to {steps[-1]}")
    if len(np.unique(trajectory["seed"].values)) != status.size:
        raise TrajectoryError("variable seed: found a seed twice, expected one for each run")
