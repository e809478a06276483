"""When circles, grids and frequencies form in an embedding, in networks and in
particles.

python -m analysis.formation RUN.nc [OTHER.nc]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis import output, plots, structures
from analysis.command_line.analysis import Analysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.trajectory.selection import check_run_index

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Formation(Analysis):
    """Measure when circles, grids and dominant frequencies form in the embeddings of
    one or two trajectories of any system. Circles and grids are defined as in CA
    appendix A. A trajectory of a single frame has a table without times, and no
    picture.

    Examples
    --------
    >>> from analysis import Formation
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=2, steps=20, progress=False)
    >>> Formation(run=1).measure(trajectory)["circle"].dims
    ('run', 'step')
    """

    run: int = 0
    """Index of the run whose frequencies are drawn, among the selected runs."""
    clock: Literal["normalised", "step"] = "normalised"
    """Unit in which times are compared and printed: fractions of the trajectory
    (normalised), or steps."""

    title = "Structure over time, and when it forms"
    several = "combined"
    most_files = 2
    diverged = "diverged and are censored there"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        selected = self.selection.select_runs(trajectory)
        check_run_index("run", self.run, selected)
        measures = structures.structure_measures(selected, self.selection)
        onsets = structures.find_formation_times(measures)
        result = measures.merge(onsets, compat="override", join="exact")
        return result.assign_attrs(system=trajectory.attrs["system"])

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        results = formation_results(result)
        return output.make_table(structures.formation_rows(results, self.clock))

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        return structures.formation_columns(formation_results(result))

    def text_below(self, result: xr.Dataset) -> str:
        return structures.formation_legend(formation_results(result), self.clock)

    def text_above(self, result: xr.Dataset, trajectory: xr.Dataset) -> str:
        return "\n".join(
            f"{item.attrs.get('trajectory', 'trajectory')}: distances from grids are not"
            " computed, because with so many tokens there are too many grids to compare"
            f" with (the limit is {structures.MAX_GRID_TOKENS})"
            for item in output.split_results(result)
            if "grid_distance" not in item
        )

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.FORMATION

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure | None:
        results = formation_results(result)
        timed = [item for item in results if structures.has_times(item.measures)]
        return plots.plot_formation(timed, self.run) if timed else None


def formation_results(result: xr.Dataset) -> list[structures.FormationResult]:
    """The result of each trajectory, with the name of its system or, if two have the
    same, of its file."""
    results = output.split_results(result)
    systems = [item.attrs["system"] for item in results]
    named = []
    for system, item in zip(systems, results, strict=True):
        name = system
        if systems.count(system) > 1:
            name = Path(item.attrs["trajectory"]).stem
        named.append(structures.FormationResult(name, system, item, item))
    return named


if __name__ == "__main__":
    Formation.main()
