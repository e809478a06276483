"""Copies of the states of a trajectory, computed on the workers of a dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from tqdm import tqdm

from dynamics.copies import branch_copies
from dynamics.settings import SettingsError
from dynamics.sweeps.dask_backend import compute_on_cluster
from dynamics.trajectory.reader import open_trajectory, run_indices

Starts = Mapping[int, Sequence[int]]
"""Steps by the index of the run."""


class Portion(NamedTuple):
    """Copies that are computed together."""

    starts: Starts
    options: Mapping[str, Any]
    """Options of `branch_copies`."""


@dataclass(frozen=True)
class CopiesTask:
    """Copies that a worker computes (`dynamics.sweeps.dask_backend.SweepTask`)."""

    source: Path
    """The trajectory."""
    seeds: np.ndarray
    """The seeds of its runs that have copies, (run,)."""
    starts: Starts
    """Steps at which copies begin, by the index of the run among these."""
    options: Mapping[str, Any]
    """Options of `branch_copies`."""
    path: Path

    @property
    def label(self) -> str:
        """The runs and steps as text."""
        return f"copies of run and steps {dict(self.starts)}"

    def is_finished(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    def compute(self, out: Path, progress: bool = False) -> None:
        """Compute the copies into the file `out`."""
        with open_trajectory(self.source) as trajectory:
            runs = trajectory.isel(run=run_indices(trajectory, self.seeds))
            branch_copies(runs, self.starts, out=out, **self.options).close()

    def check_file(self, file: Path) -> None:
        """Raise TrajectoryError unless a file is complete."""
        open_trajectory(file).close()

    def remove_parts(self) -> None:
        """There are no parts."""


def copies_on_cluster(
    trajectory: xr.Dataset,
    portions: Sequence[Portion],
    scheduler: str,
    bar: tqdm,
) -> Iterator[xr.Dataset]:
    """The copies of each portion of states, in the order in which the workers finish
    them.

    Raises SettingsError if the trajectory has no file, and the errors of
    `compute_on_cluster`."""
    source = trajectory.encoding.get("source")
    if source is None:
        allowed = "no value: workers can only read a trajectory in a file"
        raise SettingsError("scheduler", scheduler, allowed)
    seeds = trajectory["seed"].values
    with TemporaryDirectory() as folder:
        tasks = [
            CopiesTask(
                Path(source).resolve(),
                seeds,
                *portion,
                Path(folder, f"{at}.nc"),
            )
            for at, portion in enumerate(portions)
        ]
        for task in compute_on_cluster(tasks, scheduler, bar):
            with open_trajectory(task.path) as ends:
                yield ends.load()
