"""The training pairs of the runs of a trajectory."""

from __future__ import annotations

import numpy as np
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.settings import ModularSettings, TransformerSettings
from dynamics.tasks import (
    all_pairs,
    modular_training_mask,
    operation_pairs,
    operation_splits,
)
from dynamics.trajectory.schema import read_settings


def trained_pairs(trajectory: xr.Dataset) -> xr.DataArray:
    """The pairs that the runs of a trajectory are trained on.

    Parameters
    ----------
    trajectory : xarray.Dataset
        Of CA's network or of a transformer (`ModularSettings`, `TransformerSettings`).

    Returns
    -------
    xarray.DataArray
        (run, pair) bool: whether each pair of tokens is a training pair; the others are
        the validation or test split. The coordinates `first` and `second` (pair) are the
        tokens of a pair, `seed` (run) the seeds of the runs.

    Raises
    ------
    TrajectoryError
        For another system.
    SettingsError
        If the pairs are those of a file that has changed.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate, trained_pairs
    >>> trajectory = simulate(ModularSettings(n=5), runs=2, steps=3, progress=False)
    >>> trained = trained_pairs(trajectory)
    >>> trained.sum("pair").values
    array([12, 12])
    >>> of_run = trained["pair"][trained[0]]  # of the first run
    >>> trained["first"].values[of_run][:3], trained["second"].values[of_run][:3]
    (array([0, 0, 0]), array([0, 3, 4]))
    """
    settings = read_settings(trajectory)
    seeds = trajectory["seed"].values
    if settings.system not in (ModularSettings.system, TransformerSettings.system):
        raise TrajectoryError(
            f"attribute system: found {settings.system}, expected"
            f" {ModularSettings.system} or {TransformerSettings.system}, whose data are"
            " pairs"
        )
    if isinstance(settings, TransformerSettings):
        pairs = operation_pairs(settings)
        trained = np.zeros((len(seeds), len(pairs)), bool)
        np.put_along_axis(trained, operation_splits(settings, seeds)[0], True, axis=1)
    else:
        assert isinstance(settings, ModularSettings)
        pairs = all_pairs(settings.n)
        trained = modular_training_mask(settings, seeds)
    coords = {
        "first": ("pair", pairs[:, 0]),
        "second": ("pair", pairs[:, 1]),
        "seed": ("run", seeds),
    }
    return xr.DataArray(trained, coords, ("run", "pair"), name="trained")
