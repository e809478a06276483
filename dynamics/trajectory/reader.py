"""Reading trajectories: finished files, and the parts of a run that is not finished, as
`xarray.Dataset`.

Files are sealed (`dynamics.trajectory.netcdf`): `open_trajectory` raises an error for a
file that was cut short or in which a bit has changed. `xarray.open_dataset` reads them
without this check.

The parts of an unfinished run, NAME.nc.parts/part-FIRST-LAST.nc, lie next to the file
of the finished run, NAME.nc. Frames that an interrupted recording has after its last
restart state are in frames-FIRST-LAST.nc beside them."""

import glob
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.folders import expand_home
from dynamics.settings import RecordedSettings
from dynamics.trajectory.description import IDENTITY_ATTRIBUTES
from dynamics.trajectory.netcdf import (
    NETCDF_LOCK,
    READ_ERRORS,
    open_group,
    resolve_link,
)
from dynamics.trajectory.schema import (
    DEFINITIONS,
    DIVERGED,
    DONE,
    STOPPED,
    validate_trajectory,
)


def _loaded(path: Path, group: str | None = None) -> xr.Dataset:
    with open_group(path, group) as part:
        return part.load()


def open_trajectory(
    path: str | Path | Sequence[str | Path], thoroughly: bool = True
) -> xr.Dataset:
    """Open a finished run, or the frames that an unfinished run has written so far.

    Parameters
    ----------
    path : str or Path, or sequence of them
        The file, NAME.nc. Several files, or a pattern such as ``"seeds/*.nc"``, are
        opened as one ensemble, whose runs must have different seeds and the same
        settings and recorded steps. Results of analyses that a pattern matches are left
        out.
    thoroughly : bool
        Verify the checksum of the whole file; if false, only check that the file has
        one, which is fast.

    Returns
    -------
    xarray.Dataset
        Dimensions (run, step, ...); docs/guides/trajectory-format.md describes it. The
        variables of a finished run are loaded lazily.

    Raises
    ------
    TrajectoryError
        If the file is missing, was cut short, has changed or does not follow the
        schema.

    Examples
    --------
    >>> from dynamics import ParticleSettings, open_trajectory, simulate
    >>> simulate(ParticleSettings(n=5), runs=2, steps=3, out="example.nc").close()
    >>> with open_trajectory("example.nc") as trajectory:
    ...     trajectory["embedding"].shape
    (2, 4, 5, 2)
    """
    if not isinstance(path, str | os.PathLike):
        if isinstance(path, bytes) or not isinstance(path, Iterable):
            raise TrajectoryError(
                f"path: found {type(path).__name__} {path!r}, expected a path, a pattern"
                " or several paths"
            )
        return _open_ensemble([Path(item) for item in path], thoroughly)
    if set("*?[") & set(str(path)) and not os.path.lexists(path):
        return _open_ensemble(_matching_files(str(path)), thoroughly, str(path))
    path = expand_home(path)
    if path.is_dir():
        raise TrajectoryError(f"{path}: is a folder, expected a file that ends in .nc")
    try:
        trajectory = (
            open_group(path, thoroughly=thoroughly)
            if os.path.isfile(path)
            else _open_parts(path)
        )
    except TrajectoryError:
        if not os.path.isfile(path):
            raise
        trajectory = open_group(
            path, thoroughly=thoroughly
        )  # its parts were merged while they were read
    try:
        return _with_passing_time(validate_trajectory(trajectory))
    except TrajectoryError as error:
        raise type(error)(f"{path}: {error}") from None


def _with_passing_time(trajectory: xr.Dataset) -> xr.Dataset:
    """A recorded model whose time does not pass, as its learning rates were 0 or, in
    files of earlier versions, the first one was, with the step as its time."""
    time = trajectory["time"]
    recorded = RecordedSettings.system
    if trajectory.attrs["system"] != recorded or (time != time[0]).any():
        return trajectory
    steps = trajectory["step"].values.astype(np.float64)
    return trajectory.assign_coords(time=time.copy(data=steps))


