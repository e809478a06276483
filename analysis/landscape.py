"""The loss on planes and lines through the parameters of runs.

python -m analysis.landscape RUN.nc
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import dynamics
from analysis import loss_geometry, plots
from analysis.command_line.record import (
    Analysis,
    MeasuredTrajectory,
    ModelOptions,
    Report,
)
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """Compute the training loss on a plane through the parameters of the first of the
    selected runs, with the run projected on it; or on the lines between the last frames
    of all selected runs, before and after their hidden units are matched. Ctrl-C
    writes the rows of a plane that are computed."""

    plane: Literal["trajectory", "frames", "random", "lines"] = "trajectory"
    """Along the two leading principal components of the run's frames; through three
    frames (--at); along random directions scaled to the weights of the last frame; or
    lines between runs."""
    points: int = 31
    """Number of points along each direction."""
    seed: int = 0
    """Seed of the random directions."""


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    functions: dynamics.ModelFile | None,
    plane: Literal["trajectory", "frames", "random", "lines"],
    points: int,
    seed: int,
    progress: Callable[[str], None],
) -> xr.Dataset:
    frames = selection.frame_indices(trajectory).tolist()
    runs = selection.select_runs(trajectory)
    if plane == "lines":
        return loss_geometry.loss_barriers(
            runs, frames[-1], points, functions=functions
        )
    return loss_geometry.loss_landscape(
        runs,
        frames,
        plane,
        points=points,
        seed=seed,
        functions=functions,
        log=progress,
    )


def landscape_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    if "barrier" in result:
        barriers = result[["barrier", "matched_barrier"]].to_dataframe()
        return Report(
            barriers.reset_index(drop=True),
            loss_geometry.BARRIER_COLUMNS,
            loss_geometry.BARRIER_LEGEND,
            figure=lambda: plots.plot_barriers(result),
        )
    names = ["frame_u", "frame_v", "frame_loss", "projected_loss", "distance"]
    return Report(
        result[names].to_dataframe().reset_index(),
        loss_geometry.PLANE_COLUMNS,
        loss_geometry.PLANE_LEGEND,
        figure=lambda: plots.plot_landscape(result),
    )


ANALYSIS = Analysis(
    name="landscape",
    title="Loss on planes and lines",
    measure=measure,
    report=landscape_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
