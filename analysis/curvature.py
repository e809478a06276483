"""The linearised flow of networks and particles along a run: curvature, sharpness,
saddles, distances to the origin.

python -m analysis.curvature RUN.nc
python -m analysis.curvature MINE.nc --loss my_loss.py
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import dynamics
from analysis import linearization, output, plots
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import (
    TrajectoryOptions,
    open_input,
    write_result_and_picture,
)
from dynamics.settings import LOSS_FILE, RecordedSettings, SettingsError

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Compute the Hessian of a network's training loss, or the Jacobian of the motion
    of particles, at frames along a run: its spectrum, growing modes, sharpness relative
    to 2/lr, and movement along directions of negative curvature. For the network of VC,
    also compute the distances from the origin of the vectors that it normalises.

    For a model recorded by dynamics.record(..., weights=True), compute both ends of the
    spectrum of its Hessian by products with vectors, from a loss given by a file.
    Ctrl-C then writes the frames that are measured."""

    steps: int | None = None
    """Number of evenly spaced recorded frames, including the first and the last.
    Default: 20, or 10 for a network with more than 400 parameters."""
    at: tuple[int, ...] = ()
    """Recorded steps to use instead of evenly spaced frames. Default: see --steps."""
    runs: int | None = None
    """Number of runs to use, starting with the first. Default: all."""
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


def main(options: Options) -> None:
    """Linearise the flow of a trajectory, print the table and draw the figure."""
    trajectory, out = open_input(options, "curvature")
    check_options(options, trajectory.attrs["system"])
    frames = linearization.frame_indices(trajectory, options.steps, options.at)
    if options.runs is not None:
        if not 1 <= options.runs <= trajectory.sizes["run"]:
            raise SettingsError(
                "runs",
                options.runs,
                f"a whole number from 1 to {trajectory.sizes['run']}",
            )
        trajectory = trajectory.isel(run=slice(options.runs))
    if options.loss is not None:
        analyse_model(options, options.loss, trajectory, frames, out)
        return
    linearize_trajectory = linearization.linearize_trajectory(trajectory, frames)
    table, columns = (
        linearization.tabulate_curvature(linearize_trajectory),
        linearization.curvature_columns(linearize_trajectory),
    )
    output.output_table(table, columns, options.csv)
    texts = (
        linearization.escape_summary(linearize_trajectory),
        linearization.curvature_legend(linearize_trajectory),
    )
    print("\n" + "\n\n".join(filter(None, texts)), file=options.log)
    figure = plots.plot_curvature(linearize_trajectory)
    write_result_and_picture(
        options,
        "curvature",
        "Linearised flow along a run",
        linearize_trajectory,
        figure,
        out,
    )


def check_options(options: Options, system: str) -> None:
    """Raise SettingsError for a recorded model without its loss, and for options of
    other systems."""
    if system != RecordedSettings.system:
        for name in MODEL_OPTIONS:
            if getattr(options, name) is not None:
                allowed = (
                    f"no value for the system {system}, only for a model that"
                    " dynamics.record recorded"
                )
                raise SettingsError(name, getattr(options, name), allowed)
    elif options.loss is None:
        raise SettingsError("loss", "none for a recorded model", LOSS_FILE)


def analyse_model(
    options: Options, loss: Path, trajectory: xr.Dataset, frames: list[int], out: Path
) -> None:
    """Compute the spectra of a recorded model, print the table and draw the figure."""
    given = {
        name: getattr(options, name)
        for name in MODEL_OPTIONS[1:]
        if getattr(options, name) is not None
    }
    spectrum = linearization.SpectrumOptions(**given)
    log = partial(print, file=options.log, flush=True)
    model_curvature = linearization.model_curvature(
        trajectory, dynamics.load_loss(loss), frames, spectrum, log=log
    )
    output.output_table(
        linearization.tabulate_model(model_curvature),
        linearization.model_columns(model_curvature),
        options.csv,
    )
    print("\n" + linearization.model_legend(model_curvature), file=options.log)
    if warning := linearization.loss_warning(model_curvature, trajectory, frames[0]):
        print(warning, file=options.log)
    figure = plots.plot_model_curvature(model_curvature)
    write_result_and_picture(
        options,
        "curvature",
        "Curvature of a recorded model",
        model_curvature,
        figure,
        out,
    )
    if model_curvature.attrs["frames_left"]:
        raise KeyboardInterrupt


if __name__ == "__main__":
    run_command(main, Options, "analysis.curvature")
