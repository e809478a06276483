"""Gradient norms of every layer over training, and whether their peaks coincide with
drops and spikes of the loss (VC figures 15, 16, 18 and 19).

python -m analysis.gradients RUN.nc
python -m analysis.gradients RUN.nc --run 3

The figure shows one run, as in the paper, and below it all runs compared with chance.
For particles, the norm of the force and the escape from the initial positions are used
instead of the gradient norm and the drops of the loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis import plots, transitions
from analysis.command_line.analysis import Analysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from analysis.transitions.detection import DetectionConfig
from dynamics.trajectory.selection import check_run_index

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

LEGEND = """number: number of events or of runs. value: fraction of the events that \
have a peak, or a correlation
peak: a spike of the norm, or the highest frame between a rise of the norm and the \
drop after it
anywhere: value expected by chance, when the peaks of each run are shifted circularly \
by any number of frames (mean of
1000 shifts). It accounts for the number of peaks, but not for parts of a run without \
events and peaks, for example
before the escape
nearby: the same for shifts by {} to {} frames in either direction (one to two \
windows), which accounts for such parts
p: one-sided, from the same shifts; there is evidence for a coincidence if both p are \
small
lag: time from the middle of the event to its peak, median over runs; of a correlation \
a dash if frames are not evenly
spaced. All intervals are 95%
rank correlation: between the norm and the decrease of the loss (for particles: the \
increase of the displacement), mean
over runs in Fisher's z, at the lag with the largest absolute value, also for the \
chance values; p is two-sided. The row
below gives the difference from the largest lags, where only slow trends of both \
quantities remain"""


@dataclasses.dataclass(frozen=True)
class Gradients(Analysis):
    """Compare peaks of the gradient norm of each layer with drops and spikes of the
    loss, and draw the gradient norms of one run (VC appendix A.1, figures 15, 16, 18
    and 19)."""

    run: int | None = None
    """Index of the run to draw, among the selected runs. Default: the run with the most
    drops and, among these, the most spikes."""
    detection: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)

    title = "Peaks of gradient norms, and drops and spikes of the loss"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        selected = self.selection.apply(trajectory)
        if self.run is not None:
            check_run_index("run", self.run, selected)
        result = transitions.peak_coincidence(selected, self.detection)
        clock, interval = transitions.frame_interval(selected)
        return result.assign_attrs(
            unit_of_time=clock,
            frame_interval=interval,
            window=self.detection.width(selected.sizes["step"]),
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return transitions.coincidence_table(result, result.attrs["frame_interval"])

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        clock = result.attrs["unit_of_time"]
        return [
            Column("layer", "layer"),
            Column("measure", "measure"),
            Column("number", "number"),
            Column("value", "value", digits=2, interval="bounds"),
            Column("anywhere", "anywhere", digits=2),
            Column("p", "p_value_anywhere", digits=3),
            Column("nearby", "nearby", digits=2),
            Column("p", "p_value_nearby", digits=3),
            Column(f"lag, {clock}s", "lag", digits=1, interval="bounds"),
        ]

    def text_below(self, result: xr.Dataset) -> str:
        window = result.attrs["window"]
        return LEGEND.format(window, 2 * window)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.GRADIENTS

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        run = self.run
        if run is None:
            run = transitions.most_eventful_run(result["events"].values)
        selected = self.selection.apply(trajectory)
        return plots.plot_gradient_norms(selected, result, run, self.detection)


if __name__ == "__main__":
    Gradients.main()
