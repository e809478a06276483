"""The transformer of Zhong et al. (ZL) and Nanda et al. (NA) on a binary operation:
train an ensemble, draw.

python -m sims.transformer --attention-rate 0
python -m sims.transformer --preset small --runs 5
python -m sims.transformer --task symmetric --n 5 --train-share 0.4 --weight-decay 1
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Literal

from analysis import clustering_heads, output, plots
from analysis.command_line.parsing import run_command
from dynamics.settings import (
    TRANSFORMER_PRESETS,
    TransformerSettings,
    changed_settings,
)
from sims import command_line
from sims.command_line.ensemble_options import (
    EndPictureOptions,
    EnsembleOptions,
    OriginOptions,
    branch_defaults,
    ensemble_options,
    option_value,
    pair_list_changes,
)

PresetName = Literal["zhong", "nanda", "small"]


@dataclasses.dataclass(frozen=True)
class Options(EndPictureOptions):
    """Train transformers on modular addition or another binary operation (ZL, NA).
    Writes the trajectory, prints the fractions of runs that generalise, and saves a
    picture of losses, accuracies and embeddings."""

    preset: PresetName = "zhong"
    """Settings that the other options change: those of ZL (zhong), those of NA (nanda),
    or a smaller network that generalises early, with p = 53 and half of the pairs
    (small)."""
    settings: TransformerSettings = dataclasses.field(
        default_factory=TransformerSettings
    )
    epochs: int | None = None
    """Number of training epochs. A larger number extends existing runs. Default: 20000
    (nanda: 40000)."""
    ensemble: EnsembleOptions = dataclasses.field(
        default_factory=functools.partial(ensemble_options(TransformerSettings), runs=8)
    )
    origin: OriginOptions = dataclasses.field(default_factory=OriginOptions)


def DEFAULTS(arguments: Sequence[str]) -> Options | None:
    """The options of a preset, or of the trajectory of --branch."""
    branched = branch_defaults(Options, TransformerSettings.system)(arguments)
    preset = option_value("preset", arguments)
    if branched is not None or preset is None or preset not in TRANSFORMER_PRESETS:
        return branched
    listed = pair_list_changes(arguments)
    return Options(
        settings=changed_settings(TRANSFORMER_PRESETS[preset], listed),
        epochs=40_000 if preset == "nanda" else None,
    )


def main(options: Options) -> None:
    """Train the ensemble or find it on disk; print and draw how it learned."""
    path, trajectory = command_line.run_ensemble(
        options.settings,
        options.epochs,
        options.ensemble,
        options.origin,
        options.log,
    )
    command_line.print_diverged(trajectory, "left out of the accuracies", options.log)
    picture = options.picture_path(path)
    plots.save_figure(plots.plot_learning(trajectory), picture)
    print(f"picture     {picture}", file=options.log)
    columns = clustering_heads.OPERATION_COLUMNS
    output.output_table(
        clustering_heads.learning_table(trajectory), columns, options.csv
    )


if __name__ == "__main__":
    run_command(main, Options, "sims.transformer", DEFAULTS)
