"""The force audit: how much of the gradient of a network's embeddings do the particle forces of CA explain?

python -m analysis.audit
"""

import dataclasses

from analysis import forces, output, reproduction
from analysis.command_line.options import TableOptions
from analysis.command_line.parsing import run_command
from dynamics.settings import ModularSettings, ParticleSettings


@dataclasses.dataclass(frozen=True)
class Options(TableOptions):
    """Measure how much of the gradient of a network's embeddings is explained by the particle forces of CA (section 6)
    during training, at weight decay 0, 0.3, 0.6 and 1. The table gives the cosine and R², the weight of each of the
    four force fields, and a baseline with randomly permuted (renamed) tokens."""

    runs: int = 100
    """Number of networks for each weight decay."""
    seed: int = 0
    """Seed of the first network."""
    epochs: int | None = None
    """Number of training epochs. Default: 2000."""
    fa: float = ParticleSettings.fa
    """Alignment constant f_a of the particle forces; it is not used in the fit of the four fields."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)


def main(options: Options) -> None:
    """Train or find the four ensembles of table 1, audit them and print the results."""
    rows = []
    ensembles = reproduction.table_ensembles(options.settings, options.runs, options.seed, options.epochs, options.log)
    for settings, trajectory in ensembles:
        audit = forces.audit_forces(trajectory, ParticleSettings(fa=options.fa))
        rows += forces.audit_rows(audit, weight_decay=settings.weight_decay)
    columns = [output.Column("weight decay", "weight_decay"), *forces.AUDIT_COLUMNS]
    output.output_table(output.make_table(rows), columns, options.csv)
    print("\n" + forces.audit_legend(audit), file=options.log)


if __name__ == "__main__":
    run_command(main, Options, "analysis.audit")
