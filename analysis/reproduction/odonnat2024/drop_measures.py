"""VC section 4.1, figure 5: what is learned in the drops of a run's loss, and how the
weights move.

The decrease of the training loss along a path is the sum over layers of minus the
integral of the layer's gradient along the layer's movement. Between two recorded frames
the path is taken to be straight, and the integral is computed by Gauss-Legendre
quadrature with two points. `residual` is the remaining difference, as a fraction of the
decrease.

When a layer settles is measured in three ways, by the epoch from which on it has
covered half of

    direction   the angle between its initial and its final weights
    path        the length of its path
    distance    the distance between its initial and its final weights

The distance favours weights that grow until the end of training, which then seem to
settle late. The angle does not depend on the size of the weights."""

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.clustering_heads import learning_phases
from analysis.clustering_heads.clusters import reference_sequences
from analysis.clustering_heads.invariances import run_error_context
from analysis.linearization.hessians import training_objective
from analysis.output.results import dimensionless
from analysis.transitions.detection import DEFAULT_DETECTION
from analysis.transitions.layer_motion import layer_speeds
from analysis.transitions.loss_events import DROP_NAMES
from dynamics.networks.clustering_head import MLP_VARIABLES, ClusteringHead
from dynamics.networks.derivatives import FlatLoss
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.tasks import sparse_sum
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.frames import evenly_spaced_frames

MOMENTS = (
    "initial",
    "before",
    "first_begin",
    "first_end",
    "second_begin",
    "second_end",
    "final",
)
"""Frames of a run: the first, that one window before the first drop, those of the
drops, and the last."""
MOST_FRAMES = 65
"""Largest number of frames of a drop that are used."""
POINTS = (0.5 - 12**-0.5, 0.5 + 12**-0.5)
"""Places between two frames at which gradients are computed: two points of equal
weight."""
FEWEST_FRAMES = 3
"""Smallest number of frames before a drop, and during it, for which motion is
measured."""
WAYS = {
    "direction": "the angle",
    "path": "the length of the path",
    "distance": "the distance to the final weights",
}
"""Measures of the way to the final weights, and what they are called."""

VARIABLES = {
    "work": (
        ("run", "phase", "layer"),
        "fraction of the decrease of the loss due to the movement of a layer",
    ),
    "residual": (
        ("run", "phase"),
        "fraction of the decrease that is missing in the sum over layers",
    ),
    "reclassified": (
        ("run", "phase"),
        "fraction of sequences that the MLP after the drop classifies differently",
    ),
    "moved": (("run", "phase"), "change of the MLP's weights, relative to their norm"),
    "clustered": (
        ("run", "moment"),
        "fraction of the variance of xi between the run's final clusters",
    ),
    "accuracy_at": (
        ("run", "moment"),
        "accuracy on all sequences at the beginning and end of drops",
    ),
}
"""Dimensions and meaning of what is measured. `reclassified` is at the sequence
embeddings before the drop."""


# --------------------------------------------------------------------------- both drops


def measure_drops(trajectory: xr.Dataset, drops: xr.Dataset) -> xr.Dataset:
    """The `VARIABLES` of the first and second drop of each run.

    drops: from `analysis.transitions.loss_events.first_two_drops`. NaN without a drop,
    or for a run that has diverged."""
    network, steps = clustering_head_of(trajectory), trajectory["step"].values
    coords = {
        "phase": list(DROP_NAMES),
        "layer": list(network.variables),
        "moment": list(MOMENTS),
    }
    sizes = {
        "run": trajectory.sizes["run"],
        **{dim: len(names) for dim, names in coords.items()},
    }
    values = {
        name: np.full([sizes[dim] for dim in dims], np.nan)
        for name, (dims, _) in VARIABLES.items()
    }
    for run in tqdm(
        np.flatnonzero(not_diverged(trajectory)).tolist(),
        "drops",
        unit="run",
        disable=None,
        leave=False,
    ):
        one = trajectory.isel(run=run)
        frames = _frames_of_moments(drops.isel(run=run), steps)
        present = frames >= 0
        with run_error_context(trajectory, run):
            weights = learning_phases.sequence_embedding_weights(
                one, network, frames[present]
            )
            values["clustered"][run, present] = (
                learning_phases.between_cluster_fractions(network, weights)[0]
            )
        loss = training_objective(network, int(one["seed"])).loss
        for drop, at in enumerate((slice(2, 4), slice(4, 6))):
            first, last = frames[at]
            if first < 0:
                continue
            used = first + evenly_spaced_frames(last - first + 1, MOST_FRAMES)
            rows = _flat_weights(one, network, used)
            work, decrease = loss_decrease_by_parameter(loss, rows)
            decrease = decrease if decrease > 0 else np.nan
            values["work"][run, drop] = (
                np.add.reduceat(work, list(network.begins.values())) / decrease
            )
            values["residual"][run, drop] = 1 - work.sum() / decrease
            values["accuracy_at"][run, at], *changes = _changes_by_drop(
                network, rows[[0, -1]]
            )
            values["reclassified"][run, drop], values["moved"][run, drop] = changes
    data = {
        name: (dims, values[name], dimensionless(meaning))
        for name, (dims, meaning) in VARIABLES.items()
    }
    return xr.Dataset(data, coords)


