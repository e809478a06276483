"""Which runs and frames of a trajectory are valid: a run that has diverged, or has
stopped at a condition, repeats its last frame to the end. The last frame of a run that
has stopped is its result; that of a run that has diverged is not."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from dynamics.settings import RecordedSettings
from dynamics.trajectory.schema import STOPPED


def not_diverged(trajectory: xr.Dataset, step: int | None = None) -> np.ndarray:
    """Return which runs have not diverged before a step. A run that has stopped at a
    condition has not.

    Parameters
    ----------
    trajectory : xarray.Dataset
    step : int, optional
        Default: the last recorded step.

    Returns
    -------
    numpy.ndarray
        (run,) bool.

    Examples
    --------
    >>> from dynamics import ParticleSettings, not_diverged, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=4)
    >>> not_diverged(trajectory)
    array([ True,  True,  True])
    """
    last = int(trajectory["step"].max()) if step is None else step
    return (trajectory["last_step"].values >= last) | stopped_runs(trajectory).values


def count_diverged(trajectory: xr.Dataset) -> int:
    """The number of runs that diverged before the last recorded step."""
    return int((~not_diverged(trajectory)).sum())


def count_stopped(trajectory: xr.Dataset) -> int:
    """The number of runs that have stopped at a condition."""
    return int(stopped_runs(trajectory).sum())


def stopped_runs(trajectory: xr.Dataset) -> xr.DataArray:
    """Which runs have stopped at a condition, (run,) bool; none if the status of runs is
    not known."""
    if "status" not in trajectory:
        return xr.zeros_like(trajectory["last_step"], bool)
    return trajectory["status"] == STOPPED


def valid_frames(
    trajectory: xr.Dataset, frames: Sequence[int] | np.ndarray | None = None
) -> xr.DataArray:
    """Return which frames precede the divergence or the stop of their run; later ones
    only repeat its last frame.

    A single frame is valid for a run that has stopped before: it shows where it has
    stopped.

    Parameters
    ----------
    trajectory : xarray.Dataset
    frames : sequence of int, optional
        Indices along `step`. Default: all.

    Returns
    -------
    xarray.DataArray
        (run, step) bool.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate, valid_frames
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=4)
    >>> float(trajectory["update_norm"].where(valid_frames(trajectory)).min())
    0.0
    """
    step = trajectory["step"]
    if frames is not None:
        step = step.isel(step=list(frames))
    valid = step <= trajectory["last_step"]
    if step.size == 1:
        valid = valid | stopped_runs(trajectory)
    return valid.transpose("run", "step", missing_dims="ignore")


def mask_not_finite(trajectory: xr.Dataset) -> tuple[xr.Dataset, dict[str, int]]:
    """A recorded model with NaN in place of metrics and norms that are not finite, such
    as the loss of a batch that overflows; and their number, by name, in valid
    frames."""
    if trajectory.attrs.get("system") != RecordedSettings.system:
        return trajectory, {}
    valid = valid_frames(trajectory)
    counts = {}
    for name, values in trajectory.data_vars.items():
        numbers = values.dtype.kind == "f" and "step" in values.dims
        if numbers and set(values.dims) <= {"run", "step", "split", "layer"}:
            finite = np.isfinite(values)
            counts[str(name)] = int((~finite & valid).sum())
            if not finite.all():
                trajectory = trajectory.assign({name: values.where(finite)})
    return trajectory, {name: count for name, count in counts.items() if count}


def mask_diverged(values: xr.DataArray, trajectory: xr.Dataset) -> xr.DataArray:
    """Replace values (step, and optionally run) by NaN in the frames after a run
    diverged or stopped."""
    return values.where(valid_frames(trajectory))
