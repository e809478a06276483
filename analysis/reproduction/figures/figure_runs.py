"""Where a plate's trajectories are from: files that a person gives, or runs that are found where they live, or made."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import xarray as xr

from analysis.reproduction.figures.figure import FigureData, PaperFigure, RequiredResult, RequiredRuns, SizeOverrides
from dynamics.errors import TrajectoryError
from dynamics.preparation import run_path
from dynamics.settings import Settings, SettingsError, SparseSettings, check_integer
from dynamics.simulation import simulate
from dynamics.trajectory.netcdf import NETCDF_LOCK
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.schema import read_settings


def load_figure_runs(
    plate: PaperFigure, files: Sequence[Path], sizes: SizeOverrides, run: int | None, say: TextIO | None = None
) -> FigureData:
    """What a plate is drawn from: out of the files, or else found or made; says what to `say`, or to the terminal.

    Raises TrajectoryError, SettingsError, RecordingError, Interrupted.
    """
    for field, most in (("runs", 10_000_000), ("epochs", 2**40)):
        if getattr(sizes, field) is not None:
            check_integer(field, getattr(sizes, field), getattr(plate.least, field) or 1, most)
    if files and sizes != SizeOverrides():
        field = "epochs" if sizes.runs is None else "runs"
        raise SettingsError(field, getattr(sizes, field), "no value beside files, which are as large as they are")
    datasets = (
        match_files_to_requirements(plate, files) if files else _find_or_make_runs(plate, sizes, say or sys.stdout)
    )
    if run is not None:
        _check_run(datasets[-1], run)
    return FigureData(tuple(datasets), run)


def _check_run(trajectory: xr.Dataset, run: int) -> None:
    """See that a trajectory has a run at a place, which has not diverged. Raises SettingsError, TrajectoryError."""
    check_integer("run", run, 0, trajectory.sizes["run"] - 1)
    last = int(trajectory["last_step"][run])
    if last < int(trajectory["step"][-1]):
        raise TrajectoryError(f"run {run}: diverged after step {last}, expected one that has not")


# ------------------------------------------------------------------------------------------ files that are given


def match_files_to_requirements(plate: PaperFigure, files: Sequence[Path]) -> list[xr.Dataset]:
    """For each need of a plate the first of the files that may stand for it. Raises TrajectoryError."""
    opened = {path: _opened(path, plate) for path in files}
    chosen: list[xr.Dataset] = []
    for need in plate.needs:
        fitting = [each for each in opened.values() if _fits(each, need)]
        if not fitting:
            found = "; ".join(f"{path.name}: {_what(each, need)}" for path, each in opened.items())
            raise TrajectoryError(f"{plate.source} needs {need.words()}, found {found}")
        chosen.append(fitting[0])
        if isinstance(need, RequiredRuns) and need.weights and "embedding" not in fitting[0]:
            name = next(path.name for path, each in opened.items() if each is fitting[0])
            raise TrajectoryError(f"{name}: {plate.source} needs weights; a run with record=metrics keeps none")
    return chosen


def _opened(path: Path, plate: PaperFigure) -> xr.Dataset:
    """A trajectory, or the result of another command where the plate needs one."""
    if not any(isinstance(need, RequiredResult) for need in plate.needs):
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
    """What a file holds, in words: settings that are not usual, and those that are asked for."""
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


def _find_or_make_runs(plate: PaperFigure, sizes: SizeOverrides, say: TextIO) -> list[xr.Dataset]:
    """For each need of a plate what is found where it lives, or made there. Raises as `simulate` does."""
    found: list[xr.Dataset] = []
    path = None
    for need in plate.needs:
        if isinstance(need, RequiredResult):
            print(f"needs {need.words()}, whose runs are found or made", file=say)
            found.append(need.make(sizes))
            continue
        settings = _following(need.settings, path, found[-1]) if need.follows and path else need.settings
        trajectory, path = _load_ensemble(need, settings, sizes, plate.cost, say)
        found.append(trajectory)
    return found


def _load_ensemble(
    need: RequiredRuns, settings: Settings, sizes: SizeOverrides, cost: str, say: TextIO
) -> tuple[xr.Dataset, Path]:
    """An ensemble and its file, found or made."""
    runs = need.runs if sizes.runs is None else sizes.runs
    steps, every = need.steps(sizes), need.frame_gap(sizes)
    path = run_path(settings, runs, 0, every, need.record)
    at_its_size = f" ({cost})" if sizes == SizeOverrides() else ""
    plan = "found, or gone on with" if path.exists() else f"to be made{at_its_size}"
    print(f"{need.words()}: {runs} runs of {steps} steps, {path}, {plan}", file=say, flush=True)
    return simulate(settings, runs=runs, seed=0, steps=steps, every=every, record=need.record, out=path), path


def _following(settings: Settings, path: Path, source: xr.Dataset) -> Settings:
    """Settings of a training that begins from the last frame of another one."""
    assert isinstance(settings, SparseSettings)
    return dataclasses.replace(settings, start=str(path), start_step=int(np.asarray(source["step"])[-1]))
