"""Singular values, ranks and motion of the weights along training.

python -m analysis.weight_spectra RUN.nc
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from analysis import loss_geometry, plots
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
    """Compute the singular values of the weights of each layer at frames along a run,
    their effective rank, the distance from the start and the alignment of changes. Ctrl-C writes the frames that are
    measured."""

    selection: Selection = Selection(frames=50)
    values: int = 16
    """Largest number of singular values of a layer that the result has."""


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
    trajectory: xr.Dataset,
    selection: Selection,
    values: int,
    progress: Callable[[str], None],
) -> xr.Dataset:
    selected = selection.select_runs(trajectory)
    frames = selection.frame_indices(trajectory).tolist()
    return loss_geometry.weight_spectra(selected, frames, values, progress)


def weight_spectra_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    table = result.drop_dims("value").median("run").to_dataframe().reset_index()
    return Report(
        table,
        COLUMNS,
        "\nMedians of the runs. Distance: from the first frame. Alignment: cosine of the"
        "\nchanges before and after.",
        figure=lambda: plots.plot_weight_spectra(result),
        rows=slice(-PRINTED_ROWS, None),
    )


ANALYSIS = Analysis(
    name="weight_spectra",
    title="Spectra of the weights",
    measure=measure,
    report=weight_spectra_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
