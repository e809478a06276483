"""Which runs of a clustering head (VC) have learned their task."""

import numpy as np
import xarray as xr

from dynamics.settings import SUCCESS_ACCURACY
from dynamics.trajectory.diverged import not_diverged


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
    return (last["accuracy"].sel(split=split).values > above) & not_diverged(last)
