"""Spectra of the weights along training, by layer.

A layer is a parameter W as a matrix: its first axis against all others, a vector as a
single row. With its singular values s_i and p_i = s_i / (sum of all), the effective
rank is exp(- sum of p_i log p_i) (Roy and Vetterli 2007, EUSIPCO 606), and the stable
rank (sum of s_i^2) / s_1^2."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.special import entr

from analysis.output.results import dimensionless
from dynamics.networks.from_trajectory import network_of
from dynamics.recording.model_loss import parameter_shapes
from dynamics.recording.quantities import PARAMETER
from dynamics.settings import RecordedSettings, check_integer
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import check_variable_recorded

_MEANINGS = {
    "effective_rank": "exp of the entropy of the normalised singular values",
    "stable_rank": "sum of squared singular values over the largest of them",
    "norm": "Frobenius norm",
    "distance": "norm of the difference from the first recorded frame",
    "update_alignment": "cosine of the changes before and after the frame",
}


def weight_arrays(trajectory: xr.Dataset) -> dict[str, xr.DataArray]:
    """The recorded weights of a network of this package or of a recorded model by name,
    (run, step, ...) each. Raises TrajectoryError if there are none."""
    if trajectory.attrs["system"] == RecordedSettings.system:
        names = {name: PARAMETER + name for name in parameter_shapes(trajectory)}
    else:
        names = {name: name for name in network_of(trajectory).variables}
    for name in names.values():
        check_variable_recorded(trajectory, name)
    return {
        layer: trajectory[name].transpose("run", "step", ...)
        for layer, name in names.items()
    }


def effective_rank(singular_values: np.ndarray) -> np.ndarray:
    """The effective rank of matrices with singular values (..., value): (...), NaN of a
    matrix of zeros.

    Examples
    --------
    >>> effective_rank(np.array([[2.0, 2.0, 0.0], [1.0, 0.0, 0.0]])).round(6)
    array([2., 1.])
    """
    total = singular_values.sum(axis=-1, keepdims=True)
    fractions = np.divide(
        singular_values,
        total,
        out=np.full_like(singular_values, np.nan),
        where=total > 0,
    )
    return np.exp(entr(fractions).sum(axis=-1))


def weight_spectra(
    trajectory: xr.Dataset, frames: Sequence[int], values: int = 16
) -> xr.Dataset:
    """Singular values, ranks and motion of each layer at some frames.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network of this package with its weights, or of a recorded model.
    frames : sequence of int
        Indices along `step`, in increasing order.
    values : int
        Largest number of singular values that the result has; ranks use all.

    Returns
    -------
    xr.Dataset
        `effective_rank`, `stable_rank`, `norm`, `distance` and `update_alignment` (run,
        step, layer) and `singular_value` (run, step, layer, value), descending; all
        dimensionless. NaN where a run has diverged, and where a cosine is not defined.

    Raises
    ------
    SettingsError
        If the number of values is not allowed.
    TrajectoryError
        If no weights are recorded.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=20, progress=False)
    >>> spectra = weight_spectra(short, [0, 1])
    >>> spectra["distance"].sel(layer="embedding").values[0, 0].item()
    0.0
    """
    check_integer("values", values, 1, 10**6)
    frames = list(frames)
    valid = valid_frames(trajectory).values[:, frames]
    layers = []
    for weights in weight_arrays(trajectory).values():
        rows = weights.shape[2] if weights.ndim > 3 else 1
        shape = (*valid.shape, rows, -1)
        matrices = weights.isel(step=frames).values.reshape(shape).astype(np.float64)
        matrices = np.where(valid[..., None, None], matrices, 0.0)
        start = weights.isel(step=0).values.reshape(len(valid), 1, rows, -1)
        spectrum = np.linalg.svd(matrices, compute_uv=False)
        norm = np.linalg.norm(spectrum, axis=-1)
        changes = np.diff(matrices, axis=1).reshape(*valid[:, 1:].shape, -1)
        before, after = changes[:, :-1], changes[:, 1:]
        alignment = np.full(valid.shape, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
            alignment[:, 1:-1] = (before * after).sum(axis=-1) / lengths
            stable = np.square(norm / spectrum[..., 0])
        largest = np.full((*valid.shape, values), np.nan)
        largest[..., : spectrum.shape[-1]] = spectrum[..., :values]
        measures = (
            effective_rank(spectrum),
            stable,
            norm,
            np.linalg.norm(matrices - start, axis=(-2, -1)),
            np.where(np.roll(valid, -1, axis=1), alignment, np.nan),
            *np.moveaxis(largest, -1, 0),
        )
        layers.append(np.where(valid, measures, np.nan))
    stacked = np.stack(layers, axis=-1)
    dims = ("run", "step", "layer")
    data: dict[str, tuple] = {
        name: (dims, array, dimensionless(meaning))
        for array, (name, meaning) in zip(stacked, _MEANINGS.items(), strict=False)
    }
    singular = np.moveaxis(stacked[len(_MEANINGS) :], 0, -1)
    data["singular_value"] = (
        (*dims, "value"),
        singular,
        dimensionless("largest singular values, descending"),
    )
    coords = {
        "step": trajectory["step"].values[frames],
        "seed": ("run", trajectory["seed"].values),
        "layer": list(weight_arrays(trajectory)),
    }
    return xr.Dataset(data, coords, {"system": trajectory.attrs["system"]})
