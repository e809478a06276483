"""The noise of gradients along training.

python -m analysis.noise RUN.nc
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
    """Measure how the gradients of single examples differ at frames along a run: the
    noise scale, the rank of their covariance, and how it lies to the leading
    eigenvectors of the Hessian. Ctrl-C writes the frames that are measured."""

    selection: Selection = Selection(frames=10)
    examples: int = 1024
    """Largest number of examples."""
    modes: int = 5
    """Number of leading eigenvectors of the covariance and of the Hessian."""


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
    functions: dynamics.ModelFile | None,
    examples: int,
    modes: int,
    progress: Callable[[str], None],
) -> xr.Dataset:
    return loss_geometry.gradient_noise(
        selection.select_runs(trajectory),
        selection.frame_indices(trajectory).tolist(),
        examples,
        modes,
        functions,
        progress,
    )


def noise_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    return Report(
        loss_geometry.median_table(result, HEADINGS),
        loss_geometry.median_columns(HEADINGS),
        LEGEND.format(modes=result.attrs["modes"]),
        figure=lambda: plots.plot_gradient_noise(result),
    )


ANALYSIS = Analysis(
    name="noise",
    title="Noise of the gradients",
    measure=measure,
    report=noise_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
