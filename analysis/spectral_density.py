"""The spectral density of the Hessian or of the Gauss-Newton matrix along training.

python -m analysis.spectral_density RUN.nc
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import dynamics
from analysis import loss_geometry, plots
from analysis.command_line.record import (
    Analysis,
    MeasuredTrajectory,
    ModelOptions,
    Report,
)
from analysis.output.tables import Column
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """Compute the density of the eigenvalues of the training loss at frames along a run,
    by Lanczos quadrature, or from the whole matrix of a model with up to 2,000
    parameters; and the saddle index. Ctrl-C writes the frames that are measured."""

    selection: Selection = Selection(frames=5)
    matrix: Literal["hessian", "gauss_newton"] = "hessian"
    """Hessian, or Gauss-Newton matrix of a network of this package."""
    steps: int = 80
    """Number of steps of the Lanczos method."""
    probes: int = 4
    """Number of random vectors."""


COLUMNS = [
    Column("step", "step"),
    Column("seed", "seed"),
    Column("largest", "largest", digits=4),
    Column("lowest", "lowest", digits=4),
    Column("trace", "trace", digits=3),
    Column("saddle index", "saddle_index", digits=1),
    Column("null fraction", "null_fraction", digits=2),
]


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    functions: dynamics.ModelFile | None,
    matrix: Literal["hessian", "gauss_newton"],
    steps: int,
    probes: int,
) -> xr.Dataset:
    return loss_geometry.spectral_density(
        selection.select_runs(trajectory),
        selection.frame_indices(trajectory).tolist(),
        matrix,
        steps,
        probes,
        functions=functions,
    )


def spectral_density_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    how = "all eigenvalues" if result.attrs["whole"] else "Lanczos quadrature"
    return Report(
        result.drop_dims("point").to_dataframe().reset_index(),
        COLUMNS,
        f"\n{result.attrs['parameters']} parameters, {how}. Saddle index: number of"
        " eigenvalues below -0.0001 of the\nlargest magnitude; null: within it.",
        figure=lambda: plots.plot_spectral_density(result),
    )


ANALYSIS = Analysis(
    name="spectral_density",
    title="Spectral density of the loss",
    measure=measure,
    report=spectral_density_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
