"""The transformer of CA learning addition modulo N: train an ensemble, compare with table 1, draw.

python -m sims.modular --weight-decay 1.0
"""

import dataclasses
import sys
from pathlib import Path

from analysis.command_line.parsing import command
from dynamics.settings import ModularSettings
from sims.command_line.amount import Amount
from sims.command_line.ensemble import made
from sims.command_line.origin import Origin, inherited


@dataclasses.dataclass(frozen=True)
class Options:
    """Train transformers of constant attention on modular addition (CA sections 3 to 5): writes the trajectory,
    prints the row of table 1 beside the paper's, and saves a picture of what they have learned."""

    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)
    epochs: int | None = None
    """How long to train; more epochs than before go on with a run. None is 2000."""
    amount: Amount = dataclasses.field(default_factory=Amount)
    origin: Origin = dataclasses.field(default_factory=Origin)
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""


def main(options: Options) -> None:
    """Train, or find, the ensemble; print and draw how it ended."""
    from dynamics.simulation import end_embedding

    settings = options.settings
    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    path, trajectory = made(settings, options.epochs, options.amount, options.origin, say, "epochs")
    epochs = int(trajectory["step"][-1])
    ends = end_embedding(trajectory)
    diverged = trajectory.sizes["run"] - ends.sizes["run"]
    if diverged:
        print(f"diverged    {diverged} runs, left out of the table", file=say)

    from analysis.plots.class_maps import save_portrait
    from analysis.table1 import end_accuracy, outcome, rows, show

    picture = path.with_suffix(".png")
    title = f"Addition modulo {settings.n} after {epochs} epochs, weight decay {settings.weight_decay:g}"
    save_portrait(trajectory, title, picture)
    print(f"picture     {picture}", file=say)
    accuracy = end_accuracy(trajectory, ends["seed"].values)
    show(rows(settings, epochs, outcome(ends.values, accuracy)), options.csv)


if __name__ == "__main__":
    command(main, Options, "sims.modular", inherited(Options, ModularSettings.system))
