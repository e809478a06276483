"""Which runs of a trajectory have succeeded: above .98 (VC's ablations) on the split that judges them, at the end."""

import numpy as np
import xarray as xr

from dynamics.training.finetuning import successful

JUDGING = ("test", "validation")
"""Splits by which a run is judged: the first that there is, else the last of all."""


def judging(trajectory: xr.Dataset) -> str:
    """The split whose metrics tell how good a run is."""
    splits = [str(each) for each in trajectory["split"].values]
    return next((split for split in JUDGING if split in splits), splits[-1])


def succeeded(trajectory: xr.Dataset) -> np.ndarray:
    """Which runs have not diverged and are above .98 at the end, (run,) bool; none where there is no accuracy."""
    if "accuracy" not in trajectory:
        return np.zeros(trajectory.sizes["run"], bool)
    judged = trajectory[["accuracy", "last_step"]].sel(split=[judging(trajectory)])
    return successful(judged.assign_coords(split=["test"]))  # the name by which a source's runs are judged