def _matching_files(pattern: str) -> list[Path]:
    """The trajectories that a pattern matches, finished or not, without results of
    analyses."""
    names = {name.removesuffix(".parts") for name in glob.glob(f"{pattern}.parts")}
    names |= set(filter(os.path.isfile, glob.glob(pattern)))
    return [path for path in map(Path, sorted(names)) if not is_result_file(path)]


def is_result_file(path: Path) -> bool:
    """Whether a file is the result of an analysis or of a sweep, not a trajectory."""
    try:
        with NETCDF_LOCK, xr.open_dataset(path) as there:
            return (
                bool({"title", "result_of"} & set(there.attrs))
                and "schema_version" not in there.attrs
            )
    except READ_ERRORS:
        return False


def _open_ensemble(
    paths: Sequence[Path], thoroughly: bool, pattern: str = "the sequence of files"
) -> xr.Dataset:
    """Several files as one ensemble. A run that has diverged or stopped is extended to
    the last step of the others."""
    if not paths:
        raise TrajectoryError(f"{pattern}: no such file")
    members = [open_trajectory(path, thoroughly) for path in paths]
    longest = max(members, key=lambda one: int(one["step"][-1]))
    members = [
        _match_member(member, path, longest)
        for member, path in zip(members, paths, strict=True)
    ]
    joined = xr.concat(
        members,
        "run",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        join="exact",
    )
    seeds = joined["seed"].values
    values, counts = np.unique(seeds, return_counts=True)
    if (counts > 1).any():
        names = [
            str(path)
            for path, member in zip(paths, members, strict=True)
            if values[counts > 1][0] in member["seed"]
        ]
        allowed = "a seed of its own for each run (dynamics.record takes seed=...)"
        raise TrajectoryError(
            f"seed: found {values[counts > 1][0]} in {' and '.join(names)}, allowed is"
            f" {allowed}"
        )
    joined.attrs = {
        **longest.attrs,
        "seed": int(seeds[0]),
        "runs": len(seeds),
        "derived": "several files",
    }
    joined.encoding["source"] = str(paths[0].absolute())
    return validate_trajectory(joined)


def _settings(trajectory: xr.Dataset) -> dict[str, Any]:
    """The settings, the name of the system and the recording interval, which runs of
    one ensemble have in common."""
    return {
        **json.loads(trajectory.attrs["config_json"]),
        "system": trajectory.attrs["system"],
        "every": int(trajectory.attrs["every"]),
    }


def _match_member(member: xr.Dataset, path: Path, longest: xr.Dataset) -> xr.Dataset:
    """A member of an ensemble with the steps of the longest one. Raises TrajectoryError
    if it is of another kind."""
    recorded = _settings(member)
    expected = _settings(longest)
    if DEFINITIONS in member.attrs and DEFINITIONS in longest.attrs:  # not in old files
        recorded |= json.loads(member.attrs[DEFINITIONS])
        expected |= json.loads(longest.attrs[DEFINITIONS])
    differing = [
        name
        for name in {**recorded, **expected}
        if recorded.get(name) != expected.get(name)
    ]
    if differing:
        names = ["system"] if "system" in differing else differing
        there = ", ".join(
            f"{name} {recorded.get(name)!r} instead of {expected.get(name)!r}"
            for name in names
        )
        raise TrajectoryError(
            f"{path}: differs from {longest.encoding['source']}: {there}"
        )
    member = _in_order_of(member, path, longest)
    steps = longest["step"].values
    own = member["step"].values
    shared = own[own <= member["last_step"].values.max()]
    if not np.array_equal(own, steps):
        if (
            not member["status"].isin((DIVERGED, STOPPED)).all()
            or not np.isin(shared, steps).all()
        ):
            where = f"step {own[-1]}, but {longest.encoding['source']} at {steps[-1]}"
            how = (
                "dynamics.truncate_trajectory(dynamics.open_trajectory(FILE),"
                f" {min(own[-1], steps[-1])})"
            )
            raise TrajectoryError(
                f"{path}: ends at {where}; {how} cuts a trajectory to the same length"
            )
        member = member.sel(step=steps, method="ffill").assign_coords(
            {name: longest[name] for name in ("step", "time")}
        )
        if "epoch" in longest.coords:
            member = member.assign_coords(epoch=longest["epoch"])
    return member


