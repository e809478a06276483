"""Progress measures of grokking: restricted and excluded loss, key frequencies,
gradient symmetricity, phases, delay.

python -m analysis.progress RUN.nc
python -m analysis.progress MINE.nc --model my_model.py
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import dynamics
from analysis import output, plots, progress_measures
from analysis.command_line.record import (
    PRINTED_ROWS,
    Analysis,
    MeasuredTrajectory,
    ModelOptions,
    Report,
)
from dynamics.settings import check_real
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """Measure how networks that add two numbers modulo N come to generalise: Fourier
    norms and key frequencies, Gini coefficients, restricted and excluded loss (Nanda et
    al., arXiv 2301.05217), gradient symmetricity, distance irrelevance and circularity
    (Zhong et al., arXiv 2306.17844), the phases of training, and the delay between
    memorisation and generalisation."""

    selection: Selection = Selection(frames=101)
    key_fraction: float = 0.02
    """Power of a key frequency in the last logits, as a fraction of the largest
    power."""

    def __post_init__(self) -> None:
        check_real("key_fraction", self.key_fraction, positive=True, up_to=1)


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    key_fraction: float,
    functions: dynamics.ModelFile | None,
) -> xr.Dataset:
    return progress_measures.measure_progress(
        selection.select_runs(trajectory),
        selection,
        key_fraction,
        functions,
    )


def progress_report(measured: MeasuredTrajectory) -> Report:
    result, trajectory = measured.result, measured.trajectory
    if "loss" in result:
        trajectory = progress_measures.with_performance(trajectory, result)
    single = trajectory.sizes["step"] == 1
    return Report(
        output.make_table(progress_measures.progress_rows(result)),
        progress_measures.progress_columns(result),
        "\n" + progress_measures.describe_progress(result),
        figure=None if single else plots.plot_progress(trajectory, result),
        rows=slice(PRINTED_ROWS),
    )


ANALYSIS = Analysis(
    name="progress",
    title="Progress measures",
    measure=measure,
    report=progress_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
