"""The best pair law: how much of the gradient of a network's embeddings does any force
between pair sums explain?

python -m analysis.pair_law RUN.nc
"""

from __future__ import annotations

import dataclasses

from analysis import forces, output, plots, progress_measures
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import (
    TrajectoryOptions,
    open_input,
    write_result_and_picture,
)
from dynamics.settings import ParticleSettings, TransformerSettings, check_real


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Estimate the forces between pair sums from the recorded gradients of a network's
    embeddings: functions of the distance and of the angle, for pairs with equal and
    with different modular sums. Compare on held-out runs and frames how much of the
    gradient they explain and how much the particle forces of CA (section 6). The
    trajectory is one that analysis.audit reads, with at least two runs; transformers
    are also measured in the planes of their key frequencies."""

    frames: int = 16
    """Number of frames, denser at the start."""
    key_fraction: float = 0.02
    """Power of a key frequency in the last logits, as a fraction of the largest
    power."""
    fa: float = ParticleSettings.fa
    """Alignment constant f_a of the law of CA."""


def main(options: Options) -> None:
    """Fit the law; print the table, write the result, draw the figure."""
    threshold = check_real("key_fraction", options.key_fraction, positive=True, up_to=1)
    trajectory, out = open_input(options, "pair_law")
    in_planes = (
        trajectory.attrs["system"] == TransformerSettings.system
        and trajectory.sizes["axis"] > 2
    )
    keys = (
        progress_measures.trajectory_key_frequencies(trajectory, threshold)
        if in_planes
        else None
    )
    result = forces.fit_pair_law(
        trajectory, ParticleSettings(fa=options.fa), options.frames, keys
    )
    output.output_table(
        output.make_table(forces.pair_law_rows(result)),
        forces.pair_law_columns(result),
        options.csv,
    )
    print("\n" + forces.PAIR_LAW_LEGEND, file=options.log)
    picture = plots.plot_pair_law(result, options.trajectory.stem)
    write_result_and_picture(
        options, "pair_law", "The best pair law", result, picture, out
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.pair_law")
