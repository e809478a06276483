"""The best pair law: how much of the gradient of a network's embeddings does any force
between pair sums explain?

python -m analysis.pair_law RUN.nc
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import dynamics
from analysis import forces, output, plots, progress_measures
from analysis.command_line.record import (
    Analysis,
    MeasuredTrajectory,
    ModelOptions,
    Report,
    settings_in_words,
)
from dynamics.settings import ParticleSettings, check_real
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """Estimate the forces between pair sums from the recorded gradients of a network's
    embeddings: functions of the distance and of the angle, for pairs with equal and
    with different modular sums. Compare on held-out runs and frames how much of the
    gradient they explain and how much the particle forces of CA (section 6). The
    trajectory is one that analysis.audit reads, with at least two runs; transformers
    are also measured in the planes of their key frequencies."""

    selection: Selection = Selection(frames=16, spacing="early")
    key_fraction: float = 0.02
    """Power of a key frequency in the last logits, as a fraction of the largest
    power."""
    fa: float = ParticleSettings.fa
    """Alignment constant f_a of the law of CA."""

    def __post_init__(self) -> None:
        check_real("key_fraction", self.key_fraction, positive=True, up_to=1)


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    key_fraction: float,
    fa: float,
    functions: dynamics.ModelFile | None,
) -> xr.Dataset:
    trajectory = selection.select_runs(trajectory)
    keys = progress_measures.plane_key_frequencies(trajectory, key_fraction)
    law = ParticleSettings(fa=fa)
    return forces.fit_pair_law(trajectory, law, selection, keys, functions)


def pair_law_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    return Report(
        output.make_table(forces.pair_law_rows(result)),
        forces.pair_law_columns(result),
        "\n" + forces.PAIR_LAW_LEGEND,
        figure=lambda: plots.plot_pair_law(
            result, settings_in_words(measured.trajectory)
        ),
    )


ANALYSIS = Analysis(
    name="pair_law",
    title="The best pair law",
    measure=measure,
    report=pair_law_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
