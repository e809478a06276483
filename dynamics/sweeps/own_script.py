"""Sweeps of a training script of one's own: its function ``train(settings, seed, out)``
is called for every combination of settings and every seed.

The script is a Python file that defines

    @dataclasses.dataclass(frozen=True)
    class Settings: ...                     # the settings that can be swept, with default values
    def train(settings, seed, out): ...     # records a training into the file `out` by dynamics.record

The names of the files contain a hash of the settings and of the script's text, so a
changed script is trained again."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from dynamics.ensemble import RUNS_FOLDER
from dynamics.errors import TrajectoryError, UnrestoredRecording
from dynamics.folders import expand_home
from dynamics.settings import SettingsError, check_integer
from dynamics.sweeps.compute import compute_tasks
from dynamics.sweeps.dask_backend import Scheduler, check_scheduler
from dynamics.sweeps.design import MAX_POINTS, parse_part
from dynamics.sweeps.summaries import combine_summaries, summarise_trajectory
from dynamics.trajectory.reader import open_trajectory, parts_folder
from dynamics.user_code import read_source, reported_errors, run_source

SCRIPT_FILE = (
    "a Python file that defines a dataclass Settings and train(settings, seed, out)"
)
"""What a sweep of one's own script is given, as words of an error message."""


class Script(NamedTuple):
    """A training script."""

    path: Path
    source: str
    settings: type
    """The dataclass of its settings."""
    train: Callable[[Any, int, Path], object]


class ScriptRun(NamedTuple):
    """A training of a script, with one seed."""

    script: Path
    source: str
    values: dict[str, Any]
    """All settings."""
    seed: int
    path: Path
    """Its trajectory."""

    @property
    def label(self) -> str:
        """The settings and the seed as text."""
        values = {**self.values, "seed": self.seed}
        return ", ".join(f"{name}={value}" for name, value in values.items())

    def is_finished(self) -> bool:
        """Whether the trajectory is complete. Raises TrajectoryError for a damaged
        file."""
        if not self.path.exists():
            return False
        open_trajectory(self.path).close()
        return True

    def compute(self, out: Path, progress: bool = False) -> None:
        """Train, and record into `out`. An interrupted training starts again, unless
        the script restores it. Raises SettingsError, RecordingError."""
        script = load_script(self.script, self.source)
        out.parent.mkdir(parents=True, exist_ok=True)
        settings = script.settings(**self.values)
        with reported_errors(self.script, "train()", "script", "a training that ends"):
            try:
                script.train(settings, self.seed, out)
            except UnrestoredRecording:
                shutil.rmtree(parts_folder(out), ignore_errors=True)
                script.train(settings, self.seed, out)
        if not out.exists():
            raise SettingsError(
                "script",
                f"{self.script}: train() that wrote no file {out.name}",
                "dynamics.record(model, optimizer, out) in a with statement",
            )

    def check_file(self, file: Path) -> None:
        """Raise TrajectoryError unless a file that was computed elsewhere is
        complete."""
        open_trajectory(file).close()

    def remove_parts(self) -> None:
        """Remove what an interrupted training has left."""
        shutil.rmtree(parts_folder(self.path), ignore_errors=True)


class ScriptPoint(NamedTuple):
    """A point of a sweep: the trainings with the same settings."""

    values: dict[str, Any]
    """Values of the swept settings."""
    runs: list[ScriptRun]

    @property
    def pattern(self) -> str:
        """Pattern of the names of its files."""
        return self.runs[0].path.name.rsplit("-", 1)[0] + "-*.nc"


@dataclasses.dataclass(frozen=True)
class ScriptDesign:
    """The settings and trainings of a sweep. Created by `script_design`."""

    script: Script
    axes: dict[str, list[Any]]
    """Values of each swept setting."""
    points: list[ScriptPoint]
    """All points; the last axis varies fastest."""
    seeds: range
    folder: Path

    @property
    def title(self) -> str:
        """Title of the combined dataset."""
        return f"Sweep of the script {self.script.path.name}"

    @property
    def name(self) -> str:
        """File name of the combined dataset."""
        names = " ".join(run.path.stem for run in self.runs)
        digest = hashlib.sha256(names.encode()).hexdigest()[:12]
        return f"sweep-{self.script.path.stem}-{digest}.nc"

    @property
    def runs(self) -> list[ScriptRun]:
        """All trainings."""
        return [run for point in self.points for run in point.runs]


def load_script(path: str | Path, source: str | None = None) -> Script:
    """Run a training script, which defines `Settings` and `train`.

    Parameters
    ----------
    path : str or Path
    source : str, optional
        Its text. By default that of the file.

    Returns
    -------
    Script

    Raises
    ------
    SettingsError
        If the file is missing, raises an error, or lacks one of both.

    Examples
    --------
    >>> from pathlib import Path
    >>> text = "import dataclasses" + chr(10) + "@dataclasses.dataclass" + chr(10)
    >>> text += "class Settings: lr: float = 0.1" + chr(10) + "def train(settings, seed, out): ..."
    >>> _ = Path("my_training.py").write_text(text)
    >>> load_script("my_training.py").settings().lr
    0.1
    """
    path = expand_home(path)
    if source is None:
        source = read_source(path, "script", SCRIPT_FILE)
    module = run_source(path, source, "script", SCRIPT_FILE)
    settings, train = (getattr(module, name, None) for name in ("Settings", "train"))
    if not (isinstance(settings, type) and dataclasses.is_dataclass(settings)):
        raise SettingsError(
            "script", f"{path} without a dataclass Settings", SCRIPT_FILE
        )
    if not callable(train):
        raise SettingsError("script", f"{path} without a function train", SCRIPT_FILE)
    with reported_errors(path, "Settings()", "script", SCRIPT_FILE):
        settings()
    return Script(path, source, settings, train)


