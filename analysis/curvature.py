"""The linearised flow of networks and particles along a run: curvature, sharpness,
saddles, distances to the origin.

python -m analysis.curvature RUN.nc
python -m analysis.curvature MINE.nc --model my_model.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import dynamics
from analysis import linearization, plots
from analysis.command_line.analysis import ModelAnalysis
from analysis.linearization.spectrum_options import SpectrumOptions
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.settings import LOSS_FILE, RecordedSettings, SettingsError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


MODEL_OPTIONS = ("loss", "model", "trust_model")
"""Options that are only for a recorded model."""


@dataclasses.dataclass(frozen=True)
class Curvature(ModelAnalysis):
    """Compute the Hessian of a network's training loss, or the Jacobian of the motion
    of particles, at frames along a run: its spectrum, growing modes, sharpness relative
    to the limit of gradient descent, and movement along directions of negative curvature. For the network of VC,
    also compute the distances from the origin of the vectors that it normalises.

    For a model whose parameters are recorded, compute both ends of the spectrum of its
    Hessian by products with vectors, from the loss of its model file. Ctrl-C then
    writes the frames that are measured.

    By default 20 frames are measured, or 10 for a network with more than 400
    parameters.

    Examples
    --------
    >>> from analysis import Curvature
    >>> from dynamics import ParticleSettings, Selection, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=2, steps=20, progress=False)
    >>> result = Curvature(selection=Selection(frames=3)).measure(trajectory)
    >>> result.sizes["step"]
    3
    """

    former_names: ClassVar[Mapping[str, str]] = {"--steps": "--frames"}

    loss: Path | None = None
    """For a recorded model, in place of --model: a file that defines
    loss(parameters, batch), which returns the mean loss of a batch from a dict of the
    recorded parameters and buffers, and batches(), which returns a list of batches."""
    spectrum: SpectrumOptions = dataclasses.field(default_factory=SpectrumOptions)

    title = "Linearised flow along a run"

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        frames = linearization.frame_indices(trajectory, self.selection)
        selected = self.selection.select_runs(trajectory)
        system = trajectory.attrs["system"]
        if system != RecordedSettings.system:
            self._refuse_model_options(system)
            return linearization.linearize_trajectory(selected, frames)
        result = linearization.model_curvature(
            selected,
            recorded_model_loss(selected, self.loss, self.model, self.trust_model),
            frames,
            self.spectrum,
            log=self.print_progress,
        )
        return result.assign_attrs(title="Curvature of a recorded model", system=system)

    def _refuse_model_options(self, system: str) -> None:
        """Raise SettingsError for options that are only for a recorded model."""
        default = Curvature()
        given = {name: getattr(self, name) for name in MODEL_OPTIONS}
        unused = {name: getattr(default, name) for name in MODEL_OPTIONS}
        given |= dataclasses.asdict(self.spectrum)
        unused |= dataclasses.asdict(default.spectrum)
        for name, value in given.items():
            if value != unused[name]:
                allowed = f"no value for the system {system}, only for a recorded model"
                raise SettingsError(name, value, allowed)

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        if is_of_recorded_model(result):
            return linearization.tabulate_model(result)
        return linearization.tabulate_curvature(result)

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        if is_of_recorded_model(result):
            return linearization.model_columns(result)
        return linearization.curvature_columns(result)

    def printed_rows(self, table: pd.DataFrame) -> slice:
        return slice(None)

    def text_below(self, result: xr.Dataset) -> str:
        if is_of_recorded_model(result):
            return "\n" + linearization.model_legend(result)
        texts = [
            linearization.escape_summary(result),
            linearization.curvature_legend(result),
        ]
        return "\n" + "\n\n".join(filter(None, texts))

    def text_above(self, result: xr.Dataset, trajectory: xr.Dataset) -> str:
        if not is_of_recorded_model(result):
            return ""
        selected = self.selection.select_runs(trajectory)
        first = linearization.frame_indices(trajectory, self.selection)[0]
        return linearization.loss_warning(result, selected, first)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.CURVATURE

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        if is_of_recorded_model(result):
            return plots.plot_model_curvature(result)
        return plots.plot_curvature(result)


def is_of_recorded_model(result: xr.Dataset) -> bool:
    """Whether the curvature is that of a model from outside."""
    return result.attrs["system"] == RecordedSettings.system


def recorded_model_loss(
    trajectory: xr.Dataset, loss: Path | None, model: Path | None, trust_model: bool
) -> dynamics.ModelLoss:
    """The loss of a recorded model, from the file of --loss, that of --model, or the
    one in the trajectory. Raises SettingsError if there is none."""
    if loss is not None and model is not None:
        raise SettingsError("loss", loss, "not both --loss and --model")
    if loss is not None:
        return dynamics.load_loss(loss)
    functions = dynamics.find_model(trajectory, model, trust_model)
    if functions is None:
        raise SettingsError("loss", "none for a recorded model", LOSS_FILE)
    return dynamics.recorded_loss(trajectory, functions)


if __name__ == "__main__":
    Curvature.main()
