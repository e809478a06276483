"""Tables 1 and 2 of CA: the numbers that the paper prints, and the same quantities of one's own ensembles.

CA: "Clustering and Alignment: Understanding the Training Dynamics in Modular Addition" (arXiv:2408.09414).
Table 1 is of networks trained at four weight decays, table 2 of particles at three alignment constants.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
import xarray as xr

from analysis.output.tables import (
    TableRow,
    format_number,
    format_percent,
    format_percent_plus_minus,
    format_plus_minus,
    print_rows,
)
from analysis.statistics.intervals import Interval, binomial_interval, correlation_interval, mean_interval
from analysis.structures.circles_and_grids import count_imperfections, is_circle, summarise_structures
from dynamics.branching import final_embedding
from dynamics.preparation import run_path
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError
from dynamics.simulation import simulate
from dynamics.trajectory.diverged import count_diverged
from dynamics.trajectory.reader import run_indices

# ------------------------------------------------------------------------------------- table 1: networks


class PrintedNetworkRow(NamedTuple):
    """A row of table 1 as printed: of 100 networks, accuracies in percent."""

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
"""Columns of the CSV file; a number that does not exist is an empty cell."""


class NetworkOutcome(NamedTuple):
    """A row of table 1 for an ensemble, with 95% intervals; accuracies are fractions.

    `others` counts the runs that are no circle; imperfections and their correlation with accuracy are over these.
    """

    runs: int
    circles: int
    circle_fraction: Interval
    circle_accuracy: Interval
    others: int
    other_accuracy: Interval
    imperfections: Interval
    correlation: Interval


def network_outcome(embedding: np.ndarray, accuracy: np.ndarray) -> NetworkOutcome:
    """The row of table 1 from final embeddings (run, token, axis) and validation accuracies (run,), which may be NaN.

    Raises ValueError for another shape or an embedding that is not finite.
    """
    found, circle = summarise_structures(embedding), is_circle(embedding)
    return NetworkOutcome(
        runs=found.runs,
        circles=found.circles,
        circle_fraction=found.circle_fraction,
        circle_accuracy=mean_interval(accuracy[circle]),
        others=found.grids,
        other_accuracy=mean_interval(accuracy[~circle]),
        imperfections=found.imperfections,
        correlation=correlation_interval(count_imperfections(embedding[~circle]), accuracy[~circle]),
    )


def end_accuracy(trajectory: xr.Dataset, seeds: np.ndarray) -> np.ndarray:
    """Validation accuracy at the last step of the runs with these seeds, (run,); NaN without a validation split."""
    if "validation" not in trajectory["split"].values:
        return np.full(len(seeds), np.nan)
    last = trajectory["accuracy"].sel(split="validation").isel(step=-1, run=run_indices(trajectory, seeds))
    return last.values.astype(np.float64)


def final_network_outcome(trajectory: xr.Dataset) -> NetworkOutcome:
    """The row of table 1 from the last frames of the runs that have not diverged."""
    ends = final_embedding(trajectory)
    return network_outcome(ends.values, end_accuracy(trajectory, ends["seed"].values))


def train_table1_networks(
    settings: ModularSettings, runs: int, seed: int, epochs: int | None, log: TextIO
) -> Iterator[tuple[ModularSettings, xr.Dataset]]:
    """Train an ensemble at each weight decay of the table, or find it in runs/; print its file to `log`.

    Raises SettingsError if the settings have a weight decay other than the default, and as `simulate` does.
    """
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
        diverged = count_diverged(trajectory)
        left_out = f", {diverged} runs diverged and left out" if diverged else ""
        print(f"weight decay {weight_decay:g}: {path}{left_out}", file=log)
        yield each, trajectory


def is_printed_network_row(settings: ModularSettings, steps: int) -> bool:
    """Whether table 1 has a row for these settings."""
    literal = dataclasses.replace(ModularSettings(), weight_decay=settings.weight_decay)
    return settings == literal and settings.weight_decay in PRINTED_NETWORK_ROWS and steps == 2000


def network_rows(settings: ModularSettings, steps: int, found: NetworkOutcome) -> list[TableRow]:
    """The row of an ensemble and, below it, the paper's if table 1 has one for these settings."""

    text = [f"{settings.weight_decay:g}", "here", str(found.runs), format_percent(found.circle_fraction)]
    text += [
        format_percent_plus_minus(found.circle_accuracy),
        str(found.others),
        format_percent_plus_minus(found.other_accuracy),
    ]
    text += [format_plus_minus(found.imperfections), _bracketed_correlation(found.correlation)]
    numbers = [
        settings.weight_decay,
        found.runs,
        found.circles,
        *(100 * fraction for fraction in found.circle_fraction),
    ]
    numbers += [*(100 * fraction for fraction in found.circle_accuracy), found.others]
    numbers += [*(100 * fraction for fraction in found.other_accuracy), *found.imperfections, *found.correlation]
    cells = [format_number(value) for value in numbers]
    if not is_printed_network_row(settings, steps):
        return [TableRow(text, [*cells, "", "", "", "", ""])]
    paper = PRINTED_NETWORK_ROWS[settings.weight_decay]
    theirs = ["", "paper", "100", format_percent(binomial_interval(paper.circles, 100)), paper.circle_accuracy]
    theirs += [str(100 - paper.circles), paper.other_accuracy, paper.imperfections, paper.correlation]
    printed = [paper.circle_accuracy.strip("-"), paper.other_accuracy]
    printed += [value.split(" ")[0] for value in (paper.imperfections, paper.correlation)]
    return [TableRow(text, [*cells, str(paper.circles), *printed]), TableRow(theirs, [])]


