"""When the structure of embeddings forms, in networks and in particles alike.

python -m analysis.formation RUN.nc [OTHER.nc]

Through training or simulation: circularity, grid imperfections, the distance from the nearest perfect circle and from
the nearest perfect grid, and the Fourier content of the embedding. For each run, when a structure has formed, in
normalised time; runs in which it has not are censored. Of two trajectories the times are compared by a log-rank test.
`analysis/structures/formation_times.py` has the definitions.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions
from dynamics.settings import SettingsError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import TableRow
    from analysis.plots.formation_figure import FormationResult
    from analysis.statistics.intervals import Interval

HEADER = ("run", "what", "at the start", "at the end", "random, mean", "1 in 100", "forms, %", "median time",
          "of those that form", "log-rank p")  # fmt: skip

INTERVALS = ("start", "end", "share", "median", "median_of_formed")

COLUMNS = ("run", "what", "runs", "formed", "random_mean", "random_1_in_100",
           *(f"{name}{end}" for name in INTERVALS for end in ("", "_low", "_high")), "p_value")  # fmt: skip

Clock = Literal["normalised", "step"]

DEFINITIONS = """structure: a circle, or else a grid; where grids are not known, circles alone
circle: CA algorithm 1, which asks for norms alone
polygon: near a perfect circle, with the tokens evenly around it in the order of some frequency prime to N
grid: near a lattice whose places are numbered as sums of pairs ask for, and may be empty; a perfect grid has no holes
imperfections: fewer of CA algorithm 2
frequency: the one that is the largest in the end, since when it always is, and above what random embeddings have
forms: in the end its measure is beyond "1 in 100", as one random embedding in a hundred is; a circle by definition"""


# ----------------------------------------------------------------------------------------------- the table


def _rows(seen: "list[FormationResult]", clock: Clock) -> "list[TableRow]":
    """A row for each event of each trajectory; p-values stand with the second."""
    from analysis.statistics.survival import logrank_p_value

    found = []
    for place, each in enumerate(seen):
        for event in map(str, each.onsets["event"].values):
            p_value = float("nan")
            if place and _comparable(seen[0], each, event, clock):
                p_value = logrank_p_value(*(_waits(one, event, clock) for one in seen))
            found.append(_row(each, event, clock, p_value))
    return found


def _comparable(first: "FormationResult", second: "FormationResult", event: str, clock: Clock) -> bool:
    """Whether times of an event mean the same in two trajectories: steps do in one system alone."""
    if clock == "step" and first.system != second.system:
        return False
    if event == "structure":  # which is of circles alone where grids are not known
        event = "grid"
        known = [event in each.onsets["event"].values for each in (first, second)]
        return known[0] == known[1]
    return event in first.onsets["event"].values


def _row(each: "FormationResult", event: str, clock: Clock, p_value: float) -> "TableRow":
    """What forms in how many runs of a trajectory, and when."""
    import math

    from analysis.output.tables import TableRow, format_interval, format_number, format_percent
    from analysis.statistics.intervals import Interval, binomial_interval, median_interval
    from analysis.statistics.survival import kaplan_meier
    from analysis.structures.formation_times import FORMATION_EVENTS, mean_measure

    nothing = Interval(math.nan, math.nan, math.nan)
    times, formed = _waits(each, event, clock)
    share = binomial_interval(int(formed.sum()), len(formed))
    median = kaplan_meier(times, formed).median
    of_formed = median_interval(times[formed])  # none of them is censored
    start, end, random, rare = nothing, nothing, math.nan, math.nan
    if measure := FORMATION_EVENTS[event]:
        start, end = (mean_measure(each.measures, measure, at) for at in (0, -1))
        random = float(each.measures["expected"].sel(measure=measure))
        if measure != "circle":  # which has a threshold of its own
            rare = float(each.measures["chance"].sel(measure=measure))
    digits = 1 if measure == "imperfections" else 3
    text = [each.name, event, format_interval(start, digits), format_interval(end, digits)]
    text += ["-" if math.isnan(value) else f"{value:.{digits}f}" for value in (random, rare)]
    text += [format_percent(share), _shown(median), _shown(of_formed)]
    text += ["-" if math.isnan(p_value) else "< 0.0001" if p_value < 1e-4 else f"{p_value:.4f}"]
    numbers = [each.name, event, str(len(formed)), str(int(formed.sum())), format_number(random), format_number(rare)]
    numbers += [format_number(value) for part in (start, end, share, median, of_formed) for value in part]
    return TableRow(text, [*numbers, format_number(p_value)])


def _waits(each: "FormationResult", event: str, clock: Clock) -> "tuple[np.ndarray, np.ndarray]":
    """Times until an event (run,), in normalised time or in steps, and whether it has happened."""
    here = each.onsets.sel(event=event)
    steps = each.measures["step"].values
    unit = 1.0 if clock == "normalised" else float(steps[-1] - steps[0])
    return here["onset"].values * unit, here["formed"].values == 1


def _shown(interval: "Interval") -> str:
    """A median with its interval; a dash where there is none, or where half of the runs are still waiting."""
    if interval.value != interval.value or interval.value == float("inf"):
        return "-"
    if all(bound != bound for bound in interval[1:]):
        return f"{interval.value:.3g}"
    bounds = ("-" if bound != bound or bound == float("inf") else f"{bound:.3g}" for bound in interval[1:])
    return f"{interval.value:.3g} [{', '.join(bounds)}]"


# ---------------------------------------------------------------------------------------------- the command


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """When circles, grids and frequencies form in an embedding, of one trajectory or of two, whatever the system."""

    other: tyro.conf.Positional[Path | None] = None
    """Another trajectory, to compare with."""
    every: int = 1
    """Look at every so-manieth recorded frame, and at the last."""
    run: int = 0
    """Place of the run whose frequencies are drawn."""
    clock: Clock = "normalised"
    """Whether times are compared and printed as shares of the trajectory, or in steps."""


def main(options: Options) -> None:
    """Measure, print, draw and write."""
    from analysis.command_line.reading import open_input, write_result_and_picture
    from analysis.output import tables
    from analysis.output.files import combined_path
    from analysis.plots.formation_figure import plot_formation
    from dynamics.trajectory.reader import open_trajectory

    if options.every < 1:
        raise SettingsError("every", options.every, "a whole number from 1")
    paths = [options.trajectory, *([options.other] if options.other else [])]
    if options.other and options.out is None:
        options = dataclasses.replace(options, out=combined_path(paths, "formation", ".nc"))
    first, out = open_input(options, "formation")
    trajectories = [first, *([open_trajectory(options.other)] if options.other else [])]
    fewest = min(each.sizes["run"] for each in trajectories)
    if not 0 <= options.run < fewest:
        raise SettingsError("run", options.run, f"a place from 0 to {fewest - 1}")
    names = [each.attrs["system"] for each in trajectories]
    names = names if len(set(names)) == len(names) else [path.stem for path in paths]
    for each, path in zip(trajectories, paths, strict=True):
        _check(each, path)
    found = zip(trajectories, paths, names, strict=True)
    seen = [_seen(each, path, name, options) for each, path, name in found]
    picture = plot_formation(seen, options.run)
    tables.print_rows(HEADER, COLUMNS, _rows(seen, options.clock), options.csv, left=(0, 1))
    print(_legend(seen, options.clock), file=options.say)
    write_result_and_picture(
        options, "formation", "Structure over time, and when it forms", _result(seen), picture, out
    )


def _check(trajectory: "xr.Dataset", path: Path) -> None:
    """See that a trajectory has structure to look at, before any is measured. Raises TrajectoryError with its name."""
    from analysis.structures.formation_times import embedding_of_numbers
    from dynamics.errors import TrajectoryError

    try:
        embedding_of_numbers(trajectory)
    except TrajectoryError as error:
        raise TrajectoryError(f"{path}: {error}") from None


def _seen(trajectory: "xr.Dataset", path: Path, name: str, options: Options) -> "FormationResult":
    from analysis.plots.formation_figure import FormationResult
    from analysis.structures.formation_times import find_formation_times, structure_measures
    from analysis.structures.lattices import MAX_GRID_TOKENS

    found = structure_measures(trajectory, options.every)
    if lost := int(found["circularity"].isel(step=-1).isnull().sum()):
        print(f"{path.name}: {lost} runs diverged and are censored there", file=options.say)
    if "grid_distance" not in found:
        n = trajectory.attrs["modulus"]
        print(f"{path.name}: no distances from grids: {n} tokens, known for up to {MAX_GRID_TOKENS}", file=options.say)
    return FormationResult(name, trajectory.attrs["system"], found, find_formation_times(found))


def _legend(seen: "list[FormationResult]", clock: Clock) -> str:
    unit = "as a share of the trajectory's" if clock == "normalised" else "in steps"
    lines = [
        DEFINITIONS,
        f"time: {unit}; median over all runs, where half of them form it, and over those that do; intervals are 95%",
    ]
    if len(seen) > 1 and clock == "normalised":
        lines.append("p: of shares of trajectories' lengths, which are arbitrary: in a longer one all forms earlier")
    elif len({each.system for each in seen}) > 1:
        lines.append("p: none, as steps of different systems are not comparable")
    return "\n".join(lines)


def _result(seen: "list[FormationResult]") -> "xr.Dataset":
    """Measures and onsets; of a second trajectory with other_ before their names and dimensions."""
    import xarray as xr

    parts = []
    for each, prefix in zip(seen, ("", "other_"), strict=False):
        whole = each.measures.merge(each.onsets, compat="override", join="exact")
        names = {name: f"{prefix}{name}" for name in (*whole.variables, *whole.dims)} if prefix else {}
        parts.append(whole.rename(names))
    merged = xr.merge(parts, join="exact", combine_attrs="override")
    return merged.assign_attrs(names=", ".join(each.name for each in seen))


if __name__ == "__main__":
    run_command(main, Options, "analysis.formation")
