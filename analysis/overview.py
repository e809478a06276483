"""Several measures of a run on one time axis, with its events, and what changes first.

python -m analysis.overview RUN.nc --show loss llc sharpness rank formation
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import dynamics
from analysis import output, plots, transitions
from analysis.command_line.record import (
    Analysis,
    MeasuredTrajectory,
    ModelOptions,
    Report,
)
from analysis.output.tables import Column
from dynamics.trajectory.selection import Selection, check_run_index

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """Draw measures of a run under each other on one time axis, with the events of its
    loss, and correlate their changes with lags. A measure is read from the result of
    another analysis beside the trajectory if there is one, and computed otherwise."""

    selection: Selection = Selection(frames=40)
    show: tuple[str, ...] = ("loss", "sharpness", "rank")
    """Measures: loss, gradient, force, speed, llc, sharpness, noise_scale, rank,
    formation, or a variable of the trajectory or of a result beside it."""
    run: int = 0
    """Index of the run that is drawn, among the selected runs."""


COLUMNS = [
    Column("measures", "pair"),
    Column("correlation", "correlation", digits=2, interval="bounds"),
    Column("lag (frames)", "lag"),
    Column("by chance", "chance", digits=2),
    Column("p", "p_value", digits=3),
    Column("runs", "runs"),
]
NAMES = (
    "pair",
    "lag",
    "correlation",
    "correlation_low",
    "correlation_high",
    "chance",
    "p_value",
    "runs",
)
"""Columns of the table."""
LEGEND = """
Rank correlation of the changes of two measures between frames, at the lag where it is
farthest from 0; positive lag: the first changes first. By chance: 95% quantile of the
largest magnitude over lags when the runs are shifted against each other. Runs: those in
which both measures change; others have no correlation."""


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    functions: dynamics.ModelFile | None,
    show: tuple[str, ...],
    run: int,
) -> xr.Dataset:
    selected = selection.select_runs(trajectory)
    check_run_index("run", run, selected)
    frames = selection.frame_indices(trajectory).tolist()
    return transitions.run_overview(selected, show, frames, functions)


def overview_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    rows = []
    for index in range(result.sizes["pair"]):
        pair = result.isel(pair=index)
        size = abs(pair["correlation"]).fillna(-1)
        at_lag = pair.isel(lag=int(size.argmax("lag")))
        rows.append({name: at_lag[name].item() for name in NAMES})
    return Report(
        output.make_table(rows),
        COLUMNS,
        LEGEND,
        figure=lambda: plots.plot_overview(result, measured.options.run),
    )


ANALYSIS = Analysis(
    name="overview",
    title="Measures on one time axis",
    measure=measure,
    report=overview_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
