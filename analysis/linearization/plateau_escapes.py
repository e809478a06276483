"""Where a network leaves a plateau of its training loss, and whether it does so along negative curvature.

The escape of a run is the recorded interval in which the lowest training loss so far falls most, below the loss of a
guess, ln p: what a run takes to come down to that from its first state is no escape, and neither is the way back from
a spike. Shares are those of `analysis.linearization.network_curvature`, of the movement in that interval and the
Hessian before it.
"""

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.linearization.network_curvature import CURVATURE_SCALARS, loss_curvature
from dynamics.trajectory.diverged import mask_diverged

_ESCAPE_FRACTIONS = ("lowest_share", "negative_share", "negative_chance", "highest_share")


def largest_loss_falls(loss: np.ndarray, guess: float) -> tuple[np.ndarray, np.ndarray]:
    """The place before the largest fall of the lowest loss so far, below that of a guess, and how far it falls.

    loss: (..., step), NaN where there is no value. Gives (...) int, -1 where there is no fall, and (...).
    """
    values = np.where(np.isfinite(loss), loss, np.inf)
    lowest = np.minimum(np.minimum.accumulate(values, axis=-1), guess)
    falls = lowest[..., :-1] - lowest[..., 1:]
    if not falls.shape[-1]:
        return np.full(lowest.shape[:-1], -1), np.zeros(lowest.shape[:-1])
    place, fall = falls.argmax(axis=-1), falls.max(axis=-1)
    return np.where(fall > 0, place, -1), fall


def measure_plateau_escapes(trajectory: xr.Dataset, quiet: bool = False) -> xr.Dataset:
    """escape_step, escape_fall and the shares of the movement there, by run; NaN, and step -1, without an escape.

    Raises TrajectoryError.
    """
    loss = (
        mask_diverged(trajectory["loss"].sel(split="train"), trajectory)
        .transpose("run", "step")
        .values.astype(np.float64)
    )
    places, falls = largest_loss_falls(loss, float(np.log(trajectory.attrs["modulus"])))
    found = {name: np.full(len(places), np.nan) for name in _ESCAPE_FRACTIONS}
    for run, place in enumerate(tqdm(places, "escapes", disable=True if quiet else None, leave=False)):
        if place >= 0:
            one = loss_curvature(trajectory.isel(run=[run]), [int(place)], quiet=True)
            for name in _ESCAPE_FRACTIONS:
                found[name][run] = one[name].item()
    steps = np.where(places >= 0, trajectory["step"].values[places], -1)
    result = {
        "escape_step": ("run", steps, {"long_name": "step before the largest fall of the training loss", "units": "1"}),
        "escape_fall": ("run", falls, {"long_name": "how far the training loss falls there", "units": "1"}),
    }
    for name, values in found.items():
        result[f"escape_{name}"] = (
            "run",
            values,
            {"long_name": f"at the escape: {CURVATURE_SCALARS[name]}", "units": "1"},
        )
    return xr.Dataset(result, {"seed": ("run", trajectory["seed"].values)})
