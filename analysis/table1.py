"""CA table 1: circles, accuracy and imperfections of networks trained at four weight decays.

python -m analysis.table1
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from analysis.command_line.parsing import run_command
from dynamics.settings import ModularSettings, SettingsError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import TableRow
    from analysis.statistics.intervals import Interval


class PrintedNetworkRow(NamedTuple):
    """A row as the paper prints it: of 100 networks, accuracies in percent."""

    circles: int
    circle_accuracy: str
    other_accuracy: str
    imperfections: str
    correlation: str


PRINTED_NETWORK_ROWS = {
    0.0: PrintedNetworkRow(0, "-", "18.2", "102.2 ± 6.1", "-0.92 [-0.95, -0.88]"),
    0.3: PrintedNetworkRow(1, "77.4", "34.8", "72.7 ± 6.6", "-0.90 [-0.93, -0.85]"),
    0.6: PrintedNetworkRow(12, "65.9", "51.6", "39.6 ± 4.0", "-0.84 [-0.89, -0.77]"),
    1.0: PrintedNetworkRow(18, "60.4", "46.7", "31.6 ± 4.0", "-0.64 [-0.75, -0.49]"),
}

NETWORK_HEADER = (
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

NETWORK_COLUMNS = (
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


class NetworkOutcome(NamedTuple):
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


def network_outcome(embedding: "np.ndarray", accuracy: "np.ndarray") -> NetworkOutcome:
    """Summarise end states (run, token, axis) and the accuracy of each, (run,), NaN where there is no such split.

    Raises ValueError for another shape or an embedding that is not finite.
    """
    from analysis.statistics.intervals import correlation_interval, mean_interval
    from analysis.structures.circles_and_grids import count_imperfections, is_circle, summarise_structures

    found, circle = summarise_structures(embedding), is_circle(embedding)
    return NetworkOutcome(
        runs=found.runs,
        circles=found.circles,
        circle_share=found.circle_share,
        circle_accuracy=mean_interval(accuracy[circle]),
        others=found.grids,
        other_accuracy=mean_interval(accuracy[~circle]),
        imperfections=found.imperfections,
        correlation=correlation_interval(count_imperfections(embedding[~circle]), accuracy[~circle]),
    )


def end_accuracy(trajectory: "xr.Dataset", seeds: "np.ndarray") -> "np.ndarray":
    """Validation accuracy at the last step of the runs with these seeds, (run,); NaN where all pairs are trained on."""
    import numpy as np

    from dynamics.trajectory.reader import run_indices

    if "validation" not in trajectory["split"].values:
        return np.full(len(seeds), np.nan)
    last = trajectory["accuracy"].sel(split="validation").isel(step=-1, run=run_indices(trajectory, seeds))
    return last.values.astype(np.float64)


def train_table1_networks(
    settings: ModularSettings, runs: int, seed: int, epochs: int | None, say: TextIO
) -> "Iterator[tuple[ModularSettings, xr.Dataset]]":
    """The ensembles of the table's weight decays, run or found where they live; says where to `say`.

    Raises as `simulate` does, of epochs, and SettingsError where the settings have a weight decay of their own.
    """
    from dynamics.simulation import run_path, simulate

    if settings.weight_decay != ModularSettings.weight_decay:
        allowed = "no value here: the table has rows for 0, 0.3, 0.6 and 1"
        raise SettingsError("weight_decay", settings.weight_decay, allowed)
    for weight_decay in PRINTED_NETWORK_ROWS:
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


def is_printed_network_row(settings: ModularSettings, steps: int) -> bool:
    """Whether the paper's table has a row for these settings."""
    literal = dataclasses.replace(ModularSettings(), weight_decay=settings.weight_decay)
    return settings == literal and settings.weight_decay in PRINTED_NETWORK_ROWS and steps == 2000


def network_rows(settings: ModularSettings, steps: int, found: NetworkOutcome) -> "list[TableRow]":
    """An outcome as a row, and under it the paper's, where it has one."""
    from analysis.output.tables import (
        TableRow,
        format_number,
        format_percent,
        format_percent_plus_minus,
        format_plus_minus,
    )
    from analysis.statistics.intervals import binomial_interval

    text = [f"{settings.weight_decay:g}", "here", str(found.runs), format_percent(found.circle_share)]
    text += [
        format_percent_plus_minus(found.circle_accuracy),
        str(found.others),
        format_percent_plus_minus(found.other_accuracy),
    ]
    text += [format_plus_minus(found.imperfections), _bracketed_correlation(found.correlation)]
    numbers = [settings.weight_decay, found.runs, found.circles, *(100 * share for share in found.circle_share)]
    numbers += [*(100 * share for share in found.circle_accuracy), found.others]
    numbers += [*(100 * share for share in found.other_accuracy), *found.imperfections, *found.correlation]
    cells = [format_number(value) for value in numbers]
    if not is_printed_network_row(settings, steps):
        return [TableRow(text, [*cells, "", "", "", "", ""])]
    paper = PRINTED_NETWORK_ROWS[settings.weight_decay]
    theirs = ["", "paper", "100", format_percent(binomial_interval(paper.circles, 100)), paper.circle_accuracy]
    theirs += [str(100 - paper.circles), paper.other_accuracy, paper.imperfections, paper.correlation]
    printed = [paper.circle_accuracy.strip("-"), paper.other_accuracy]
    printed += [value.split(" ")[0] for value in (paper.imperfections, paper.correlation)]
    return [TableRow(text, [*cells, str(paper.circles), *printed]), TableRow(theirs, [])]


def _bracketed_correlation(interval: "Interval") -> str:
    """A correlation with its interval; a dash where there is no value."""
    import math

    if math.isnan(interval.value):
        return "-"
    return f"{interval.value:.2f}" + ("" if math.isnan(interval.low) else f" [{interval.low:.2f}, {interval.high:.2f}]")


def print_network_table(found: "list[TableRow]", csv: Path | None) -> None:
    """Print the table and write the CSV; with the CSV on the terminal, that alone."""
    from analysis.output import tables

    tables.print_rows(NETWORK_HEADER, NETWORK_COLUMNS, found, csv, left=(0, 1))


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
    from dynamics.simulation import final_embedding

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    found = []
    for settings, trajectory in train_table1_networks(
        options.settings, options.runs, options.seed, options.epochs, say
    ):
        ends = final_embedding(trajectory)
        accuracy = end_accuracy(trajectory, ends["seed"].values)
        found += network_rows(settings, int(trajectory["step"][-1]), network_outcome(ends.values, accuracy))
    print_network_table(found, options.csv)


if __name__ == "__main__":
    run_command(main, Options, "analysis.table1")
