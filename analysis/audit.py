"""The force audit: how much of the gradient of a network's embeddings do the particle forces of CA explain?

python -m analysis.audit
"""

import dataclasses
import sys
from pathlib import Path

from analysis import forces, output, reproduction
from analysis.command_line.parsing import run_command
from dynamics.settings import ModularSettings, ParticleSettings


@dataclasses.dataclass(frozen=True)
class Options:
    """How much of the gradient of a network's embeddings the particle forces of CA (Musat 2024, arXiv:2408.09414,
    section 6) explain, at weight decay 0, 0.3, 0.6 and 1, along training: cosine and R², the weight of each of the four
    force fields, and a baseline with randomly renamed tokens."""

    runs: int = 100
    """Networks for each weight decay."""
    seed: int = 0
    """Seed of the first network."""
    epochs: int | None = None
    """Training epochs (default: 2000)."""
    fa: float = ParticleSettings.fa
    """Alignment constant f_a of the particle law; the fit of the four fields does not use it."""
    csv: Path | None = None
    """Also write the table, with the coefficients, to this CSV file; - writes it to the terminal."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)


def main(options: Options) -> None:
    """Train or find the four ensembles of table 1, audit them and print the results."""
    log = sys.stderr if str(options.csv) == "-" else sys.stdout
    rows = []
    ensembles = reproduction.train_table1_networks(options.settings, options.runs, options.seed, options.epochs, log)
    for settings, trajectory in ensembles:
        audit = forces.audit_forces(trajectory, ParticleSettings(fa=options.fa))
        rows += forces.audit_rows(audit, weight_decay=settings.weight_decay)
    columns = [output.Column("weight decay", "weight_decay"), *forces.AUDIT_COLUMNS]
    output.output_table(output.make_table(rows), columns, options.csv)
    print("\n" + forces.audit_legend(audit), file=log)


if __name__ == "__main__":
    run_command(main, Options, "analysis.audit")
