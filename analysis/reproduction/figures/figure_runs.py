"""The trajectories of a figure: from given files, or from runs/ where missing ones are
simulated."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import xarray as xr

from analysis.reproduction.experiment import RequiredRuns, Runner, SizeOverrides
from analysis.reproduction.figures.figure import FigureData, PaperFigure, RequiredResult
from dynamics.errors import TrajectoryError
from dynamics.settings import SettingsError, SparseSettings, check_integer
from dynamics.settings_text import describe_settings
from dynamics.trajectory.netcdf import NETCDF_LOCK, READ_ERRORS
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.schema import read_settings

RUNNER = Runner(sys.stdout)


def load_figure_runs(
    figure: PaperFigure, files: Sequence[Path], sizes: SizeOverrides, run: int | None
) -> FigureData:
    """The data of a figure, from given files or from its own runs; prints a line about
    each run.

    Raises TrajectoryError, SettingsError, RecordingError, Interrupted.
    """
    for field, size in sizes._asdict().items():
        if size is not None and files:
            allowed = "no value beside files, which are as large as they are"
            raise SettingsError(field, size, allowed)
        if size is not None:
            check_integer(field, size, 1, 10_000_000)
    datasets = (
        open_figure_files(figure, files) if files else _find_or_make_runs(figure, sizes)
    )
    if run is not None:
        check_integer("run", run, 0, datasets[-1].sizes["run"] - 1)
        last = int(datasets[-1]["last_step"][run])
        if last < int(datasets[-1]["step"][-1]):
            raise TrajectoryError(
                f"run {run}: diverged after step {last}, expected one that has not"
            )
    return FigureData(tuple(datasets), run)


# ----------------------------------------------------------------- files that are given


def open_figure_files(figure: PaperFigure, files: Sequence[Path]) -> list[xr.Dataset]:
    """The given files, one for each need of a figure in their order. Raises
    SettingsError, TrajectoryError."""
    if len(files) != len(figure.needs):
        allowed = f"as many as {figure.source} needs, {len(figure.needs)}"
        raise SettingsError("trajectories", len(files), allowed)
    return [
        _open_result(path, need)
        if isinstance(need, RequiredResult)
        else _open_runs(path, need)
        for path, need in zip(files, figure.needs, strict=True)
    ]


def _open_runs(path: Path, need: RequiredRuns) -> xr.Dataset:
    """A trajectory of the needed system with as many dimensions."""
    trajectory = open_trajectory(path)
    found, expected = (
        (item.system, getattr(item, "dim", None))
        for item in (read_settings(trajectory), need.settings)
    )
    if found != expected:
        system, dim = expected
        what = describe_settings(read_settings(trajectory))
        raise TrajectoryError(
            f"{path}: {what}, expected a run of {system} with dim {dim}"
        )
    if need.weights and "embedding" not in trajectory:
        raise TrajectoryError(
            f"{path}: only metrics, expected weights, which a run with record=metrics"
            " does not keep"
        )
    return trajectory


def _open_result(path: Path, need: RequiredResult) -> xr.Dataset:
    """The result of another command."""
    try:
        with NETCDF_LOCK, xr.open_dataset(path, engine="netcdf4") as there:
            result = there.load()
    except READ_ERRORS as error:
        raise TrajectoryError(f"{path}: not read as NetCDF ({error})") from None
    if result.attrs.get("title") != need.title:
        found = result.attrs.get("title", "a file without a title")
        raise TrajectoryError(f"{path}: “{found}”, expected a result of {need.command}")
    return result


# ----------------------------------------------------------------------- found, or made


def plan_ensemble(
    need: RequiredRuns, sizes: SizeOverrides, source: RequiredRuns | None
) -> RequiredRuns:
    """An ensemble of a figure at some size. source: the one before it, from whose end
    some trainings start."""
    settings = need.settings
    if need.follows and source and isinstance(settings, SparseSettings):
        settings = dataclasses.replace(
            settings, start=str(RUNNER.path(source)), start_step=source.steps
        )
    return dataclasses.replace(need.at(sizes), settings=settings)


def _find_or_make_runs(figure: PaperFigure, sizes: SizeOverrides) -> list[xr.Dataset]:
    """The ensemble or result for each need of a figure, read or computed. Raises what
    `simulate` raises."""
    result: list[xr.Dataset] = []
    ensemble = None
    for need in figure.needs:
        if isinstance(need, RequiredResult):
            print(f"{need.command}: runs are read or computed")
            result.append(need.make(sizes))
            continue
        ensemble = plan_ensemble(need, sizes, ensemble)
        path = RUNNER.path(ensemble)
        cost = f" ({figure.cost})" if sizes == SizeOverrides() else ""
        plan = (
            "read from the file, or continued"
            if path.exists()
            else f"to be computed{cost}"
        )
        print(
            f"{describe_settings(ensemble.settings)}: {ensemble.runs} runs of"
            f" {ensemble.steps} steps, {path}, {plan}",
            flush=True,
        )
        result.append(RUNNER.ensemble(ensemble))
    return result
