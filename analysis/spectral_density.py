"""The spectral density of the Hessian or of the Gauss-Newton matrix along training.

python -m analysis.spectral_density RUN.nc
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from analysis import loss_geometry, plots
from analysis.command_line.analysis import ModelAnalysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class SpectralDensity(ModelAnalysis):
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

    title = "Spectral density of the loss"
    columns = (
        Column("step", "step"),
        Column("seed", "seed"),
        Column("largest", "largest", digits=4),
        Column("lowest", "lowest", digits=4),
        Column("trace", "trace", digits=3),
        Column("saddle index", "saddle_index", digits=1),
        Column("null fraction", "null_fraction", digits=2),
    )

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        return loss_geometry.spectral_density(
            self.selection.select_runs(trajectory),
            self.selection.frame_indices(trajectory).tolist(),
            self.matrix,
            self.steps,
            self.probes,
            functions=self.model_functions(trajectory),
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return result.drop_dims("point").to_dataframe().reset_index()

    def text_below(self, result: xr.Dataset) -> str:
        how = "all eigenvalues" if result.attrs["whole"] else "Lanczos quadrature"
        return (
            f"\n{result.attrs['parameters']} parameters, {how}. Saddle index: number of"
            " eigenvalues below -0.0001 of the\nlargest magnitude; null: within it."
        )

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.SPECTRAL_DENSITY

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_spectral_density(result)


if __name__ == "__main__":
    SpectralDensity.main()
