"""The edge of stability: sharpness along a run over the limits of gradient descent and
of Adam.

python -m analysis.edge RUN.nc
"""

from __future__ import annotations

import dataclasses
import textwrap
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
    "sharpness": "sharpness",
    "relative_sharpness": "",
    "preconditioned_sharpness": "preconditioned",
    "relative_preconditioned": "over its limit",
}
"""Headings of the table. The empty one is replaced by the formula of the limit."""
LEGEND = """
Medians of the runs, with 95% intervals of several. Sharpness: largest eigenvalue of the
Hessian of the training loss. An optimizer is unstable where it is above its limit, one
with second moments, such as Adam, where the eigenvalue of the preconditioned Hessian is
above the limit of this optimizer."""


@dataclasses.dataclass(frozen=True)
class Edge(ModelAnalysis):
    """Compare the largest eigenvalue of the Hessian of the training loss with the limit
    beyond which gradient descent is unstable, without momentum 2 / lr, and after preconditioning by the second
    moments of Adam with the limit of Adam. Ctrl-C writes the frames that are measured."""

    selection: Selection = Selection(frames=20)

    title = "Edge of stability"
    legend = LEGEND

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        return loss_geometry.edge_of_stability(
            self.selection.select_runs(trajectory),
            self.selection.frame_indices(trajectory).tolist(),
            self.model_functions(trajectory),
            self.print_progress,
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return linearization.median_table(result, HEADINGS)

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        heading = linearization.fraction_heading(result)
        return linearization.median_columns(
            {name: words or heading for name, words in HEADINGS.items()}
        )

    def text_below(self, result: xr.Dataset) -> str:
        note = textwrap.fill(result.attrs["limit_note"], 88, break_on_hyphens=False)
        return f"{self.legend}\n{note}"

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.EDGE

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_edge(result)


if __name__ == "__main__":
    Edge.main()
