"""The noise of gradients along training, and the edge of stability.

python -m analysis.noise RUN.nc
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import dynamics
from analysis import linearization, loss_geometry, plots
from analysis.command_line.record import Analysis, Measurement, ModelOptions, Report
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """Measure how the gradients of single examples differ at frames along a run: the
    noise scale, the rank of their covariance, and how it lies to the leading
    eigenvectors of the Hessian. Ctrl-C writes the frames that are measured.

    The default are 10 frames."""

    examples: int = 1024
    """Largest number of examples."""
    modes: int = 5
    """Number of leading eigenvectors of the covariance and of the Hessian."""


FRAMES = 10
"""Default number of frames."""


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    model: Path | None,
    trust_model: bool,
    examples: int,
    modes: int,
    log: TextIO,
) -> xr.Dataset:
    frames = linearization.frame_indices(
        trajectory, selection if selection.selects_frames else FRAMES
    )
    return loss_geometry.gradient_noise(
        selection.select_runs(trajectory),
        frames,
        examples,
        modes,
        dynamics.find_model(trajectory, model, trust_model),
        partial(print, file=log, flush=True),
    )


def report(measurement: Measurement) -> Report:
    result = measurement.result
    return Report(
        loss_geometry.noise_table(result),
        loss_geometry.NOISE_COLUMNS,
        loss_geometry.NOISE_LEGEND.format(modes=result.attrs["modes"]),
        figure=plots.plot_gradient_noise(result),
    )


ANALYSIS = Analysis(
    name="noise",
    title="Noise of the gradients",
    measure=measure,
    report=report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
