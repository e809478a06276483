"""CA table 2: circles, grids and imperfections of particles at three alignment constants.

python -m analysis.table2 --runs 1000
"""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from analysis.command_line.parsing import run_command
from dynamics.settings import ParticleSettings, SettingsError

if TYPE_CHECKING:
    import numpy as np

    from analysis.output.tables import TableRow


class PrintedParticleRow(NamedTuple):
    """A row as the paper prints it: of 100 simulations."""

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
"""Of the table as CSV: numbers, or nothing where there is none."""


def is_printed_particle_row(settings: ParticleSettings, steps: int) -> bool:
    """Whether the paper's table has a row for these settings, the choices it leaves open aside."""
    literal = {"ga": 1.0, "gr": 1.0, "n": 17, "dim": 2, "start": "random"}
    return (
        settings.fa in PRINTED_PARTICLE_ROWS
        and steps == 100
        and all(getattr(settings, k) == v for k, v in literal.items())
    )


def particle_row(settings: ParticleSettings, steps: int, embedding: "np.ndarray") -> "TableRow":
    """Structures of end states (run, token, axis) beside the paper's row, where it has one."""
    from analysis.output.tables import TableRow, format_number, format_percent, format_plus_minus
    from analysis.statistics.intervals import binomial_interval
    from analysis.structures.circles_and_grids import summarise_structures

    found = summarise_structures(embedding)
    share, mean = found.circle_share, found.imperfections
    text = [f"{settings.fa:g}", str(found.runs), format_percent(share), str(found.grids), format_plus_minus(mean)]
    numbers = [format_number(value) for value in (settings.fa, found.runs, found.circles, *(100 * v for v in share))]
    numbers += [format_number(value) for value in (found.grids, *mean)]
    if not is_printed_particle_row(settings, steps):
        return TableRow([*text, "-", "-", "-"], [*numbers, "", ""])
    printed = PRINTED_PARTICLE_ROWS[settings.fa]
    theirs = [format_percent(binomial_interval(printed.circles, 100)), str(printed.grids), printed.imperfections]
    return TableRow([*text, *theirs], [*numbers, str(printed.circles), printed.imperfections.split(" ")[0]])


def print_particle_table(rows: "list[TableRow]", csv: Path | None) -> None:
    """Print the table and write the CSV; with the CSV on the terminal, that alone."""
    from analysis.output import tables

    tables.print_rows(PARTICLE_HEADER, PARTICLE_COLUMNS, rows, csv)


@dataclasses.dataclass(frozen=True)
class Options:
    """CA table 2: circles, grids and imperfections of particles for f_a = 0.5, 1 and 2, beside the paper's."""

    runs: int = 100
    """Simulations a row; the paper has 100."""
    seed: int = 0
    """Seed of the first run of each row."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""
    settings: ParticleSettings = dataclasses.field(default_factory=ParticleSettings)


def main(options: Options) -> None:
    """Run, or find, the three rows; print them beside the paper's."""
    from dynamics.simulation import final_embedding, run_path, simulate

    if options.settings.fa != ParticleSettings.fa:
        raise SettingsError("fa", options.settings.fa, "no value here: the table has rows for 0.5, 1 and 2")
    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    rows = []
    for fa in PRINTED_PARTICLE_ROWS:
        settings = dataclasses.replace(options.settings, fa=fa)
        path = run_path(settings, options.runs, options.seed)
        trajectory = simulate(settings, runs=options.runs, seed=options.seed, out=path)
        ends = final_embedding(trajectory)
        diverged = trajectory.sizes["run"] - ends.sizes["run"]
        print(f"f_a = {fa:g}: {path}" + (f", {diverged} runs diverged and left out" if diverged else ""), file=say)
        rows.append(particle_row(settings, settings.default_steps, ends.values))
    print_particle_table(rows, options.csv)


if __name__ == "__main__":
    run_command(main, Options, "analysis.table2")
