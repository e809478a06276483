"""Particles under the three forces of CA: simulate, compare with table 2, draw.

python -m sims.particles --fa 2.0
"""

import dataclasses
import sys
from pathlib import Path

from analysis.command_line.parsing import command
from dynamics.settings import ParticleSettings
from sims.command_line.amount import Amount
from sims.command_line.ensemble import made
from sims.command_line.origin import Origin, inherited


@dataclasses.dataclass(frozen=True)
class Options:
    """Simulate particles under clustering and alignment forces (CA section 6): writes the trajectory, prints
    the row of table 2 beside the paper's, and saves a picture of the final arrangements."""

    settings: ParticleSettings = dataclasses.field(default_factory=ParticleSettings)
    steps: int | None = None
    """How far to go; more steps than before extend a run. None is 100."""
    amount: Amount = dataclasses.field(default_factory=Amount)
    origin: Origin = dataclasses.field(default_factory=Origin)
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""


def main(options: Options) -> None:
    """Run, or find, the ensemble; print and draw its end states."""
    from analysis.plots.embedding_grid import save_gallery
    from analysis.table2 import row, show
    from dynamics.simulation import end_embedding

    settings = options.settings
    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    path, trajectory = made(settings, options.steps, options.amount, options.origin, say)
    steps = int(trajectory["step"][-1])
    ends = end_embedding(trajectory)
    diverged = trajectory.sizes["run"] - ends.sizes["run"]
    if diverged:
        print(f"diverged    {diverged} runs, left out of what follows", file=say)
    if ends.sizes["run"]:
        picture = path.with_suffix(".png")
        title = f"{settings.n} particles after {steps} steps, f_a = {settings.fa:g}"
        save_gallery(ends.values, ends["seed"].values, title, picture)
        print(f"picture     {picture}", file=say)
    show([row(settings, steps, ends.values)], options.csv)


if __name__ == "__main__":
    command(main, Options, "sims.particles", inherited(Options, ParticleSettings.system))
