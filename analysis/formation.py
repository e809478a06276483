"""When circles, grids and frequencies form in an embedding, in networks and in
particles.

python -m analysis.formation RUN.nc [OTHER.nc]
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from analysis import output, plots, structures
from analysis.command_line.record import (
    Analysis,
    AnalysisOptions,
    MeasuredTrajectory,
    Report,
)
from dynamics.settings import SettingsError
from dynamics.trajectory.selection import Selection, check_run_index

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(AnalysisOptions):
    """Measure when circles, grids and dominant frequencies form in the embeddings of
    one or two trajectories of any system. Circles and grids are defined as in CA
    appendix A. A trajectory of a single frame has a table without times, and no
    picture."""

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


def formation_report(measured: MeasuredTrajectory) -> Report:
    """The report on both trajectories, which are named by their systems or, if both
    have the same, by their files."""
    options, results, missing = measured.options, [], []
    systems = [item.trajectory.attrs["system"] for item in measured.together]
    for system, item in zip(systems, measured.together, strict=True):
        name = system if systems.count(system) == 1 else item.path.stem
        results.append(
            structures.FormationResult(name, system, item.result, item.result)
        )
        if "grid_distance" not in item.result:
            missing.append(
                f"{item.path.name}: distances from grids are not computed, because with"
                f" {item.trajectory.attrs['modulus']} tokens there are too many grids"
                f" to compare with (the limit is {structures.MAX_GRID_TOKENS})"
            )
    timed = [result for result in results if structures.has_times(result.measures)]
    return Report(
        output.make_table(structures.formation_rows(results, options.clock)),
        structures.formation_columns(results),
        structures.formation_legend(results, options.clock),
        summary="\n".join(missing),
        figure=lambda: plots.plot_formation(timed, options.run) if timed else None,
        result=structures.merge_formation(results),
    )


ANALYSIS = Analysis(
    name="formation",
    title="Structure over time, and when it forms",
    measure=measure,
    report=formation_report,
    options=Options,
    diverged="diverged and are censored there",
    others="combined",
)

if __name__ == "__main__":
    ANALYSIS.run_command()
