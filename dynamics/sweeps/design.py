"""The design of a sweep: all combinations of some values of settings, and an ensemble
with its own file for each."""

import contextlib
import dataclasses
import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import xarray as xr

from dynamics.ensemble import RUNS_FOLDER, Ensemble
from dynamics.errors import TrajectoryError
from dynamics.named_conditions import FrameTest
from dynamics.observers import Observer
from dynamics.settings import (
    RecordMode,
    Settings,
    SettingsError,
    changed_settings,
    check_choice,
    check_integer,
)
from dynamics.trajectory.description import check_same_run
from dynamics.trajectory.reader import checkpoints, open_trajectory
from dynamics.trajectory.recorder import find_finished_run, reaches, remove_merged_parts

MAX_POINTS = 100_000
"""Largest number of points of a sweep."""


class HasLabel(Protocol):
    """What is named in errors by its `label`."""

    @property
    def label(self) -> str:
        """Its settings as text."""


class SweepPart(NamedTuple):
    """A part of the files of a sweep, that one of several processes computes: every
    `parts`-th from the `number`-th on.

    Which files these are does not depend on what has been computed, so the parts of
    processes that start at any time are all of the sweep. The order is that of the names,
    which are hashes: expensive points are spread over the parts."""

    number: int
    parts: int

    def of(self, files: Iterable[Path]) -> set[Path]:
        """The files of this part."""
        return set(sorted(set(files))[self.number - 1 :: self.parts])


def parse_part(text: str) -> SweepPart:
    """The part that a text such as 3/10 names. Raises SettingsError."""
    words = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text))
    if words is None or not 1 <= int(words[1]) <= int(words[2]):
        allowed = "NUMBER/PARTS, as 3/10, with a number from 1 to that of the parts"
        raise SettingsError("part", text or "no part", allowed)
    return SweepPart(int(words[1]), int(words[2]))


class SweepPoint(NamedTuple):
    """A point of a sweep: one ensemble."""

    values: dict[str, Any]
    """Values of the swept settings."""
    ensemble: Ensemble
    """With the device and the backend that compute it."""
    path: Path
    """Trajectory of the ensemble."""
    identity: dict[str, Any]
    """The identity of the ensemble."""

    @property
    def settings(self) -> Settings:
        """The settings of the ensemble."""
        return self.ensemble.settings

    @property
    def steps(self) -> int:
        """The number of steps of the ensemble."""
        return self.ensemble.schedule.steps

    @property
    def label(self) -> str:
        """The swept settings as text, such as "fa=2.0, n=7"."""
        return (
            ", ".join(f"{name}={value}" for name, value in self.values.items())
            or self.path.stem
        )

    def open_finished(self) -> xr.Dataset | None:
        """The finished trajectory up to the last step, None if missing or shorter.
        Raises SettingsError."""
        try:
            return find_finished_run(self.path, self.identity, self.steps)
        except SettingsError as error:
            if error.field != "steps":
                raise
            allowed = (
                f"a length recorded in {self.path}, a larger one, or another --folder"
            )
            raise SettingsError("steps", error.found, allowed) from None

    def is_finished(self) -> bool:
        """Whether another process has finished the trajectory."""
        finished = find_finished_run(self.path, self.identity, self.steps)
        if finished is not None:
            finished.close()
        return finished is not None

    def compute(self, out: Path, progress: bool = False) -> None:
        """Simulate the ensemble into the file `out`."""
        self.ensemble.simulate(out, progress=progress).close()

    def check_file(self, file: Path) -> None:
        """Raise TrajectoryError, SettingsError unless a file that was computed
        elsewhere contains the finished run."""
        with open_trajectory(file) as trajectory, checkpoints(file):
            check_same_run(file, trajectory.attrs, self.identity)
            reached = int(trajectory["step"][-1])
            is_whole = reaches(trajectory, self.steps)
        if not is_whole:
            raise TrajectoryError(f"found {reached} of {self.steps} steps")

    def remove_parts(self) -> None:
        """Remove the parts that the finished trajectory contains."""
        remove_merged_parts(self.path, self.steps, self.identity)


