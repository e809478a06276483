"""The trajectories of a command line by short names, opened on first use and reopened
when their files change."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import xarray as xr

from analysis.explorer.catalogue import (
    RESULT_ANALYSES,
    RunEntry,
    first_run_to_show,
    run_catalogue,
    stored_result_path,
)
from analysis.explorer.screen import Screen
from analysis.explorer.timebar import time_bar
from analysis.explorer.view_settings import default_panel_names
from analysis.panels.run_scene import build_scene
from dynamics.errors import TrajectoryError
from dynamics.trajectory.parts import closed_parts
from dynamics.trajectory.reader import open_trajectory

_Stamp = tuple[tuple[str, int, int], ...]


class OpenTrajectory(NamedTuple):
    """A trajectory and the catalogue of its runs."""

    trajectory: xr.Dataset
    entries: list[RunEntry]


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
        now = _file_stamp(self.paths[name])
        if name not in self._opened or self._opened[name][0] != now:
            trajectory = open_trajectory(self.paths[name], thoroughly=self.verify)
            self._opened[name] = (
                now,
                OpenTrajectory(trajectory, run_catalogue(trajectory, self.paths[name])),
            )
        return self._opened[name][1]

    def warm(self) -> None:
        """Read the first file and draw its first view, so that the first visitor does
        not wait for imports.

        Errors are ignored here; the page shows them."""
        for name in list(self.paths)[:1]:
            try:
                trajectory, entries = self.opened(name)
                first = build_scene(trajectory, first_run_to_show(entries))
            except (TrajectoryError, OSError):
                return
            Screen(
                [first],
                default_panel_names([panel.name for panel in first.panels]),
                time_bar(),
                None,
            )


def _file_stamp(path: Path) -> _Stamp:
    """Names, times and sizes of a trajectory's files and results, which change when one
    of them is written."""
    parts = [] if path.is_file() else [part.path for part in closed_parts(path)]
    files = [
        path,
        *parts,
        *(stored_result_path(path, analysis) for analysis in RESULT_ANALYSES),
    ]
    return tuple((file.name, *_modification(file)) for file in files)


def _modification(path: Path) -> tuple[int, int]:
    """Modification time and size of a file; zeros if it does not exist."""
    try:
        stat = path.stat()
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_size
