"""The trajectories of a command line by short names, opened on first use and reopened
when their files change."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import xarray as xr

from analysis.explorer.catalogue import (
    RESULT_ANALYSES,
    RunEntry,
    read_result,
    run_catalogue,
    stored_result_path,
)
from analysis.panels.committor_panel import add_committor
from analysis.panels.run_scene import build_scene
from analysis.panels.scene import Scene
from dynamics.trajectory.reader import open_trajectory, unfinished_files

_Stamp = tuple[tuple[str, int, int], ...]


class OpenTrajectory(NamedTuple):
    """A trajectory, the catalogue of its runs, and the committors beside it."""

    trajectory: xr.Dataset
    entries: list[RunEntry]
    committors: xr.Dataset | None

    def scene(self, run: int, axes: tuple[int, int] | None = None) -> Scene:
        """The scene of a run, with its committor if that was measured. Raises
        SettingsError, TrajectoryError."""
        scene = build_scene(self.trajectory, run, axes)
        if self.committors is None:
            return scene
        return add_committor(scene, self.committors, self.entries[run].seed)


class OpenFiles:
    """Trajectories by short names, shared between visitors.

    verify: compute the checksum of a file whenever it is opened. The server verifies
    its files once, before it starts; files that a running simulation has extended are
    reopened without another checksum."""

    def __init__(self, paths: Sequence[Path], verify: bool = False) -> None:
        self.verify = verify
        self.paths: dict[str, Path] = {}
        for path in map(Path, paths):
            name = path.stem if path.stem not in self.paths else str(path)
            self.paths.setdefault(name, path)
        self._opened: dict[str, tuple[_Stamp, OpenTrajectory]] = {}

    def opened(self, name: str) -> OpenTrajectory:
        """The current state of the trajectory on disk. Raises TrajectoryError."""
        path = self.paths[name]
        now = _file_stamp(path)
        if name not in self._opened or self._opened[name][0] != now:
            trajectory = open_trajectory(path, thoroughly=self.verify)
            entries = run_catalogue(trajectory, path)
            opened = OpenTrajectory(
                trajectory, entries, read_result(trajectory, path, "fate")
            )
            self._opened[name] = now, opened
        return self._opened[name][1]


def _file_stamp(path: Path) -> _Stamp:
    """Names, times and sizes of a trajectory's files and results, which change when one
    of them is written; zeros for a file that does not exist."""
    parts = [] if path.is_file() else unfinished_files(path)
    results = [stored_result_path(path, analysis) for analysis in RESULT_ANALYSES]
    stamps = []
    for file in (path, *parts, *results):
        try:
            stat = file.stat()
            stamps.append((file.name, stat.st_mtime_ns, stat.st_size))
        except OSError:
            stamps.append((file.name, 0, 0))
    return tuple(stamps)
