"""Checks and conversion of embeddings, given as arrays or as datasets with the variable
`embedding`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis.statistics.division import ratio
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import check_variable_recorded


def check_embedding(embedding: np.ndarray) -> np.ndarray:
    """The embedding (..., token, axis) as float64.

    Raises TypeError for a dataset, ValueError for another shape and for numbers that
    are not real and finite."""
    if isinstance(embedding, xr.Dataset | xr.DataArray):
        raise TypeError(
            f"embedding: found a {type(embedding).__name__}, expected an array (...,"
            " token, axis), such as trajectory['embedding'].transpose(..., 'token',"
            " 'axis').values"
        )
    x = np.asarray(np.real(embedding), dtype=np.float64)
    if x.ndim < 2 or x.shape[-2] < 1 or x.shape[-1] < 1:
        raise ValueError(
            f"embedding: found shape {x.shape}, expected (..., token, axis)"
        )
    if not np.isrealobj(embedding):
        raise ValueError("embedding: found complex numbers, expected real ones")
    if not np.isfinite(x).all():
        raise ValueError(
            "embedding: found a value that is not finite, expected finite numbers"
        )
    return x


def embedding_variable(
    trajectory: xr.Dataset | xr.DataArray, array_function: str
) -> xr.DataArray:
    """The embedding of a trajectory; a DataArray is returned as it is.

    Raises TypeError for an array; the message names `array_function`, which accepts
    arrays. TrajectoryError for a trajectory without embeddings."""
    if isinstance(trajectory, xr.Dataset):
        check_variable_recorded(trajectory, "embedding")
        return trajectory["embedding"]
    if isinstance(trajectory, xr.DataArray):
        return trajectory
    raise TypeError(
        f"trajectory: found a {type(trajectory).__name__}, expected a dataset with the"
        f" variable embedding; {array_function} takes arrays"
    )


def apply_to_frames(
    function: Callable[..., np.ndarray],
    trajectory: xr.Dataset | xr.DataArray,
    name: str,
    long_name: str,
    core_dims: Sequence[str] = ("token", "axis"),
    result_dims: Sequence[str] = (),
    **arguments: Any,
) -> xr.DataArray:
    """An array function (..., *core_dims) -> (..., *result_dims) of the embedding, with
    NaN in frames after a run diverged."""
    embedding = embedding_variable(trajectory, function.__name__)
    values = xr.apply_ufunc(
        function,
        embedding,
        kwargs=arguments,
        input_core_dims=[list(core_dims)],
        output_core_dims=[list(result_dims)],
    )
    if isinstance(trajectory, xr.Dataset) and {"last_step", "step"} <= set(
        trajectory.variables
    ):
        valid = valid_frames(trajectory)
        values = values if valid.all() else values.where(valid)
    return values.rename(name).assign_attrs(long_name=long_name, units="1")


def rescale_by_power_of_two(x: np.ndarray) -> np.ndarray:
    """Each embedding times a power of two, which is exact, so that squares neither
    overflow nor underflow."""
    exponent = np.frexp(np.abs(x).max(axis=(-2, -1), keepdims=True))[1]
    return np.ldexp(x, -exponent)


def centred_unit_norm(embedding: np.ndarray) -> np.ndarray:
    """The embedding centred and of Frobenius norm 1, 0 if all tokens are in one point:
    (..., token, axis)."""
    x = rescale_by_power_of_two(check_embedding(embedding))
    x = rescale_by_power_of_two(
        x - x[..., :1, :]
    )  # makes tokens in one point exact zeros, unlike subtracting the mean
    x = x - x.mean(axis=-2, keepdims=True)
    size = np.linalg.norm(x, axis=(-2, -1), keepdims=True)
    return ratio(x, size, 0.0)
