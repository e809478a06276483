"""The trajectory: what a run of any system leaves behind, an `xarray.Dataset` in one NetCDF-4 file.

Dimensions are known by name, never by order. `VARIABLES` is the schema; the root attributes say what was
run; the group /checkpoint holds exact restart states. NaN never means "missing": a run that diverged
repeats its last finite frame after `last_step`, and readers mask those frames.

Files are sealed (`dynamics.trajectory.netcdf`): `xarray.open_dataset` reads them as they are, `open_trajectory` refuses
one that was cut short or in which a single bit has changed.
"""

import json
import os
import re
from collections.abc import Hashable
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import xarray as xr

from dynamics.settings import (
    SETTINGS_CLASSES,
    SYSTEM_MODULES_VARIABLE,
    Settings,
    SettingsError,
    import_external_systems,
)
from dynamics.trajectory.netcdf import TrajectoryError, open_group

SCHEMA_VERSION = 1

RUNNING, DONE, DIVERGED = range(3)
STATUS_MEANINGS = ("running", "done", "diverged")


class UnknownSystem(TrajectoryError):
    """A file that may be whole, of a system that nobody has registered; says what to do."""


class VariableSpec(NamedTuple):
    """A row of the schema."""

    dims: tuple[str, ...]
    dtypes: tuple[str, ...]
    long_name: str


_EACH = ("run", "step")
_FLOAT = ("float32", "float64")

VARIABLES: dict[str, VariableSpec] = {
    "embedding": VariableSpec((*_EACH, "token", "axis"), _FLOAT, "particle positions = token embeddings"),
    "gradient_norm": VariableSpec(
        (*_EACH, "layer"), _FLOAT, "norm of the gradient, or force, that the last update used; at step 0 the first"
    ),
    "update_norm": VariableSpec((*_EACH, "layer"), _FLOAT, "norm of the last update; 0 at step 0"),
    "loss": VariableSpec((*_EACH, "split"), _FLOAT, "mean cross-entropy over the whole split"),
    "accuracy": VariableSpec((*_EACH, "split"), _FLOAT, "share of the split classified correctly"),
    "hidden_weight": VariableSpec((*_EACH, "hidden", "axis"), _FLOAT, "W_h of the linear layer (CA)"),
    "hidden_bias": VariableSpec((*_EACH, "hidden"), _FLOAT, "b_h of the linear layer (CA)"),
    "output_weight": VariableSpec((*_EACH, "class", "hidden"), _FLOAT, "W_o of the output layer (CA)"),
    "output_bias": VariableSpec((*_EACH, "class"), _FLOAT, "b_o of the output layer (CA)"),
    "position_embedding": VariableSpec((*_EACH, "position", "axis"), _FLOAT, "P(t) (VC)"),
    "query": VariableSpec((*_EACH, "axis"), _FLOAT, "attention query q (VC)"),
    "value": VariableSpec((*_EACH, "axis", "axis_in"), _FLOAT, "value matrix V (VC)"),
    "receptor": VariableSpec((*_EACH, "hidden", "axis"), _FLOAT, "receptors w_i of the MLP (VC)"),
    "receptor_bias": VariableSpec((*_EACH, "hidden"), _FLOAT, "biases b_i of the MLP (VC)"),
    "assembler": VariableSpec((*_EACH, "hidden", "axis"), _FLOAT, "assemblers u_i of the MLP (VC)"),
    "transform_bias": VariableSpec((*_EACH, "axis"), _FLOAT, "output bias of the MLP (VC)"),
    "status": VariableSpec(("run",), ("int8",), "state of each run"),
    "last_step": VariableSpec(("run",), ("int64",), "last step with finite values; later frames repeat it"),
    "step": VariableSpec(("step",), ("int64",), "step"),
    "time": VariableSpec(("step",), ("float64",), "step size x step"),
    "epoch": VariableSpec(("step",), ("float64",), "passes through the training split"),
    "seed": VariableSpec(("run",), ("int64",), "seed of each run"),
}

REQUIRED_VARIABLES = ("status", "last_step", "step", "time", "seed", "gradient_norm", "update_norm")

REQUIRED_ATTRIBUTES = {
    "Conventions": str,
    "schema_version": int,
    "system": str,
    "numerics_version": int,
    "modulus": int,
    "config_json": str,
    "seed": int,
    "runs": int,
    "every": int,
    "steps": int,
    "record": str,
    "created_at": str,
    "git_commit": str,
    "package_versions": str,
    "device": str,
    "threads": int,
    "ensemble_width": int,
}

IDENTITY_ATTRIBUTES = ("system", "config_json", "seed", "runs", "every", "record", "device", "numerics_version")
"""Attributes that tell one run from another. How many steps it has is not among them."""


# ----------------------------------------------------------------------------------------------- reading


def parts_folder(path: str | Path) -> Path:
    """Where the parts of an unfinished run stand: a folder beside the file it will become."""
    path = Path(path)
    return path.with_name(path.name + ".parts")


class PartFile(NamedTuple):
    """A closed part of an unfinished run: from after the state at `begin` to that at `end`."""

    path: Path
    begin: int
    end: int


def part_file_name(begin: int, end: int) -> str:
    """The file name of a part."""
    return f"part-{begin:016d}-{end:016d}.nc"


