"""CA table 1: circles, accuracy and imperfections of networks trained at four weight decays.

python -m analysis.table1
"""

import dataclasses
import sys
from pathlib import Path

from analysis import reproduction
from analysis.command_line.parsing import run_command
from dynamics.settings import ModularSettings


@dataclasses.dataclass(frozen=True)
class Options:
    """Table 1 of CA (Musat 2024, Clustering and Alignment, arXiv:2408.09414): circles, validation accuracy and grid
    imperfections of networks trained with weight decay 0, 0.3, 0.6 and 1, beside the paper's numbers."""

    runs: int = 100
    """Networks per row; the paper has 100."""
    seed: int = 0
    """Seed of the first run of each row."""
    epochs: int | None = None
    """Training epochs (default: 2000, as in the paper)."""
    csv: Path | None = None
    """Also write the numbers of the table to this CSV file; - writes them to the terminal."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)


def main(options: Options) -> None:
    """Train or find the four ensembles; print them beside the paper's rows."""
    log = sys.stderr if str(options.csv) == "-" else sys.stdout
    rows = []
    ensembles = reproduction.train_table1_networks(options.settings, options.runs, options.seed, options.epochs, log)
    for settings, trajectory in ensembles:
        outcome = reproduction.final_network_outcome(trajectory)
        rows.append(reproduction.network_row(settings, int(trajectory["step"][-1]), outcome))
    reproduction.print_ca_table(rows, options.csv)


if __name__ == "__main__":
    run_command(main, Options, "analysis.table1")
