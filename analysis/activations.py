"""Dimension and similarity of recorded activations along training.

python -m analysis.activations "seed*.nc"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from analysis import plots, structures
from analysis.command_line.record import (
    PRINTED_ROWS,
    Analysis,
    AnalysisOptions,
    MeasuredTrajectory,
    Report,
)
from analysis.output.tables import Column
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(AnalysisOptions):
    """Compare the recorded activations of a model between frames and between runs, and
    compute their participation ratio. Ctrl-C writes the frames that are
    measured."""

    selection: Selection = Selection(frames=50)


COLUMNS = [
    Column("step", "step"),
    Column("layer", "layer"),
    Column("participation ratio", "participation_ratio", digits=2),
    Column("CKA to last", "cka_to_last", digits=3),
    Column("CKA to before", "cka_step", digits=3),
    Column("Procrustes to last", "procrustes_to_last", digits=3),
    Column("CKA between runs", "cka_between_runs", digits=3),
]


def measure(
    trajectory: xr.Dataset, selection: Selection, progress: Callable[[str], None]
) -> xr.Dataset:
    selected = selection.select_runs(trajectory)
    frames = selection.frame_indices(trajectory).tolist()
    return structures.representation_measures(selected, frames, progress)


def activations_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    return Report(
        result.median("run").to_dataframe().reset_index(),
        COLUMNS,
        "\nMedians of the runs.",
        figure=lambda: plots.plot_representations(result),
        rows=slice(-PRINTED_ROWS, None),
    )


ANALYSIS = Analysis(
    name="activations",
    title="Activations on a probe",
    measure=measure,
    report=activations_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
