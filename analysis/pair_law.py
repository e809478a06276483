"""The best pair law: how much of the gradient of a network's embeddings does any force
between pair sums explain?

python -m analysis.pair_law RUN.nc
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis import forces, output, plots, progress_measures
from analysis.command_line.analysis import ModelAnalysis
from analysis.command_line.options import LawOptions
from analysis.command_line.result_files import settings_in_words
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.settings import check_real
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class PairLaw(LawOptions, ModelAnalysis):
    """Estimate the forces between pair sums from the recorded gradients of a network's
    embeddings: functions of the distance and of the angle, for pairs with equal and
    with different modular sums. Compare on held-out runs and frames how much of the
    gradient they explain and how much the particle forces of CA (section 6), or those of
    another law. The result has the estimated law, which sims.particles --law simulates.
    The trajectory is one that analysis.audit reads, with at least two runs; transformers
    are also measured in the planes of their key frequencies."""

    selection: Selection = Selection(frames=16, spacing="early")
    key_fraction: float = 0.02
    """Power of a key frequency in the last logits, as a fraction of the largest
    power."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real("key_fraction", self.key_fraction, positive=True, up_to=1)

    title = "The best pair law"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        runs = self.selection.select_runs(trajectory)
        keys = progress_measures.plane_key_frequencies(runs, self.key_fraction)
        functions = self.model_functions(trajectory)
        return forces.fit_pair_law(
            runs, self.law_settings, self.selection, keys, functions
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return output.make_table(forces.pair_law_rows(result))

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        return forces.pair_law_columns(result)

    def text_below(self, result: xr.Dataset) -> str:
        return "\n" + forces.pair_law_legend(result)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.PAIR_LAW

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_pair_law(result, settings_in_words(trajectory))


if __name__ == "__main__":
    PairLaw.main()