def _frames_of_moments(drops: xr.Dataset, steps: np.ndarray) -> np.ndarray:
    """The frames of a run at `MOMENTS`, (moment,): at or before the beginning of a
    drop, at or after its end; or -1."""
    begin, end = drops["begin"].values, drops["end"].values
    first = np.where(np.isfinite(begin), np.searchsorted(steps, begin, "right") - 1, -1)
    last = np.where(
        np.isfinite(begin), np.minimum(np.searchsorted(steps, end), len(steps) - 1), -1
    )
    before = (
        max(0, first[0] - DEFAULT_DETECTION.width(len(steps))) if first[0] >= 0 else -1
    )
    return np.array(
        [0, before, *np.stack([first, last], axis=-1).ravel(), len(steps) - 1]
    )


def _flat_weights(
    one: xr.Dataset, network: ClusteringHead, frames: np.ndarray
) -> torch.Tensor:
    """Flat weights of a run at some frames, (frame, parameter) float64."""
    dims = network.variables
    some = {
        name: one[name].transpose("step", *dims[name]).values[frames].astype(np.float64)
        for name in dims
    }
    return torch.from_numpy(network.flatten(some))


def loss_decrease_by_parameter(
    loss: FlatLoss, rows: torch.Tensor
) -> tuple[np.ndarray, float]:
    """The decrease of a loss along straight lines between rows (frame, parameter), by
    parameter and in total."""
    moves = rows[1:] - rows[:-1]
    gradient = torch.func.vmap(torch.func.grad(loss), chunk_size=16)
    parts = [
        -(gradient(rows[:-1] + at * moves) * moves).sum(0) / len(POINTS)
        for at in POINTS
    ]
    with torch.no_grad():
        decrease = float(loss(rows[0]) - loss(rows[-1]))
    return torch.stack(parts).sum(0).numpy(), decrease


@torch.no_grad()
def _changes_by_drop(
    network: ClusteringHead, pair: torch.Tensor
) -> tuple[np.ndarray, float, float]:
    """Of flat weights before and after a drop, (2, parameter): accuracies, (2,); the
    fraction of sequences that the later MLP reclassifies; and the change of the MLP's
    weights relative to their norm."""
    tokens = reference_sequences(network.settings)
    target = torch.from_numpy(sparse_sum(tokens, network.settings))
    sequences = torch.from_numpy(tokens)
    before, after = network.unflatten(pair[0]), network.unflatten(pair[1])
    mixed = after | {
        name: before[name] for name in learning_phases.SEQUENCE_EMBEDDING_WEIGHTS
    }
    first, later_mlp, last = (
        network.logits(weights, sequences).argmax(-1)
        for weights in (before, mixed, after)
    )
    right = np.array(
        [float((labels == target).double().mean()) for labels in (first, last)]
    )
    mlp, later = (
        torch.cat([weights[name].ravel() for name in MLP_VARIABLES if name in weights])
        for weights in (before, after)
    )
    return (
        right,
        float((first != later_mlp).double().mean()),
        float((later - mlp).norm() / mlp.norm()),
    )


# ----------------------------------------------------------------------- the first drop


