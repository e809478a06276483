"""Which runs have learned their task."""

from typing import Any

import numpy as np
import xarray as xr

from dynamics.settings import SUCCESS_ACCURACY
from dynamics.trajectory.diverged import not_diverged


def exceeds(accuracy: Any, threshold: float) -> np.ndarray:
    """Whether accuracies are above a threshold.

    Both are compared in float32, the type in which accuracies are recorded: 49 of 50
    is not above 0.98, but its float32 value is above the float64 value of 0.98.

    Parameters
    ----------
    accuracy : array_like
        Accuracies of any shape, 0 to 1.
    threshold : float

    Returns
    -------
    numpy.ndarray of bool
        False for NaN.

    Examples
    --------
    >>> exceeds(np.float64(np.float32(0.98)), 0.98), exceeds([0.99], 0.98)
    (np.False_, array([ True]))
    """
    return np.asarray(accuracy, np.float32) > np.float32(threshold)


def successful_runs(
    trajectory: xr.Dataset, above: float = SUCCESS_ACCURACY, split: str = "test"
) -> np.ndarray:
    """Return which runs have not diverged and end above an accuracy.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of a clustering head (VC).
    above : float, optional
        Threshold of the accuracy, 0 to 1.
    split : str, optional
        Split whose accuracy is compared.

    Returns
    -------
    numpy.ndarray
        (run,) bool.

    Examples
    --------
    >>> from dynamics import SparseSettings, simulate
    >>> trajectory = simulate(SparseSettings(data=64), runs=2, steps=2)
    >>> successful_runs(trajectory)
    array([False, False])
    """
    last = trajectory.isel(step=-1)
    return exceeds(last["accuracy"].sel(split=split).values, above) & not_diverged(last)
