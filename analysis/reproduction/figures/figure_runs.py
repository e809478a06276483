"""The trajectories of a figure: from given files, or from runs/ where missing ones are
simulated."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import xarray as xr

from analysis.reproduction.experiment import (
    RequiredRuns,
    Runner,
    SizeOverrides,
)
from analysis.reproduction.figures.figure import FigureData, PaperFigure, RequiredResult
from dynamics.errors import TrajectoryError
from dynamics.settings import SettingsError, SparseSettings, check_integer
from dynamics.settings_text import setting_texts
from dynamics.trajectory.netcdf import NETCDF_LOCK, READ_ERRORS
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.schema import read_settings


def load_figure_runs(
    figure: PaperFigure, files: Sequence[Path], sizes: SizeOverrides, run: int | None
) -> FigureData:
    """The data of a figure, from given files or from its own runs; prints a line about
    each run.

    Raises TrajectoryError, SettingsError, RecordingError, Interrupted.
    """
    for field, size, least, most in zip(
        sizes._fields, sizes, figure.least, (10_000_000, 2**40), strict=True
    ):
        if size is not None and files:
            raise SettingsError(
                field, size, "no value beside files, which are as large as they are"
            )
        if size is not None:
            check_integer(field, size, least or 1, most)
    datasets = (
        match_files_to_requirements(figure, files)
        if files
        else _find_or_make_runs(figure, sizes)
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


def match_files_to_requirements(
    figure: PaperFigure, files: Sequence[Path]
) -> list[xr.Dataset]:
    """The first fitting file for each need of a figure. Raises TrajectoryError."""
    opened = {path: _opened(path, figure) for path in files}
    chosen = []
    for need in figure.needs:
        fitting = [path for path, value in opened.items() if _fits(value, need)]
        if not fitting:
            join = "; ".join(
                f"{path.name}: {_what(value, need)}" for path, value in opened.items()
            )
            raise TrajectoryError(f"{figure.source} needs {need.words()}, found {join}")
        chosen.append(opened[fitting[0]])
        if (
            isinstance(need, RequiredRuns)
            and need.weights
            and "embedding" not in chosen[-1]
        ):
            name = fitting[0].name
            raise TrajectoryError(
                f"{name}: {figure.source} needs weights; a run with record=metrics"
                " keeps none"
            )
    return chosen


def _opened(path: Path, figure: PaperFigure) -> xr.Dataset:
    """A trajectory or, if the figure needs one, the result of another command."""
    if not any(isinstance(need, RequiredResult) for need in figure.needs):
        return open_trajectory(path)
    try:
        with NETCDF_LOCK, xr.open_dataset(path, engine="netcdf4") as there:
            return there.load()
    except READ_ERRORS as error:
        raise TrajectoryError(
            f"{path}: could not be read as NetCDF ({error})"
        ) from None


def _fits(result: xr.Dataset, need: RequiredRuns | RequiredResult) -> bool:
    if isinstance(need, RequiredResult):
        return result.attrs.get("title") == need.title
    if (
        result.attrs.get("system") != need.settings.system
        or "schema_version" not in result.attrs
    ):
        return False
    settings = read_settings(result)
    alike = all(
        getattr(settings, name) == getattr(need.settings, name) for name in need.must
    )
    return alike and (
        not need.follows or getattr(settings, "start", "random") != "random"
    )


def _what(result: xr.Dataset, need: RequiredRuns | RequiredResult) -> str:
    """The content of a file in words: settings that differ from the defaults, and those
    that are required."""
    if "schema_version" not in result.attrs:
        return f"“{result.attrs.get('title', 'something else')}”"
    settings = read_settings(result)
    must = need.must if isinstance(need, RequiredRuns) else ()
    texts = setting_texts(settings, always=dict.fromkeys(must, ""), form="option")
    return ", ".join([settings.system, *(text.removeprefix("--") for text in texts)])


# ----------------------------------------------------------------------- found, or made


RUNNER = Runner(sys.stdout)


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
            print(f"needs {need.words()}, whose runs are read or computed")
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
            f"{need.words()}: {ensemble.runs} runs of {ensemble.steps} steps, {path},"
            f" {plan}",
            flush=True,
        )
        result.append(RUNNER.ensemble(ensemble))
    return result
