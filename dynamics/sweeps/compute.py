"""Computing the missing trajectories of a sweep, in this process or on a cluster, with
a progress bar."""

import contextlib
import signal
from collections.abc import Callable, Generator, Sequence

from dynamics.errors import FileBeingWritten, Interrupted
from dynamics.folders import existing_folder
from dynamics.progress import progress_bar
from dynamics.sweeps.dask_backend import Scheduler, Task, compute_on_cluster
from dynamics.sweeps.design import errors_with_point


class SweepInterrupted(Interrupted):
    """A sweep was stopped by SIGINT or SIGTERM; finished points are on disk, and the
    same call continues from there."""

    def __init__(self, signum: int, done: int, points: int) -> None:
        super().__init__(signum, None, done, points)
        self.args = (f"interrupted: {done} of {points} points are done",)
        self.resumable = True


def compute_tasks(
    missing: Sequence[Task],
    files: int,
    scheduler: Scheduler | None,
    progress: bool,
    work: Callable[[Task], float] = lambda task: 1.0,
    among_others: bool = False,
) -> int:
    """Compute the missing trajectories of the `files` of a sweep; return their number.
    Raises SweepInterrupted, SettingsError for a read-only folder, and the errors of the
    tasks.

    among_others: leave out those that another process is writing."""
    if missing:
        existing_folder(missing[0].path, "folder")
    found = files - len(missing)
    done = found
    per_work = len(missing) / sum(map(work, missing)) if missing else 1.0
    bar_format = (
        "{percentage:3.0f}%|{bar}| {n:.1f}/{total} points"
        " [{elapsed}<{remaining}{postfix}]"
    )
    with progress_bar(
        total=files, initial=done, bar_format=bar_format, quiet=not progress, leave=True
    ) as bar:
        if scheduler is None:
            computed = _compute_here(missing, progress, among_others)
        else:
            computed = compute_on_cluster(
                sorted(missing, key=work, reverse=True), scheduler, bar
            )
        try:
            with contextlib.closing(computed):
                for point in computed:
                    done += 1
                    bar.update(per_work * work(point))
        except KeyboardInterrupt as stop:  # Interrupted, or between two points
            raise SweepInterrupted(
                getattr(stop, "signum", signal.SIGINT), done, files
            ) from None
    return done - found


def _compute_here(
    tasks: Sequence[Task], progress: bool, among_others: bool
) -> Generator[Task, None, None]:
    """Compute the tasks in this process; yield each when it is finished."""
    for task in tasks:
        try:
            with errors_with_point(task):
                task.compute(task.path, progress)
        except FileBeingWritten:
            if not among_others:
                raise
        else:
            yield task