def _in_order_of(member: xr.Dataset, path: Path, longest: xr.Dataset) -> xr.Dataset:
    """A member of an ensemble with its layers, splits and other coordinates in the
    order of the longest one. Raises TrajectoryError if it has others."""
    for name in map(str, longest.indexes):
        if name in ("run", "step"):
            continue
        there = longest[name].values.tolist()
        here = member[name].values.tolist() if name in member.indexes else []
        if sorted(map(str, here)) != sorted(map(str, there)):
            raise TrajectoryError(
                f"{path}: differs from {longest.encoding['source']}: {name}"
                f" {here} instead of {there}"
            )
        if here != there:
            member = member.sel({name: there})
    return member


def _open_parts(path: Path) -> xr.Dataset:
    parts = closed_parts(path)
    files = unfinished_files(path)
    if not files:
        started = parts_folder(path).exists()
        raise TrajectoryError(
            f"{path}: "
            + ("no frame of it is on disk yet" if started else "no such file")
        )
    if parts:
        check_parts_contiguous(parts, first_step_of_parts(parts))
    frames = [piece for piece in map(_loaded, files) if "step" in piece.dims]
    if not frames:
        raise TrajectoryError(f"{path}: no frame of it is on disk yet")
    trajectory = xr.concat(
        frames,
        "step",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        join="override",
    )
    trajectory.attrs = dict(frames[-1].attrs)
    reached = int(trajectory["step"][-1])  # the part may continue beyond its last frame
    trajectory["last_step"] = np.minimum(frames[-1]["last_step"], reached)
    trajectory["status"] = frames[-1]["status"]
    trajectory.encoding["source"] = str(path.absolute())
    return trajectory


def checkpoints(path: str | Path) -> xr.Dataset:
    """Open the exact restart states of a run, about 10 to 20, from which `replay` and
    `branch` begin.

    Parameters
    ----------
    path : str or Path
        The file, NAME.nc.

    Returns
    -------
    xarray.Dataset
        Variables (checkpoint, run, ...), which depend on the system; coordinates
        `checkpoint`, the step, and `seed`.

    Raises
    ------
    TrajectoryError
        If the file is missing, was cut short or has changed.

    Examples
    --------
    >>> from dynamics import ParticleSettings, checkpoints, simulate
    >>> simulate(ParticleSettings(n=5), runs=2, steps=40, out="states.nc").close()
    >>> with checkpoints("states.nc") as states:
    ...     states["checkpoint"].values[:4]
    array([0, 2, 4, 6])
    """
    path = expand_home(path)
    if os.path.isfile(path) or not (parts := closed_parts(path)):
        return open_group(path, "checkpoint")
    check_parts_contiguous(parts, first_step_of_parts(parts))
    states = [_loaded(part.path, "checkpoint") for part in parts]
    joined = xr.concat(
        states,
        "checkpoint",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        join="override",
    )
    return joined.drop_duplicates("checkpoint")


def check_file_unchanged(trajectory: xr.Dataset, path: Path) -> None:
    """Raise TrajectoryError if the file contains another run than when the dataset was
    opened."""
    newest = closed_parts(path)[-1:] if not path.exists() else []
    with open_group(newest[0].path if newest else path) as now:
        for name in ("system", "config_json", "numerics_version", "device"):
            if now.attrs.get(name) != trajectory.attrs.get(name):
                raise TrajectoryError(
                    f"{path}: another run has been written there since this one was"
                    " opened"
                )


def run_indices(data: xr.Dataset, seeds: np.ndarray) -> list[int]:
    """The index along `run` of the run of each seed. Raises TrajectoryError."""
    place = {int(seed): row for row, seed in enumerate(data["seed"].values)}
    missing = [int(seed) for seed in seeds if int(seed) not in place]
    if missing:
        raise TrajectoryError(
            f"variable seed: the file no longer contains a run of seed {missing[0]}"
        )
    return [place[int(seed)] for seed in seeds]


