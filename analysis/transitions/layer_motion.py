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
    dims = ("run", "step", "layer")
    if any(name not in trajectory for name in layers):
        values = trajectory["update_norm"].astype(np.float64).transpose(*dims)
        is_later = trajectory["step"] > trajectory["step"][0]
        return mask_diverged(values, trajectory).where(is_later)
    sizes = trajectory.sizes
    gaps = np.diff(trajectory["step"].values)
    speeds = np.full([sizes[dim] for dim in dims], np.nan)
    for index, name in enumerate(layers):
        weights = trajectory[name].transpose("run", "step", ...).values
        flat = weights.reshape(*weights.shape[:2], -1).astype(np.float64)
        speeds[:, 1:, index] = np.linalg.norm(np.diff(flat, axis=1), axis=-1) / gaps
    attrs = dimensionless("distance between frames, per step")
    coords = trajectory[["step", "layer"]].coords
    values = xr.DataArray(speeds, coords, dims, "layer_speed", attrs)
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
    dims = ("run", "phase", "layer")
    phases = list(DROP_NAMES)
    if "update_norm" not in trajectory:  # collected from checkpoints
        empty = (dims, np.empty((trajectory.sizes["run"], len(phases), 0)))
        variables = dict.fromkeys(("speed", "peak", "lag"), empty)
        return xr.Dataset(variables, {"phase": phases, "layer": np.array([], str)})
    speeds = layer_speeds(trajectory).values
    norms = trajectory["gradient_norm"].transpose("run", "step", "layer").values
    norms = np.where(valid_frames(trajectory).values[..., None], norms, -np.inf)
    width = config.width(len(steps))
    ratio, peak = np.full((2, len(speeds), len(phases), speeds.shape[-1]), np.nan)
    begins, ends = drops["begin"].values, drops["end"].values
    for run, drop in np.argwhere(np.isfinite(drops["middle"].values)):
        begin, end = begins[run, drop], ends[run, drop]
        until = max(end, steps[np.searchsorted(steps, begin, "right")])
        during = (steps > begin) & (steps <= until)
        before = (steps > steps[0]) & (steps <= begin)
        since_first = before & (steps > ends[run, 0])
        if drop and since_first.any():
            before = since_first
        if before.any() and during.any():
            speed = np.nanmedian(speeds[run, during], axis=0)
            usual = np.nanmedian(speeds[run, before], axis=0)
            np.divide(speed, usual, out=ratio[run, drop], where=usual > 0)
        first, last = np.searchsorted(steps, [begin, end])
        first = max(0, first - width)
        largest = np.argmax(norms[run, first : last + width + 1], axis=0)
        peak[run, drop] = steps[first + largest]
    words = {
        "peak": "step of the largest gradient norm around the drop",
        "lag": "steps from the middle of the drop to that peak",
    }
    lag = peak - drops["middle"].values[..., None]
    meaning = dimensionless("speed of the weights in the drop over that before")
    return xr.Dataset(
        {
            "speed": (dims, ratio, meaning),
            "peak": (dims, peak, {"long_name": words["peak"]}),
            "lag": (dims, lag, {"long_name": words["lag"]}),
        },
        {"phase": phases, "layer": trajectory["layer"].values},
    )
