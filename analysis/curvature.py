"""The linearised flow of networks and particles along a run: curvature, sharpness,
saddles, distances to the origin.

python -m analysis.curvature RUN.nc
python -m analysis.curvature MINE.nc --model my_model.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import dynamics
from analysis import linearization, plots
from analysis.command_line.record import (
    Analysis,
    MeasuredTrajectory,
    ModelOptions,
    Report,
)
from dynamics.settings import LOSS_FILE, RecordedSettings, SettingsError
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """Compute the Hessian of a network's training loss, or the Jacobian of the motion
    of particles, at frames along a run: its spectrum, growing modes, sharpness relative
    to 2/lr, and movement along directions of negative curvature. For the network of VC,
    also compute the distances from the origin of the vectors that it normalises.

    For a model whose parameters are recorded, compute both ends of the spectrum of its
    Hessian by products with vectors, from the loss of its model file. Ctrl-C then
    writes the frames that are measured.

    By default 20 frames are measured, or 10 for a network with more than 400
    parameters."""

    former_names: ClassVar[Mapping[str, str]] = {"--steps": "--frames"}

    loss: Path | None = None
    """For a recorded model: another name of --model, for a file that defines
    loss(parameters, batch), which returns the mean loss of a batch from a dict of the
    recorded parameters and buffers, and batches(), which returns a list of batches."""
    eigenvalues: int | None = None
    """For a recorded model: number of eigenvalues at each end of the spectrum; half of
    the number of parameters (up to 4,000) computes all. Default: 5."""
    tolerance: float | None = None
    """For a recorded model: residual of an eigenpair relative to the largest
    eigenvalue. Default: 1e-6."""
    probes: int | None = None
    """For a recorded model: number of random vectors for the trace. Default: 16."""
    precision: Literal["float64", "float32"] | None = None
    """For a recorded model: type in which the loss is computed. Default: float64."""
    mode: Literal["train", "eval"] | None = None
    """For a recorded model: mode of the torch modules that the loss calls. Default: the
    one that they have."""


SPECTRUM_OPTIONS = ("eigenvalues", "tolerance", "probes", "precision", "mode")
"""Options of the spectrum of a recorded model."""


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


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    loss: Path | None,
    model: Path | None,
    trust_model: bool,
    eigenvalues: int | None,
    tolerance: float | None,
    probes: int | None,
    precision: Literal["float64", "float32"] | None,
    mode: Literal["train", "eval"] | None,
    progress: Callable[[str], None],
) -> xr.Dataset:
    given = (eigenvalues, tolerance, probes, precision, mode)
    spectrum: dict[str, Any] = {
        name: value
        for name, value in zip(SPECTRUM_OPTIONS, given, strict=True)
        if value is not None
    }
    frames = linearization.frame_indices(trajectory, selection)
    selected = selection.select_runs(trajectory)
    system = trajectory.attrs["system"]
    if system != RecordedSettings.system:
        files = {"loss": loss, "model": model}
        for name, value in (files | spectrum).items():
            if value is not None:
                allowed = f"no value for the system {system}, only for a recorded model"
                raise SettingsError(name, value, allowed)
        return linearization.linearize_trajectory(selected, frames)
    result = linearization.model_curvature(
        selected,
        recorded_model_loss(selected, loss, model, trust_model),
        frames,
        linearization.SpectrumOptions(**spectrum),
        log=progress,
    )
    return result.assign_attrs(title="Curvature of a recorded model")


def curvature_report(measured: MeasuredTrajectory) -> Report:
    result, options = measured.result, measured.options
    trajectory = measured.trajectory
    if trajectory.attrs["system"] != RecordedSettings.system:
        summary = linearization.escape_summary(result)
        texts = [summary, linearization.curvature_legend(result)]
        return Report(
            linearization.tabulate_curvature(result),
            linearization.curvature_columns(result),
            "\n" + "\n\n".join(filter(None, texts)),
            figure=lambda: plots.plot_curvature(result),
        )
    first, *_ = linearization.frame_indices(trajectory, options.selection)
    warning = linearization.loss_warning(result, trajectory, first)
    texts = ["\n" + linearization.model_legend(result), warning]
    return Report(
        linearization.tabulate_model(result),
        linearization.model_columns(result),
        "\n".join(filter(None, texts)),
        figure=lambda: plots.plot_model_curvature(result),
    )


ANALYSIS = Analysis(
    name="curvature",
    title="Linearised flow along a run",
    measure=measure,
    report=curvature_report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
