"""Sweeps: a grid of settings, one ensemble a point, each at the place that `simulate.run_path` gives it.

`grids.plan` says what there is to compute, `fill` computes what is missing of it, here or on a dask.distributed
cluster, and `combine` makes one dataset of all; `sweep` is the three.
"""

import contextlib
import dataclasses
import json
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from dynamics.errors import Interrupted, TrajectoryError
from dynamics.preparation import RUNS_FOLDER, check_resources
from dynamics.provenance import METRIC_VARIABLES
from dynamics.settings import RecordMode, Settings
from dynamics.sweeps.dask_backend import check_scheduler, compute_on_cluster
from dynamics.sweeps.design import (
    SweepDesign,
    SweepPoint,
    errors_with_point,
    open_finished_point,
    simulate_point,
    sweep_design,
)
from dynamics.system_checks import create_system
from dynamics.trajectory.description import RecordingSchedule, describe_run
from dynamics.trajectory.schema import VARIABLES


class SweepInterrupted(Interrupted):
    """SIGINT or SIGTERM; the points that are done are on disk, and the same call goes on from there."""

    def __init__(self, signum: int, done: int, points: int) -> None:
        super().__init__(signum, None, done, points)
        self.args, self.resumable = (f"interrupted: {done} of {points} points are done",), True


# ------------------------------------------------------------------------------------------------- sweep


