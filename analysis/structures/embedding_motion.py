"""How fast the embedding of a trajectory moves, how far it gets, and when it gets going.

Array functions take embeddings (..., step, token, axis), or quantities (..., step), and the time (step,) of each
frame; the labelled ones take a trajectory and read nothing of it but `embedding`, `time` and what says which
frames are valid, and give an `xarray.DataArray`, NaN in the frames of a run after it diverged. Distances are
Frobenius norms over tokens and axes; all values are dimensionless. What is no embedding of finite real
numbers, and a time that does not increase, raise ValueError.

Normalised time runs from 0 at the first frame of the trajectory to 1 at its last, also for a run that diverged
on the way.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr

from analysis.structures.circles_and_grids import check_embedding
from dynamics.trajectory.diverged import mask_diverged
from dynamics.trajectory.schema import read_settings

NEAR = 1e-9
"""Share of the time between two frames within which a moment is that of the frame itself."""


# --------------------------------------------------------------------------------------- speed and distance


def frame_speeds(embedding: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Distance from the frame before per unit of time: (..., step, token, axis), (step,) -> (..., step).

    NaN at the first frame. The path between recorded frames counts as straight.
    """
    x = _checked_frames(embedding, time)
    result = np.full(x.shape[:-2], np.nan)
    result[..., 1:] = _distance(x[..., 1:, :, :], x[..., :-1, :, :]) / np.diff(time)
    return result


def embedding_speed(trajectory: xr.Dataset) -> xr.DataArray:
    """`speeds` by run and step."""
    return _labelled(
        lambda x: frame_speeds(x, trajectory["time"].values), trajectory, "speed", "speed of the embedding"
    )


def frame_displacements(embedding: np.ndarray) -> np.ndarray:
    """Distance from the first frame: (..., step, token, axis) -> (..., step)."""
    x = _checked_frames(embedding)
    return _distance(x, x[..., :1, :, :])


def embedding_displacement(trajectory: xr.Dataset) -> xr.DataArray:
    """`displacements` by run and step."""
    return _labelled(frame_displacements, trajectory, "displacement", "distance of the embedding from its first frame")


# ------------------------------------------------------------------------------------------ normalised time


