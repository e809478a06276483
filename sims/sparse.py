"""The transformer of VC on sparse modular addition: train an ensemble, count successes,
draw.

python -m sims.sparse --runs 100
python -m sims.sparse --from runs/sparse-HASH.nc --vocab 3 --only-successful
python -m sims.sparse --branch runs/sparse-HASH.nc --step 16000 --norm rms-smooth
"""

import dataclasses
import functools
from typing import ClassVar

from analysis import clustering_heads, output, plots
from analysis.command_line.options import SparseOptions
from analysis.command_line.parsing import run_command
from dynamics.settings import SparseSettings
from sims import command_line
from sims.command_line.ensemble_options import (
    EndPictureOptions,
    EnsembleOptions,
    ensemble_options,
)
from sims.command_line.weight_transfer import (
    SparseOriginOptions,
    transfer_defaults,
    transfer_settings,
)


@dataclasses.dataclass(frozen=True)
class Options(EndPictureOptions):
    """Train one-layer transformers on sparse modular addition (VC sections 2 to 5).
    Writes the trajectory, prints the fractions of successful runs, and saves a picture
    of losses and accuracies."""

    option_names: ClassVar[dict[str, str]] = {
        "start": "from",
        "start_step": "step",
        "start_runs": "only_successful",
    }

    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    epochs: int | None = None
    """Number of training epochs. A larger number extends existing runs. Default:
    1000."""
    ensemble: EnsembleOptions = dataclasses.field(
        default_factory=ensemble_options(SparseSettings)
    )
    origin: SparseOriginOptions = dataclasses.field(default_factory=SparseOriginOptions)


DEFAULTS = functools.partial(transfer_defaults, Options)


def main(options: Options) -> None:
    """Train the ensemble or find it on disk; print and draw how it learned."""
    origin = options.origin
    if origin.start:
        origin = dataclasses.replace(origin, step=None)
    settings = transfer_settings(options.settings.settings, options.origin)
    path, trajectory = command_line.run_ensemble(
        settings, options.epochs, options.ensemble, origin, options.log
    )
    picture = options.picture_path(path)
    plots.save_figure(plots.plot_learning(trajectory), picture)
    print(f"picture     {picture}", file=options.log)
    columns = clustering_heads.LEARNING_COLUMNS
    output.output_table(
        clustering_heads.learning_table(trajectory), columns, options.csv
    )


if __name__ == "__main__":
    run_command(main, Options, "sims.sparse", DEFAULTS)