def closed_parts(path: str | Path) -> list[PartFile]:
    """The closed parts of an unfinished run, in order of their steps; other files in the folder are not looked at."""
    found = []
    for file in parts_folder(path).glob("part-*.nc"):
        if match := re.fullmatch(r"part-(\d{16})-(\d{16})\.nc", file.name):
            found.append(PartFile(file, int(match[1]), int(match[2])))
    return sorted(found, key=lambda part: (part.begin, part.end))


def first_step_of_parts(parts: list[PartFile]) -> int:
    """The step at which the run begins whose parts these are: 0, or that of a branch."""
    with open_group(parts[0].path) as root:
        return int(root.attrs.get("branched_at", 0))


def check_parts_contiguous(parts: list[PartFile], position: int) -> int:
    """The step that parts reach which go on from `position`; TrajectoryError where one is missing or is foreign."""
    first = None
    for part in parts:
        if part.begin != position:
            raise TrajectoryError(f"{part.path}: begins at step {part.begin}, expected {position}: a part is missing")
        with open_group(part.path) as root, open_group(part.path, "checkpoint") as states:
            if int(states["checkpoint"][-1]) != part.end:
                raise TrajectoryError(f"{part.path}: ends at step {int(states['checkpoint'][-1])}, expected {part.end}")
            found = {name: root.attrs.get(name) for name in IDENTITY_ATTRIBUTES}
        first = found if first is None else first
        if found != first:
            name = next(name for name in IDENTITY_ATTRIBUTES if found[name] != first[name])
            raise TrajectoryError(f"{part.path}: is of another run: {name} is {found[name]}, expected {first[name]}")
        position = part.end
    return position


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


def read_settings(trajectory: xr.Dataset) -> Settings:
    """The settings with which a trajectory was made. Raises TrajectoryError."""
    kind = _settings_class(trajectory.attrs.get("system"))
    try:
        values = json.loads(trajectory.attrs.get("config_json", ""))
        unknown = set(values) - {field.name for field in fields(kind)}
        if unknown:
            raise TrajectoryError(f"attribute config_json: unknown setting {sorted(unknown)[0]!r}")
        return msgspec.convert(values, kind, strict=True)
    except (ValueError, TypeError) as error:  # JSON, types and SettingsError alike
        raise TrajectoryError(f"attribute config_json: {error}") from None


def _settings_class(system: object) -> Any:
    """The settings class of a system, which a module that the environment names may have to register first."""
    if system not in SETTINGS_CLASSES:
        try:
            import_external_systems()
        except SettingsError as error:
            raise UnknownSystem(f"attribute system: found {system!r}, not known; {error}") from None
    if system not in SETTINGS_CLASSES:
        how = f"others where {SYSTEM_MODULES_VARIABLE} names the module that registers them, see docs/new-system.md"
        raise UnknownSystem(f"attribute system: found {system!r}, known are {', '.join(SETTINGS_CLASSES)} ({how})")
    return SETTINGS_CLASSES[system]


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


# -------------------------------------------------------------------------------------------- validation


def validate_trajectory(trajectory: xr.Dataset) -> xr.Dataset:
    """The dataset itself if it follows the schema; otherwise TrajectoryError says where it does not."""
    for name, kind in REQUIRED_ATTRIBUTES.items():
        found = trajectory.attrs.get(name)
        if not isinstance(found, kind) and not (kind is int and isinstance(found, np.integer)):
            raise TrajectoryError(f"attribute {name}: found {found!r}, expected {kind.__name__}")
    if trajectory.attrs["schema_version"] != SCHEMA_VERSION:
        found = trajectory.attrs["schema_version"]
        raise TrajectoryError(f"attribute schema_version: found {found}, this program reads {SCHEMA_VERSION}")
    if not trajectory.sizes.get("run"):
        raise TrajectoryError("dimension run: missing or empty; a single run is selected as isel(run=[3])")
    for name in REQUIRED_VARIABLES:
        if name not in trajectory.variables:
            raise TrajectoryError(f"variable {name}: missing")
    for variable in trajectory.variables:
        _validate_variable(variable, trajectory)
    _validate_steps(trajectory)
    _validate_runs(trajectory)
    read_settings(trajectory)
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
    if status.size == 0 or not np.isin(status, range(len(STATUS_MEANINGS))).all():
        raise TrajectoryError(f"variable status: found {status[:3]}, expected 0 to {len(STATUS_MEANINGS) - 1}")
    first = 0 if "branched_at" in trajectory.attrs else steps[0]  # a run may have ended before the branch
    if (last < first).any() or (last > steps[-1]).any():
        found = f"{last.min()}..{last.max()}"
        raise TrajectoryError(f"variable last_step: found {found}, expected steps from {first} to {steps[-1]}")
    found, expected = trajectory.attrs["runs"], status.size
    if found != expected:
        raise TrajectoryError(f"attribute runs: found {found}, expected the size of run, {expected}")
    if trajectory.attrs["seed"] != trajectory["seed"].values[0]:
        raise TrajectoryError("variable seed: does not begin with the attribute seed")
    if len(np.unique(trajectory["seed"].values)) != status.size:
        raise TrajectoryError("variable seed: found a seed twice, expected one for each run")
