"""VC section 4.1, figure 5: what is learned in the first and the second drop of a run's loss.

The fall of the training loss along a path is, exactly, the sum over layers of minus the integral of the layer's
gradient along the layer's movement. Between two recorded frames the path is taken to be straight, and the integral by
Gauss and Legendre's rule with two points; what is missing to the fall is kept as `residual`, as a share of it.
"""

from collections.abc import Callable

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.clustering_heads.clusters import reference_sequences
from analysis.clustering_heads.invariances import run_error_context
from analysis.clustering_heads.learning_phases import (
    SEQUENCE_EMBEDDING_WEIGHTS,
    between_cluster_fractions,
    evenly_spaced_frames,
    sequence_embedding_weights,
)
from analysis.linearization.hessians import training_objective
from analysis.transitions.detection import DEFAULT_DETECTION
from dynamics.networks.clustering_head import MLP_VARIABLES, ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.tasks import sparse_sum
from dynamics.trajectory.diverged import not_diverged

MOMENTS = ("first_begin", "first_end", "second_begin", "second_end")
FRAMES = ("first", "before", "last")
"""Frames beside them: the run's first, that a window before the first drop begins, and the run's last."""

MOST_FRAMES = 65
"""Of a drop; a longer one is looked at in as many."""
AT_ONCE = 16
"""Gradients that are computed together."""
POINTS = (0.5 - 12**-0.5, 0.5 + 12**-0.5)
"""Where between two frames gradients are taken: two points of equal weight."""


def measure_drops(trajectory: xr.Dataset, drops: xr.Dataset) -> xr.Dataset:
    """Of the first and second drop of each run, of `analysis.transitions.loss_events.first_two_drops`:

    work          (run, phase, layer) share of the fall of the training loss that a layer's movement makes
    residual      (run, phase) what is missing to the fall
    clustered     (run, moment) share of the variance of sequence embeddings between the clusters that the run ends
                  with; clustered_beside (run, frame) the same at `FRAMES`
    accuracy_at   (run, moment) accuracy on all sequences
    reclassified  (run, phase) share of sequences that the feed-forward layer after the drop classifies otherwise than
                  that before it, at the sequence embeddings of before; moved: change of its weights over their size

    NaN without a drop, or for a run that has diverged.
    """
    network, runs = clustering_head_of(trajectory), trajectory.sizes["run"]
    layers, steps = list(network.variables), trajectory["step"].values
    work, at = np.full((runs, 2, len(layers)), np.nan), np.full((2, runs, 4), np.nan)
    by_drop, beside = np.full((3, runs, 2), np.nan), np.full((runs, len(FRAMES)), np.nan)
    alive = not_diverged(trajectory)
    for run in tqdm(np.flatnonzero(alive), "drops", unit="run", disable=None, leave=False):
        places = _places(drops.isel(run=int(run)), steps)
        quiet = max(0, places[0][0] - DEFAULT_DETECTION.width(len(steps))) if places else 0
        others = (0, quiet, len(steps) - 1)
        one, asked = trajectory.isel(run=int(run)), np.array(sorted({*others, *sum(places.values(), ())}))
        between = np.full(len(asked), np.nan)
        with run_error_context(trajectory, int(run)):
            between = between_cluster_fractions(network, sequence_embedding_weights(one, network, asked))[0]
        beside[run] = between[np.searchsorted(asked, others)]
        beside[run, 1] = beside[run, 1] if places else np.nan
        loss = training_objective(network, int(one["seed"])).loss
        for drop, (first, last) in places.items():
            frames = first + evenly_spaced_frames(last - first + 1, MOST_FRAMES)
            rows = _rows(one, network, frames)
            work[run, drop], by_drop[0, run, drop] = _layers(network, *loss_decrease_by_parameter(loss, rows))
            told = _outcome(network, rows[[0, -1]])
            at[1, run, 2 * drop : 2 * drop + 2], by_drop[1, run, drop], by_drop[2, run, drop] = told
            at[0, run, 2 * drop : 2 * drop + 2] = between[np.searchsorted(asked, [first, last])]
    dims = ("run", "phase")
    data: dict[str, tuple] = {
        "work": ((*dims, "layer"), work, _named("share of the fall that a layer's movement makes")),
        "clustered": (("run", "moment"), at[0], _named("share of the variance of xi between its final clusters")),
        "clustered_beside": (("run", "frame"), beside, _named("the same at frames beside them")),
        "accuracy_at": (("run", "moment"), at[1], _named("accuracy on all sequences")),
        "residual": (dims, by_drop[0], _named("share of the fall that the layers do not make up")),
        "reclassified": (dims, by_drop[1], _named("share of sequences that the later layer classifies otherwise")),
        "moved": (dims, by_drop[2], _named("change of the feed-forward layer's weights over their size")),
    }
    return xr.Dataset(data, {"layer": layers, "moment": list(MOMENTS), "frame": list(FRAMES)})