def script_design(
    script: Script,
    settings: Any,
    axes: Mapping[str, Sequence[Any]],
    runs: int = 3,
    seed: int = 0,
    folder: str | Path = RUNS_FOLDER,
) -> ScriptDesign:
    """The trainings of a sweep.

    Parameters
    ----------
    script : Script
        From `load_script`.
    settings : object
        An instance of the script's Settings: the settings that are not swept.
    axes : mapping of str to sequence
        Values of each swept setting.
    runs, seed : int
        Number of trainings of each combination, and seed of the first one.
    folder : path-like
        Folder of the trajectories.

    Returns
    -------
    ScriptDesign

    Raises
    ------
    SettingsError
        For other settings, equal values or too many points.

    Examples
    --------
    >>> from pathlib import Path
    >>> from dynamics import ParticleSettings
    >>> script = Script(Path("own.py"), "", ParticleSettings, lambda settings, seed, out: None)
    >>> design = script_design(script, ParticleSettings(), {"fa": [1.0, 2.0]}, runs=2)
    >>> [run.values["fa"] for run in design.runs]
    [1.0, 1.0, 2.0, 2.0]
    """
    runs = check_integer("runs", runs, 1, MAX_POINTS)
    seed = check_integer("seed", seed, 0, 2**62)
    names = [field.name for field in dataclasses.fields(settings)]
    for name, values in axes.items():
        if name not in names:
            raise SettingsError(name, values, f"one of {', '.join(names)}")
        if not len(values) or len(set(values)) < len(values):
            words = " ".join(map(str, values)) or "no value"
            raise SettingsError(name, words, "one or more different values")
    count = runs * math.prod(len(values) for values in axes.values())
    if count > MAX_POINTS:
        raise SettingsError(", ".join(axes), f"{count} runs", f"at most {MAX_POINTS}")
    folder = Path(folder)
    seeds = range(seed, seed + runs)
    points = []
    for values in itertools.product(*axes.values()):
        swept = dict(zip(axes, values, strict=True))
        with reported_errors(
            script.path,
            f"Settings with {swept}",
            "script",
            "values that Settings accepts",
        ):
            chosen = dataclasses.asdict(dataclasses.replace(settings, **swept))
        words = json.dumps(chosen, sort_keys=True, default=str) + script.source
        digest = hashlib.sha256(words.encode()).hexdigest()[:12]
        trainings = [
            ScriptRun(
                script.path,
                script.source,
                chosen,
                one,
                folder / f"{script.path.stem}-{digest}-{one}.nc",
            )
            for one in seeds
        ]
        points.append(ScriptPoint(swept, trainings))
    lists = {name: list(values) for name, values in axes.items()}
    return ScriptDesign(script, lists, points, seeds, folder)


def compute_missing_runs(
    design: ScriptDesign,
    scheduler: Scheduler | None = None,
    progress: bool = True,
    part: str | None = None,
) -> int:
    """Do the trainings without a finished file, in this process or on a dask cluster;
    return their number.

    part: such as "3/10", as for `compute_missing_points`. Raises SettingsError,
    RecordingError, MissingPackage, SweepInterrupted."""
    if scheduler is not None:
        check_scheduler(scheduler)
    files = {run.path for run in design.runs}
    if part is not None:
        files = parse_part(part).of(files)
    missing = [run for run in missing_runs(design) if run.path in files]
    return compute_tasks(
        missing, len(files), scheduler, progress, among_others=part is not None
    )


def missing_runs(design: ScriptDesign) -> list[ScriptRun]:
    """The trainings without a finished file. Raises TrajectoryError for a damaged
    file."""
    return [run for run in design.runs if not run.is_finished()]


def combine_runs(design: ScriptDesign) -> xr.Dataset:
    """Summarise all trainings of a sweep in one dataset, as `combine_points` does.

    Raises TrajectoryError if one is missing."""
    summaries = []
    for point in design.points:
        parts = []
        for run in point.runs:
            if not run.path.exists():
                raise TrajectoryError(f"{run.path}: does not exist or is not finished")
            with open_trajectory(run.path) as trajectory:
                part = summarise_trajectory(trajectory)
            parts.append(part.drop_vars("seed", errors="ignore"))
        summary = xr.concat(parts, "run", join="inner", combine_attrs="override")
        summary["steps"] = summary["last_step"].max()
        summary["file"] = xr.DataArray(point.pattern)
        summaries.append(summary)
    first = design.points[0].runs[0]
    with open_trajectory(first.path) as trajectory:
        origin = {
            name: trajectory.attrs[name]
            for name in ("Conventions", "system", "git_commit", "package_versions")
        }
    attrs = {
        "title": design.title,
        **origin,
        "script": design.script.path.name,
        "script_source": design.script.source,
        "settings": json.dumps(first.values, default=str),
        "swept": json.dumps(list(design.axes)),
        "record": "all",
    }
    return combine_summaries(summaries, design.axes, np.array(design.seeds), attrs)
