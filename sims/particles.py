"""Particles under the three forces of CA: simulate, compare with table 2, draw.

python -m sims.particles --fa 2.0
"""

import dataclasses

import dynamics
from analysis import structures
from analysis.command_line.parsing import run_command
from dynamics.settings import ParticleSettings
from sims import command_line
from sims.command_line.ensemble_options import (
    EndPictureOptions,
    EnsembleOptions,
    OriginOptions,
    branch_defaults,
    ensemble_options,
)


@dataclasses.dataclass(frozen=True)
class Options(EndPictureOptions):
    """Simulate particles under clustering and alignment forces (CA section 6). Writes
    the trajectory, prints the row of table 2 together with the paper's values, and
    saves a picture of the final positions."""

    settings: ParticleSettings = dataclasses.field(default_factory=ParticleSettings)
    steps: int | None = None
    """Number of steps. A larger number extends existing runs. Default: 100."""
    ensemble: EnsembleOptions = dataclasses.field(
        default_factory=ensemble_options(ParticleSettings)
    )
    origin: OriginOptions = dataclasses.field(default_factory=OriginOptions)


DEFAULTS = branch_defaults(Options, ParticleSettings.system)


def main(options: Options) -> None:
    """Simulate the ensemble or find it on disk; print and draw the final
    arrangements."""
    settings = options.settings
    path, trajectory = command_line.run_ensemble(
        settings, options.steps, options.ensemble, options.origin, options.log
    )
    steps = int(trajectory["step"][-1])
    ends = dynamics.final_embedding(trajectory)
    command_line.print_diverged(
        trajectory, "left out of the picture and the table", options.log
    )
    command_line.print_large_steps(trajectory, options.log)
    command_line.draw_ends(ends, settings, steps, options, path)
    structures.print_ca_table([structures.ca_table_row(trajectory)], options.csv)


if __name__ == "__main__":
    run_command(main, Options, "sims.particles", DEFAULTS)