def _named(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}


def _places(drops: xr.Dataset, steps: np.ndarray) -> dict[int, tuple[int, int]]:
    """Of each drop of a run that there is, the frames at or before its begin, and at or after its end."""
    found = {}
    for drop, (begin, end) in enumerate(zip(drops["begin"].values, drops["end"].values, strict=True)):
        if np.isfinite(begin):
            first = int(np.searchsorted(steps, begin, "right")) - 1
            found[drop] = first, min(int(np.searchsorted(steps, end)), len(steps) - 1)
    return found


def _rows(one: xr.Dataset, network: ClusteringHead, frames: np.ndarray) -> torch.Tensor:
    """Flat weights of a run at some frames, (frame, parameter) float64."""
    some = {
        name: one[name].transpose("step", *dims).values[frames].astype(np.float64)
        for name, dims in network.variables.items()
    }
    return torch.from_numpy(network.flatten(some))


def loss_decrease_by_parameter(
    loss: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor
) -> tuple[np.ndarray, float]:
    """How far a loss falls along straight lines between rows (frame, parameter) by each parameter's movement,
    (parameter,), and how far it falls in all."""
    moves = rows[1:] - rows[:-1]
    slope = torch.func.vmap(torch.func.grad(loss), chunk_size=AT_ONCE)
    parts = [-(slope(rows[:-1] + at * moves) * moves).sum(0) / len(POINTS) for at in POINTS]
    with torch.no_grad():
        fall = float(loss(rows[0]) - loss(rows[-1]))
    return torch.stack(parts).sum(0).numpy(), fall


def _layers(network: ClusteringHead, work: np.ndarray, fall: float) -> tuple[np.ndarray, float]:
    """Shares of a fall by layer, and what is missing; NaN where the loss does not fall."""
    if not fall > 0:
        return np.full(len(network.variables), np.nan), np.nan
    begins = list(network.begins.values())
    return np.add.reduceat(work, begins) / fall, float(1 - work.sum() / fall)


@torch.no_grad()
def _outcome(network: ClusteringHead, pair: torch.Tensor) -> tuple[np.ndarray, float, float]:
    """Accuracy before and after, (2,), sequences reclassified, and change of the feed-forward layer."""
    tokens = reference_sequences(network.settings)
    target, asked = torch.from_numpy(sparse_sum(tokens, network.settings)), torch.from_numpy(tokens)
    before, after = network.unflatten(pair[0]), network.unflatten(pair[1])
    mixed = {name: (before if name in SEQUENCE_EMBEDDING_WEIGHTS else after)[name] for name in before}
    told = [network.logits(weights, asked).argmax(-1) for weights in (before, mixed, after)]
    right = np.array([float((each == target).double().mean()) for each in (told[0], told[2])])
    layer = [
        torch.cat([weights[name].flatten() for name in MLP_VARIABLES if name in weights]) for weights in (before, after)
    ]
    change = float((layer[1] - layer[0]).norm() / layer[0].norm())
    return right, float((told[0] != told[1]).double().mean()), change
