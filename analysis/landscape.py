"""The loss on planes and lines through the parameters of runs.

python -m analysis.landscape RUN.nc
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from analysis import loss_geometry, plots
from analysis.command_line.analysis import ModelAnalysis
from analysis.output.tables import Column
from analysis.panels import figure_panels

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Landscape(ModelAnalysis):
    """Compute the training loss on a plane through the parameters of the first of the
    selected runs, with the run projected on it; or on the lines between the last frames
    of all selected runs, before and after their hidden units are matched. Ctrl-C
    writes the rows of a plane that are computed."""

    plane: Literal["trajectory", "frames", "random", "lines"] = "trajectory"
    """Along the two leading principal components of the run's frames; through three
    frames (--at); along random directions scaled to the weights of the last frame; or
    lines between runs."""
    points: int = 31
    """Number of points along each direction."""
    seed: int = 0
    """Seed of the random directions."""

    title = "Loss on planes and lines"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        functions = self.model_functions(trajectory)
        frames = self.selection.frame_indices(trajectory).tolist()
        runs = self.selection.select_runs(trajectory)
        if self.plane == "lines":
            return loss_geometry.loss_barriers(
                runs, frames[-1], self.points, functions=functions
            )
        return loss_geometry.loss_landscape(
            runs,
            frames,
            self.plane,
            points=self.points,
            seed=self.seed,
            functions=functions,
            log=self.print_progress,
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        if "barrier" in result:
            barriers = result[["barrier", "matched_barrier"]].to_dataframe()
            return barriers.reset_index(drop=True)
        names = ["frame_u", "frame_v", "frame_loss", "projected_loss", "distance"]
        return result[names].to_dataframe().reset_index()

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        if "barrier" in result:
            return loss_geometry.BARRIER_COLUMNS
        return loss_geometry.PLANE_COLUMNS

    def text_below(self, result: xr.Dataset) -> str:
        if "barrier" in result:
            return loss_geometry.BARRIER_LEGEND
        return loss_geometry.PLANE_LEGEND

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.BARRIERS

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        if "barrier" in result:
            return plots.plot_barriers(result)
        return plots.plot_landscape(result)


if __name__ == "__main__":
    Landscape.main()
