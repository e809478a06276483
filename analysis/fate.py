"""When the fate of a run is decided: the committor along runs, by copies of their
states.

python -m analysis.fate RUN.nc --outcome circle
python -m analysis.fate RUN.nc --frames 20 --copies 200 --displace 0.01 0.05 0.2
python -m analysis.fate RUN.nc --direction growing --set fa=0.5
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

import analysis
from analysis import committors, plots
from analysis.command_line.analysis import Analysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.settings import SettingsError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


STEPS = 10
"""Default number of steps."""


@dataclasses.dataclass(frozen=True)
class Fate(Analysis):
    """Continue copies of the exact states along runs, each slightly displaced, and
    count how many end with an outcome: the committor. It says when the end of a run is
    decided, how fast and how firmly. Ctrl-C writes the states that are measured.

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
    """Give the copies mini-batches of their own or, of particles with a temperature, noise
    of their own; --displace 0 is then allowed."""
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

    title = "Committors along runs"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        steps: int | list[int] = STEPS
        if self.selection.selects_frames:
            frames = self.selection.frame_indices(trajectory)
            recorded = trajectory["step"].values
            end = recorded[-1] if self.until is None else self.until
            selected = recorded[frames]
            late = selected[selected >= end].tolist()
            if late and self.selection.at:
                allowed = f"steps before {end}, at which the outcome is read"
                raise SettingsError("at", late, allowed)
            steps = selected[selected < end].tolist()
        if self.changes == ():
            raise SettingsError("set", "no value", "NAME=VALUE, such as fa=0.5")
        runs = self.selection.select_runs(trajectory)
        result = analysis.committor(
            runs,
            self.outcome,
            steps,
            self.copies,
            self.displace,
            level=self.level,
            bisections=self.bisections,
            reshuffle=self.reshuffle,
            until=self.until,
            direction=None if self.direction == "all" else self.direction,
            scheduler=self.scheduler,
            log=self.print_progress,
            **committors.changed_settings(runs, self.changes or ()),
        )
        if self.modes and not result.attrs["frames_left"]:
            result = committors.count_growing_modes(runs, result)
        return committors.add_events(runs, result)

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return committors.committor_table(result)

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        return committors.COMMITTOR_COLUMNS

    def text_below(self, result: xr.Dataset) -> str:
        return committors.committor_legend(result)

    def text_above(self, result: xr.Dataset, trajectory: xr.Dataset) -> str:
        text = committors.describe_committors(result)
        return text + committors.describe_events(result)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.FATE

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        runs = self.selection.select_runs(trajectory)
        return plots.plot_committors(runs, result)


if __name__ == "__main__":
    Fate.main()
