"""Sparsity of hidden activations in successful and failed runs of VC's network (VC
figures 17 and 20).

python -m analysis.sparsity RUN.nc [MORE.nc ...]

`analysis/clustering_heads/activation_sparsity.py` defines the quantities and the tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from analysis import clustering_heads, output, plots
from analysis.command_line.analysis import Analysis
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.settings import SettingsError
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Sparsity(Analysis):
    """Reproduce figures 17 and 20 of VC: sparsity of the hidden activations of VC's
    network against the threshold, for successful and failed runs."""

    former_names: ClassVar[Mapping[str, str]] = {"--step": "--at"}

    title = "Sparsity of hidden activations"
    several = "combined"
    diverged = "have diverged and are left out"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        result = clustering_heads.measure_sparsity(
            self.selection.select_runs(trajectory),
            selected_step(trajectory, self.selection),
        )
        settings = {name: trajectory.attrs[name] for name in ("system", "config_json")}
        return clustering_heads.compare_successes(result).assign_attrs(settings)

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        results = output.split_results(result)
        return clustering_heads.sparsity_table(results, result_labels(results))

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        return clustering_heads.SPARSITY_COLUMNS

    def text_below(self, result: xr.Dataset) -> str:
        return clustering_heads.SPARSITY_LEGEND

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.SPARSITY

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        results = output.split_results(result)
        return plots.plot_sparsity(results, result_labels(results))


def result_labels(results: Sequence[xr.Dataset]) -> list[str]:
    """Labels of results: the settings in which their trajectories differ, or files."""
    paths = [Path(result.attrs.get("trajectory", "")) for result in results]
    return clustering_heads.trajectory_labels(results, paths)


def selected_step(trajectory: xr.Dataset, selection: Selection) -> int:
    """The selected step, by default the last. Raises SettingsError for several."""
    if not selection.selects_frames:
        return int(trajectory["step"][-1])
    selected = selection.apply(trajectory)["step"].values
    if len(selected) > 1:
        options = {
            "at": " ".join(map(str, selection.at)),
            "every": selection.every,
            "frames": selection.frames,
        }
        name = next(name for name, value in options.items() if value)
        allowed = f"what selects one recorded step, such as at={selected[-1]}"
        raise SettingsError(name, options[name], allowed)
    return int(selected[0])


if __name__ == "__main__":
    Sparsity.main()
