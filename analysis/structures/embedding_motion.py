"""Motion of embeddings: speed, distance from the start, departure, and normalised time.

Functions of arrays take embeddings (..., step, token, axis), or quantities (..., step),
and the time (step,) of each frame. Functions of datasets take a trajectory and return
NaN in the frames after a run diverged. Distances are Frobenius norms over tokens and
axes; all values are dimensionless. Normalised time is 0 at the first frame of the
trajectory and 1 at its last, also for a run that diverged.

The departure time is when an embedding first reaches half of its largest distance from
the start. It is not the escape from a plateau of the loss (`analysis.transitions`),
which is defined by the first level of a scalar."""

from __future__ import annotations

import functools

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.statistics.division import ratio
from analysis.structures.embedding_arrays import (
    apply_to_frames,
    check_embedding,
    embedding_variable,
)
from dynamics.errors import TrajectoryError
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import check_variable_recorded

_NEAR = 1e-9
"""A time this near to a frame, as a fraction of the interval between two frames, counts
as that of the frame."""

_SERIES = {"core_dims": ("step", "token", "axis"), "result_dims": ("step",)}
"""Dimensions of functions of all frames of a run."""


# ------------------------------------------------------------------- speed and distance


def frame_speeds(embedding: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Distance from the previous frame per unit of time, for straight paths between
    frames.

    Parameters
    ----------
    embedding : array, shape (..., step, token, axis)
    time : array, shape (step,)
        Not decreasing.

    Returns
    -------
    array, shape (..., step)
        NaN at the first frame, and where no time has passed since the previous one, as
        at learning rate 0.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import frame_speeds
    >>> frame_speeds(np.array([[[0.0, 0.0]], [[3.0, 4.0]]]), np.array([0.0, 2.0]))
    array([nan, 2.5])
    """
    x = _check_frames(embedding, time)
    result = np.full(x.shape[:-2], np.nan)
    passed = np.diff(time)
    passed = np.where(passed > 0, passed, np.nan)
    result[..., 1:] = _distance(x[..., 1:, :, :], x[..., :-1, :, :]) / passed
    return result


def embedding_speed(trajectory: xr.Dataset) -> xr.DataArray:
    """`frame_speeds` of a trajectory, by run and step.

    Examples
    --------
    >>> from analysis import embedding_speed
    >>> from dynamics import ParticleSettings, simulate
    >>> embedding_speed(simulate(ParticleSettings(n=7), runs=2, steps=4, progress=False)).dims
    ('run', 'step')
    """
    embedding_variable(trajectory, "frame_speeds")
    time = trajectory["time"].values
    return apply_to_frames(
        frame_speeds,
        trajectory,
        "speed",
        "speed of the embedding",
        **_SERIES,
        time=time,
    )


def frame_displacements(embedding: np.ndarray) -> np.ndarray:
    """Distance from the first frame.

    Parameters
    ----------
    embedding : array, shape (..., step, token, axis)

    Returns
    -------
    array, shape (..., step)

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import frame_displacements
    >>> frame_displacements(np.array([[[0.0, 0.0]], [[3.0, 4.0]]]))
    array([0., 5.])
    """
    x = _check_frames(embedding)
    return _distance(x, x[..., :1, :, :])


def embedding_displacement(trajectory: xr.Dataset) -> xr.DataArray:
    """`frame_displacements` of a trajectory, by run and step.

    Examples
    --------
    >>> from analysis import embedding_displacement
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=2, steps=4, progress=False)
    >>> embedding_displacement(trajectory).isel(step=0).values
    array([0., 0.])
    """
    about = "distance of the embedding from its first frame"
    return apply_to_frames(
        frame_displacements, trajectory, "displacement", about, **_SERIES
    )


def last_step_movements(trajectory: xr.Dataset) -> np.ndarray:
    """How far the last step has moved the embedding of each run, relative to the norm
    of the embedding without its mean.

    Parameters
    ----------
    trajectory : xarray.Dataset
        Of particles or of a network of this package, with the embedding and its
        `update_norm`.

    Returns
    -------
    array, shape (run,)
        Dimensionless; 0 at step 0, and NaN for runs that have diverged.

    Raises
    ------
    TrajectoryError
        If one of both is not recorded.

    Examples
    --------
    >>> from analysis.structures import last_step_movements
    >>> from dynamics import ParticleSettings, simulate
    >>> coarse = ParticleSettings(n=59, step_size=0.003)
    >>> last_step_movements(simulate(coarse, runs=3, steps=100, progress=False)) > 0.2
    array([ True,  True,  True])
    """
    for name in ("embedding", "update_norm"):
        check_variable_recorded(trajectory, name)
    if "embedding" not in trajectory["layer"]:
        raise TrajectoryError("update_norm: no layer embedding, expected its norms")
    last = trajectory["embedding"].isel(step=-1).transpose("run", "token", "axis")
    x = last.values.astype(np.float64)
    size = np.linalg.norm(x - x.mean(axis=1, keepdims=True), axis=(1, 2))
    moved = trajectory["update_norm"].isel(step=-1).sel(layer="embedding").values
    return np.where(not_diverged(trajectory), ratio(moved, size), np.nan)


# ---------------------------------------------------------------------- normalised time


def rise_times(
    values: np.ndarray, time: np.ndarray, fraction: float = 0.5
) -> np.ndarray:
    """Normalised time at which a quantity first reaches a fraction of its largest
    value, by linear interpolation.

    Parameters
    ----------
    values : array, shape (..., step)
        Not negative; NaN in frames that are ignored.
    time : array, shape (step,)
    fraction : float
        Above 0, at most 1.

    Returns
    -------
    array, shape (...)
        NaN if the quantity is nowhere above 0.

    Raises
    ------
    ValueError
        For another fraction, and for times that do not increase.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import rise_times
    >>> float(rise_times(np.array([0.0, 2.0, 4.0]), np.array([0.0, 1.0, 2.0])))
    0.5
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction: found {fraction!r}, expected 0 < fraction <= 1")
    values = _check_quantity(values, time)
    moment = _normalised_time(time)
    largest = np.fmax.reduce(values, axis=-1, keepdims=True)
    values = ratio(values, np.where(largest < np.inf, largest, 0.0))
    reached = values >= fraction
    after = reached.argmax(axis=-1, keepdims=True)
    before = np.maximum(after - 1, 0)
    low = np.take_along_axis(values, before, axis=-1)
    high = np.take_along_axis(values, after, axis=-1)
    part = np.divide(
        fraction - low, high - low, out=np.zeros_like(low), where=after > before
    )
    result = moment[before] + part * (moment[after] - moment[before])
    return np.where(reached.any(axis=-1), result[..., 0], np.nan)[()]


