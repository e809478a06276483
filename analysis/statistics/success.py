"""Which runs of a trajectory have succeeded: above .98 (VC's ablations) on the split that judges them, at the end."""

import numpy as np
import xarray as xr

from dynamics.training.finetuning import successful_runs

EVALUATION_SPLITS = ("test", "validation")
"""Splits by which a run is judged: the first that there is, else the last of all."""


def evaluation_split(trajectory: xr.Dataset) -> str:
    """The split whose metrics tell how good a run is."""
    splits = [str(each) for each in trajectory["split"].values]
    return next((split for split in EVALUATION_SPLITS if split in splits), splits[-1])


def success_mask(trajectory: xr.Dataset) -> np.ndarray:
    """Which runs have not diverged and are above .98 at the end, (run,) bool; none where there is no accuracy."""
    if "accuracy" not in trajectory:
        return np.zeros(trajectory.sizes["run"], bool)
    judged = trajectory[["accuracy", "last_step"]].sel(split=[evaluation_split(trajectory)])
    return successful_runs(judged.assign_coords(split=["test"]))  # the name by which a source's runs are judged
