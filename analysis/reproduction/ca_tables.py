"""Tables 1 and 2 of CA: the numbers that the paper prints, and the same quantities of one's own ensembles.

CA: "Clustering and Alignment: Understanding the Training Dynamics in Modular Addition" (arXiv:2408.09414).
Table 1 is of networks trained at four weight decays, table 2 of particles at three alignment constants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import xarray as xr

from analysis.output.tables import Column, format_percent, format_table, interval_columns, make_table, output_table
from analysis.statistics.intervals import Interval, binomial_interval, correlation_interval, mean_interval
from analysis.structures.circles_and_grids import count_imperfections, is_circle, summarise_structures
from dynamics.branching import final_embedding
from dynamics.run_checks import run_path
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError
from dynamics.simulation import simulate
from dynamics.trajectory.diverged import count_diverged
from dynamics.trajectory.reader import run_indices


def _format_circles(count: int) -> str:
    return format_percent(binomial_interval(count, 100))


# ------------------------------------------------------------------------------------- table 1: networks


class PrintedNetworkRow(NamedTuple):
    """A row of table 1 as printed: of 100 networks, accuracies in percent."""

    circles: int
    circle_accuracy: str
    other_accuracy: str
    imperfections: str
    correlation: str

    def cells(self) -> list[str]:
        """The cells below NETWORK_COLUMNS after the weight decay."""
        return ["100", _format_circles(self.circles), self.circle_accuracy, str(100 - self.circles), *self[2:]]


PRINTED_NETWORK_ROWS = {
    0.0: PrintedNetworkRow(0, "-", "18.2", "102.2 ± 6.1", "-0.92 [-0.95, -0.88]"),
    0.3: PrintedNetworkRow(1, "77.4", "34.8", "72.7 ± 6.6", "-0.90 [-0.93, -0.85]"),
    0.6: PrintedNetworkRow(12, "65.9", "51.6", "39.6 ± 4.0", "-0.84 [-0.89, -0.77]"),
    1.0: PrintedNetworkRow(18, "60.4", "46.7", "31.6 ± 4.0", "-0.64 [-0.75, -0.49]"),
}

NETWORK_COLUMNS = (
    Column("weight decay", "weight_decay"),
    Column("runs", "runs"),
    Column("circles % [95%]", "circles_percent", digits=1, interval="bounds"),
    Column("their accuracy %", "circle_accuracy_percent", digits=1, interval="half-width"),
    Column("others", "others"),
    Column("others' accuracy %", "other_accuracy_percent", digits=1, interval="half-width"),
    Column("imperfections", "imperfections", digits=1, interval="half-width"),
    Column("correlation [95%]", "correlation", digits=2, interval="bounds"),
)
"""Imperfections and their correlation with accuracy are those of the runs that are no circle."""


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
        circle_accuracy=mean_interval(accuracy[circle], limits=(0, 1)),
        others=found.grids,
        other_accuracy=mean_interval(accuracy[~circle], limits=(0, 1)),
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


def network_row(settings: ModularSettings, steps: int, outcome: NetworkOutcome) -> dict[str, Any]:
    """The row of an ensemble, with the paper's numbers if table 1 has a row for these settings."""
    paper = PRINTED_NETWORK_ROWS[settings.weight_decay] if is_printed_network_row(settings, steps) else None
    return {
        "weight_decay": settings.weight_decay,
        "runs": outcome.runs,
        "circles": outcome.circles,
        **interval_columns("circles_percent", outcome.circle_fraction, 100),
        **interval_columns("circle_accuracy_percent", outcome.circle_accuracy, 100),
        "others": outcome.others,
        **interval_columns("other_accuracy_percent", outcome.other_accuracy, 100),
        **interval_columns("imperfections", outcome.imperfections),
        **interval_columns("correlation", outcome.correlation),
        "paper_circles_of_100": paper and paper.circles,
        "paper_circle_accuracy_percent": paper and paper.circle_accuracy.strip("-"),
        "paper_other_accuracy_percent": paper and paper.other_accuracy,
        "paper_imperfections": paper and _estimate(paper.imperfections),
        "paper_correlation": paper and _estimate(paper.correlation),
    }


def _estimate(printed: str) -> str:
    """A printed number without its interval."""
    return printed.split(" ")[0]


# ------------------------------------------------------------------------------------ table 2: particles


class PrintedParticleRow(NamedTuple):
    """A row of table 2 as printed: of 100 simulations."""

    circles: int
    grids: int
    imperfections: str

    def cells(self) -> list[str]:
        """The cells of a row of PARTICLE_COLUMNS, without the first one, f_a."""
        return ["100", _format_circles(self.circles), str(self.grids), self.imperfections]


PRINTED_PARTICLE_ROWS = {
    0.5: PrintedParticleRow(0, 100, "35.5 ± 3.7"),
    1.0: PrintedParticleRow(17, 83, "36.3 ± 4.8"),
    2.0: PrintedParticleRow(56, 44, "42.9 ± 10.1"),
}

PARTICLE_COLUMNS = (
    Column("f_a", "fa"),
    Column("runs", "runs"),
    Column("circles % [95%]", "circles_percent", digits=1, interval="bounds"),
    Column("grids", "grids"),
    Column("imperfections", "imperfections", digits=1, interval="half-width"),
)


def is_printed_particle_row(settings: ParticleSettings, steps: int) -> bool:
    """Whether table 2 has a row for these settings; choices that the paper leaves open may differ."""
    literal = {"ga": 1.0, "gr": 1.0, "n": 17, "dim": 2, "start": "random"}
    return (
        settings.fa in PRINTED_PARTICLE_ROWS
        and steps == 100
        and all(getattr(settings, k) == v for k, v in literal.items())
    )


def particle_row(settings: ParticleSettings, steps: int, embedding: np.ndarray) -> dict[str, Any]:
    """The row of final embeddings (run, token, axis), with the paper's numbers if table 2 has these settings."""
    summary = summarise_structures(embedding)
    paper = PRINTED_PARTICLE_ROWS[settings.fa] if is_printed_particle_row(settings, steps) else None
    return {
        "fa": settings.fa,
        "runs": summary.runs,
        "circles": summary.circles,
        **interval_columns("circles_percent", summary.circle_fraction, 100),
        "grids": summary.grids,
        **interval_columns("imperfections", summary.imperfections),
        "paper_circles_of_100": paper and paper.circles,
        "paper_imperfections": paper and _estimate(paper.imperfections),
    }


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


# --------------------------------------------------------------------------------------------- both tables


def print_ca_table(rows: Sequence[dict[str, Any]], csv: Path | None) -> None:
    """Print a table, with the paper's rows below it, and write it as CSV; a CSV on the terminal is printed alone."""
    table, networks = make_table(rows), "weight_decay" in rows[0]
    columns, printed = (
        (NETWORK_COLUMNS, PRINTED_NETWORK_ROWS) if networks else (PARTICLE_COLUMNS, PRINTED_PARTICLE_ROWS)
    )
    output_table(table, columns, csv)
    settings = table.iloc[:, 0][table["paper_circles_of_100"].notna()]
    if len(settings) and str(csv) != "-":
        headings = [column.heading for column in columns]
        paper = [dict(zip(headings, [f"{each:g}", *printed[each].cells()], strict=True)) for each in settings]
        print("\nin the paper:\n" + format_table(make_table(paper)))
