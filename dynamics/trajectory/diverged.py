"""Which runs and frames of a trajectory are valid: a run that diverged repeats its last finite frame to the end."""

import numpy as np
import xarray as xr


def not_diverged(trajectory: xr.Dataset, step: int | None = None) -> np.ndarray:
    """Runs whose frame at a step, by default the last recorded one, is their own: (run,) bool."""
    last = int(trajectory["step"].max()) if step is None else step
    return trajectory["last_step"].values >= last


def count_diverged(trajectory: xr.Dataset) -> int:
    """The number of runs that diverged before the last recorded step."""
    return int((~not_diverged(trajectory)).sum())


def valid_frames(trajectory: xr.Dataset) -> xr.DataArray:
    """Frames up to the last finite one of each run: (run, step) bool."""
    return (trajectory["step"] <= trajectory["last_step"]).transpose("run", "step", missing_dims="ignore")


def mask_diverged(values: xr.DataArray, trajectory: xr.Dataset) -> xr.DataArray:
    """Values by step, and maybe by run, with NaN in the frames after a run diverged."""
    return values.where(trajectory["step"] <= trajectory["last_step"])