@dataclasses.dataclass(frozen=True)
class SweepDesign:
    """The settings and points of a sweep, all checked. Created by `sweep_design`."""

    settings: Settings
    axes: dict[str, list[Any]]
    """Values of each swept setting."""
    points: list[SweepPoint]
    """All points; the last axis varies fastest."""
    runs: int
    seed: int
    record: RecordMode

    @property
    def title(self) -> str:
        """Title of the combined dataset."""
        return f"Sweep of the {self.settings.system} system"

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values along each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def name(self) -> str:
        """File name of the combined dataset: sweep-SYSTEM-HASH.nc, with a hash over the
        identities of the points."""
        names = " ".join(point.path.stem for point in self.points)
        return f"sweep-{self.settings.system}-{hashlib.sha256(names.encode()).hexdigest()[:12]}.nc"


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
    backend: str = "auto",
    observe: Mapping[str, Observer] | None = None,
    until: str | FrameTest | None = None,
) -> SweepDesign:
    """Return the design of a sweep; all of its points are checked before any is
    computed.

    Parameters
    ----------
    settings, axes, runs, seed, steps, epochs, every, record, device, folder, backend,
    observe, until
        As for `sweep`.

    Returns
    -------
    SweepDesign

    Raises
    ------
    SettingsError
        If a setting or a value is not allowed, or there are too many points.

    Examples
    --------
    >>> from dynamics import ParticleSettings
    >>> design = sweep_design(ParticleSettings(n=5), {"fa": [1.0, 2.0], "ga": [0.5, 1.0, 2.0]})
    >>> design.shape
    (2, 3)
    >>> design.points[1].label
    'fa=1.0, ga=1.0'
    """
    runs = check_integer("runs", runs, 1, 10_000_000)
    seed = check_integer("seed", seed, 0, 2**62)
    check_choice("record", record, ("all", "metrics"))
    unit, other = ("epochs", "steps") if settings.epoch_steps else ("steps", "epochs")
    length, wrong = (epochs, steps) if settings.epoch_steps else (steps, epochs)
    if wrong is not None:
        raise SettingsError(other, wrong, f"{unit}, the unit of {settings.system}")
    path = Path(folder)
    if not str(folder) or "\0" in str(folder) or (path.exists() and not path.is_dir()):
        raise SettingsError("folder", folder or "no name", "the name of a folder")
    _check_axes(settings, axes)
    points = []
    for values in itertools.product(*axes.values()):
        varied = changed_settings(settings, dict(zip(axes, values, strict=True)))
        one = max(1, varied.epoch_steps)
        last = varied.default_steps
        if length is not None:
            last = one * check_integer(unit, length, 0, 2**53 // one)
        between = varied.default_every
        if every is not None:
            between = one * check_integer("every", every, 1, 2**53 // one)
        ensemble = Ensemble(
            varied, runs, seed, last, between, record, device, backend, until, observe
        ).resolved()
        swept = {name: getattr(varied, name) for name in axes}
        file = path / ensemble.path.name
        points.append(SweepPoint(swept, ensemble, file, ensemble.identity))
    return SweepDesign(
        settings, _distinct_values(points, axes), points, runs, seed, record
    )


def _check_axes(settings: Settings, axes: Mapping[str, Sequence[Any]]) -> None:
    """Check that the axes are settings whose values can be coordinates, and that there
    are not too many points."""
    names = {field.name for field in dataclasses.fields(settings)}
    for name, values in axes.items():
        if name not in names:
            raise SettingsError(name, values, f"a setting of {settings.system}")
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
            raise SettingsError(name, values, "a list of values")
        if not len(values):
            raise SettingsError(name, "no value", "one or more values")
        for value in values:
            if not isinstance(
                value, bool | int | float | str | np.bool_ | np.integer | np.floating
            ):
                raise SettingsError(
                    name, value, "a number or a string; other types cannot be swept"
                )
    points = math.prod(len(values) for values in axes.values())
    if points > MAX_POINTS:
        raise SettingsError(
            ", ".join(axes), f"{points} points", f"at most {MAX_POINTS}"
        )


def _distinct_values(
    points: list[SweepPoint], axes: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
    """Values of each axis as the settings store them, such as 1.0 for 1. Raises
    SettingsError if one occurs twice."""
    stored = {
        name: list(dict.fromkeys(point.values[name] for point in points))
        for name in axes
    }
    for name, values in axes.items():
        if len(stored[name]) < len(values):
            raise SettingsError(name, " ".join(map(str, values)), "different values")
    return stored


# ------------------------------------------------------------------------------- points


@contextlib.contextmanager
def errors_with_point(point: HasLabel) -> Iterator[None]:
    """Add a note to errors raised in a `with` block that names the point of the
    sweep."""
    try:
        yield
    except Exception as error:
        error.add_note(f"at the point {point.label}")
        raise
