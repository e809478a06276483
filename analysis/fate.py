"""When the fate of a run is decided: the committor along runs, by copies of their
states.

python -m analysis.fate RUN.nc --outcome circle
python -m analysis.fate RUN.nc --frames 20 --copies 200 --displace 0.01 0.05 0.2
python -m analysis.fate RUN.nc --direction growing --set fa=0.5
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

import analysis
from analysis import committors, plots
from analysis.command_line.record import (
    Analysis,
    AnalysisOptions,
    MeasuredTrajectory,
    Report,
)
from dynamics.settings import SettingsError
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(AnalysisOptions):
    """Continue copies of the exact states along runs, each slightly displaced, and
    count how many end with an outcome: the committor. It says when the end of a run is
    decided, how sharply and how firmly. Ctrl-C writes the states that are measured.

    Steps are selected by --at, --frames and --every; the default are 10 even steps."""

    outcome: str = "circle"
    """How copies end: circle, grid (without imperfections), clusters, accuracy, escape
    (a loss below --level), or FILE.py:FUNCTION, a function of a trajectory that returns
    (run,) bool."""
    level: float | None = None
    """Accuracy above which, loss below which, or number of clusters with which a run
    has the outcome. Default: 0.98 for the accuracy."""
    copies: int = 100
    """Number of copies of each state and displacement."""
    displace: tuple[float, ...] = (0.01,)
    """Sizes of the displacements, relative to the spread of each variable of the
    state."""
    reshuffle: bool = False
    """Give the copies mini-batches of their own; --displace 0 is then allowed."""
    direction: Literal["all", "growing"] = "all"
    """Displace the copies in all directions, or along the mode that grows fastest in
    their state: the eigenvector of largest growth rate, of the Jacobian of the
    particles' normalised motion, or of the Hessian of the training loss of CA's or VC's
    network. Its displacements have the same mean length. States in which no mode grows
    are left out."""
    changes: Annotated[
        tuple[str, ...] | None,
        tyro.conf.arg(name="set", metavar="[NAME=VALUE [NAME=VALUE ...]]"),
    ] = None
    """Settings that the copies have instead of those of the run, such as fa=0.5."""
    modes: bool = True
    """Count the growing modes of the measured states of particles: 0.02 s a state for N
    = 17, some seconds for 59."""
    bisections: int = 0
    """Number of further steps of each run, towards the one at which half of the copies
    end as the run does."""
    until: int | None = None
    """Step at which the outcome is read. Default: the last one."""
    scheduler: str | None = None
    """Address of a dask scheduler on whose workers to compute, as tcp://127.0.0.1:8786.
    They read the trajectory's file."""


STEPS = 10
"""Default number of steps."""


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    outcome: str,
    level: float | None,
    copies: int,
    displace: tuple[float, ...],
    reshuffle: bool,
    direction: Literal["all", "growing"],
    changes: tuple[str, ...] | None,
    modes: bool,
    bisections: int,
    until: int | None,
    scheduler: str | None,
    progress: Callable[[str], None],
) -> xr.Dataset:
    steps: int | list[int] = STEPS
    if selection.selects_frames:
        frames = selection.frame_indices(trajectory)
        end = trajectory["step"].values[-1] if until is None else until
        selected = trajectory["step"].values[frames]
        steps = selected[selected < end].tolist()
    if changes == ():
        raise SettingsError("set", "no value", "NAME=VALUE, such as fa=0.5")
    runs = selection.select_runs(trajectory)
    result = analysis.committor(
        runs,
        outcome,
        steps,
        copies,
        displace,
        level=level,
        bisections=bisections,
        reshuffle=reshuffle,
        until=until,
        direction=None if direction == "all" else direction,
        scheduler=scheduler,
        log=progress,
        **committors.changed_settings(runs, changes or ()),
    )
    if modes and not result.attrs["frames_left"]:
        result = committors.count_growing_modes(runs, result)
    return committors.add_events(runs, result)


def fate_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    return Report(
        committors.committor_table(result),
        committors.COMMITTOR_COLUMNS,
        committors.committor_legend(result),
        summary=committors.describe_committors(result)
        + committors.describe_events(result),
        figure=lambda: plots.plot_committors(measured.trajectory, result),
    )


ANALYSIS = Analysis(
    name="fate",
    title="Committors along runs",
    measure=measure,
    report=fate_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
