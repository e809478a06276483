"""Circuits that runs of VC's network have learned: a label for every run, and how they
form (VC sections 3 and 4.1).

python -m analysis.circuits RUN.nc [OTHER.nc]

`analysis/clustering_heads/circuit_analysis.py` defines the quantities.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

import dynamics
from analysis import clustering_heads, plots
from analysis.command_line.analysis import Analysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics import networks
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Circuits(Analysis):
    """Classify the circuit that each run of VC's network has learned, and print the
    measurements behind the label. Also report when the clusters formed and when the MLP
    separated them, how similar the attention is at the start and at the end of training
    and, with a second trajectory of the same seeds, how far the final weights differ
    when a setting is changed."""

    other: tyro.conf.Positional[Path | None] = None
    """Trajectory with the same seeds and the same initial weights, but a different
    setting."""
    selection: Selection = Selection(frames=201)

    title = "Circuits of VC's network"
    several = "one"
    diverged = ""

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        runs = self.selection.select_runs(trajectory)
        settings = networks.clustering_head_of(trajectory).settings
        changed = self._changed_runs(trajectory)
        result = clustering_heads.measure_circuits(runs, changed, self.selection)
        ideal = clustering_heads.ideal_cluster_count(settings)
        result = result.assign_attrs(ideal_cluster_count=ideal)
        return (
            result if self.other is None else result.assign_attrs(other=self.other.name)
        )

    def _changed_runs(self, trajectory: xr.Dataset) -> xr.Dataset | None:
        """The runs of the other trajectory, if there is one. Raises TrajectoryError if
        it is the same."""
        if self.other is None:
            return None
        changed = dynamics.open_trajectory(self.other)
        if changed.isel(step=-1).identical(trajectory.isel(step=-1)):
            raise dynamics.TrajectoryError(
                f"{self.other}: found the same runs as in the first, expected others"
            )
        return self.selection.select_runs(changed)

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        ideal = result.attrs["ideal_cluster_count"]
        return clustering_heads.circuit_table(result, ideal)

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        return clustering_heads.circuit_columns(result.attrs["ideal_cluster_count"])

    def text_below(self, result: xr.Dataset) -> str:
        """The summary, the missing invariances and the legend."""
        ideal = result.attrs["ideal_cluster_count"]
        missing = clustering_heads.format_missing_invariances(result)
        summary = clustering_heads.describe_circuits(result, ideal)
        legend = clustering_heads.circuit_legend(ideal, bool(missing))
        texts = ["\n".join(summary), missing, "\n".join(legend)]
        return "\n".join(f"\n{text}" if text else "" for text in texts)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.CIRCUITS

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        runs = self.selection.select_runs(trajectory)
        return plots.plot_circuits(result, runs)


if __name__ == "__main__":
    Circuits.main()
