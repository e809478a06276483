"""Sparsity of hidden activations in successful and failed runs of VC's network (VC
figures 17 and 20).

python -m analysis.sparsity RUN.nc [MORE.nc ...]

`analysis/clustering_heads/activation_sparsity.py` defines the quantities and the tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from analysis import clustering_heads, plots
from analysis.command_line.record import (
    Analysis,
    AnalysisOptions,
    MeasuredTrajectory,
    Report,
)
from dynamics.settings import SettingsError
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(AnalysisOptions):
    """Reproduce figures 17 and 20 of VC: sparsity of the hidden activations of VC's
    network against the threshold, for successful and failed runs."""

    former_names: ClassVar[Mapping[str, str]] = {"--step": "--at"}


def selected_step(trajectory: xr.Dataset, selection: Selection) -> int:
    """The selected step, by default the last. Raises SettingsError for several."""
    if not selection.selects_frames:
        return int(trajectory["step"][-1])
    selected = selection.apply(trajectory)["step"].values
    if len(selected) > 1:
        steps = " ".join(map(str, selected))
        raise SettingsError("at", steps, "one recorded step")
    return int(selected[0])


def measure(trajectory: xr.Dataset, selection: Selection) -> xr.Dataset:
    result = clustering_heads.measure_sparsity(
        selection.select_runs(trajectory), selected_step(trajectory, selection)
    )
    return clustering_heads.compare_successes(result)


def sparsity_report(measured: MeasuredTrajectory) -> Report:
    results = [item.result for item in measured.together]
    paths = [item.path for item in measured.together]
    trajectories = [item.trajectory for item in measured.together]
    labels = clustering_heads.trajectory_labels(trajectories, paths)
    return Report(
        clustering_heads.sparsity_table(results, labels),
        clustering_heads.SPARSITY_COLUMNS,
        clustering_heads.SPARSITY_LEGEND,
        figure=lambda: plots.plot_sparsity(results, labels),
        result=clustering_heads.combine_sparsity(results, labels, paths),
    )


ANALYSIS = Analysis(
    name="sparsity",
    title="Sparsity of hidden activations",
    measure=measure,
    report=sparsity_report,
    options=Options,
    diverged="have diverged and are left out",
    others="combined",
)

if __name__ == "__main__":
    ANALYSIS.run_command()