def _bracketed_correlation(interval: Interval) -> str:
    """A correlation with its interval; a dash where there is no value."""

    if math.isnan(interval.value):
        return "-"
    return f"{interval.value:.2f}" + ("" if math.isnan(interval.low) else f" [{interval.low:.2f}, {interval.high:.2f}]")


def print_network_table(found: list[TableRow], csv: Path | None) -> None:
    """Print the table and write it as CSV; if the CSV goes to the terminal, only that."""

    print_rows(NETWORK_HEADER, NETWORK_COLUMNS, found, csv, left=(0, 1))


# ------------------------------------------------------------------------------------ table 2: particles


class PrintedParticleRow(NamedTuple):
    """A row of table 2 as printed: of 100 simulations."""

    circles: int
    grids: int
    imperfections: str


PRINTED_PARTICLE_ROWS = {
    0.5: PrintedParticleRow(0, 100, "35.5 ± 3.7"),
    1.0: PrintedParticleRow(17, 83, "36.3 ± 4.8"),
    2.0: PrintedParticleRow(56, 44, "42.9 ± 10.1"),
}

PARTICLE_HEADER = (
    "f_a",
    "runs",
    "circles % [95%]",
    "grids",
    "imperfections",
    "paper: circles % [95%]",
    "grids",
    "imperfections",
)

PARTICLE_COLUMNS = (
    "fa",
    "runs",
    "circles",
    "circles_percent",
    "circles_percent_low",
    "circles_percent_high",
    "grids",
    "imperfections",
    "imperfections_low",
    "imperfections_high",
    "paper_circles_of_100",
    "paper_imperfections",
)
"""Columns of the CSV file; a number that does not exist is an empty cell."""


def is_printed_particle_row(settings: ParticleSettings, steps: int) -> bool:
    """Whether table 2 has a row for these settings; choices that the paper leaves open may differ."""
    literal = {"ga": 1.0, "gr": 1.0, "n": 17, "dim": 2, "start": "random"}
    return (
        settings.fa in PRINTED_PARTICLE_ROWS
        and steps == 100
        and all(getattr(settings, k) == v for k, v in literal.items())
    )


def particle_row(settings: ParticleSettings, steps: int, embedding: np.ndarray) -> TableRow:
    """The row of final embeddings (run, token, axis) beside the paper's if table 2 has one for these settings."""

    found = summarise_structures(embedding)
    fraction, mean = found.circle_fraction, found.imperfections
    text = [f"{settings.fa:g}", str(found.runs), format_percent(fraction), str(found.grids), format_plus_minus(mean)]
    numbers = [format_number(value) for value in (settings.fa, found.runs, found.circles, *(100 * v for v in fraction))]
    numbers += [format_number(value) for value in (found.grids, *mean)]
    if not is_printed_particle_row(settings, steps):
        return TableRow([*text, "-", "-", "-"], [*numbers, "", ""])
    printed = PRINTED_PARTICLE_ROWS[settings.fa]
    theirs = [format_percent(binomial_interval(printed.circles, 100)), str(printed.grids), printed.imperfections]
    return TableRow([*text, *theirs], [*numbers, str(printed.circles), printed.imperfections.split(" ")[0]])


def print_particle_table(rows: list[TableRow], csv: Path | None) -> None:
    """Print the table and write it as CSV; if the CSV goes to the terminal, only that."""

    print_rows(PARTICLE_HEADER, PARTICLE_COLUMNS, rows, csv)


def simulate_table2_particles(
    settings: ParticleSettings, runs: int, seed: int, log: TextIO
) -> Iterator[tuple[ParticleSettings, np.ndarray]]:
    """Simulate an ensemble at each f_a of the table, or find it in runs/: settings and final embeddings.

    Runs that diverged are left out; the file is printed to `log`. Raises SettingsError if the settings have an f_a
    other than the default, and as `simulate` does.
    """
    if settings.fa != ParticleSettings.fa:
        raise SettingsError("fa", settings.fa, "no value here: the table has rows for 0.5, 1 and 2")
    for fa in PRINTED_PARTICLE_ROWS:
        each = dataclasses.replace(settings, fa=fa)
        path = run_path(each, runs, seed)
        trajectory = simulate(each, runs=runs, seed=seed, out=path)
        ends = final_embedding(trajectory)
        diverged = trajectory.sizes["run"] - ends.sizes["run"]
        print(f"f_a = {fa:g}: {path}" + (f", {diverged} runs diverged and left out" if diverged else ""), file=log)
        yield each, ends.values
