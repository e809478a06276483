"""Sweeps: an ensemble for every combination of settings, each in its own file, and all
combined in one dataset.

`sweep` does three steps: `sweep_design` lists the points, `compute_missing_points`
computes those without a finished file, in this process or on a dask.distributed
cluster, and `combine_points` summarises all in one dataset."""

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dynamics.ensemble import RUNS_FOLDER, create_system
from dynamics.errors import TrajectoryError
from dynamics.named_conditions import FrameTest
from dynamics.observers import Observer
from dynamics.settings import RecordMode, Settings
from dynamics.sweeps.compute import compute_tasks
from dynamics.sweeps.dask_backend import Scheduler, check_scheduler
from dynamics.sweeps.design import (
    SweepDesign,
    SweepPoint,
    errors_with_point,
    parse_part,
    sweep_design,
)
from dynamics.sweeps.summaries import combine_summaries, summarise_trajectory
from dynamics.trajectory.description import describe_run

# -------------------------------------------------------------------------------- sweep


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
    scheduler: Scheduler | None = None,
    progress: bool = True,
    backend: str = "auto",
    observe: Mapping[str, Observer] | None = None,
    until: str | FrameTest | None = None,
) -> xr.Dataset:
    """Simulate an ensemble for every combination of settings, and summarise all
    ensembles in one dataset.

    Ensembles that have a finished file in `folder` are not computed again.

    Parameters
    ----------
    settings : ParticleSettings, ModularSettings or SparseSettings
        Settings of all points, except those that are swept.
    axes : mapping of str to sequence
        Values of each swept setting. An ensemble is simulated for each combination.
    runs, seed : int, optional
        Number of runs of each ensemble, and seed of its first run.
    steps : int, optional
        Length of the runs, for systems without epochs. By default that of the system.
    epochs : int, optional
        Length of the runs, for systems with epochs. By default that of the system.
    every : int, optional
        Epochs between recorded frames, or steps for systems without epochs. By default
        that of the system.
    record : {"metrics", "all"}, optional
        Whether the files of the points contain only metrics (default), or embeddings
        and weights too.
    device : {"auto", "cpu", "cuda"}, optional
        Where to compute.
    folder : path-like, optional
        Folder of the trajectories.
    scheduler : str, distributed.Client or dask cluster, optional
        Address of a dask scheduler, such as ``tcp://127.0.0.1:8786``; or a client or a
        cluster, which stays open. By default this process computes all points.
    progress : bool, optional
        Whether to show a progress bar on a terminal.
    backend : {"auto", "simd", "blas"}, optional
        How the constant-attention network is computed on a CPU, as for `simulate`.
    observe : mapping of str to callable, optional
        Own quantities that the files of the points record, as for `simulate`.
    until : str or callable, optional
        Condition at which runs end, as for `simulate`.

    Returns
    -------
    xarray.Dataset
        Final, largest and smallest value of each metric along the swept settings and
        `run`; see `combine_points`. `analysis.structures.add_structures` adds the
        circles and imperfections in which the runs end.

    Raises
    ------
    SettingsError, TrajectoryError, RecordingError, MissingPackage, SweepInterrupted

    Examples
    --------
    >>> import tempfile
    >>> from dynamics import ParticleSettings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = sweep(ParticleSettings(n=5), {"fa": [1, 2]}, runs=3, steps=5, folder=folder, progress=False)
    >>> result["final_gradient_norm"].dims
    ('fa', 'run', 'layer')
    """
    design = sweep_design(
        settings,
        axes,
        runs,
        seed,
        steps,
        epochs,
        every,
        record,
        device,
        Path(folder).absolute(),
        backend,
        observe,
        until,
    )
    compute_missing_points(design, scheduler, progress)
    return combine_points(design)


# ---------------------------------------------------------------------------- computing


def compute_missing_points(
    design: SweepDesign,
    scheduler: Scheduler | None = None,
    progress: bool = True,
    work: Callable[[SweepPoint], float] = lambda point: 1.0,
    part: str | None = None,
) -> int:
    """Compute the points without a finished file, in this process or on a dask cluster;
    return their number.

    A point whose run was interrupted or is too short is continued, or on a cluster
    computed from step 0.

    Parameters
    ----------
    design : SweepDesign
        The sweep, from `sweep_design`.
    scheduler : str, distributed.Client or dask cluster, optional
        Address of a dask scheduler, or a client or a cluster. By default this process
        computes the points one after the other.
    progress : bool, optional
        Whether to show a progress bar on a terminal.
    work : callable, optional
        Relative cost of a point, for the estimate of the remaining time; on a cluster
        the most expensive points start first. By default all points cost the same.
    part : str, optional
        Part of the points to compute, such as ``3/10``: every tenth file from the third
        on, in the order of their names. Points that another process is computing are
        left out. By default all points.

    Returns
    -------
    int
        Number of points that were computed.

    Raises
    ------
    SettingsError, TrajectoryError, RecordingError, MissingPackage
    SweepInterrupted
        After SIGINT or SIGTERM; the same call continues from there.

    Examples
    --------
    >>> import tempfile
    >>> from dynamics import ParticleSettings
    >>> from dynamics.sweeps import sweep_design
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     design = sweep_design(ParticleSettings(n=5), {"fa": [1, 2]}, runs=3, steps=5, folder=folder)
    ...     compute_missing_points(design, progress=False), compute_missing_points(design, progress=False)
    (2, 0)
    """
    if scheduler is not None:
        check_scheduler(scheduler)
    files = {point.path for point in design.points}
    if part is not None:
        files = parse_part(part).of(files)
    missing = missing_points(design, files)
    if scheduler is None:
        for point in missing:
            with errors_with_point(point):
                point.ensemble.check_resources(point.path)
    return compute_tasks(
        missing, len(files), scheduler, progress, work, among_others=part is not None
    )