def departure_times(trajectory: xr.Dataset, fraction: float = 0.5) -> xr.DataArray:
    """Normalised time at which an embedding first reaches a fraction of its largest
    distance from the start.

    Parameters
    ----------
    trajectory : xarray.Dataset
    fraction : float
        Above 0, at most 1.

    Returns
    -------
    xarray.DataArray
        By run; NaN for a run that never moves.

    Raises
    ------
    ValueError
        For another fraction.

    Examples
    --------
    >>> from analysis import departure_times
    >>> from dynamics import ParticleSettings, simulate
    >>> times = departure_times(simulate(ParticleSettings(n=7), runs=2, steps=9, progress=False))
    >>> bool(((times > 0) & (times < 1)).all())
    True
    """
    displacement = embedding_displacement(trajectory)
    options = {"time": trajectory["time"].values, "fraction": fraction}
    times = xr.apply_ufunc(
        rise_times, displacement, input_core_dims=[["step"]], kwargs=options
    )
    return times.rename("departure").assign_attrs(
        dimensionless("normalised time of the departure from the start")
    )


def resample_evenly(
    values: np.ndarray, time: np.ndarray, points: int = 101
) -> np.ndarray:
    """A quantity at evenly spaced normalised times, interpolated linearly between
    frames.

    Parameters
    ----------
    values : array, shape (..., step)
    time : array, shape (step,)
        Increasing.
    points : int
        Number of times, at least 2.

    Returns
    -------
    array, shape (..., point)
        NaN next to a frame that is NaN, as values are not interpolated across it.

    Raises
    ------
    ValueError
        For fewer than two frames or points.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import resample_evenly
    >>> resample_evenly(np.array([0.0, 1.0, 4.0]), np.array([0.0, 1.0, 2.0]), points=5)
    array([0. , 0.5, 1. , 2.5, 4. ])
    """
    values = _check_quantity(values, time)
    moment = _normalised_time(time)
    if len(moment) < 2 or points < 2:
        raise ValueError(
            f"points: found {points} from {len(moment)} frames, expected at least 2 of"
            " each"
        )
    even = np.linspace(0, 1, points)
    before = np.clip(
        np.searchsorted(moment, even, side="right") - 1, 0, len(moment) - 2
    )
    passed = moment[before + 1] - moment[before]
    part = np.where(passed > 0, even - moment[before], 1) / np.where(passed, passed, 1)
    # at a frame only its own value is used, even if the next one is NaN
    part = np.where(np.abs(part - np.round(part)) < _NEAR, np.round(part), part)
    low = np.where(part < 1, values[..., before], 0.0) * (1 - part)
    return low + np.where(part > 0, values[..., before + 1], 0.0) * part


