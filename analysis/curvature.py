"""The linearised flow of networks and particles along a run: curvature, sharpness,
saddles, distances to the origin.

python -m analysis.curvature RUN.nc
python -m analysis.curvature MINE.nc --loss my_loss.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TextIO

import dynamics
from analysis import linearization, plots
from analysis.command_line.record import Analysis, AnalysisOptions, Measurement, Report
from dynamics.settings import LOSS_FILE, RecordedSettings, SettingsError
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(AnalysisOptions):
    """Compute the Hessian of a network's training loss, or the Jacobian of the motion
    of particles, at frames along a run: its spectrum, growing modes, sharpness relative
    to 2/lr, and movement along directions of negative curvature. For the network of VC,
    also compute the distances from the origin of the vectors that it normalises.

    For a model recorded by dynamics.record(..., weights=True), compute both ends of the
    spectrum of its Hessian by products with vectors, from a loss given by a file.
    Ctrl-C then writes the frames that are measured.

    The default are 20 frames, or 10 for a network with more than 400 parameters."""

    former_names: ClassVar[Mapping[str, str]] = {"--steps": "--frames"}

    loss: Path | None = None
    """For a recorded model: Python file, which is executed. It defines loss(parameters,
    batch), which returns the mean loss of a batch from a dict of the recorded
    parameters, and batches(), which returns a list of batches."""
    eigenvalues: int | None = None
    """For a recorded model: number of eigenvalues at each end of the spectrum. Default:
    5."""
    tolerance: float | None = None
    """For a recorded model: residual of an eigenpair relative to the largest
    eigenvalue. Default: 1e-6."""
    probes: int | None = None
    """For a recorded model: number of random vectors for the trace. Default: 16."""
    precision: Literal["float64", "float32"] | None = None
    """For a recorded model: type in which the loss is computed. Default: float64."""


MODEL_OPTIONS = ("loss", "eigenvalues", "tolerance", "probes", "precision")
"""Options that are only for a recorded model."""


def check_model_options(trajectory: xr.Dataset, chosen: Mapping[str, Any]) -> None:
    """Raise SettingsError for a recorded model without its loss, and for options of
    recorded models for another system."""
    system = trajectory.attrs["system"]
    recorded = system == RecordedSettings.system
    if chosen and not recorded:
        name, value = next(iter(chosen.items()))
        allowed = (
            f"no value for the system {system}, only for a model that dynamics.record"
            " recorded"
        )
        raise SettingsError(name, value, allowed)
    if recorded and "loss" not in chosen:
        raise SettingsError("loss", "none for a recorded model", LOSS_FILE)


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    loss: Path | None,
    eigenvalues: int | None,
    tolerance: float | None,
    probes: int | None,
    precision: Literal["float64", "float32"] | None,
    log: TextIO,
) -> xr.Dataset:
    given = (loss, eigenvalues, tolerance, probes, precision)
    chosen: dict[str, Any] = {
        name: value
        for name, value in zip(MODEL_OPTIONS, given, strict=True)
        if value is not None
    }
    check_model_options(trajectory, chosen)
    frames = linearization.frame_indices(trajectory, selection)
    trajectory = selection.select_runs(trajectory)
    if loss is None:
        return linearization.linearize_trajectory(trajectory, frames)
    del chosen["loss"]
    result = linearization.model_curvature(
        trajectory,
        dynamics.load_loss(loss),
        frames,
        linearization.SpectrumOptions(**chosen),
        log=partial(print, file=log, flush=True),
    )
    return result.assign_attrs(title="Curvature of a recorded model")


def report(measurement: Measurement) -> Report:
    result, options = measurement.result, measurement.options
    if options.loss is None:
        summary = linearization.escape_summary(result)
        texts = [summary, linearization.curvature_legend(result)]
        return Report(
            linearization.tabulate_curvature(result),
            linearization.curvature_columns(result),
            "\n" + "\n\n".join(filter(None, texts)),
            figure=plots.plot_curvature(result),
        )
    trajectory = measurement.trajectory
    first, *_ = linearization.frame_indices(trajectory, options.selection)
    warning = linearization.loss_warning(result, trajectory, first)
    texts = ["\n" + linearization.model_legend(result), warning]
    return Report(
        linearization.tabulate_model(result),
        linearization.model_columns(result),
        "\n".join(filter(None, texts)),
        figure=plots.plot_model_curvature(result),
    )


ANALYSIS = Analysis(
    name="curvature",
    title="Linearised flow along a run",
    measure=measure,
    report=report,
    options=Options,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