def truncate_trajectory(trajectory: xr.Dataset, steps: int) -> xr.Dataset:
    """The trajectory up to a recorded step, as if the run had ended there.

    Parameters
    ----------
    trajectory : xarray.Dataset
    steps : int
        The new last step, which must be a recorded one.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    TrajectoryError
        If the step is not recorded.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate, truncate_trajectory
    >>> trajectory = simulate(ParticleSettings(n=5), runs=2, steps=20)
    >>> truncate_trajectory(trajectory, 4).sizes["step"]
    5
    """
    if steps not in trajectory["step"]:
        raise TrajectoryError(f"variable step: {steps} is not recorded")
    cut = trajectory.sel(step=slice(None, steps))
    if steps == int(trajectory["step"][-1]):
        return cut
    ended = cut["last_step"] < steps
    ended |= (cut["status"] == STOPPED) & (cut["last_step"] == steps)
    status = np.where(ended, cut["status"], DONE).astype(np.int8)
    cut["status"] = cut["status"].copy(data=status)
    cut["last_step"] = cut["last_step"].copy(data=np.minimum(cut["last_step"], steps))
    return cut.assign_attrs(steps=steps)


# ---------------------------------------------------------------------- unfinished runs


def parts_folder(path: str | Path) -> Path:
    """The folder of the parts of an unfinished run, next to the file of the finished
    run."""
    path = resolve_link(path)
    return path.parent / f"{path.name}.parts"


class PartFile(NamedTuple):
    """A part of an unfinished run: the frames after step `begin`, up to and including
    step `end`."""

    path: Path
    begin: int
    end: int


def part_file_name(begin: int, end: int, kind: str = "part") -> str:
    """The file name of a part, or with the kind "frames" of frames after the parts."""
    return f"{kind}-{begin:016d}-{end:016d}.nc"


def closed_parts(path: str | Path) -> list[PartFile]:
    """The complete parts of an unfinished run, in order of their steps; other files in
    the folder are ignored."""
    parts = []
    for file in parts_folder(path).glob("part-*.nc"):
        if match := re.fullmatch(r"part-(\d{16})-(\d{16})\.nc", file.name):
            parts.append(PartFile(file, int(match[1]), int(match[2])))
    return sorted(parts, key=lambda part: (part.begin, part.end))


def frames_after_parts(path: str | Path) -> PartFile | None:
    """The frames of an interrupted recording after its last restart state, which are
    read, but from which nothing continues; None if there are none."""
    parts = closed_parts(path)
    begin = parts[-1].end if parts else 0
    for file in parts_folder(path).glob(f"frames-{begin:016d}-*.nc"):
        return PartFile(file, begin, last_step_of(file))
    return None


def last_step_of(file: Path) -> int:
    """The step at which a part, or frames after the parts, end."""
    return int(file.stem.rpartition("-")[2])


def unfinished_files(path: str | Path) -> list[Path]:
    """The files with the frames of an unfinished run, in order of their steps."""
    after = frames_after_parts(path)
    files = [part.path for part in closed_parts(path)]
    return files if after is None else [*files, after.path]


def first_step_of_parts(parts: list[PartFile]) -> int:
    """The first step of the run that these parts belong to: 0, or the step at which a
    branch begins."""
    with open_group(parts[0].path) as root:
        return int(root.attrs.get("branched_at", 0))


def check_parts_contiguous(parts: list[PartFile], position: int) -> int:
    """Check that parts follow one another from step `position` on; return their last
    step.

    Raises TrajectoryError if one is missing or belongs to another run.
    """
    first = None
    for part in parts:
        if part.begin != position:
            raise TrajectoryError(
                f"{part.path}: begins at step {part.begin}, expected {position}: a part"
                " is missing"
            )
        with (
            open_group(part.path) as root,
            open_group(part.path, "checkpoint") as states,
        ):
            if int(states["checkpoint"][-1]) != part.end:
                raise TrajectoryError(
                    f"{part.path}: ends at step {int(states['checkpoint'][-1])},"
                    f" expected {part.end}"
                )
            identity = {name: root.attrs.get(name) for name in IDENTITY_ATTRIBUTES}
        first = identity if first is None else first
        if identity != first:
            name = next(
                name for name in IDENTITY_ATTRIBUTES if identity[name] != first[name]
            )
            raise TrajectoryError(
                f"{part.path}: belongs to another run: {name} is {identity[name]},"
                f" expected {first[name]}"
            )
        position = part.end
    return position
