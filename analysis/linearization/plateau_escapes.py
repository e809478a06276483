"""Where a network leaves a plateau of its training loss, and whether it does so along
negative curvature.

The escape of a run is the recorded interval in which the running minimum of the
training loss decreases most, below the loss ln p of a random guess: neither the first
decrease from the initial loss to that level nor the recovery from a spike counts as an
escape. Fractions are those of `analysis.linearization.network_curvature`, for the
movement in that interval and the Hessian before it."""

import numpy as np
import xarray as xr

from analysis.linearization.network_curvature import CURVATURE_SCALARS, loss_curvature
from analysis.output.results import dimensionless
from dynamics.progress import progress_bar
from dynamics.trajectory.diverged import mask_diverged

_FRACTIONS = ("lowest_share", "negative_share", "negative_chance", "highest_share")


def largest_loss_falls(loss: np.ndarray, guess: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest decrease of the running minimum of the loss, below the loss of a
    random guess.

    Parameters
    ----------
    loss : array, (..., step)
        NaN for no value.
    guess : float

    Returns
    -------
    index : array of int, (...)
        Index before the fall; -1 without a fall.
    fall : array, (...)

    Examples
    --------
    >>> index, fall = largest_loss_falls(np.array([3.0, 0.9, 0.75, 0.25]), guess=0.5)
    >>> int(index), float(fall)
    (2, 0.25)
    """
    values = np.where(np.isfinite(loss), loss, np.inf)
    lowest = np.minimum(np.minimum.accumulate(values, axis=-1), guess)
    falls = lowest[..., :-1] - lowest[..., 1:]
    if not falls.shape[-1]:
        return np.full(lowest.shape[:-1], -1), np.zeros(lowest.shape[:-1])
    index = falls.argmax(axis=-1)
    fall = falls.max(axis=-1)
    return np.where(fall > 0, index, -1), fall


def measure_plateau_escapes(trajectory: xr.Dataset, quiet: bool = False) -> xr.Dataset:
    """`escape_step`, `escape_fall` and fractions of the movement there, by run; NaN,
    and step -1, without an escape.

    Raises TrajectoryError.
    """
    loss = mask_diverged(trajectory["loss"].sel(split="train"), trajectory).transpose(
        "run", "step"
    )
    indices, falls = largest_loss_falls(
        loss.values.astype(np.float64), float(np.log(trajectory.attrs["modulus"]))
    )
    fractions = {name: np.full(len(indices), np.nan) for name in _FRACTIONS}
    for run, index in enumerate(progress_bar(indices, desc="escapes", quiet=quiet)):
        if index >= 0:
            one = loss_curvature(trajectory.isel(run=[run]), [int(index)], quiet=True)
            for name in _FRACTIONS:
                fractions[name][run] = one[name].item()
    steps = np.where(indices >= 0, trajectory["step"].values[indices], -1)
    variables = {
        "escape_step": (steps, "step before the largest fall of the training loss"),
        "escape_fall": (falls, "how far the training loss falls there"),
        **{
            f"escape_{name}": (fraction, f"at the escape: {CURVATURE_SCALARS[name]}")
            for name, fraction in fractions.items()
        },
    }
    data = {
        name: ("run", values, dimensionless(meaning))
        for name, (values, meaning) in variables.items()
    }
    return xr.Dataset(data, {"seed": ("run", trajectory["seed"].values)})
