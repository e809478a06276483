"""The transformer of CA learning addition modulo N: train an ensemble, compare with table 1, draw.

python -m sims.modular --weight-decay 1.0
"""

import dataclasses
import sys
from pathlib import Path

from analysis import reproduction
from analysis.command_line.parsing import run_command
from dynamics.settings import ModularSettings
from sims.command_line.amount import EnsembleOptions
from sims.command_line.ensemble import run_ensemble
from sims.command_line.origin import OriginOptions, branch_defaults


@dataclasses.dataclass(frozen=True)
class Options:
    """Train transformers of constant attention on modular addition (CA sections 3 to 5): writes the trajectory,
    prints the row of table 1 beside the paper's, and saves a picture of what they have learned."""

    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)
    epochs: int | None = None
    """How long to train; more epochs than before go on with a run. None is 2000."""
    amount: EnsembleOptions = dataclasses.field(default_factory=EnsembleOptions)
    origin: OriginOptions = dataclasses.field(default_factory=OriginOptions)
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""


def main(options: Options) -> None:
    """Train, or find, the ensemble; print and draw how it ended."""
    from dynamics.trajectory.diverged import count_diverged

    settings = options.settings
    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    path, trajectory = run_ensemble(settings, options.epochs, options.amount, options.origin, say, "epochs")
    epochs = int(trajectory["step"][-1])
    if diverged := count_diverged(trajectory):
        print(f"diverged    {diverged} runs, left out of the table", file=say)

    from analysis.plots.class_maps import save_class_map_figure

    picture = path.with_suffix(".png")
    title = f"Addition modulo {settings.n} after {epochs} epochs, weight decay {settings.weight_decay:g}"
    save_class_map_figure(trajectory, title, picture)
    print(f"picture     {picture}", file=say)
    row = reproduction.network_row(settings, epochs, reproduction.final_network_outcome(trajectory))
    reproduction.print_network_table([row], options.csv)


if __name__ == "__main__":
    run_command(main, Options, "sims.modular", branch_defaults(Options, ModularSettings.system))