def on_normalised_time(data: xr.DataArray, points: int = 101) -> xr.DataArray:
    """A labelled quantity resampled along normalised_time in place of step, to compare
    runs of different length.

    Parameters
    ----------
    data : xarray.DataArray
        With the dimension step and the coordinate time, such as `embedding_speed`.
    points : int
        As for `resample_evenly`.

    Returns
    -------
    xarray.DataArray

    Raises
    ------
    ValueError
        Without step and time.

    Examples
    --------
    >>> from analysis import embedding_speed
    >>> from analysis.structures import on_normalised_time
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=2, steps=4, progress=False)
    >>> on_normalised_time(embedding_speed(trajectory), points=11).sizes["normalised_time"]
    11
    """
    if "step" not in data.dims or "time" not in data.coords:
        raise ValueError(
            f"data: found dims {data.dims} and coords {tuple(data.coords)}, expected"
            " step and time"
        )
    resample = functools.partial(
        resample_evenly, time=data["time"].values, points=points
    )
    result = xr.apply_ufunc(
        resample,
        data,
        input_core_dims=[["step"]],
        output_core_dims=[["normalised_time"]],
        keep_attrs=True,
    )
    result = result.assign_coords(normalised_time=np.linspace(0, 1, points))
    result["normalised_time"].attrs.update(
        long_name="time from first to last frame", units="1"
    )
    return result


# -------------------------------------------------------------------------------- parts


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Frobenius norm of the difference; its squares neither overflow nor underflow,
    even in a run that diverges."""
    half = x / 2 - y / 2
    exponent = np.frexp(np.abs(half).max(axis=(-2, -1)))[1]
    half = np.ldexp(half, -exponent[..., None, None])
    with np.errstate(over="ignore"):
        return np.ldexp(np.linalg.norm(half, axis=(-2, -1)), exponent + 1)


def _check_frames(embedding: np.ndarray, time: np.ndarray | None = None) -> np.ndarray:
    x = check_embedding(embedding)
    if x.ndim < 3 or x.shape[-3] < 1:
        raise ValueError(
            f"embedding: found shape {x.shape}, expected (..., step, token, axis)"
        )
    if time is not None:
        _check_time(time, x.shape[-3])
    return x


def _check_quantity(values: np.ndarray, time: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim < 1 or values.shape[-1] < 1:
        raise ValueError(f"values: found shape {values.shape}, expected (..., step)")
    _check_time(time, values.shape[-1])
    return values


def _check_time(time: np.ndarray, frames: int) -> None:
    if np.shape(time) != (frames,):
        raise ValueError(f"time: found shape {np.shape(time)}, expected ({frames},)")
    decreases = (np.diff(time) < 0).any() or (frames > 1 and time[-1] == time[0])
    if not np.isfinite(time).all() or decreases:
        raise ValueError(
            "time: found values that do not increase, expected finite numbers that do"
            " not decrease and are not all the same"
        )


def _normalised_time(time: np.ndarray) -> np.ndarray:
    passed = np.asarray(time, dtype=np.float64) - time[0]
    return passed / passed[-1] if len(passed) > 1 else passed