def sweep(
    settings: Settings,
    axes: Mapping[str, Sequence[Any]],
    runs: int = 100,
    seed: int = 0,
    steps: int | None = None,
    epochs: int | None = None,
    every: int | None = None,
    record: RecordMode = "metrics",
    device: str = "auto",
    folder: str | Path = RUNS_FOLDER,
    scheduler: str | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Run, or find, an ensemble for every combination of the axes' values; all of them as one dataset.

    axes: setting -> values; all other settings are those given. epochs, or steps for a system that has none: how
    long every run is (default: the system's); `every` counts the same. scheduler: tcp://HOST:PORT of a dask
    cluster. See `combine` for the dataset. Raises SettingsError, TrajectoryError, RecordingError, Stopped.
    """
    grid = sweep_design(settings, axes, runs, seed, steps, epochs, every, record, device, folder)
    compute_missing_points(grid, scheduler, progress)
    return combine_points(grid)


# -------------------------------------------------------------------------------------------------- fill


def compute_missing_points(
    grid: SweepDesign,
    scheduler: str | None = None,
    progress: bool = True,
    work: Callable[[SweepPoint], float] = lambda point: 1.0,
) -> int:
    """Compute the points that are not there, one after the other or on the workers of a cluster; how many were not.

    work: what a point costs, in any unit, by which the time left is told; on a cluster the dearest come first.
    An interrupted point goes on, and more steps extend one; on a cluster such a point begins anew. Raises
    SettingsError, TrajectoryError, RecordingError, MissingPackage; and Stopped, after which the same call goes on.
    """
    if scheduler is not None:
        check_scheduler(scheduler)
    missing = _missing(grid)
    if scheduler is None:
        for point in missing:
            with errors_with_point(point):
                system = create_system(point.settings, point.what["device"])
                check_resources(system, grid.runs, RecordingSchedule(point.steps, point.every), grid.record, point.path)
    files = len({point.path for point in grid.points})
    done, share = files - len(missing), len(missing) / sum(map(work, missing)) if missing else 1.0
    dearest = sorted(missing, key=work, reverse=True)
    shape = "{percentage:3.0f}%|{bar}| {n:.1f}/{total} points [{elapsed}<{remaining}{postfix}]"
    with tqdm(total=files, initial=done, bar_format=shape, disable=None if progress else True) as bar:
        going = (
            _here(grid, missing, progress) if scheduler is None else compute_on_cluster(grid, dearest, scheduler, bar)
        )
        try:
            with contextlib.closing(going):
                for point in going:
                    done += 1
                    bar.update(share * work(point))
        except KeyboardInterrupt as stop:  # Interrupted, or between two points
            raise SweepInterrupted(getattr(stop, "signum", signal.SIGINT), done, files) from None
    return len(missing)


def _missing(grid: SweepDesign) -> list[SweepPoint]:
    """The points that are not finished, each file once."""
    missing = {}
    for point in grid.points:
        with errors_with_point(point):
            there = open_finished_point(grid, point)
        if there is None:
            missing[point.path] = point
        else:
            there.close()
    return list(missing.values())


def _here(grid: SweepDesign, points: list[SweepPoint], progress: bool) -> Generator[SweepPoint, None, None]:
    """Compute the points in this process; gives each when it is done."""
    for point in points:
        with errors_with_point(point):
            simulate_point(point, grid, point.path, progress)
        yield point


# --------------------------------------------------------------------------------------------- combining


def combine_points(grid: SweepDesign) -> xr.Dataset:
    """All points of a filled grid as one dataset, with a dimension for each swept setting.

    For each metric of the system, along (axes, run, split or layer): `final_NAME` at the last recorded step, which
    for a run that diverged is its last finite frame; `peak_NAME` and `lowest_NAME` over the frames up to last_step,
    the update norm's at step 0 aside, where it is 0 for there was no update. `status` and `last_step` along
    (axes, run); `steps`, `file` in the folder, and, where there are any, `epochs` along (axes). Splits and layers
    that not all points have are left out, and the attribute left_out says which. Raises TrajectoryError.
    """
    found = [_summary(grid, point) for point in grid.points]
    among = [dim for dim in ("split", "layer") if dim in found[0].dims]
    kept = {dim: _common([list(each[dim].values) for each in found]) for dim in among}
    gone = {dim: sorted({str(name) for each in found for name in each[dim].values} - set(kept[dim])) for dim in kept}
    found = [each.sel(kept) for each in found]
    variables = {}
    for name, one in found[0].data_vars.items():
        values = np.stack([each[name].values for each in found])
        dims = (*grid.axes, *one.dims)
        variables[name] = (dims, values.reshape((*grid.shape, *one.shape)), one.attrs)
    coords = {name: np.array(values) for name, values in grid.axes.items()}
    coords |= {dim: np.array(names) for dim, names in kept.items()}
    result = xr.Dataset(variables, {name: (name, values) for name, values in coords.items()}, _attributes(grid))
    result = result.assign_coords(seed=("run", grid.seed + np.arange(grid.runs, dtype=np.int64)))
    if any(gone.values()):
        result.attrs["left_out"] = "; ".join(f"{dim} {', '.join(names)}" for dim, names in gone.items() if names)
    return result


def _summary(grid: SweepDesign, point: SweepPoint) -> xr.Dataset:
    """What `combine` keeps of a point."""
    trajectory = open_finished_point(grid, point)
    if trajectory is None:
        raise TrajectoryError(f"{point.path}: is not there, or not finished")
    with trajectory:
        frames = trajectory[[name for name in METRIC_VARIABLES if name in trajectory]].load()
        ends = trajectory[["status", "last_step"]].load()
    valid = frames["step"] <= ends["last_step"]
    variables: dict[str, xr.DataArray] = {}
    for name, values in frames.data_vars.items():
        counted = valid
        if name == "update_norm":
            counted = valid & ((frames["step"] > 0) | ~(valid & (frames["step"] > 0)).any("step"))
        what = VARIABLES[str(name)].long_name
        numbers = {
            "final": (values.isel(step=-1), "at the last step"),
            "peak": (values.where(counted, -np.inf).max("step"), "largest"),
            "lowest": (values.where(counted, np.inf).min("step"), "smallest"),
        }
        for kind, (number, words) in numbers.items():
            plain = (
                number.transpose("run", ...).astype(values.dtype).drop_vars(("step", "time", "epoch"), errors="ignore")
            )
            variables[f"{kind}_{name}"] = plain.assign_attrs(long_name=f"{what}: {words}", units="1")
    variables |= {str(name): values for name, values in ends.data_vars.items()}
    variables["steps"] = xr.DataArray(point.steps)
    if point.settings.epoch_steps:
        variables["epochs"] = xr.DataArray(point.steps / point.settings.epoch_steps)
    variables["file"] = xr.DataArray(point.path.name)
    return xr.Dataset(variables)


def _common(lists: list[list[str]]) -> list[str]:
    """The names that are in all lists, in the order of the first."""
    return [name for name in lists[0] if all(name in other for other in lists)]


def _attributes(grid: SweepDesign) -> dict[str, Any]:
    """What the points have in common, as in their files, and the settings that were not swept."""
    first = grid.points[0]
    system = create_system(first.settings, first.what["device"])
    attrs = describe_run(system, first.what, first.steps).attrs
    shared = ("Conventions", "system", "seed", "runs", "record", "device", "numerics_version")
    made = ("created_at", "git_commit", "package_versions")
    return {
        "title": grid.title,
        **{name: attrs[name] for name in shared},
        "config_json": json.dumps(dataclasses.asdict(grid.settings), sort_keys=True),
        "swept": json.dumps(list(grid.axes)),
        **{name: attrs[name] for name in made},
    }
