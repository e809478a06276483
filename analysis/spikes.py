"""Spikes of the training loss of VC's network: replayed, attributed to a cause, and the
cause tested (VC section 4.3). Spikes of a recorded model: attributed to a layer.

python -m analysis.spikes RUN.nc
python -m analysis.spikes RUN.nc --most 50
python -m analysis.spikes MINE.nc --model my_model.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis import output, plots, transitions
from analysis.command_line.analysis import ModelAnalysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from analysis.transitions.detection import DetectionConfig
from dynamics.settings import RecordedSettings, SettingsError, check_integer

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

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
class Spikes(ModelAnalysis):
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
    normalised: str | None = None
    """For a recorded model: name of a layer of normalisation in the module of the model
    file; spikes are also tested for vectors that it turns."""
    detection: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)

    def __post_init__(self) -> None:
        if self.most is not None:
            check_integer("most", self.most, 1, 10**9)

    title = "Spikes of the loss and their causes"
    diverged = ""

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        runs = self.selection.select_whole_runs(trajectory)
        spikes = transitions.recorded_spikes(runs, self.detection)
        examined = transitions.evenly_spaced_spikes(spikes, self.most)
        if trajectory.attrs["system"] == RecordedSettings.system:
            functions = self.model_functions(trajectory)
            if functions is None:
                allowed = "a model file with logits and training_pairs, or a loss"
                raise SettingsError("model", "none", allowed)
            result = transitions.attribute_own_spikes(
                runs, examined, functions, self.normalised
            )
        else:
            result = transitions.attribute_spikes(runs, examined)
        return result.assign_attrs(
            recorded=len(spikes),
            runs=runs.sizes["run"],
            runs_with_spikes=len({spike.run for spike in spikes}),
            **dataclasses.asdict(self.detection),
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        if is_of_recorded_model(result):
            return output.make_table(transitions.own_spike_rows(result))
        return transitions.cause_table(result)

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        if not is_of_recorded_model(result):
            return COLUMNS
        return [column for column in OWN_COLUMNS if column.name in result]

    def text_below(self, result: xr.Dataset) -> str:
        if is_of_recorded_model(result):
            return OWN_LEGEND
        return LEGEND.format(int(transitions.smooth_norm_applies(result).sum()))

    def text_above(self, result: xr.Dataset, trajectory: xr.Dataset) -> str:
        if is_of_recorded_model(result):
            count = result.attrs["recorded"]
            return f"\n{count} spikes, {result.sizes['spike']} examined"
        return describe_spikes(result)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.SPIKES

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure | None:
        if is_of_recorded_model(result):
            return None
        return plots.plot_spike_attribution(result)


def is_of_recorded_model(result: xr.Dataset) -> bool:
    """Whether spikes of a recorded model are attributed to its layers."""
    return "alone" in result


def describe_spikes(result: xr.Dataset) -> str:
    """How many spikes were found and examined, and the size of their updates."""
    runs = f"{result.attrs['runs_with_spikes']} of {result.attrs['runs']} runs"
    examined = result.sizes["spike"]
    text = f"\n{result.attrs['recorded']} spikes in {runs}, {examined} examined"
    attributed = result.isel(spike=result["cause"].values != "")
    lost = examined - attributed.sizes["spike"]
    if lost:
        text += f"; {lost} have no rise of the loss in the replay"
    if not attributed.sizes["spike"]:
        return text
    rise = attributed["loss_after"] - attributed["loss_before"]
    share = rise / (attributed["top"] - attributed["level"])
    text += (
        f"\nthe examined update makes {100 * float(share.median()):.0f}% of the height of"
        " a spike (median)"
    )
    for name, label in (("xi_ratio", "a sequence embedding"), ("input_ratio", "E + P")):
        ratio = attributed[name]
        text += (
            f"\nlargest update of {label} over its length: median"
            f" {float(ratio.median()):.3f}, above 1 in {int((ratio > 1).sum())} spikes"
        )
    return text


if __name__ == "__main__":
    Spikes.main()
