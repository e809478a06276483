"""Singular values, ranks and motion of the weights along training.

python -m analysis.weight_spectra RUN.nc
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, TextIO

from analysis import loss_geometry, plots
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
    """Compute the singular values of the weights of each layer at frames along a run,
    their effective rank, the distance from the start and the alignment of changes. Ctrl-C writes the frames that are
    measured.

    By default 50 frames are measured."""

    values: int = 16
    """Largest number of singular values of a layer that the result has."""


FRAMES = 50
"""Default number of frames."""

COLUMNS = [
    Column("step", "step"),
    Column("layer", "layer"),
    Column("effective rank", "effective_rank", digits=2),
    Column("stable rank", "stable_rank", digits=2),
    Column("norm", "norm", digits=3),
    Column("distance", "distance", digits=3),
    Column("alignment", "update_alignment", digits=2),
]


def measure(
    trajectory: xr.Dataset, selection: Selection, values: int, log: TextIO
) -> xr.Dataset:
    frames = selected_frames(
        trajectory, selection if selection.selects_frames else FRAMES
    )
    return loss_geometry.weight_spectra(
        selection.select_runs(trajectory),
        frames.tolist(),
        values,
        partial(print, file=log, flush=True),
    )


def report(measurement: Measurement) -> Report:
    result = measurement.result
    table = result.drop_dims("value").median("run").to_dataframe().reset_index()
    return Report(
        table,
        COLUMNS,
        "\nMedians of the runs. Distance: from the first frame. Alignment: cosine of the"
        "\nchanges before and after.",
        figure=plots.plot_weight_spectra(result),
        rows=slice(-PRINTED_ROWS, None),
    )


ANALYSIS = Analysis(
    name="weight_spectra",
    title="Spectra of the weights",
    measure=measure,
    report=report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