def measure_first_drop_motion(trajectory: xr.Dataset, drops: xr.Dataset) -> xr.Dataset:
    """Motion before and during the first drop of each run, from
    `analysis.transitions.loss_events.first_two_drops`.

    whole_speed   (run,) speed of all weights together in the drop over that before, medians over frames
    straightness  (run, part) distance over length of their path, before the drop and inside; before it the mean over
                  segments as long as the drop, as long paths are less straight than
                  short ones

    NaN without a drop, or for a run that has diverged.
    """
    rows = np.concatenate(
        [
            layer_path(trajectory, name)
            for name in clustering_head_of(trajectory).variables
        ],
        axis=-1,
    )
    speeds = np.sqrt((layer_speeds(trajectory).values ** 2).sum(axis=-1))
    ratio, straightness = np.full(len(rows), np.nan), np.full((len(rows), 2), np.nan)
    begin, end = (drops[name].sel(phase="first").values for name in ("begin", "end"))
    firsts, lasts = (
        np.searchsorted(trajectory["step"].values[:-1], epochs)
        for epochs in (begin, end)
    )
    for run in np.flatnonzero(
        np.isfinite(begin) & (np.minimum(firsts, lasts - firsts) >= FEWEST_FRAMES)
    ):
        first, last = firsts[run], lasts[run]
        ratio[run] = np.median(speeds[run, first + 1 : last + 1]) / np.median(
            speeds[run, 1 : first + 1]
        )
        path = rows[run, : last + 1].astype(np.float64)
        straightness[run] = (
            path_straightness(path[: first + 1], min(last - first, first)),
            path_straightness(path[first:]),
        )
    about = dimensionless("speed of all weights in the first drop over that before")
    parts = (
        ("run", "part"),
        straightness,
        dimensionless("distance over length of path"),
    )
    return xr.Dataset(
        {"whole_speed": ("run", ratio, about), "straightness": parts},
        {"part": ["before", "inside"]},
    )


def layer_path(trajectory: xr.Dataset, name: str) -> np.ndarray:
    """Weights of a layer in all frames: (run, step, parameter)."""
    values = trajectory[name].transpose("run", "step", ...).values
    return values.reshape(*values.shape[:2], -1)


def path_straightness(path: np.ndarray, length: int | None = None) -> float:
    """Distance between the ends of a path (frame, axis) over its length, 0 at rest: of
    the whole path, or mean over consecutive segments of `length` steps, from its end
    back."""
    length = length or len(path) - 1
    ratios = []
    for end in range(len(path) - 1, length - 1, -length):
        segment = path[end - length : end + 1]
        travelled = np.linalg.norm(np.diff(segment, axis=0), axis=1).sum()
        distance = np.linalg.norm(segment[-1] - segment[0])
        ratios.append(distance / travelled if travelled > 0 else 0.0)
    return float(np.mean(ratios))


# ------------------------------------------------------------------------ the whole run


def measure_settling(trajectory: xr.Dataset) -> xr.DataArray:
    """The epoch from which on each layer has covered half of its way, in each of
    `WAYS`: (way, run, layer).

    NaN for runs that have diverged, and where a layer does not move.
    """
    epochs = trajectory["epoch"].values.astype(np.float64)
    alive = not_diverged(trajectory)
    times = np.full((len(WAYS), len(alive), trajectory.sizes["layer"]), np.nan)
    for layer, name in enumerate(trajectory["layer"].values.tolist()):
        remaining = remaining_ways(
            layer_path(trajectory, name)[alive].astype(np.float64)
        )
        times[:, alive, layer] = learning_phases.half_rise_time(-remaining, epochs)
    about = {
        "long_name": "epoch from which on a layer has covered half of its way",
        "units": "epoch",
    }
    coords = {"way": list(WAYS), "layer": trajectory["layer"].values}
    return xr.DataArray(times, coords, ("way", "run", "layer"), attrs=about)


def remaining_ways(rows: np.ndarray) -> np.ndarray:
    """Remaining distance of a layer's weights to those at the end, relative to the
    distance at the start, in each of the measures `WAYS`: (run, frame, parameter) ->
    (way, run, frame)."""
    size = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit = rows / np.maximum(size, np.finfo(float).tiny)
    length = np.linalg.norm(np.diff(rows, axis=1, prepend=rows[:, :1]), axis=-1).cumsum(
        axis=1
    )
    near, far = (
        np.linalg.norm(difference, axis=-1)
        for difference in (unit - unit[:, -1:], unit + unit[:, -1:])
    )
    distance = np.linalg.norm(rows - rows[:, -1:], axis=-1)
    ways = np.stack([2 * np.arctan2(near, far), length[:, -1:] - length, distance])
    first = ways[..., :1]
    return ways / np.where(first > 0, first, 1.0)
