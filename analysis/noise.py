"""The noise of gradients along training.

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

    By default 10 frames are measured."""

    examples: int = 1024
    """Largest number of examples."""
    modes: int = 5
    """Number of leading eigenvectors of the covariance and of the Hessian."""


FRAMES = 10
"""Default number of frames."""
HEADINGS = {
    "loss": "loss",
    "gradient_size": "gradient",
    "noise_trace": "trace of noise",
    "noise_scale": "noise scale",
    "noise_rank": "effective rank",
    "noise_along_hessian": "noise along Hessian",
    "gradient_along_hessian": "gradient along Hessian",
}
LEGEND = """
Medians of the runs, with 95% intervals of several. Noise scale: trace of the covariance
of the gradients of single examples over the squared norm of their mean; in mini-batches
of this size noise and gradient are equally large. Along Hessian: fraction in the space
of its {modes} leading eigenvectors."""


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
        loss_geometry.median_table(result, HEADINGS),
        loss_geometry.median_columns(HEADINGS),
        LEGEND.format(modes=result.attrs["modes"]),
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
