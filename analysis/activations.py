"""Dimension and similarity of recorded activations along training.

python -m analysis.activations "seed*.nc"
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from analysis import plots, structures
from analysis.command_line.analysis import PRINTED_ROWS, Analysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Activations(Analysis):
    """Compare the recorded activations of a model between frames and between runs, and
    compute their participation ratio. Ctrl-C writes the frames that are
    measured."""

    selection: Selection = Selection(frames=50)

    title = "Activations on a probe"
    columns = (
        Column("step", "step"),
        Column("layer", "layer"),
        Column("participation ratio", "participation_ratio", digits=2),
        Column("CKA to last", "cka_to_last", digits=3),
        Column("CKA to before", "cka_step", digits=3),
        Column("Procrustes to last", "procrustes_to_last", digits=3),
        Column("CKA between runs", "cka_between_runs", digits=3),
    )
    legend = "\nMedians of the runs."

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        selected = self.selection.select_runs(trajectory)
        frames = self.selection.frame_indices(trajectory).tolist()
        return structures.representation_measures(selected, frames, self.print_progress)

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return result.median("run").to_dataframe().reset_index()

    def printed_rows(self, table: pd.DataFrame) -> slice:
        return slice(-PRINTED_ROWS, None)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.REPRESENTATIONS

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_representations(result)


if __name__ == "__main__":
    Activations.main()
