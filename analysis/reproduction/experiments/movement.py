"""VC section 4.1: how the weights of a run move, before its first drop and in it, and when each layer settles."""

import numpy as np
import xarray as xr

from analysis.clustering_heads.learning_phases import half_rise_time
from analysis.transitions.layer_motion import layer_speeds
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.trajectory.diverged import not_diverged

FEWEST_FRAMES = 3
"""Frames between begin and end of a drop, and before it, of which a movement is told."""


def measure_first_drop_movement(trajectory: xr.Dataset, drops: xr.Dataset) -> xr.Dataset:
    """Of each run, by its first drop of `analysis.transitions.loss_events.first_two_drops`:

    whole_speed   (run,) speed of all weights together in the drop over that before, medians over frames
    straightness  (run, part) distance over length of their path, before the drop and inside; before it over stretches
                  as long as the drop, in the mean, as long paths are less straight than short ones
    settled       (run, layer) epoch from which on a layer is less than half as far from its end as at first

    NaN without a drop, or for a run that has diverged.
    """
    rows = _flat(trajectory)
    whole = np.sqrt((layer_speeds(trajectory).values ** 2).sum(axis=-1))
    ratio, straightness = np.full(len(rows), np.nan), np.full((len(rows), 2), np.nan)
    for run, found in enumerate(_spans(trajectory, drops)):
        if found is None:
            continue
        before, inside = (whole[run, span][1:] for span in found)  # a frame's speed is that since the one before
        ratio[run] = np.median(inside) / np.median(before)
        path, fall = (rows[run, span].astype(np.float64) for span in found)
        pieces = [path_straightness(each) for each in path_segments(path, min(len(fall), len(path)) - 1)]
        straightness[run] = np.mean(pieces), path_straightness(fall)
    told = {"units": "1"}
    return xr.Dataset(
        {
            "whole_speed": ("run", ratio, {"long_name": "speed of all weights in the first drop over before", **told}),
            "straightness": (("run", "part"), straightness, {"long_name": "distance over length of path", **told}),
            "settled": _half_way_epochs(trajectory),
        },
        {"part": ["before", "inside"]},
    )


def _spans(trajectory: xr.Dataset, drops: xr.Dataset) -> list[tuple[slice, slice] | None]:
    """Of each run the frames up to the begin of its first drop and those of it, None where one has too few."""
    steps = trajectory["step"].values
    found: list[tuple[slice, slice] | None] = []
    for begin, end in zip(drops["begin"].values[:, 0], drops["end"].values[:, 0], strict=True):
        if not np.isfinite(begin):
            found.append(None)
            continue
        first, last = (int(np.searchsorted(steps, moment)) for moment in (begin, end))
        enough = min(first, last - first) >= FEWEST_FRAMES
        found.append((slice(0, first + 1), slice(first, min(last, len(steps) - 1) + 1)) if enough else None)
    return found


def _flat(trajectory: xr.Dataset) -> np.ndarray:
    """All weights as rows: (run, step, parameter) float32."""
    network = clustering_head_of(trajectory)
    every = (trajectory[name].transpose("run", "step", *dims).values for name, dims in network.variables.items())
    return np.concatenate([each.reshape(*each.shape[:2], -1) for each in every], axis=-1)


def path_segments(path: np.ndarray, length: int) -> list[np.ndarray]:
    """Pieces of so many steps of a path (frame, axis), one behind the other from its end back."""
    ends = range(len(path) - 1, length - 1, -length)
    return [path[end - length : end + 1] for end in ends]


def path_straightness(path: np.ndarray) -> float:
    """Distance between the ends of a path (frame, axis) over its length; 0 at rest."""
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    return float(np.linalg.norm(path[-1] - path[0]) / length) if length > 0 else 0.0


def _half_way_epochs(trajectory: xr.Dataset) -> xr.DataArray:
    """The epoch from which on each layer is less than half as far from its end as at first: (run, layer).

    NaN for runs that have diverged.
    """
    epochs = trajectory["epoch"].values.astype(np.float64)
    alive = not_diverged(trajectory)
    columns = []
    for name in map(str, trajectory["layer"].values):
        weights = trajectory[name].transpose("run", "step", ...).values
        flat = weights.reshape(*weights.shape[:2], -1).astype(np.float64)
        away = np.linalg.norm(flat - flat[:, -1:], axis=-1)
        start = np.where(away[:, :1] > 0, away[:, :1], 1.0)
        columns.append(np.where(alive, half_rise_time(1 - away / start, epochs), np.nan))
    attrs = {"long_name": "epoch from which on a layer is less than half as far from its end as at first"}
    coords = {"layer": trajectory["layer"].values}
    return xr.DataArray(np.stack(columns, -1), coords, ("run", "layer"), attrs={**attrs, "units": "epoch"})
