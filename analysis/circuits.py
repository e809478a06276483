"""Circuits that runs of VC's network have learned: a label for every run, and how they
form (VC sections 3 and 4.1).

python -m analysis.circuits RUN.nc [OTHER.nc]

`analysis/clustering_heads/circuit_analysis.py` defines the quantities.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

import dynamics
from analysis import clustering_heads, plots
from analysis.command_line.record import (
    Analysis,
    MeasuredTrajectory,
    Report,
    TrajectoryOptions,
)
from dynamics import networks
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Classify the circuit that each run of VC's network has learned, and print the
    measurements behind the label. Also report when the clusters formed and when the MLP
    separated them, how similar the attention is at the start and at the end of training
    and, with a second trajectory of the same seeds, how far the final weights differ
    when a setting is changed."""

    other: tyro.conf.Positional[Path | None] = None
    """Trajectory with the same seeds and the same initial weights, but a different
    setting."""
    selection: Selection = Selection(frames=201)

    def __post_init__(self) -> None:
        if self.other is None or not (self.trajectory.exists() and self.other.exists()):
            return
        if self.trajectory.samefile(self.other):
            raise dynamics.TrajectoryError(
                f"{self.other}: found the same file as the first, expected another"
            )


def measure(
    trajectory: xr.Dataset, selection: Selection, other: Path | None
) -> xr.Dataset:
    trajectory = selection.select_runs(trajectory)
    if other is None:
        return clustering_heads.measure_circuits(trajectory, None, selection)
    changed = selection.select_runs(dynamics.open_trajectory(other))
    result = clustering_heads.measure_circuits(trajectory, changed, selection)
    return result.assign_attrs(other=other.name)


def circuits_report(measured: MeasuredTrajectory) -> Report:
    """The table, and under it the summary, the missing invariances and the legend."""
    trajectory, result = measured.trajectory, measured.result
    settings = networks.clustering_head_of(trajectory).settings
    ideal = clustering_heads.ideal_cluster_count(settings)
    missing = clustering_heads.format_missing_invariances(result)
    summary = clustering_heads.describe_circuits(result, ideal)
    legend = clustering_heads.circuit_legend(ideal, bool(missing))
    texts = ["\n".join(summary), missing, "\n".join(legend)]
    legend_text = "\n".join(f"\n{text}" if text else "" for text in texts)
    return Report(
        clustering_heads.circuit_table(result, ideal),
        clustering_heads.circuit_columns(ideal),
        legend_text,
        figure=lambda: plots.plot_circuits(result, trajectory),
    )


ANALYSIS = Analysis(
    name="circuits",
    title="Circuits of VC's network",
    measure=measure,
    report=circuits_report,
    options=Options,
    diverged="",
    files_first=True,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
