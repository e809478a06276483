"""Progress measures of grokking: restricted and excluded loss, key frequencies,
gradient symmetricity, phases, delay.

python -m analysis.progress RUN.nc
python -m analysis.progress MINE.nc --model my_model.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis import output, plots, progress_measures
from analysis.command_line.analysis import ModelAnalysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.settings import check_real
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Progress(ModelAnalysis):
    """Measure how networks that add two numbers modulo N come to generalise: Fourier
    norms and key frequencies, Gini coefficients, restricted and excluded loss (Nanda et
    al., arXiv 2301.05217), gradient symmetricity, distance irrelevance and circularity
    (Zhong et al., arXiv 2306.17844), the phases of training, and the delay between
    memorisation and generalisation.

    Examples
    --------
    >>> from analysis import Progress
    >>> from dynamics import ModularSettings, Selection, simulate
    >>> trajectory = simulate(ModularSettings(n=5), runs=2, steps=20, progress=False)
    >>> result = Progress(selection=Selection(frames=3)).measure(trajectory)
    >>> result["restricted_loss"].dims
    ('run', 'step')
    """

    selection: Selection = Selection(frames=101)
    key_fraction: float = 0.02
    """Power of a key frequency in the last logits, as a fraction of the largest
    power."""

    def __post_init__(self) -> None:
        check_real("key_fraction", self.key_fraction, positive=True, up_to=1)

    title = "Progress measures"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        return progress_measures.measure_progress(
            self.selection.select_runs(trajectory),
            self.selection,
            self.key_fraction,
            self.model_functions(trajectory),
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return output.make_table(progress_measures.progress_rows(result))

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        return progress_measures.progress_columns(result)

    def text_below(self, result: xr.Dataset) -> str:
        return "\n" + progress_measures.describe_progress(result)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.PROGRESS

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure | None:
        runs = self.selection.select_runs(trajectory)
        if "loss" in result:
            runs = progress_measures.with_performance(runs, result)
        return plots.plot_progress(runs, result) if runs.sizes["step"] > 1 else None


if __name__ == "__main__":
    Progress.main()
