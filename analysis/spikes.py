"""Spikes of the training loss of VC's network: replayed, attributed to a cause, and the
cause tested (VC section 4.3).

python -m analysis.spikes RUN.nc
python -m analysis.spikes RUN.nc --most 50
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from analysis import plots, transitions
from analysis.command_line.record import (
    Analysis,
    Measurement,
    Report,
    TrajectoryOptions,
)
from analysis.output.tables import Column
from analysis.transitions.detection import DetectionConfig
from dynamics.settings import check_integer
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr

COLUMNS = (
    Column("cause", "cause"),
    Column("spikes", "spikes"),
    Column("% of all", "share", digits=1, interval="bounds", scale=100),
    Column("height", "height", digits=3),
    Column("explained %", "explained", digits=1, interval="bounds", scale=100),
    Column("without flips", "removed_unflipped", digits=0, scale=100),
    Column("smooth", "removed_smooth", digits=0, scale=100),
    Column("MLP frozen", "removed_frozen", digits=0, scale=100),
    Column("xi held", "removed_held", digits=0, scale=100),
    Column("half", "removed_half", digits=0, scale=100),
    Column("clipped", "removed_clipped", digits=0, scale=100),
)

LEGEND = """height: largest loss minus the level before the spike, median
The examined update is the one with the largest rise of the loss between the start of \
a spike and half its height
normalisation: E + P of a token and position, or xi, the embedding of a sequence, \
moves by more than its length and
turns by more than 90 degrees. feed-forward: since the start of the spike, sequences \
have crossed a decision boundary
without flips to clipped: % of the spikes that are removed by the change, that is with \
less than half of the rise left
smooth: % of the {} spikes before which the smooth norm gives the same class for at \
least 95% of the sequences
half, clipped (to the usual length of an update): controls, which remove spikes of any \
cause
explained: the change that removes the cause removes the rise, and no change for \
another cause does. Intervals are 95%
over runs"""


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Replay every spike of the training loss step by step from the nearest restart
    state, and attribute the update with the largest rise of the loss to the
    normalisation (a vector reverses its direction), to the feed-forward layer (sequence
    embeddings cross a decision boundary of the MLP), to both or to neither. The update
    is then repeated without the cause (VC section 4.3)."""

    most: int | None = None
    """Number of spikes to examine, evenly spaced over runs; 100 spikes take about a
    minute. Default: all."""
    detection: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)

    def __post_init__(self) -> None:
        if self.most is not None:
            check_integer("most", self.most, 1, 10**9)


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    detection: DetectionConfig,
    most: int | None,
) -> xr.Dataset:
    spikes = transitions.recorded_spikes(trajectory, detection)
    result = transitions.attribute_spikes(
        trajectory, transitions.evenly_spaced_spikes(spikes, most)
    )
    return result.assign_attrs(recorded=len(spikes), **dataclasses.asdict(detection))


def describe_spikes(measurement: Measurement) -> str:
    """How many spikes were found and examined, and the size of their updates."""
    trajectory, result = measurement.trajectory, measurement.result
    spikes = transitions.recorded_spikes(trajectory, measurement.options.detection)
    runs = f"{len({spike.run for spike in spikes})} of {trajectory.sizes['run']} runs"
    attributed = result.isel(spike=result["cause"].values != "")
    lost = result.sizes["spike"] - attributed.sizes["spike"]
    text = f"\n{len(spikes)} spikes in {runs}, {result.sizes['spike']} examined"
    if lost:
        text += f"; {lost} have no rise of the loss in the replay"
    if not attributed.sizes["spike"]:
        return text
    rise = float(
        (
            (attributed["loss_after"] - attributed["loss_before"])
            / (attributed["top"] - attributed["level"])
        ).median()
    )
    text += (
        f"\nthe examined update makes {100 * rise:.0f}% of the height of a spike"
        " (median)"
    )
    for name, label in (("xi_ratio", "a sequence embedding"), ("input_ratio", "E + P")):
        median, above = (
            float(attributed[name].median()),
            int((attributed[name] > 1).sum()),
        )
        text += (
            f"\nlargest update of {label} over its length: median {median:.3f}, above 1"
            f" in {above} spikes"
        )
    return text


def report(measurement: Measurement) -> Report:
    result = measurement.result
    smooth = int(transitions.smooth_norm_applies(result).sum())
    return Report(
        transitions.cause_table(result),
        COLUMNS,
        LEGEND.format(smooth),
        summary=describe_spikes(measurement),
        figure=plots.plot_spike_attribution(result),
    )


ANALYSIS = Analysis(
    name="spikes",
    title="Spikes of the loss and their causes",
    measure=measure,
    report=report,
    options=Options,
    diverged="",
    files_first=True,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
