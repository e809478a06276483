"""CA table 2: circles, grids and imperfections of particles at three alignment constants.

python -m analysis.table2 --runs 1000
"""

import dataclasses
from pathlib import Path
from typing import NamedTuple

from analysis.command import command
from dynamics.settings import ParticleSettings, SettingsError


class Printed(NamedTuple):
    """A row as the paper prints it: of 100 simulations."""

    circles: int
    grids: int
    imperfections: str


PRINTED = {0.5: Printed(0, 100, "35.5 ± 3.7"), 1.0: Printed(17, 83, "36.3 ± 4.8"), 2.0: Printed(56, 44, "42.9 ± 10.1")}

HEADER = (
    "f_a",
    "runs",
    "circles % [95%]",
    "grids",
    "imperfections",
    "paper: circles % [95%]",
    "grids",
    "imperfections",
)


def is_printed(settings: ParticleSettings, steps: int) -> bool:
    """Whether the paper's table has a row for these settings, the choices it leaves open aside."""
    literal = {"fa": settings.fa, "ga": 1.0, "gr": 1.0, "n": 17, "dim": 2, "start": "random"}
    return settings.fa in PRINTED and steps == 100 and all(getattr(settings, k) == v for k, v in literal.items())


def row(settings: ParticleSettings, steps: int, embedding) -> list[str]:
    """Structures of end states (run, token, axis) beside the paper's row, where it has one."""
    from analysis.intervals import binomial_interval
    from analysis.structures import summarise
    from analysis.tables import percent, plus_minus

    found = summarise(embedding)
    cells = [
        f"{settings.fa:g}",
        str(found.runs),
        percent(found.circle_share),
        str(found.grids),
        plus_minus(found.imperfections),
    ]
    if not is_printed(settings, steps):
        return [*cells, "-", "-", "-"]
    printed = PRINTED[settings.fa]
    return [*cells, percent(binomial_interval(printed.circles, 100)), str(printed.grids), printed.imperfections]


@dataclasses.dataclass(frozen=True)
class Options:
    """CA table 2: circles, grids and imperfections of particles for f_a = 0.5, 1 and 2, beside the paper's."""

    runs: int = 100
    """Simulations a row; the paper has 100."""
    seed: int = 0
    """Seed of the first run of each row."""
    csv: Path | None = None
    """Also write the table as CSV; - is the terminal."""
    settings: ParticleSettings = dataclasses.field(default_factory=ParticleSettings)


def main(options: Options) -> None:
    """Run, or find, the three rows; print them beside the paper's."""
    from analysis.tables import Table
    from dynamics.simulate import run_path, simulate
    from dynamics.trajectory import end_embedding

    if options.settings.fa != ParticleSettings.fa:
        raise SettingsError("fa", options.settings.fa, "no value here: the table has rows for 0.5, 1 and 2")
    rows = []
    for fa in PRINTED:
        settings = dataclasses.replace(options.settings, fa=fa)
        path = run_path(settings, options.runs, options.seed)
        trajectory = simulate(settings, runs=options.runs, seed=options.seed, out=path)
        rows.append(row(settings, settings.default_steps, end_embedding(trajectory).values))
        print(f"f_a = {fa:g}: {path}")
    table = Table(HEADER, rows)
    print("\n" + table.text())
    if options.csv:
        table.write_csv(options.csv)


if __name__ == "__main__":
    command(main, Options, "analysis.table2")
