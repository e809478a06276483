"""VC section 4.1, figure 5: what is learned in the first and the second drop of a run's loss.

The decrease of the training loss along a path is the sum over layers of minus the integral of the layer's gradient
along the layer's movement. Between two recorded frames the path is taken to be straight, and the integral is computed
by Gauss-Legendre quadrature with two points. `residual` is the remaining difference, as a fraction of the decrease.
"""

from collections.abc import Callable

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
from analysis.transitions.loss_events import DROP_NAMES
from dynamics.networks.clustering_head import MLP_VARIABLES, ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.tasks import sparse_sum
from dynamics.trajectory.diverged import not_diverged

MOMENTS = ("initial", "before", "first_begin", "first_end", "second_begin", "second_end", "final")
"""Frames of a run: the first, that one window before the first drop, those of the drops, and the last."""

MOST_FRAMES = 65
"""Largest number of frames of a drop that are used."""
AT_ONCE = 16
"""Gradients that are computed together."""
POINTS = (0.5 - 12**-0.5, 0.5 + 12**-0.5)
"""Places between two frames at which gradients are computed: two points of equal weight."""

VARIABLES = {
    "work": (("run", "phase", "layer"), "fraction of the decrease of the loss due to the movement of a layer"),
    "residual": (("run", "phase"), "fraction of the decrease that is missing in the sum over layers"),
    "reclassified": (("run", "phase"), "fraction of sequences that the MLP after the drop classifies differently"),
    "moved": (("run", "phase"), "change of the MLP's weights, relative to their norm"),
    "clustered": (("run", "moment"), "fraction of the variance of xi between the run's final clusters"),
    "accuracy_at": (("run", "moment"), "accuracy on all sequences at the begin and end of drops"),
}
"""Dimensions and meaning of what is measured. `reclassified` is at the sequence embeddings before the drop."""


def measure_drops(trajectory: xr.Dataset, drops: xr.Dataset) -> xr.Dataset:
    """The `VARIABLES` of the first and second drop of each run.

    drops: from `analysis.transitions.loss_events.first_two_drops`. NaN without a drop, or for a run that has diverged.
    """
    network, steps = clustering_head_of(trajectory), trajectory["step"].values
    coords = {"phase": list(DROP_NAMES), "layer": list(network.variables), "moment": list(MOMENTS)}
    sizes = {"run": trajectory.sizes["run"], **{dim: len(names) for dim, names in coords.items()}}
    found = {name: np.full([sizes[dim] for dim in dims], np.nan) for name, (dims, _) in VARIABLES.items()}
    for run in tqdm(np.flatnonzero(not_diverged(trajectory)), "drops", unit="run", disable=None, leave=False):
        one, frames = trajectory.isel(run=int(run)), _frames_of_moments(drops.isel(run=int(run)), steps)
        known = np.flatnonzero(frames >= 0)
        used, place = np.unique(frames[known], return_inverse=True)
        with run_error_context(trajectory, int(run)):
            weights = learning_phases.sequence_embedding_weights(one, network, used)
            found["clustered"][run, known] = learning_phases.between_cluster_fractions(network, weights)[0][place]
        loss = training_objective(network, int(one["seed"])).loss
        for drop, at in enumerate((slice(2, 4), slice(4, 6))):
            first, last = frames[at]
            if first < 0:
                continue
            rows = _flat_weights(
                one, network, first + learning_phases.evenly_spaced_frames(last - first + 1, MOST_FRAMES)
            )
            found["work"][run, drop], found["residual"][run, drop] = _work_of_layers(network, loss, rows)
            found["accuracy_at"][run, at], found["reclassified"][run, drop] = _classifications(network, rows[[0, -1]])
            found["moved"][run, drop] = _mlp_change(network, rows[[0, -1]])
    data = {name: (dims, found[name], dimensionless(meaning)) for name, (dims, meaning) in VARIABLES.items()}
    return xr.Dataset(data, coords)


def _frames_of_moments(drops: xr.Dataset, steps: np.ndarray) -> np.ndarray:
    """The frames of a run at `MOMENTS`, (moment,): at or before the begin of a drop, at or after its end; or -1."""
    begin, end = drops["begin"].values, drops["end"].values
    first = np.where(np.isfinite(begin), np.searchsorted(steps, begin, "right") - 1, -1)
    last = np.where(np.isfinite(begin), np.minimum(np.searchsorted(steps, end), len(steps) - 1), -1)
    before = max(0, first[0] - DEFAULT_DETECTION.width(len(steps))) if first[0] >= 0 else -1
    return np.array([0, before, *np.stack([first, last], axis=-1).ravel(), len(steps) - 1])


def _flat_weights(one: xr.Dataset, network: ClusteringHead, frames: np.ndarray) -> torch.Tensor:
    """Flat weights of a run at some frames, (frame, parameter) float64."""
    dims = network.variables
    some = {name: one[name].transpose("step", *dims[name]).values[frames].astype(np.float64) for name in dims}
    return torch.from_numpy(network.flatten(some))


def loss_decrease_by_parameter(
    loss: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor
) -> tuple[np.ndarray, float]:
    """The decrease of a loss along straight lines between rows (frame, parameter), by parameter and in total."""
    moves = rows[1:] - rows[:-1]
    gradient = torch.func.vmap(torch.func.grad(loss), chunk_size=AT_ONCE)
    parts = [-(gradient(rows[:-1] + at * moves) * moves).sum(0) / len(POINTS) for at in POINTS]
    with torch.no_grad():
        decrease = float(loss(rows[0]) - loss(rows[-1]))
    return torch.stack(parts).sum(0).numpy(), decrease


def _work_of_layers(
    network: ClusteringHead, loss: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor
) -> tuple[np.ndarray, float]:
    """Fractions of the decrease by layer, and the residual; NaN if the loss does not decrease."""
    work, decrease = loss_decrease_by_parameter(loss, rows)
    if not decrease > 0:
        return np.full(len(network.variables), np.nan), np.nan
    return np.add.reduceat(work, list(network.begins.values())) / decrease, float(1 - work.sum() / decrease)


@torch.no_grad()
def _classifications(network: ClusteringHead, pair: torch.Tensor) -> tuple[np.ndarray, float]:
    """Accuracy before and after a drop, (2,), and the fraction of sequences that the later MLP reclassifies."""
    tokens = reference_sequences(network.settings)
    target, sequences = torch.from_numpy(sparse_sum(tokens, network.settings)), torch.from_numpy(tokens)
    before, after = network.unflatten(pair[0]), network.unflatten(pair[1])
    mixed = {**after, **{name: before[name] for name in learning_phases.SEQUENCE_EMBEDDING_WEIGHTS}}
    first, later_mlp, last = (network.logits(each, sequences).argmax(-1) for each in (before, mixed, after))
    right = np.array([float((each == target).double().mean()) for each in (first, last)])
    return right, float((first != later_mlp).double().mean())


def _mlp_change(network: ClusteringHead, pair: torch.Tensor) -> float:
    """Distance of the MLP's weights before and after a drop, relative to their norm before."""
    weights = network.unflatten(pair)
    before, after = torch.cat([weights[name].flatten(1) for name in MLP_VARIABLES if name in weights], dim=1)
    return float((after - before).norm() / before.norm())
