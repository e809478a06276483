"""The edge of stability: sharpness along a run over the limits of gradient descent and
of Adam.

python -m analysis.edge RUN.nc
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

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
    """Compare the largest eigenvalue of the Hessian of the training loss with 2 / lr,
    beyond which gradient descent is unstable, and after preconditioning by the second
    moments of Adam with the limit of Adam. Ctrl-C writes the frames that are measured."""

    selection: Selection = Selection(frames=20)


HEADINGS = {
    "loss": "loss",
    "sharpness": "sharpness",
    "relative_sharpness": "times lr/2",
    "preconditioned_sharpness": "preconditioned",
    "relative_preconditioned": "over Adam's limit",
}
LEGEND = """
Medians of the runs, with 95% intervals of several. Sharpness: largest eigenvalue of the
Hessian of the training loss. Gradient descent is unstable where its product with lr/2 is
above 1, Adam where the preconditioned eigenvalue is above its limit."""


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    functions: dynamics.ModelFile | None,
    progress: Callable[[str], None],
) -> xr.Dataset:
    return loss_geometry.edge_of_stability(
        selection.select_runs(trajectory),
        selection.frame_indices(trajectory).tolist(),
        functions,
        progress,
    )


def edge_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    return Report(
        loss_geometry.median_table(result, HEADINGS),
        loss_geometry.median_columns(HEADINGS),
        LEGEND,
        figure=lambda: plots.plot_edge(result),
    )


ANALYSIS = Analysis(
    name="edge",
    title="Edge of stability",
    measure=measure,
    report=edge_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
