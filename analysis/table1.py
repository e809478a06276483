"""CA table 1: circles, accuracy and imperfections of networks trained at four weight decays.

python -m analysis.table1
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from analysis.command_line.parsing import command
from dynamics.settings import ModularSettings, SettingsError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import Row
    from analysis.statistics.intervals import Interval


class Printed(NamedTuple):
    """A row as the paper prints it: of 100 networks, accuracies in percent."""

    circles: int
    circle_accuracy: str
    other_accuracy: str
    imperfections: str
    correlation: str


PRINTED = {
    0.0: Printed(0, "-", "18.2", "102.2 ± 6.1", "-0.92 [-0.95, -0.88]"),
    0.3: Printed(1, "77.4", "34.8", "72.7 ± 6.6", "-0.90 [-0.93, -0.85]"),
    0.6: Printed(12, "65.9", "51.6", "39.6 ± 4.0", "-0.84 [-0.89, -0.77]"),
    1.0: Printed(18, "60.4", "46.7", "31.6 ± 4.0", "-0.64 [-0.75, -0.49]"),
}

HEADER = (
    "weight decay",
    "",
    "runs",
    "circles % [95%]",
    "accuracy %",
    "others",
    "accuracy %",
    "imperfections",
    "their correlation [95%]",
)

COLUMNS = (
    "weight_decay",
    "runs",
    "circles",
    *(f"circles_percent{end}" for end in ("", "_low", "_high")),
    *(f"circle_accuracy_percent{end}" for end in ("", "_low", "_high")),
    "others",
    *(f"other_accuracy_percent{end}" for end in ("", "_low", "_high")),
    *(f"imperfections{end}" for end in ("", "_low", "_high")),
    *(f"correlation{end}" for end in ("", "_low", "_high")),
    "paper_circles_of_100",
    "paper_circle_accuracy_percent",
    "paper_other_accuracy_percent",
    "paper_imperfections",
    "paper_correlation",
)
"""Of the table as CSV: numbers, or nothing where there is none."""


class Outcome(NamedTuple):
    """How an ensemble ended, with 95% intervals: a row of CA table 1. Accuracies are shares of the last split.

    `others` are the runs that are not circles; imperfections and their correlation with accuracy are over them.
    """

    runs: int
    circles: int
    circle_share: "Interval"
    circle_accuracy: "Interval"
    others: int
    other_accuracy: "Interval"
    imperfections: "Interval"
    correlation: "Interval"


def outcome(embedding: "np.ndarray", accuracy: "np.ndarray") -> Outcome:
    """Summarise end states (run, token, axis) and the accuracy of each, (run,), NaN where there is no such split.

    Raises ValueError for another shape or an embedding that is not finite.
    """
    from analysis.statistics.intervals import correlation_interval, mean_interval
    from analysis.structures.circles_and_grids import imperfections, is_circle, summarise

    found, circle = summarise(embedding), is_circle(embedding)
    return Outcome(
        runs=found.runs,
        circles=found.circles,
        circle_share=found.circle_share,
        circle_accuracy=mean_interval(accuracy[circle]),
        others=found.grids,
        other_accuracy=mean_interval(accuracy[~circle]),
        imperfections=found.imperfections,
        correlation=correlation_interval(imperfections(embedding[~circle]), accuracy[~circle]),
    )


def end_accuracy(trajectory: "xr.Dataset", seeds: "np.ndarray") -> "np.ndarray":
    """Validation accuracy at the last step of the runs with these seeds, (run,); NaN where all pairs are trained on."""
    import numpy as np

    from dynamics.trajectory.reader import rows_of

    if "validation" not in trajectory["split"].values:
        return np.full(len(seeds), np.nan)
    last = trajectory["accuracy"].sel(split="validation").isel(step=-1, run=rows_of(trajectory, seeds))
    return last.values.astype(np.float64)


def trained(
    settings: ModularSettings, runs: int, seed: int, epochs: int | None, say: TextIO
) -> "Iterator[tuple[ModularSettings, xr.Dataset]]":
    """The ensembles of the table's weight decays, run or found where they live; says where to `say`.

    Raises as `simulate` does, of epochs, and SettingsError where the settings have a weight decay of their own.
    """
    from dynamics.simulation import run_path, simulate

    if settings.weight_decay != ModularSettings.weight_decay:
        allowed = "no value here: the table has rows for 0, 0.3, 0.6 and 1"
        raise SettingsError("weight_decay", settings.weight_decay, allowed)
    for weight_decay in PRINTED:
        each = dataclasses.replace(settings, weight_decay=weight_decay)
        path = run_path(each, runs, seed)
        try:
            trajectory = simulate(each, runs=runs, seed=seed, steps=epochs, out=path)
        except SettingsError as error:
            raise SettingsError(error.field.replace("steps", "epochs"), error.found, error.allowed) from None
        diverged = int((trajectory["last_step"] < trajectory["step"][-1]).sum())
        left_out = f", {diverged} runs diverged and left out" if diverged else ""
        print(f"weight decay {weight_decay:g}: {path}{left_out}", file=say)
        yield each, trajectory


def is_printed(settings: ModularSettings, steps: int) -> bool:
    """Whether the paper's table has a row for these settings."""
    literal = dataclasses.replace(ModularSettings(), weight_decay=settings.weight_decay)
    return settings == literal and settings.weight_decay in PRINTED and steps == 2000


