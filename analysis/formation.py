"""When circles, grids and frequencies form in an embedding, in networks and in
particles.

python -m analysis.formation RUN.nc [OTHER.nc]
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from analysis import output, plots, structures
from analysis.command_line.record import Analysis, AnalysisOptions, Measurement
from dynamics.settings import SettingsError
from dynamics.trajectory.selection import Selection, check_run_index

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Options(AnalysisOptions):
    """Measure when circles, grids and dominant frequencies form in the embeddings of
    one or two trajectories of any system. Circles and grids are defined as in CA
    appendix A."""

    run: int = 0
    """Index of the run whose frequencies are drawn, among the selected runs."""
    clock: Literal["normalised", "step"] = "normalised"
    """Unit in which times are compared and printed: fractions of the trajectory
    (normalised), or steps."""

    def __post_init__(self) -> None:
        if len(self.others) > 1:
            others = " ".join(map(str, self.others))
            raise SettingsError("others", others, "one further trajectory")


def measure(trajectory: xr.Dataset, selection: Selection, run: int) -> xr.Dataset:
    selected = selection.select_runs(trajectory)
    check_run_index("run", run, selected)
    measures = structures.structure_measures(selected, selection)
    onsets = structures.find_formation_times(measures)
    return measures.merge(onsets, compat="override", join="exact")


def results(measurement: Measurement) -> list[structures.FormationResult]:
    """The result of each trajectory, named by its system or, if both have the same, by
    its file."""
    systems = [item.trajectory.attrs["system"] for item in measurement.together]
    names = systems
    if len(set(systems)) < len(systems):
        names = [item.path.stem for item in measurement.together]
    return [
        structures.FormationResult(name, system, item.result, item.result)
        for name, system, item in zip(names, systems, measurement.together, strict=True)
    ]


def describe_missing_grids(measurement: Measurement) -> str:
    return "\n".join(
        f"{item.path.name}: distances from grids are not computed, because with"
        f" {item.trajectory.attrs['modulus']} tokens there are too many grids to compare"
        f" with (the limit is {structures.MAX_GRID_TOKENS})"
        for item in measurement.together
        if "grid_distance" not in item.result
    )


def tabulate(measurement: Measurement) -> pd.DataFrame:
    clock = measurement.options.clock
    return output.make_table(structures.formation_rows(results(measurement), clock))


def legend(measurement: Measurement) -> str:
    clock = measurement.options.clock
    return structures.formation_legend(results(measurement), clock)


def draw(measurement: Measurement) -> Figure:
    return plots.plot_formation(results(measurement), measurement.options.run)


ANALYSIS = Analysis(
    name="formation",
    title="Structure over time, and when it forms",
    measure=measure,
    summary=describe_missing_grids,
    table=tabulate,
    columns=lambda measurement: structures.FORMATION_COLUMNS,
    legend=legend,
    figure=draw,
    options=Options,
    diverged="diverged and are censored there",
    combine=lambda measurement: structures.merge_formation(results(measurement)),
)

if __name__ == "__main__":
    ANALYSIS.run_command()
