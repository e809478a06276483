"""How fast the parameters of each layer move, and how they move while the loss drops
(VC section 4.1, appendix A.1)."""

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.loss_events import DROP_NAMES
from dynamics.trajectory.diverged import mask_diverged, valid_frames
from dynamics.trajectory.schema import check_variable_recorded


def layer_speeds(trajectory: xr.Dataset) -> xr.DataArray:
    """Distance that the parameters of each layer have moved since the previous frame,
    per step.

    Parameters
    ----------
    trajectory : Dataset
        Of networks. If it has metrics only, the speed is the norm of the last update.

    Returns
    -------
    DataArray, dims (run, step, layer)
        Dimensionless; NaN in the first frame and after a run has diverged.

    Examples
    --------
    >>> from analysis.transitions import layer_speeds
    >>> from dynamics.settings import SparseSettings
    >>> from dynamics.simulation import simulate
    >>> small = SparseSettings(length=4, sparsity=2, data=16, batch=16, hidden=4)
    >>> dict(layer_speeds(simulate(small, runs=2, steps=3, progress=False)).sizes)
    {'run': 2, 'step': 4, 'layer': 8}
    """
    check_variable_recorded(trajectory, "update_norm")
    layers = [str(value) for value in trajectory["layer"].values]
    if any(name not in trajectory for name in layers):
        values = (
            trajectory["update_norm"]
            .astype(np.float64)
            .transpose("run", "step", "layer")
        )
        return mask_diverged(values, trajectory).where(
            trajectory["step"] > trajectory["step"][0]
        )
    gaps, speeds = np.diff(trajectory["step"].values).astype(np.float64), []
    for name in layers:
        weights = trajectory[name].transpose("run", "step", ...).values
        flat = weights.reshape(*weights.shape[:2], -1).astype(np.float64)
        moved = np.linalg.norm(np.diff(flat, axis=1), axis=-1) / gaps
        speeds.append(np.concatenate([np.full((len(moved), 1), np.nan), moved], axis=1))
    attrs = dimensionless("distance between frames, per step")
    coords = trajectory[["step", "layer"]].coords
    values = xr.DataArray(
        np.stack(speeds, axis=-1),
        coords,
        ("run", "step", "layer"),
        "layer_speed",
        attrs,
    )
    return mask_diverged(values, trajectory)


def layer_motion_at_drops(
    trajectory: xr.Dataset,
    drops: xr.Dataset,
    config: DetectionConfig = DEFAULT_DETECTION,
) -> xr.Dataset:
    """Speed and gradient norm of each layer during the first and second drop of the
    loss, (run, phase, layer).

    drops: from `first_two_drops`. `speed`: median of `layer_speeds` during the drop
    over the median before it (before the second drop: since the end of the first, or
    since the first frame if there are no frames between). `peak`: step of the largest
    gradient norm from w frames before the drop to w frames after it; `lag`: steps from
    the middle of the drop to that peak. NaN where there is no drop; `speed` also of
    layers that did not move before it. No layers if no norms were recorded."""
    steps = trajectory["step"].values.astype(np.float64)
    if "update_norm" not in trajectory:  # collected from checkpoints
        none = xr.Dataset(
            coords={"phase": list(DROP_NAMES), "layer": np.array([], str)}
        )
        empty = (
            ("run", "phase", "layer"),
            np.empty((trajectory.sizes["run"], len(DROP_NAMES), 0)),
        )
        return none.assign(speed=empty, peak=empty, lag=empty)
    speeds = layer_speeds(trajectory).values
    norms = trajectory["gradient_norm"].transpose("run", "step", "layer").values
    norms = np.where(valid_frames(trajectory).values[..., None], norms, -np.inf)
    width = config.width(len(steps))
    shape = (len(speeds), len(DROP_NAMES), speeds.shape[-1])
    ratio, peak = np.full(shape, np.nan), np.full(shape, np.nan)
    for run, drop in np.argwhere(np.isfinite(drops["middle"].values)):
        begin, end = (float(drops[name].values[run, drop]) for name in ("begin", "end"))
        during = (steps > begin) & (
            steps <= np.maximum(end, steps[np.searchsorted(steps, begin, "right")])
        )
        since = float(drops["end"].values[run, 0]) if drop else steps[0]
        before = (steps > since) & (steps <= begin)
        if not before.any():
            before = (steps > steps[0]) & (steps <= begin)
        if before.any() and during.any():
            speed, usual = (
                np.nanmedian(speeds[run, frames], axis=0) for frames in (during, before)
            )
            np.divide(speed, usual, out=ratio[run, drop], where=usual > 0)
        first, last = np.searchsorted(steps, [begin, end])
        first, last = max(0, first - width), min(len(steps), last + width + 1)
        peak[run, drop] = steps[first + np.argmax(norms[run, first:last], axis=0)]
    lag = peak - drops["middle"].values[..., None]
    dims = ("run", "phase", "layer")
    return xr.Dataset(
        {
            "speed": (
                dims,
                ratio,
                dimensionless("speed of the weights in the drop over that before"),
            ),
            "peak": (
                dims,
                peak,
                {"long_name": "step of the largest gradient norm around the drop"},
            ),
            "lag": (
                dims,
                lag,
                {"long_name": "steps from the middle of the drop to that peak"},
            ),
        },
        {"phase": list(DROP_NAMES), "layer": trajectory["layer"].values},
    )
