"""Spikes of the training loss of VC's network: replayed, attributed to a cause, and the
cause tested (VC section 4.3). Spikes of a recorded model: attributed to a layer.

python -m analysis.spikes RUN.nc
python -m analysis.spikes RUN.nc --most 50
python -m analysis.spikes MINE.nc --model my_model.py
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import dynamics
from analysis import output, plots, transitions
from analysis.command_line.record import (
    PRINTED_ROWS,
    Analysis,
    MeasuredTrajectory,
    Report,
    TrajectoryOptions,
)
from analysis.output.tables import Column
from analysis.transitions.detection import DetectionConfig
from dynamics.settings import RecordedSettings, SettingsError, check_integer
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


OWN_COLUMNS = (
    Column("seed", "seed"),
    Column("step", "step"),
    Column("change at", "at"),
    Column("loss before", "loss_before", digits=4),
    Column("after", "loss_after", digits=4),
    Column("cause", "cause"),
    Column("frozen", "frozen", digits=0, scale=100),
    Column("alone", "alone", digits=0, scale=100),
    Column("flipped", "flipped", digits=0, scale=100),
    Column("unflipped", "unflipped", digits=0, scale=100),
)

OWN_LEGEND = """change at: the step before the largest rise of the loss between two recorded frames; \
-1 if it does not rise
cause: the layer whose freezing in this change leaves the least of the rise, if that is \
less than half
frozen, alone: % of the rise that remains with this layer as before, and with all \
others as before
flipped: % of the normalised vectors that turn by more than 90 degrees and move by more \
than their length;
unflipped: % of the rise that remains if these leave the normalisation as before"""


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Replay every spike of the training loss step by step from the nearest restart
    state, and attribute the update with the largest rise of the loss to the
    normalisation (a vector reverses its direction), to the feed-forward layer (sequence
    embeddings cross a decision boundary of the MLP), to both or to neither. The update
    is then repeated without the cause (VC section 4.3).

    Spikes of a recorded model with weights=True and a model file are attributed to the
    layer without which the loss does not rise between two recorded frames."""

    most: int | None = None
    """Number of spikes to examine, evenly spaced over runs; 100 spikes take about a
    minute. Default: all."""
    model: Path | None = None
    """For a recorded model: model file, a Python file, which is executed. Default: the
    model file in the trajectory."""
    trust_model: bool = False
    """Run the model file that is stored in the trajectory, even if it never ran on this
    computer."""
    normalised: str | None = None
    """For a recorded model: name of a layer of normalisation in the module of the model
    file; spikes are also tested for vectors that it turns."""
    detection: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)

    def __post_init__(self) -> None:
        if self.most is not None:
            check_integer("most", self.most, 1, 10**9)


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    detection: DetectionConfig,
    most: int | None,
    model: Path | None,
    trust_model: bool,
    normalised: str | None,
) -> xr.Dataset:
    spikes = transitions.recorded_spikes(trajectory, detection)
    examined = transitions.evenly_spaced_spikes(spikes, most)
    if trajectory.attrs["system"] == RecordedSettings.system:
        functions = dynamics.find_model(trajectory, model, trust_model)
        if functions is None:
            allowed = "a model file with logits and training_pairs, or a loss"
            raise SettingsError("model", "none", allowed)
        result = transitions.attribute_own_spikes(
            trajectory, examined, functions, normalised
        )
    else:
        result = transitions.attribute_spikes(trajectory, examined)
    return result.assign_attrs(recorded=len(spikes), **dataclasses.asdict(detection))


def describe_spikes(measured: MeasuredTrajectory) -> str:
    """How many spikes were found and examined, and the size of their updates."""
    trajectory, result = measured.trajectory, measured.result
    spikes = transitions.recorded_spikes(trajectory, measured.options.detection)
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


def own_report(measured: MeasuredTrajectory) -> Report:
    """The report on a recorded model: a row for each spike."""
    result = measured.result
    table = output.make_table(transitions.own_spike_rows(result))
    columns = [column for column in OWN_COLUMNS if column.name in table]
    count, examined = result.attrs["recorded"], result.sizes["spike"]
    summary = f"\n{count} spikes, {examined} examined"
    return Report(table, columns, OWN_LEGEND, summary, rows=slice(PRINTED_ROWS))


def spikes_report(measured: MeasuredTrajectory) -> Report:
    if measured.trajectory.attrs["system"] == RecordedSettings.system:
        return own_report(measured)
    result = measured.result
    smooth = int(transitions.smooth_norm_applies(result).sum())
    return Report(
        transitions.cause_table(result),
        COLUMNS,
        LEGEND.format(smooth),
        summary=describe_spikes(measured),
        figure=lambda: plots.plot_spike_attribution(result),
    )


ANALYSIS = Analysis(
    name="spikes",
    title="Spikes of the loss and their causes",
    measure=measure,
    report=spikes_report,
    options=Options,
    diverged="",
    files_first=True,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