def missing_points(
    design: SweepDesign, files: Collection[Path] | None = None
) -> list[SweepPoint]:
    """The points without a finished file, each file once.

    Parameters
    ----------
    design : SweepDesign
    files : collection of Path, optional
        Files of some of the points. By default those of all.

    Returns
    -------
    list of SweepPoint

    Raises
    ------
    SettingsError, TrajectoryError
        If a file is damaged, or contains another run.

    Examples
    --------
    >>> from dynamics import ParticleSettings
    >>> from dynamics.sweeps import missing_points, sweep_design
    >>> design = sweep_design(ParticleSettings(n=5), {"fa": [1, 2]}, folder="none yet")
    >>> len(missing_points(design))
    2
    """
    missing = {}
    for point in design.points:
        if files is not None and point.path not in files:
            continue
        with errors_with_point(point):
            finished = point.open_finished()
        if finished is None:
            missing[point.path] = point
        else:
            finished.close()
    return list(missing.values())


# ---------------------------------------------------------------------------- combining


def combine_points(design: SweepDesign) -> xr.Dataset:
    """Summarise all points of a sweep in one dataset, with a dimension for each swept
    setting.

    Parameters
    ----------
    design : SweepDesign
        A sweep whose points are all computed.

    Returns
    -------
    xarray.Dataset
        For each metric, along (swept settings, run, split or layer), and for each other
        variable (run, step), such as observed ones: ``final_NAME`` at
        the last recorded step, which for a run that has diverged repeats the last
        finite one, and ``peak_NAME`` and ``lowest_NAME``, the largest and smallest
        value up to `last_step`; the update norm at step 0, which is 0 by definition, is
        excluded. ``status`` and ``last_step`` along (swept settings, run); ``steps``,
        ``file`` and, for systems with epochs, ``epochs`` along the swept settings.
        Splits and layers that not all points have are omitted; the attribute `left_out`
        lists them.

    Raises
    ------
    TrajectoryError
        If a point is missing or unfinished.

    Examples
    --------
    >>> import tempfile
    >>> from dynamics import ParticleSettings
    >>> from dynamics.sweeps import compute_missing_points, sweep_design
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     design = sweep_design(ParticleSettings(n=5), {"fa": [1, 2]}, runs=3, steps=5, folder=folder)
    ...     points = compute_missing_points(design, progress=False)
    ...     combine_points(design)["status"].shape
    (2, 3)
    """
    summaries = [_point_summary(point) for point in design.points]
    seeds = design.seed + np.arange(design.runs)
    return combine_summaries(summaries, design.axes, seeds, _attributes(design))


def _point_summary(point: SweepPoint) -> xr.Dataset:
    """The variables of `combine_points` for one point."""
    trajectory = point.open_finished()
    if trajectory is None:
        raise TrajectoryError(f"{point.path}: does not exist or is not finished")
    with trajectory:
        summary = summarise_trajectory(trajectory)
        steps = int(trajectory["step"][-1])
    summary["steps"] = xr.DataArray(steps)
    if point.settings.epoch_steps:
        summary["epochs"] = xr.DataArray(steps / point.settings.epoch_steps)
    summary["file"] = xr.DataArray(point.path.name)
    return summary


def _attributes(design: SweepDesign) -> dict[str, Any]:
    """Attributes that all points share, and the settings that are not swept."""
    first = design.points[0]
    system = create_system(first.settings, first.ensemble.device)
    attrs = describe_run(system, first.identity, first.steps).attrs
    shared = (
        "Conventions",
        "system",
        "seed",
        "runs",
        "record",
        "device",
        "numerics_version",
    )
    origin = ("created_at", "git_commit", "package_versions")
    return {
        "title": design.title,
        **{name: attrs[name] for name in shared},
        "config_json": json.dumps(dataclasses.asdict(design.settings), sort_keys=True),
        "swept": json.dumps(list(design.axes)),
        **{name: attrs[name] for name in origin},
    }
