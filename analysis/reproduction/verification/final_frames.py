"""Frames of the runs of a trajectory that have not diverged."""

import numpy as np
import xarray as xr

from dynamics.tasks import all_pairs, training_pairs
from dynamics.trajectory.schema import read_settings

WEIGHTS = {
    "embedding": ("token", "axis"),
    "hidden_weight": ("hidden", "axis"),
    "hidden_bias": ("hidden",),
    "output_weight": ("class", "hidden"),
    "output_bias": ("class",),
}


def frame_values(trajectory: xr.Dataset, name: str, at: int) -> np.ndarray:
    """A weight or embedding of all runs in a recorded frame: (run, ...) float64."""
    return trajectory[name].isel(step=at).transpose("run", *WEIGHTS[name]).values.astype(np.float64)


def expand_to_runs(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Values of the runs that are kept, NaN of the others: kept (run,) bool -> (run,)."""
    found = np.full((len(kept), *np.shape(values)[1:]), np.nan)
    found[kept] = values
    return found


def training_pairs_of_runs(trajectory: xr.Dataset) -> np.ndarray:
    """The pairs of tokens that each network is trained on: (run, pair, 2)."""
    settings, seeds = read_settings(trajectory), trajectory["seed"].values
    n, count = settings.modulus, settings.train_pairs  # type: ignore[attr-defined]
    chosen = training_pairs(n, count, seeds)
    return np.broadcast_to(all_pairs(n), (*chosen.shape, 2))[chosen].reshape(len(seeds), count, 2)
