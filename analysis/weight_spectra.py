"""Singular values, ranks and motion of the weights along training.

python -m analysis.weight_spectra RUN.nc
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from analysis import loss_geometry, plots
from analysis.command_line.analysis import PRINTED_ROWS, Analysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class WeightSpectra(Analysis):
    """Compute the singular values of the weights of each layer at frames along a run,
    their effective rank, the distance from the start and the alignment of changes.
    Ctrl-C writes the frames that are measured."""

    selection: Selection = Selection(frames=50)
    values: int = 16
    """Largest number of singular values of a layer that the result has."""

    title = "Spectra of the weights"
    columns = (
        Column("step", "step"),
        Column("layer", "layer"),
        Column("effective rank", "effective_rank", digits=2),
        Column("stable rank", "stable_rank", digits=2),
        Column("norm", "norm", digits=3),
        Column("distance", "distance", digits=3),
        Column("alignment", "update_alignment", digits=2),
    )
    legend = """
Medians of the runs. Distance: from the first frame. Alignment: cosine of the
changes before and after."""

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        selected = self.selection.select_runs(trajectory)
        frames = self.selection.frame_indices(trajectory).tolist()
        return loss_geometry.weight_spectra(
            selected, frames, self.values, self.print_progress
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return result.drop_dims("value").median("run").to_dataframe().reset_index()

    def printed_rows(self, table: pd.DataFrame) -> slice:
        return slice(-PRINTED_ROWS, None)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.WEIGHT_SPECTRA

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_weight_spectra(result)


if __name__ == "__main__":
    WeightSpectra.main()