def rows(settings: ModularSettings, steps: int, found: Outcome) -> "list[Row]":
    """An outcome as a row, and under it the paper's, where it has one."""
    from analysis.output.tables import Row, number, percent, percent_plus_minus, plus_minus
    from analysis.statistics.intervals import binomial_interval

    text = [f"{settings.weight_decay:g}", "here", str(found.runs), percent(found.circle_share)]
    text += [percent_plus_minus(found.circle_accuracy), str(found.others), percent_plus_minus(found.other_accuracy)]
    text += [plus_minus(found.imperfections), bracketed(found.correlation)]
    numbers = [settings.weight_decay, found.runs, found.circles, *(100 * share for share in found.circle_share)]
    numbers += [*(100 * share for share in found.circle_accuracy), found.others]
    numbers += [*(100 * share for share in found.other_accuracy), *found.imperfections, *found.correlation]
    cells = [number(value) for value in numbers]
    if not is_printed(settings, steps):
        return [Row(text, [*cells, "", "", "", "", ""])]
    paper = PRINTED[settings.weight_decay]
    theirs = ["", "paper", "100", percent(binomial_interval(paper.circles, 100)), paper.circle_accuracy]
    theirs += [str(100 - paper.circles), paper.other_accuracy, paper.imperfections, paper.correlation]
    printed = [paper.circle_accuracy.strip("-"), paper.other_accuracy]
    printed += [value.split(" ")[0] for value in (paper.imperfections, paper.correlation)]
    return [Row(text, [*cells, str(paper.circles), *printed]), Row(theirs, [])]


def bracketed(interval: "Interval") -> str:
    """A correlation with its interval; a dash where there is no value."""
    import math

    if math.isnan(interval.value):
        return "-"
    return f"{interval.value:.2f}" + ("" if math.isnan(interval.low) else f" [{interval.low:.2f}, {interval.high:.2f}]")


def show(found: "list[Row]", csv: Path | None) -> None:
    """Print the table and write the CSV; with the CSV on the terminal, that alone."""
    from analysis.output import tables

    tables.show(HEADER, COLUMNS, found, csv, left=(0, 1))


@dataclasses.dataclass(frozen=True)
class Options:
    """CA table 1: circles, validation accuracy and imperfections of networks trained with weight decay 0, 0.3,
    0.6 and 1, beside the paper's."""

    runs: int = 100
    """Networks a row; the paper has 100."""
    seed: int = 0
    """Seed of the first run of each row."""
    epochs: int | None = None
    """How long to train. None is the paper's 2000."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)


def main(options: Options) -> None:
    """Train, or find, the four rows; print them beside the paper's."""
    from dynamics.simulation import end_embedding

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    found = []
    for settings, trajectory in trained(options.settings, options.runs, options.seed, options.epochs, say):
        ends = end_embedding(trajectory)
        accuracy = end_accuracy(trajectory, ends["seed"].values)
        found += rows(settings, int(trajectory["step"][-1]), outcome(ends.values, accuracy))
    show(found, options.csv)


if __name__ == "__main__":
    command(main, Options, "analysis.table1")
