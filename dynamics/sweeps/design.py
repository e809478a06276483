"""Grids: settings in all combinations of some values, each an ensemble with a file of its own."""

import contextlib
import dataclasses
import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from dynamics.preparation import RUNS_FOLDER, find_finished_run, run_path
from dynamics.provenance import run_identity
from dynamics.settings import RecordMode, Settings, SettingsError, check_choice, check_integer
from dynamics.simulation import simulate
from dynamics.system_checks import create_system

MAX_POINTS = 100_000


class SweepPoint(NamedTuple):
    """An ensemble of the grid."""

    values: dict[str, Any]
    """Of the swept settings."""
    settings: Settings
    steps: int
    every: int
    path: Path
    what: dict[str, Any]
    """Its `identity`."""

    @property
    def label(self) -> str:
        """The swept settings, for a person."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items()) or self.path.stem


@dataclasses.dataclass(frozen=True)
class SweepDesign:
    """A sweep as it was asked for, checked."""

    settings: Settings
    axes: dict[str, list[Any]]
    points: list[SweepPoint]  # the last axis varies fastest
    runs: int
    seed: int
    record: RecordMode

    @property
    def title(self) -> str:
        """What the combined dataset is called, and known by."""
        return f"Sweep of the {self.settings.system} system"

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values along each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def name(self) -> str:
        """The file name of the combined dataset: sweep-SYSTEM-HASH.nc, the hash over the identities of the points."""
        names = " ".join(point.path.stem for point in self.points)
        return f"sweep-{self.settings.system}-{hashlib.sha256(names.encode()).hexdigest()[:12]}.nc"


def length_unit(settings: Settings) -> str:
    """What the length of a run is counted in: epochs, or steps where there are none."""
    return "epochs" if settings.epoch_steps else "steps"


def sweep_design(
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
) -> SweepDesign:
    """The points of a sweep, all of them checked before any is computed. Raises SettingsError."""
    runs = check_integer("runs", runs, 1, 10_000_000)
    seed = check_integer("seed", seed, 0, 2**62)
    check_choice("record", record, ("all", "metrics"))
    unit, other = ("epochs", "steps") if settings.epoch_steps else ("steps", "epochs")
    length, wrong = (epochs, steps) if settings.epoch_steps else (steps, epochs)
    if wrong is not None:
        raise SettingsError(other, wrong, f"{unit}, in which {settings.system} counts")
    place = _folder(folder)
    checked = _axes(settings, axes)
    points = []
    for values in itertools.product(*checked.values()):
        each = dataclasses.replace(settings, **dict(zip(checked, values, strict=True)))
        one = max(1, each.epoch_steps)
        far = each.default_steps if length is None else one * check_integer(unit, length, 0, 2**53 // one)
        often = each.default_every if every is None else one * check_integer("every", every, 1, 2**53 // one)
        system = create_system(each, device)
        where = place / run_path(system.settings, runs, seed, often, record, device).name
        what = run_identity(system, runs, seed, often, record)
        held = {name: getattr(each, name) for name in checked}
        points.append(SweepPoint(held, system.settings, far, often, where, what))
    return SweepDesign(settings, _different(points, checked), points, runs, seed, record)


def _folder(folder: str | Path) -> Path:
    """The folder of the runs, if it can be one."""
    place = Path(folder)
    if not str(folder) or "\0" in str(folder) or (place.exists() and not place.is_dir()):
        raise SettingsError("folder", folder or "no name", "the name of a folder")
    return place


def _axes(settings: Settings, axes: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The axes, if each is a setting with values that can be a coordinate, and there are not too many points."""
    known = {field.name for field in dataclasses.fields(settings)}
    for name, values in axes.items():
        if name not in known:
            raise SettingsError(name, values, f"a setting of {settings.system}")
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
            raise SettingsError(name, values, "a list of values")
        if not len(values):
            raise SettingsError(name, "no value", "one or more values")
        for value in values:
            if not isinstance(value, bool | int | float | str | np.bool_ | np.integer | np.floating):
                raise SettingsError(name, value, "a number or a word; others cannot be swept")
    points = math.prod(len(values) for values in axes.values())
    if points > MAX_POINTS:
        raise SettingsError(", ".join(axes), f"{points} points", f"at most {MAX_POINTS}")
    return {name: list(values) for name, values in axes.items()}


def _different(points: list[SweepPoint], axes: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The axes' values as the settings hold them, such as 1.0 for 1, if none is there twice."""
    held = {name: list(dict.fromkeys(point.values[name] for point in points)) for name in axes}
    for name, values in axes.items():
        if len(held[name]) < len(values):
            raise SettingsError(name, " ".join(map(str, values)), "different values")
    return held


# ------------------------------------------------------------------------------------------------ points


def open_finished_point(grid: SweepDesign, point: SweepPoint) -> xr.Dataset | None:
    """The finished run of a point, if it is there, as far as asked for."""
    try:
        return find_finished_run(point.path, point.what, point.steps)
    except SettingsError as error:
        if error.field != "steps":
            raise
        unit, one = length_unit(grid.settings), max(1, point.settings.epoch_steps)
        allowed = f"more than {point.path} has, one that is recorded there, or another --folder"
        raise SettingsError(unit, point.steps // one, allowed) from None


@contextlib.contextmanager
def errors_with_point(point: SweepPoint) -> Iterator[None]:
    """Errors carry a note that says at which point they arose."""
    try:
        yield
    except Exception as error:
        error.add_note(f"at the point {point.label}")
        raise


def simulate_point(point: SweepPoint, grid: SweepDesign, out: Path, progress: bool) -> None:
    """Run the ensemble of a point, or go on with it, into a file. Raises as `simulate` does."""
    simulate(
        point.settings,
        runs=grid.runs,
        seed=grid.seed,
        steps=point.steps,
        every=point.every,
        record=grid.record,
        device=point.what["device"],
        out=out,
        progress=progress,
    ).close()
