"""Spikes of the training loss of VC's network: replayed, attributed to a cause, and the cause checked (VC section 4.3).

python -m analysis.spikes RUN.nc
python -m analysis.spikes RUN.nc --most 50
"""

import dataclasses
from typing import TYPE_CHECKING

from analysis.command_line.parsing import command
from analysis.command_line.reading import Reading, finish, opened
from analysis.transitions.detection import Rule
from dynamics.settings import check_whole

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import Row
    from analysis.transitions.spike_replays import Spike

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
class Options(Reading):
    """Replay every spike of the training loss step by step from the nearest checkpoint; attribute the step on which it
    rose to normalisation (a vector flips), to the feed-forward layer (sequence embeddings cross a decision boundary),
    to both or neither; and take the step again without the cause (VC section 4.3)."""

    most: int | None = None
    """Examine so many spikes, evenly spaced over runs. None is all; a hundred take a minute or so."""
    rule: Rule = dataclasses.field(default_factory=Rule)


# ------------------------------------------------------------------------------------------------ the table


def removed(result: "xr.Dataset", name: str, chosen: "np.ndarray") -> float:
    """Share of some spikes of which a change leaves less than half of the rise; NaN where it says nothing."""
    import numpy as np

    from analysis.transitions.spike_attribution import MOST
    from analysis.transitions.spike_replays import fair

    values = result[f"remaining_{name}"].values[chosen]
    if name == "smooth":
        values = np.where(fair(result)[chosen], values, np.nan)
    known = values[np.isfinite(values)]
    return float((known < MOST).mean()) if known.size else float("nan")


def row(result: "xr.Dataset", name: str, chosen: "np.ndarray") -> "Row":
    """Some of the spikes: how many, how high, how many explained, and how many each change removes."""
    import numpy as np

    from analysis.output.tables import Row, number, percent
    from analysis.statistics.intervals import clustered_share
    from analysis.transitions.spike_attribution import CHANGES
    from analysis.transitions.spike_replays import fair

    runs = result.sizes["run"]

    def of_runs(which: "np.ndarray") -> "np.ndarray":
        return np.bincount(result["of_run"].values[which], minlength=runs)

    count, total = of_runs(chosen), of_runs(result["cause"].values != "")
    good = of_runs(chosen & result["explained"].values.astype(bool))
    share, explained = clustered_share(count, total), clustered_share(good, count)
    top = (result["top"] - result["level"]).values[chosen]
    height = float(np.median(top)) if chosen.any() else float("nan")
    gone = [removed(result, change, chosen) for change in CHANGES]
    shown = ["-" if value != value else f"{100 * value:.0f}" for value in gone]
    shown[1] += f" ({(fair(result) & chosen).sum()})" if chosen.any() else ""
    text = [
        name,
        str(int(chosen.sum())),
        percent(share),
        "-" if height != height else f"{height:.3f}",
        percent(explained),
    ]
    numbers = [name, str(int(chosen.sum())), *map(number, share), number(height), *map(number, explained)]
    return Row(text + shown, numbers + [number(value) for value in gone])


def rows(result: "xr.Dataset") -> "list[Row]":
    """A row for each cause, each way of crossing a boundary, and all spikes."""
    from analysis.transitions.spike_attribution import CAUSES, WAYS

    cause, way = result["cause"].values, result["way"].values
    found = []
    for each in CAUSES:
        found.append(row(result, each, cause == each))
        if each == "feed-forward":
            found += [row(result, f"- {name} crosses", (cause == each) & (way == name)) for name in WAYS]
    return [*found, row(result, "all", cause != "")]


def summary(result: "xr.Dataset", runs: int, spikes: "list[Spike]") -> str:
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
    from analysis.plots.spikes_figure import spikes_figure
    from analysis.transitions.spike_replays import chosen, inquest, recorded_spikes

    most = None if options.most is None else check_whole("most", options.most, 1, 10**9)
    trajectory, out = opened(options, "spikes")
    spikes = recorded_spikes(trajectory, options.rule)
    result = inquest(trajectory, chosen(spikes, most))
    result = result.assign_attrs(recorded=len(spikes), **dataclasses.asdict(options.rule))
    finish(options, "spikes", TITLE, result, spikes_figure(result), out)
    print("\n" + summary(result, trajectory.sizes["run"], spikes), file=options.say)
    tables.show(HEADER, COLUMNS, rows(result), options.csv)
    print(LEGEND, file=options.say)


if __name__ == "__main__":
    command(main, Options, "analysis.spikes")
