"""Which runs of a trajectory have succeeded: final accuracy above .98, as in VC's
ablations."""

from __future__ import annotations

import numpy as np
import xarray as xr

from dynamics.trajectory.success import successful_runs

EVALUATION_SPLITS = ("test", "validation")
"""Splits by which a run is evaluated, in order of preference."""


def evaluation_split(trajectory: xr.Dataset) -> str:
    """The split by which runs are evaluated: test, else validation, else the last
    one."""
    splits = [str(value) for value in trajectory["split"].values]
    return next((split for split in EVALUATION_SPLITS if split in splits), splits[-1])


def success_mask(trajectory: xr.Dataset) -> np.ndarray:
    """Runs that have not diverged and end with an accuracy above .98.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of any system.

    Returns
    -------
    array of bool, shape (run,)
        All False for a system without accuracy.

    Examples
    --------
    >>> import dynamics
    >>> from analysis.statistics import success_mask
    >>> success_mask(dynamics.simulate(dynamics.ParticleSettings(n=5), runs=2, steps=1, progress=False))
    array([False, False])
    """
    if "accuracy" not in trajectory:
        return np.zeros(trajectory.sizes["run"], bool)
    return successful_runs(trajectory, split=evaluation_split(trajectory))
