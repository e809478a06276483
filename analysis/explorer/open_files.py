"""The trajectories of a command line, by a short name: opened when they are first needed, and anew when they change."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import xarray as xr

from analysis.explorer.catalogue import RESULTS, Entry, catalogue, first_to_show, result_beside
from analysis.explorer.screen import Screen
from analysis.explorer.timebar import bar
from analysis.explorer.view_settings import first_panels
from analysis.plots.panels import scene
from dynamics.trajectory.netcdf import TrajectoryError
from dynamics.trajectory.reader import open_trajectory, parts_of

Stamp = tuple[tuple[str, int, int], ...]


class Opened(NamedTuple):
    """A trajectory with what is known of its runs."""

    trajectory: xr.Dataset
    entries: list[Entry]


class Files:
    """Trajectories by a short name, shared between visitors."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths: dict[str, Path] = {}
        for path in map(Path, paths):
            name = path.stem if path.stem not in self.paths else str(path)
            self.paths.setdefault(name, path)
        self._opened: dict[str, tuple[Stamp, Opened]] = {}

    def opened(self, name: str) -> Opened:
        """As it is on disk now. Raises TrajectoryError."""
        now = stamp(self.paths[name])
        if name not in self._opened or self._opened[name][0] != now:
            trajectory = open_trajectory(self.paths[name], thoroughly=False)
            self._opened[name] = now, Opened(trajectory, catalogue(trajectory, self.paths[name]))
        return self._opened[name][1]

    def warm(self) -> None:
        """Read the first, and draw of it what a page begins with, so that nobody waits for imports.

        Says nothing of errors, which the page will tell."""
        for name in list(self.paths)[:1]:
            try:
                trajectory, entries = self.opened(name)
                first = scene(trajectory, first_to_show(entries))
            except (TrajectoryError, OSError):
                return
            Screen([first], first_panels([panel.name for panel in first.panels]), bar(), None)


def stamp(path: Path) -> Stamp:
    """What tells whether a trajectory, or a result beside it, has been written since: names, times, sizes."""
    parts = [] if path.is_file() else [part.path for part in parts_of(path)]
    files = [path, *parts, *(result_beside(path, analysis) for analysis in RESULTS)]
    return tuple((file.name, *written(file)) for file in files)


def written(path: Path) -> tuple[int, int]:
    """When a file was last written, and its size; zeros where there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
