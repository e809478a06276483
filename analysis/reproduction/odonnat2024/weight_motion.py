"""VC section 4.1: how the weights of a run move before and during its first drop, and when each layer settles.

When a layer settles is measured in three ways, by the epoch from which on it has covered half of

    direction   the angle between its initial and its final weights
    path        the length of its path
    distance    the distance between its initial and its final weights

The distance favours weights that grow until the end of training, which then seem to settle late. The angle does not
depend on the size of the weights.
"""

import numpy as np
import xarray as xr

from analysis.clustering_heads.learning_phases import half_rise_time
from analysis.output.results import dimensionless
from analysis.transitions.layer_motion import layer_speeds
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.trajectory.diverged import not_diverged

FEWEST_FRAMES = 3
"""Smallest number of frames before a drop, and during it, for which motion is measured."""
WAYS = ("direction", "path", "distance")


def measure_first_drop_motion(trajectory: xr.Dataset, drops: xr.Dataset) -> xr.Dataset:
    """Motion before and during the first drop of each run, from `analysis.transitions.loss_events.first_two_drops`.

    whole_speed   (run,) speed of all weights together in the drop over that before, medians over frames
    straightness  (run, part) distance over length of their path, before the drop and inside; before it the mean over
                  segments as long as the drop, as long paths are less straight than short ones

    NaN without a drop, or for a run that has diverged.
    """
    network = clustering_head_of(trajectory)
    weights = [trajectory[name].transpose("run", "step", *dims).values for name, dims in network.variables.items()]
    rows = np.concatenate([each.reshape(*each.shape[:2], -1) for each in weights], axis=-1)
    speeds = np.sqrt((layer_speeds(trajectory).values ** 2).sum(axis=-1))
    ratio, straightness = np.full(len(rows), np.nan), np.full((len(rows), 2), np.nan)
    steps = trajectory["step"].values
    for run, (begin, end) in enumerate(zip(drops["begin"].values[:, 0], drops["end"].values[:, 0], strict=True)):
        if not np.isfinite(begin):
            continue
        first, last = (min(int(np.searchsorted(steps, moment)), len(steps) - 1) for moment in (begin, end))
        if min(first, last - first) < FEWEST_FRAMES:
            continue
        ratio[run] = np.median(speeds[run, first + 1 : last + 1]) / np.median(speeds[run, 1 : first + 1])
        before, inside = (rows[run, a : b + 1].astype(np.float64) for a, b in ((0, first), (first, last)))
        segments = path_segments(before, min(last - first, first))
        straightness[run] = np.mean([path_straightness(each) for each in segments]), path_straightness(inside)
    return xr.Dataset(
        {
            "whole_speed": ("run", ratio, dimensionless("speed of all weights in the first drop over that before")),
            "straightness": (("run", "part"), straightness, dimensionless("distance over length of path")),
        },
        {"part": ["before", "inside"]},
    )


def path_segments(path: np.ndarray, length: int) -> list[np.ndarray]:
    """Consecutive segments of `length` steps of a path (frame, axis), from its end back."""
    ends = range(len(path) - 1, length - 1, -length)
    return [path[end - length : end + 1] for end in ends]


def path_straightness(path: np.ndarray) -> float:
    """Distance between the ends of a path (frame, axis) over its length; 0 at rest."""
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    return float(np.linalg.norm(path[-1] - path[0]) / length) if length > 0 else 0.0


def measure_settling(trajectory: xr.Dataset) -> xr.DataArray:
    """The epoch from which on each layer has covered half of its way, in each of `WAYS`: (way, run, layer).

    NaN for runs that have diverged, and where a layer does not move.
    """
    epochs, alive = trajectory["epoch"].values.astype(np.float64), not_diverged(trajectory)
    found = np.full((len(WAYS), len(alive), trajectory.sizes["layer"]), np.nan)
    for layer, name in enumerate(trajectory["layer"].values.tolist()):
        weights = trajectory[name].transpose("run", "step", ...).values[alive]
        flat = weights.reshape(*weights.shape[:2], -1).astype(np.float64)
        for way, remaining in enumerate(remaining_ways(flat)):
            found[way, alive, layer] = half_rise_time(-remaining, epochs)
    about = {"long_name": "epoch from which on a layer has covered half of its way", "units": "epoch"}
    coords = {"way": list(WAYS), "layer": trajectory["layer"].values}
    return xr.DataArray(found, coords, ("way", "run", "layer"), attrs=about)


def remaining_ways(rows: np.ndarray) -> np.ndarray:
    """Remaining distance of a layer's weights to those at the end, relative to the distance at the start, in each of
    the measures `WAYS`: (run, frame, parameter) -> (way, run, frame)."""
    size = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit = rows / np.maximum(size, np.finfo(float).tiny)
    length = np.linalg.norm(np.diff(rows, axis=1, prepend=rows[:, :1]), axis=-1).cumsum(axis=1)
    ways = np.stack([
        2 * np.arctan2(np.linalg.norm(unit - unit[:, -1:], axis=-1), np.linalg.norm(unit + unit[:, -1:], axis=-1)),
        length[:, -1:] - length,
        np.linalg.norm(rows - rows[:, -1:], axis=-1),
    ])  # fmt: skip
    first = ways[..., :1]
    return ways / np.where(first > 0, first, 1.0)
