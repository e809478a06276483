"""Dimension and similarity of recorded activations along training.

python -m analysis.activations "seed*.nc"
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, TextIO

from analysis import plots, structures
from analysis.command_line.record import (
    PRINTED_ROWS,
    Analysis,
    AnalysisOptions,
    Measurement,
    Report,
)
from analysis.output.tables import Column
from dynamics.trajectory.selection import Selection, selected_frames

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(AnalysisOptions):
    """Compare the recorded activations of a model between frames and between runs, and
    compute their participation ratio. Ctrl-C writes the frames that are
    measured.

    By default 50 frames are measured."""


FRAMES = 50
"""Default number of frames."""

COLUMNS = [
    Column("step", "step"),
    Column("layer", "layer"),
    Column("participation ratio", "participation_ratio", digits=2),
    Column("CKA to last", "cka_to_last", digits=3),
    Column("CKA to before", "cka_step", digits=3),
    Column("Procrustes to last", "procrustes_to_last", digits=3),
    Column("CKA between runs", "cka_between_runs", digits=3),
]


def measure(trajectory: xr.Dataset, selection: Selection, log: TextIO) -> xr.Dataset:
    frames = selected_frames(
        trajectory, selection if selection.selects_frames else FRAMES
    )
    selected = selection.select_runs(trajectory)
    return structures.representation_measures(
        selected, frames.tolist(), partial(print, file=log, flush=True)
    )


def report(measurement: Measurement) -> Report:
    result = measurement.result
    return Report(
        result.median("run").to_dataframe().reset_index(),
        COLUMNS,
        "\nMedians of the runs.",
        figure=plots.plot_representations(result),
        rows=slice(-PRINTED_ROWS, None),
    )


ANALYSIS = Analysis(
    name="activations",
    title="Activations on a probe",
    measure=measure,
    report=report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
