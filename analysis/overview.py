"""Several measures of a run on one time axis, with its events, and what changes first.

python -m analysis.overview RUN.nc --show loss llc sharpness rank formation
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from analysis import output, plots, transitions
from analysis.command_line.analysis import ModelAnalysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.trajectory.selection import Selection, check_run_index

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


TABLE_NAMES = (
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

_OF_LOSSES = ("loss", "sharpness", "rank")
_WITHOUT_LOSS = ("force", "speed", "formation")
"""Measures by default, of trajectories with a loss and without."""


@dataclasses.dataclass(frozen=True)
class Overview(ModelAnalysis):
    """Draw measures of a run under each other on one time axis, with the events of its
    loss, and correlate their changes with lags. A measure is read from the result of
    another analysis beside the trajectory if there is one, and computed otherwise."""

    selection: Selection = Selection(frames=40)
    show: tuple[str, ...] = ()
    """Measures: loss, gradient, force, speed, llc, sharpness, noise_scale, rank,
    formation, or a variable of the trajectory or of a result beside it. Default: loss,
    sharpness and rank; without a loss force, speed and formation."""
    run: int = 0
    """Index of the run that is drawn, among the selected runs."""

    title = "Measures on one time axis"
    columns = (
        Column("measures", "pair"),
        Column("correlation", "correlation", digits=2, interval="bounds"),
        Column("lag (frames)", "lag"),
        Column("by chance", "chance", digits=2),
        Column("p", "p_value", digits=3),
        Column("runs", "runs"),
    )
    legend = """
Rank correlation of the changes of two measures between frames, at the lag where it is
farthest from 0; positive lag: the first changes first. By chance: 95% quantile of the
largest magnitude over lags when the runs are shifted against each other. Runs: those in
which both measures change; others have no correlation."""

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        functions = self.model_functions(trajectory)
        selected = self.selection.select_runs(trajectory)
        check_run_index("run", self.run, selected)
        frames = self.selection.frame_indices(trajectory).tolist()
        show = self.show or (_OF_LOSSES if "loss" in trajectory else _WITHOUT_LOSS)
        return transitions.run_overview(selected, show, frames, functions)

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        rows = []
        for index in range(result.sizes["pair"]):
            pair = result.isel(pair=index)
            size = abs(pair["correlation"]).fillna(-1)
            at_lag = pair.isel(lag=int(size.argmax("lag")))
            rows.append({name: at_lag[name].item() for name in TABLE_NAMES})
        return output.make_table(rows)

    def panel_names(self) -> tuple[str, ...]:
        measures = self.show or (*_OF_LOSSES, *_WITHOUT_LOSS)
        return (*measures, *figure_panels.OVERVIEW)

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_overview(result, self.run)


if __name__ == "__main__":
    Overview.main()
