"""Spikes of the training loss of VC's network: replayed, attributed to a cause, and the cause checked (VC section 4.3).

python -m analysis.spikes RUN.nc
python -m analysis.spikes RUN.nc --most 50
"""

import dataclasses
from typing import TYPE_CHECKING

from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions, open_input, write_result_and_picture
from analysis.transitions.detection import DetectionConfig
from dynamics.settings import check_integer

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import TableRow
    from analysis.transitions.spike_replays import RecordedSpike

TITLE = "Spikes of the loss and their causes"

HEADER = (
    "cause", "spikes", "share %", "height", "explained %",
    "without flips", "smooth", "MLP frozen", "xi held", "half", "clipped",
)  # fmt: skip

COLUMNS = (
    "cause", "spikes", "share", "share_low", "share_high", "height", "explained", "explained_low", "explained_high",
    *(f"removed_{name}" for name in ("unflipped", "smooth", "frozen", "held", "half", "clipped")),
)  # fmt: skip

LEGEND = """step examined: the one with the largest rise between the spike's foot and its half. height: above the
level before. normalisation: E + P of a token and position, or xi, the embedding of a sequence, moves by more than its
length and turns round; feed-forward: sequences cross a decision boundary since the foot, as xi or the boundary moves
removed by each change of the step: % of spikes of which less than half of the rise remains. smooth norm: in brackets of
how many; in the others it alone, before the step, classifies more than 5% of the sequences otherwise. half and clipped
(no longer than usual) are controls, which remove spikes of any cause
explained: the change against the cause removes the rise and none against another does; of crossings this is a check of
consistency, since what moves xi across is undone by holding it; shares with 95% intervals by runs"""


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Replay every spike of the training loss step by step from the nearest checkpoint; attribute the step on which it
    rose to normalisation (a vector flips), to the feed-forward layer (sequence embeddings cross a decision boundary),
    to both or neither; and take the step again without the cause (VC section 4.3)."""

    most: int | None = None
    """Examine so many spikes, evenly spaced over runs. None is all; a hundred take a minute or so."""
    rule: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)


# ------------------------------------------------------------------------------------------------ the table


def _removed_fraction(result: "xr.Dataset", name: str, chosen: "np.ndarray") -> float:
    """Share of some spikes of which a change leaves less than half of the rise; NaN where it says nothing."""
    import numpy as np

    from analysis.transitions.spike_attribution import RISE_THRESHOLD
    from analysis.transitions.spike_replays import smooth_norm_applies

    values = result[f"remaining_{name}"].values[chosen]
    if name == "smooth":
        values = np.where(smooth_norm_applies(result)[chosen], values, np.nan)
    known = values[np.isfinite(values)]
    return float((known < RISE_THRESHOLD).mean()) if known.size else float("nan")


def _cause_row(result: "xr.Dataset", name: str, chosen: "np.ndarray") -> "TableRow":
    """Some of the spikes: how many, how high, how many explained, and how many each change removes."""
    import numpy as np

    from analysis.output.tables import TableRow, format_number, format_percent
    from analysis.statistics.intervals import clustered_binomial_interval
    from analysis.transitions.spike_attribution import STEP_CHANGES
    from analysis.transitions.spike_replays import smooth_norm_applies

    runs = result.sizes["run"]

    def of_runs(which: "np.ndarray") -> "np.ndarray":
        return np.bincount(result["of_run"].values[which], minlength=runs)

    count, total = of_runs(chosen), of_runs(result["cause"].values != "")
    good = of_runs(chosen & result["explained"].values.astype(bool))
    share, explained = clustered_binomial_interval(count, total), clustered_binomial_interval(good, count)
    top = (result["top"] - result["level"]).values[chosen]
    height = float(np.median(top)) if chosen.any() else float("nan")
    gone = [_removed_fraction(result, change, chosen) for change in STEP_CHANGES]
    shown = ["-" if value != value else f"{100 * value:.0f}" for value in gone]
    shown[1] += f" ({(smooth_norm_applies(result) & chosen).sum()})" if chosen.any() else ""
    text = [
        name,
        str(int(chosen.sum())),
        format_percent(share),
        "-" if height != height else f"{height:.3f}",
        format_percent(explained),
    ]
    numbers = [
        name,
        str(int(chosen.sum())),
        *map(format_number, share),
        format_number(height),
        *map(format_number, explained),
    ]
    return TableRow(text + shown, numbers + [format_number(value) for value in gone])


def _cause_rows(result: "xr.Dataset") -> "list[TableRow]":
    """A row for each cause, each way of crossing a boundary, and all spikes."""
    from analysis.transitions.spike_attribution import CROSSING_KINDS, SPIKE_CAUSES

    cause, way = result["cause"].values, result["way"].values
    found = []
    for each in SPIKE_CAUSES:
        found.append(_cause_row(result, each, cause == each))
        if each == "feed-forward":
            found += [
                _cause_row(result, f"- {name} crosses", (cause == each) & (way == name)) for name in CROSSING_KINDS
            ]
    return [*found, _cause_row(result, "all", cause != "")]


def _spikes_summary(result: "xr.Dataset", runs: int, spikes: "list[RecordedSpike]") -> str:
    """How many spikes there are and were examined, and what they have in common."""
    import numpy as np

    known = result["cause"].values != ""
    lost = f"; {(~known).sum()} show no rise when replayed" if (~known).any() else ""
    within = len({spike.run for spike in spikes})
    lines = [f"{len(spikes)} spikes in {within} of {runs} runs, {len(known)} examined{lost}"]
    if known.any():
        rise = ((result["loss_after"] - result["loss_before"]) / (result["top"] - result["level"])).values[known]
        lines.append(f"the step examined makes {100 * np.median(rise):.0f}% of the spike's height in the median")
        ratio = result["xi_ratio"].values[known]
        lines.append(
            f"largest update of a sequence embedding over its length: median {np.median(ratio):.2f}, above 1 in "
            f"{int((ratio > 1).sum())}; of E + P: {np.median(result['input_ratio'].values[known]):.3f}, above 1 in "
            f"{int((result['input_ratio'].values[known] > 1).sum())}"
        )
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Examine; print the table, write the result, draw the picture."""
    from analysis.output import tables
    from analysis.plots.spikes_figure import plot_spike_attribution
    from analysis.transitions.spike_replays import attribute_spikes, evenly_spaced_spikes, recorded_spikes

    most = None if options.most is None else check_integer("most", options.most, 1, 10**9)
    trajectory, out = open_input(options, "spikes")
    spikes = recorded_spikes(trajectory, options.rule)
    result = attribute_spikes(trajectory, evenly_spaced_spikes(spikes, most))
    result = result.assign_attrs(recorded=len(spikes), **dataclasses.asdict(options.rule))
    write_result_and_picture(options, "spikes", TITLE, result, plot_spike_attribution(result), out)
    print("\n" + _spikes_summary(result, trajectory.sizes["run"], spikes), file=options.say)
    tables.print_rows(HEADER, COLUMNS, _cause_rows(result), options.csv)
    print(LEGEND, file=options.say)


if __name__ == "__main__":
    run_command(main, Options, "analysis.spikes")
