"""Particles under the three forces of CA: simulate, compare with table 2, draw.

python -m sims.particles --fa 2.0
"""

import dataclasses
import sys
from pathlib import Path

from analysis import reproduction
from analysis.command_line.parsing import run_command
from dynamics.settings import ParticleSettings
from sims.command_line.amount import EnsembleOptions
from sims.command_line.ensemble import run_ensemble
from sims.command_line.origin import OriginOptions, branch_defaults


@dataclasses.dataclass(frozen=True)
class Options:
    """Simulate particles under clustering and alignment forces (CA section 6): writes the trajectory, prints
    the row of table 2 beside the paper's, and saves a picture of the final arrangements."""

    settings: ParticleSettings = dataclasses.field(default_factory=ParticleSettings)
    steps: int | None = None
    """How far to go; more steps than before extend a run. None is 100."""
    amount: EnsembleOptions = dataclasses.field(default_factory=EnsembleOptions)
    origin: OriginOptions = dataclasses.field(default_factory=OriginOptions)
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""


def main(options: Options) -> None:
    """Run, or find, the ensemble; print and draw its end states."""
    from analysis.plots.embedding_grid import save_embeddings_plot
    from dynamics.branching import final_embedding

    settings = options.settings
    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    path, trajectory = run_ensemble(settings, options.steps, options.amount, options.origin, say)
    steps = int(trajectory["step"][-1])
    ends = final_embedding(trajectory)
    diverged = trajectory.sizes["run"] - ends.sizes["run"]
    if diverged:
        print(f"diverged    {diverged} runs, left out of what follows", file=say)
    if ends.sizes["run"]:
        picture = path.with_suffix(".png")
        title = f"{settings.n} particles after {steps} steps, f_a = {settings.fa:g}"
        save_embeddings_plot(ends.values, ends["seed"].values, title, picture)
        print(f"picture     {picture}", file=say)
    reproduction.print_particle_table([reproduction.particle_row(settings, steps, ends.values)], options.csv)


if __name__ == "__main__":
    run_command(main, Options, "sims.particles", branch_defaults(Options, ParticleSettings.system))