def rise_times(displacement: np.ndarray, time: np.ndarray, share: float = 0.5) -> np.ndarray:
    """Normalised time at which a displacement first reaches `share` of its largest value: (..., step) -> (...).

    Linear between frames. NaN where it is nowhere above zero (motion by rounding alone is above); frames that
    are NaN do not count. Raises ValueError for a share outside 0 < share <= 1.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share: found {share!r}, expected 0 < share <= 1")
    values, moment = _checked_quantity(displacement, time), _normalised_time(time)
    largest = np.fmax.reduce(values, axis=-1, keepdims=True)
    values = np.divide(values, largest, out=np.full(values.shape, np.nan), where=(largest > 0) & (largest < np.inf))
    reached = values >= share
    after = reached.argmax(axis=-1, keepdims=True)
    before = np.maximum(after - 1, 0)
    low, high = (np.take_along_axis(values, at, axis=-1) for at in (before, after))
    part = np.divide(share - low, high - low, out=np.zeros_like(low), where=after > before)
    found = moment[before] + part * (moment[after] - moment[before])
    return np.where(reached.any(axis=-1), found[..., 0], np.nan)[()]


def departure_times(trajectory: xr.Dataset, share: float = 0.5) -> xr.DataArray:
    """`escape_times` by run: when `displacement` first reaches `share` of the largest it has in a valid frame."""
    result = xr.apply_ufunc(
        lambda values: rise_times(values, trajectory["time"].values, share),
        embedding_displacement(trajectory),
        input_core_dims=[["step"]],
    )
    return result.rename("escape").assign_attrs(long_name="normalised time of the escape from the start", units="1")


def time_unit(trajectory: xr.Dataset) -> tuple[str, float]:
    """In what a person counts a trajectory's time, and how many steps that is: epochs where there are any, else steps.

    Steps too for a branch that changed the length of an epoch.
    """
    steps = read_settings(trajectory).epoch_steps
    return ("epoch", float(steps)) if steps and not trajectory.attrs.get("clock_step", 0) else ("step", 1.0)


def resample_evenly(values: np.ndarray, time: np.ndarray, points: int = 101) -> np.ndarray:
    """A quantity on an even grid of normalised time: (..., step), (step,) -> (..., point). Linear between frames.

    NaN next to a frame that is NaN: nothing is interpolated across it. Raises ValueError for fewer than
    two frames or points.
    """
    values, moment = _checked_quantity(values, time), _normalised_time(time)
    if len(moment) < 2 or points < 2:
        raise ValueError(f"points: found {points} from {len(moment)} frames, expected at least 2 of each")
    grid = np.linspace(0, 1, points)
    before = np.clip(np.searchsorted(moment, grid, side="right") - 1, 0, len(moment) - 2)
    part = (grid - moment[before]) / (moment[before + 1] - moment[before])
    # a frame keeps its own value beside one that is NaN
    part = np.where(np.abs(part - np.round(part)) < NEAR, np.round(part), part)
    low = np.where(part < 1, values[..., before], 0.0) * (1 - part)
    return low + np.where(part > 0, values[..., before + 1], 0.0) * part


def on_normalised_time(data: xr.DataArray, points: int = 101) -> xr.DataArray:
    """`resampled` along normalised_time in place of step, to compare runs of different length.

    data: a quantity with the dimension step and the coordinate time, NaN where it is not valid, as the
    functions above give it. Raises ValueError without them.
    """
    if "step" not in data.dims or "time" not in data.coords:
        raise ValueError(f"data: found dims {data.dims} and coords {tuple(data.coords)}, expected step and time")
    result = xr.apply_ufunc(
        lambda values: resample_evenly(values, data["time"].values, points),
        data,
        input_core_dims=[["step"]],
        output_core_dims=[["normalised_time"]],
        keep_attrs=True,
    )
    result = result.assign_coords(normalised_time=np.linspace(0, 1, points))
    result["normalised_time"].attrs.update(long_name="time from first to last frame", units="1")
    return result


# ------------------------------------------------------------------------------------------------- parts


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Frobenius norm of the difference; its squares neither overflow nor underflow, as a run that diverges wants."""
    half = x / 2 - y / 2
    exponent = np.frexp(np.abs(half).max(axis=(-2, -1)))[1]
    half = np.ldexp(half, -exponent[..., None, None])
    with np.errstate(over="ignore"):
        return np.ldexp(np.linalg.norm(half, axis=(-2, -1)), exponent + 1)


def _checked_frames(embedding: np.ndarray, time: np.ndarray | None = None) -> np.ndarray:
    x = check_embedding(embedding)
    if x.ndim < 3 or x.shape[-3] < 1:
        raise ValueError(f"embedding: found shape {x.shape}, expected (..., step, token, axis)")
    if time is not None:
        _check_time(time, x.shape[-3])
    return x


def _checked_quantity(values: np.ndarray, time: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim < 1 or values.shape[-1] < 1:
        raise ValueError(f"values: found shape {values.shape}, expected (..., step)")
    _check_time(time, values.shape[-1])
    return values


def _check_time(time: np.ndarray, frames: int) -> None:
    if np.shape(time) != (frames,):
        raise ValueError(f"time: found shape {np.shape(time)}, expected ({frames},)")
    if not np.isfinite(time).all() or not (np.diff(time) > 0).all():
        raise ValueError("time: found one that does not increase, expected finite and increasing numbers")


def _normalised_time(time: np.ndarray) -> np.ndarray:
    passed = np.asarray(time, dtype=np.float64) - time[0]
    return passed / passed[-1] if len(passed) > 1 else passed


def _labelled(
    function: Callable[[np.ndarray], np.ndarray], trajectory: xr.Dataset, name: str, long_name: str
) -> xr.DataArray:
    result = xr.apply_ufunc(
        function,
        trajectory["embedding"],
        input_core_dims=[["step", "token", "axis"]],
        output_core_dims=[["step"]],
    )
    if "last_step" in trajectory.variables:
        result = mask_diverged(result, trajectory)
    return result.rename(name).assign_attrs(long_name=long_name, units="1")
