"""Spectra of the weights along training, by layer.

A layer is a parameter W as a matrix: its first axis against all others, a vector as a
single row. With its singular values s_i and p_i = s_i / (sum of all), the effective
rank is exp(- sum of p_i log p_i) (Roy and Vetterli 2007, EUSIPCO 606), and the stable
rank (sum of s_i^2) / s_1^2."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import entr

from analysis.output.results import dimensionless
from analysis.statistics.division import ratio
from analysis.structures.layer_measures import measure_layers
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
    (run, step, ...) each, without empty ones. Raises TrajectoryError if there are
    none."""
    if trajectory.attrs["system"] == RecordedSettings.system:
        names = {name: PARAMETER + name for name in parameter_shapes(trajectory)}
    else:
        names = {name: name for name in network_of(trajectory).variables}
    for name in names.values():
        check_variable_recorded(trajectory, name)
    return {
        layer: trajectory[name].transpose("run", "step", ...)
        for layer, name in names.items()
        if trajectory[name].size
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
    fractions = ratio(singular_values, total)
    return np.exp(entr(fractions).sum(axis=-1))


def weight_spectra(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    values: int = 16,
    log: Callable[[str], Any] | None = None,
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
    log : callable, optional
        Called with a line of text about the cost.

    Returns
    -------
    xr.Dataset
        `effective_rank`, `stable_rank`, `norm`, `distance` and `update_alignment` (run,
        step, layer) and `singular_value` (run, step, layer, value), descending; all
        dimensionless. NaN where a run has diverged, and where a cosine is not defined.
        SIGINT after the first frame leaves NaN in the others, whose number is the
        attribute `frames_left`.

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
    start = _matrices(trajectory, 0)
    if log is not None:
        shapes = ", ".join(
            f"{rows} x {columns}" for _, rows, columns in map(np.shape, start)
        )
        log(f"cost        {len(frames)} frames of {len(start[0])} runs, each with the")
        log(f"            singular values of {shapes}")

    @functools.lru_cache(maxsize=3)
    def matrices(place: int) -> list[np.ndarray]:
        return _matrices(trajectory, frames[place])

    def measure(place: int) -> np.ndarray:
        is_inner = 0 < place < len(frames) - 1
        layers = []
        for layer, matrix in enumerate(matrices(place)):
            singular = np.linalg.svd(np.nan_to_num(matrix), compute_uv=False)
            norm = np.linalg.norm(singular, axis=-1)
            alignment = np.full(len(matrix), np.nan)
            with np.errstate(invalid="ignore", divide="ignore"):
                stable = np.square(norm / singular[:, 0])
                if is_inner:
                    before = matrix - matrices(place - 1)[layer]
                    after = matrices(place + 1)[layer] - matrix
                    length = np.linalg.norm(before, axis=(1, 2))
                    length = length * np.linalg.norm(after, axis=(1, 2))
                    alignment = (before * after).sum(axis=(1, 2)) / length
            distance = np.linalg.norm(matrix - start[layer], axis=(1, 2))
            largest = np.full((values, len(matrix)), np.nan)
            largest[: singular.shape[1]] = singular.T[:values]
            rank = effective_rank(singular)
            layers.append(np.stack([rank, stable, norm, distance, alignment, *largest]))
        return np.stack(layers, axis=-1)

    result = measure_layers(
        trajectory, frames, list(weight_arrays(trajectory)), _MEANINGS, measure
    )
    singular_values = result["further"].rename(further="value")
    singular_values.attrs = dimensionless("largest singular values, descending")
    result["singular_value"] = singular_values.transpose(..., "value")
    return result.drop_dims("further")


def _matrices(trajectory: xr.Dataset, frame: int) -> list[np.ndarray]:
    """The layers at a frame, (run, row, column) each; NaN where a run has diverged."""
    is_valid = valid_frames(trajectory, [frame]).values[..., None]
    matrices = []
    for weights in weight_arrays(trajectory).values():
        values = weights.isel(step=frame).values.astype(np.float64)
        rows = values.shape[1] if values.ndim > 2 else 1
        matrices.append(
            np.where(is_valid, values.reshape(len(values), rows, -1), np.nan)
        )
    return matrices
