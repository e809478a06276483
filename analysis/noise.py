"""The noise of gradients along training.

python -m analysis.noise RUN.nc
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis import linearization, loss_geometry, plots
from analysis.command_line.analysis import ModelAnalysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


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


@dataclasses.dataclass(frozen=True)
class Noise(ModelAnalysis):
    """Measure how the gradients of single examples differ at frames along a run: the
    noise scale, the rank of their covariance, and how it lies to the leading
    eigenvectors of the Hessian. Ctrl-C writes the frames that are measured."""

    selection: Selection = Selection(frames=10)
    examples: int = 1024
    """Largest number of examples."""
    modes: int = 5
    """Number of leading eigenvectors of the covariance and of the Hessian."""

    title = "Noise of the gradients"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        return loss_geometry.gradient_noise(
            self.selection.select_runs(trajectory),
            self.selection.frame_indices(trajectory).tolist(),
            self.examples,
            self.modes,
            self.model_functions(trajectory),
            self.print_progress,
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return linearization.median_table(result, HEADINGS)

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        return linearization.median_columns(HEADINGS)

    def text_below(self, result: xr.Dataset) -> str:
        return LEGEND.format(modes=result.attrs["modes"])

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.NOISE

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_gradient_noise(result)


if __name__ == "__main__":
    Noise.main()
