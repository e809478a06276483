"""The trajectories of a figure: from given files, or from runs/ where missing ones are simulated."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import xarray as xr

from analysis.reproduction.figures.figure import FigureData, PaperFigure, RequiredResult
from analysis.reproduction.verification.required_runs import RequiredRuns, SizeOverrides
from dynamics.errors import TrajectoryError
from dynamics.run_checks import run_path
from dynamics.settings import Settings, SettingsError, SparseSettings, check_integer
from dynamics.simulation import simulate
from dynamics.trajectory.netcdf import NETCDF_LOCK
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.schema import read_settings


def load_figure_runs(
    figure: PaperFigure, files: Sequence[Path], sizes: SizeOverrides, run: int | None, say: TextIO | None = None
) -> FigureData:
    """The data of a figure, from files or from its own runs. Progress goes to `say`, by default to the terminal.

    Raises TrajectoryError, SettingsError, RecordingError, Interrupted.
    """
    for field, most in (("runs", 10_000_000), ("epochs", 2**40)):
        if getattr(sizes, field) is not None:
            check_integer(field, getattr(sizes, field), getattr(figure.least, field) or 1, most)
    if files and sizes != SizeOverrides():
        field = "epochs" if sizes.runs is None else "runs"
        raise SettingsError(field, getattr(sizes, field), "no value beside files, which are as large as they are")
    datasets = (
        match_files_to_requirements(figure, files) if files else _find_or_make_runs(figure, sizes, say or sys.stdout)
    )
    if run is not None:
        _check_run(datasets[-1], run)
    return FigureData(tuple(datasets), run)


def _check_run(trajectory: xr.Dataset, run: int) -> None:
    """Check that a run exists and has not diverged. Raises SettingsError, TrajectoryError."""
    check_integer("run", run, 0, trajectory.sizes["run"] - 1)
    last = int(trajectory["last_step"][run])
    if last < int(trajectory["step"][-1]):
        raise TrajectoryError(f"run {run}: diverged after step {last}, expected one that has not")


# ------------------------------------------------------------------------------------------ files that are given


def match_files_to_requirements(figure: PaperFigure, files: Sequence[Path]) -> list[xr.Dataset]:
    """The first fitting file for each need of a figure. Raises TrajectoryError."""
    opened = {path: _opened(path, figure) for path in files}
    chosen: list[xr.Dataset] = []
    for need in figure.needs:
        fitting = [each for each in opened.values() if _fits(each, need)]
        if not fitting:
            found = "; ".join(f"{path.name}: {_what(each, need)}" for path, each in opened.items())
            raise TrajectoryError(f"{figure.source} needs {need.words()}, found {found}")
        chosen.append(fitting[0])
        if isinstance(need, RequiredRuns) and need.weights and "embedding" not in fitting[0]:
            name = next(path.name for path, each in opened.items() if each is fitting[0])
            raise TrajectoryError(f"{name}: {figure.source} needs weights; a run with record=metrics keeps none")
    return chosen


def _opened(path: Path, figure: PaperFigure) -> xr.Dataset:
    """A trajectory or, if the figure needs one, the result of another command."""
    if not any(isinstance(need, RequiredResult) for need in figure.needs):
        return open_trajectory(path)
    try:
        with NETCDF_LOCK, xr.open_dataset(path, engine="netcdf4") as there:
            return there.load()
    except (OSError, ValueError) as error:
        raise TrajectoryError(f"{path}: could not be read as NetCDF ({error})") from None


def _fits(found: xr.Dataset, need: RequiredRuns | RequiredResult) -> bool:
    if isinstance(need, RequiredResult):
        return found.attrs.get("title") == need.title
    if found.attrs.get("system") != need.settings.system or "schema_version" not in found.attrs:
        return False
    settings = read_settings(found)
    alike = all(getattr(settings, name) == getattr(need.settings, name) for name in need.must)
    return alike and (not need.follows or getattr(settings, "start", "random") != "random")


def _what(found: xr.Dataset, need: RequiredRuns | RequiredResult) -> str:
    """The content of a file in words: settings that differ from the defaults, and those that are required."""
    if "schema_version" not in found.attrs:
        return f"“{found.attrs.get('title', 'something else')}”"
    settings = read_settings(found)
    usual, asked = type(settings)(), need.must if isinstance(need, RequiredRuns) else ()
    changed = [
        f"{field.name.replace('_', '-')} {getattr(settings, field.name)}" for field in dataclasses.fields(settings)
        if field.name in asked or getattr(settings, field.name) != getattr(usual, field.name)
    ]  # fmt: skip
    return f"{settings.system}, {', '.join(changed) or 'defaults'}"


# ------------------------------------------------------------------------------------------- found, or made


def _find_or_make_runs(figure: PaperFigure, sizes: SizeOverrides, say: TextIO) -> list[xr.Dataset]:
    """The ensemble or result for each need of a figure, read or computed. Raises what `simulate` raises."""
    found: list[xr.Dataset] = []
    path = None
    for need in figure.needs:
        if isinstance(need, RequiredResult):
            print(f"needs {need.words()}, whose runs are found or made", file=say)
            found.append(need.make(sizes))
            continue
        settings = _following(need.settings, path, found[-1]) if need.follows and path else need.settings
        trajectory, path = _load_ensemble(need, settings, sizes, figure.cost, say)
        found.append(trajectory)
    return found


def _load_ensemble(
    need: RequiredRuns, settings: Settings, sizes: SizeOverrides, cost: str, say: TextIO
) -> tuple[xr.Dataset, Path]:
    """An ensemble and its file; missing runs are simulated."""
    runs = need.runs if sizes.runs is None else sizes.runs
    steps, every = need.steps(sizes), need.frame_gap(sizes)
    path = run_path(settings, runs, 0, every, need.record)
    at_its_size = f" ({cost})" if sizes == SizeOverrides() else ""
    plan = "found, or gone on with" if path.exists() else f"to be made{at_its_size}"
    print(f"{need.words()}: {runs} runs of {steps} steps, {path}, {plan}", file=say, flush=True)
    return simulate(settings, runs=runs, seed=0, steps=steps, every=every, record=need.record, out=path), path


def _following(settings: Settings, path: Path, source: xr.Dataset) -> Settings:
    """Settings of a training that starts from the last frame of another one."""
    assert isinstance(settings, SparseSettings)
    return dataclasses.replace(settings, start=str(path), start_step=int(np.asarray(source["step"])[-1]))
