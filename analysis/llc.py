"""The local learning coefficient along training.

python -m analysis.llc RUN.nc
python -m analysis.llc RUN.nc --calibrate
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
from dynamics.settings import SettingsError
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """Estimate the local learning coefficient of the training loss at frames along a
    run: how degenerate the loss is around the weights. Chains of Langevin dynamics
    sample around each frame. Ctrl-C writes the frames that are measured."""

    selection: Selection = Selection(frames=10)
    chains: int = 8
    """Number of chains at each frame."""
    draws: int = 400
    """Number of steps of a chain that are averaged over."""
    burn_in: int = 200
    """Number of steps before them."""
    step_size: float | None = None
    """Step size of the chains. Default: at each frame one that suits the largest
    eigenvalue of the Hessian."""
    localisation: float = 100.0
    """Strength of the attraction to the frame's weights."""
    temperature: float | None = None
    """Inverse temperature, the factor of the mean loss. Default: n / log n for n
    training examples."""
    batch: int = 0
    """Number of examples of a step. 0: all."""
    chain_seed: int = 0
    """Seed of the random numbers of the chains."""
    layers: tuple[str, ...] = ()
    """Patterns of the names of weights that move, such as "*weight". Default: all."""
    precision: Literal["float32", "float64"] = "float32"
    """Type in which the chains are computed."""
    calibrate: bool = False
    """Measure only the first selected run at the last selected frame, for several step
    sizes and localisations."""


STEP_SIZES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
LOCALISATIONS = (1.0, 10.0, 100.0, 1000.0)
"""Values of `--calibrate`."""


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    functions: dynamics.ModelFile | None,
    chains: int,
    draws: int,
    burn_in: int,
    step_size: float | None,
    localisation: float,
    temperature: float | None,
    batch: int,
    chain_seed: int,
    layers: tuple[str, ...],
    precision: Literal["float32", "float64"],
    calibrate: bool,
    progress: Callable[[str], None],
) -> xr.Dataset:
    import torch

    options = loss_geometry.ChainOptions(
        chains,
        draws,
        burn_in,
        step_size,
        localisation,
        temperature,
        batch,
        chain_seed,
    )
    frames = selection.frame_indices(trajectory).tolist()
    selected = selection.select_runs(trajectory)
    dtype = getattr(torch, precision)
    if not calibrate:
        return loss_geometry.learning_coefficients(
            selected,
            frames,
            options,
            functions,
            layers,
            dtype,
            progress,
        )
    if step_size is not None:
        allowed = "no value with --calibrate, which tries several"
        raise SettingsError("step_size", step_size, allowed)
    return loss_geometry.calibrate_chains(
        selected,
        frames[-1],
        STEP_SIZES,
        LOCALISATIONS,
        options,
        functions,
        layers,
        dtype,
    )


def llc_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    if measured.options.calibrate:
        return Report(
            loss_geometry.calibration_table(result),
            loss_geometry.CALIBRATION_COLUMNS,
            figure=lambda: plots.plot_calibration(result),
        )
    return Report(
        loss_geometry.coefficient_table(result),
        loss_geometry.coefficient_columns(result),
        "\n" + loss_geometry.describe_chains(result),
        figure=lambda: plots.plot_learning_coefficients(result),
    )


ANALYSIS = Analysis(
    name="llc",
    title="Local learning coefficients",
    measure=measure,
    report=llc_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
