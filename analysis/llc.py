"""The local learning coefficient along training.

python -m analysis.llc RUN.nc
python -m analysis.llc RUN.nc --calibrate
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from analysis import loss_geometry, plots
from analysis.command_line.analysis import ModelAnalysis
from analysis.loss_geometry.chain_options import ChainOptions
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.settings import SettingsError
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


STEP_SIZES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
LOCALISATIONS = (1.0, 10.0, 100.0, 1000.0)
"""Values of `--calibrate`."""


@dataclasses.dataclass(frozen=True)
class LLC(ModelAnalysis):
    """Estimate the local learning coefficient of the training loss at frames along a
    run: how degenerate the loss is around the weights. Chains of Langevin dynamics
    sample around each frame. Ctrl-C writes the frames that are measured."""

    selection: Selection = Selection(frames=10)
    sampling: ChainOptions = dataclasses.field(default_factory=ChainOptions)
    layers: tuple[str, ...] = ()
    """Patterns of the names of weights that move, such as "*weight". Default: all."""
    precision: Literal["float32", "float64"] = "float32"
    """Type in which the chains are computed."""
    calibrate: bool = False
    """Measure only the first selected run at the last selected frame, for several step
    sizes and localisations."""

    title = "Local learning coefficients"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        import torch

        functions = self.model_functions(trajectory)
        frames = self.selection.frame_indices(trajectory).tolist()
        selected = self.selection.select_runs(trajectory)
        dtype = getattr(torch, self.precision)
        if not self.calibrate:
            return loss_geometry.learning_coefficients(
                selected,
                frames,
                self.sampling,
                functions,
                self.layers,
                dtype,
                self.print_progress,
            )
        if self.sampling.step_size is not None:
            allowed = "no value with --calibrate, which tries several"
            raise SettingsError("step_size", self.sampling.step_size, allowed)
        return loss_geometry.calibrate_chains(
            selected,
            frames[-1],
            STEP_SIZES,
            LOCALISATIONS,
            self.sampling,
            functions,
            self.layers,
            dtype,
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        if self.calibrate:
            return loss_geometry.calibration_table(result)
        return loss_geometry.coefficient_table(result)

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        if self.calibrate:
            return loss_geometry.CALIBRATION_COLUMNS
        return loss_geometry.coefficient_columns(result)

    def text_below(self, result: xr.Dataset) -> str:
        return "" if self.calibrate else "\n" + loss_geometry.describe_chains(result)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.LEARNING_COEFFICIENT

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        if self.calibrate:
            return plots.plot_calibration(result)
        return plots.plot_learning_coefficients(result)


if __name__ == "__main__":
    LLC.main()
