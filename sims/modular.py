"""The transformer of CA on addition modulo N: train an ensemble, compare with table 1,
draw.

python -m sims.modular --weight-decay 1.0
"""

import dataclasses

from analysis import plots, structures
from analysis.command_line.parsing import run_command
from dynamics.settings import ModularSettings
from dynamics.settings_text import describe_settings
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
    """Train transformers with constant attention on modular addition (CA sections 3 to
    5). Writes the trajectory, prints the row of table 1 together with the paper's
    values, and saves a picture of the embeddings and class maps of the networks."""

    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)
    epochs: int | None = None
    """Number of training epochs. A larger number extends existing runs. Default:
    2000."""
    ensemble: EnsembleOptions = dataclasses.field(
        default_factory=ensemble_options(ModularSettings)
    )
    origin: OriginOptions = dataclasses.field(default_factory=OriginOptions)


DEFAULTS = branch_defaults(Options, ModularSettings.system)


def main(options: Options) -> None:
    """Train the ensemble or find it on disk; print and draw what it has learned."""
    settings = options.settings
    path, trajectory = command_line.run_ensemble(
        settings,
        options.epochs,
        options.ensemble,
        options.origin,
        options.log,
    )
    epochs = int(trajectory["step"][-1])
    command_line.print_backend(trajectory, options.log)
    command_line.print_diverged(trajectory, "left out of the table", options.log)
    picture = options.picture_path(path)
    title = f"{describe_settings(settings)}, after {epochs} epochs"
    plots.save_figure(plots.class_map_figure(trajectory, title), picture)
    print(f"picture     {picture}", file=options.log)
    structures.print_ca_table([structures.ca_table_row(trajectory)], options.csv)


if __name__ == "__main__":
    run_command(main, Options, "sims.modular", DEFAULTS)
