"""CA figure 6: size of the hidden weights and biases against weight decay, and their
alignment with pair sums.

python -m analysis.paper weights
"""

import dataclasses
import functools

from analysis import forces, output, plots
from analysis.command_line.options import PictureOptions
from analysis.command_line.result_files import write_picture
from analysis.panels import figure_panels
from dynamics.settings import ModularSettings


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Reproduce figure 6 of CA: mean absolute weight and bias of the hidden layer after
    training with several weight decays. Also measures the alignment of hidden weights
    with pair sums (CA section 5.2)."""

    weight_decays: tuple[float, ...] = (
        0.0,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1.0,
    )
    """Weight decays; the table has a row for each."""
    runs: int = 10
    """Number of networks per weight decay; the paper uses 10."""
    seed: int = 0
    """Seed of the first run of each row."""
    epochs: int = ModularSettings.default_steps
    """Number of training epochs; the paper uses 2000."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)

    def names_of_panels(self) -> tuple[str, ...]:
        return figure_panels.WEIGHTS


def main(options: Options) -> None:
    """Train or find an ensemble for each weight decay; print the table and draw the
    figure."""
    ensembles = forces.train_at_weight_decays(
        options.settings,
        options.weight_decays,
        options.runs,
        options.seed,
        options.epochs,
        options.log,
    )
    measures, paths = {}, []
    for weight_decay, path, trajectory in ensembles:
        measures[weight_decay] = forces.measure_weights(trajectory)
        paths.append(path)
    by_decay = {
        decay: forces.mean_weight_measures(runs) for decay, runs in measures.items()
    }
    by_structure = forces.groups_by_structure(list(measures.values()))
    title = (
        f"N = {options.settings.n}, D = {options.settings.dim}, H ="
        f" {options.settings.hidden}: "
    )
    title += (
        f"{options.runs} networks per weight decay after {options.epochs} epochs, with"
        " 95% intervals where there are enough"
    )
    figure = functools.partial(plots.plot_weights, by_decay, by_structure, title)
    write_picture(options, figure, output.combined_path(paths, "weights", ".nc"))
    rows = output.make_table(forces.weight_rows(by_decay, by_structure))
    output.output_table(rows, forces.WEIGHT_COLUMNS, options.csv)
