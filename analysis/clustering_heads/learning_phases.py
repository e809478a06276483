"""When the sequence embeddings of VC's network form clusters, and when its feed-forward layer tells these apart.

VC section 4.1 sees two phases: first the sequence embeddings cluster, then the feed-forward layer is fitted. Here a
run's clusters are those that it ends with, whatever they are (`analysis.clustering_heads.clusters`), and

    formed      the epoch from which on the share of the variance of xi that lies between them stays half-way or more
                from what it is in the first frame to what it is in the last
    separated   the same of the accuracy on the training split
    fitted      the same of the fall of the training loss

so that neither asks for the clusters of an ideal circuit. All three are read off the same frames, a subsample of those
recorded, and a moment is that of a frame. NaN where the last frame is less than .01 above the first, of which no half
tells anything; where a run ends in one cluster, has diverged, or has attention scores too far apart.
"""

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.clustering_heads.clusters import cluster_labels
from analysis.clustering_heads.invariances import (
    batched_sequence_embeddings,
    between_group_fraction,
    invariance_probe,
    run_error_context,
)
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import check_variable_recorded, clustering_head_of
from dynamics.settings import check_integer
from dynamics.trajectory.diverged import not_diverged

_FRAMES = 101
MIN_RISE = 0.01
"""Least rise from the first to the last frame of which a half is looked for."""
SEQUENCE_EMBEDDING_WEIGHTS = ("embedding", "position_embedding", "query", "value")
"""The weights that make sequence embeddings."""


def half_rise_time(values: np.ndarray, time: np.ndarray) -> np.ndarray:
    """The time from which on values stay at or above half-way from the first to the last: (..., step) -> (...).

    NaN where the last is not at least GAIN above the first, or one of all is NaN. Raises ValueError.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim < 1 or x.shape[-1] != len(time) or not len(time):
        raise ValueError(f"values: found shape {x.shape} for {len(time)} frames, expected (..., step)")
    first, last = x[..., :1], x[..., -1:]
    below = x < (first + last) / 2
    after = x.shape[-1] - below[..., ::-1].argmax(axis=-1)  # the frame behind the last one below
    found = np.asarray(time, dtype=np.float64)[np.minimum(after, len(time) - 1)]
    rises = (last - first >= MIN_RISE)[..., 0] & np.isfinite(x).all(axis=-1)
    return np.where(rises, found, np.nan)


def evenly_spaced_frames(count: int, most: int) -> np.ndarray:
    """At most so many (from 2) of `count` frames, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


@torch.no_grad()
def measure_learning_phases(trajectory: xr.Dataset, frames: int = _FRAMES) -> xr.Dataset:
    """`formed`, `separated` and `fitted`, in epochs, by run; and what they are read off, by run and step.

    Raises TrajectoryError, SettingsError.
    """
    network = clustering_head_of(trajectory)
    for name in network.variables:
        check_variable_recorded(trajectory, name)
    at = evenly_spaced_frames(trajectory.sizes["step"], check_integer("frames", frames, 2, 10**9))
    if len(at) < 2:
        raise TrajectoryError("dimension step: found one frame, expected two at least to see when clusters form")
    some = trajectory.isel(step=at)
    shares = np.full((some.sizes["run"], 2, len(at)), np.nan)
    alive = not_diverged(trajectory)
    for run in tqdm(np.flatnonzero(alive), "phases", unit="run", disable=None, leave=False):
        with run_error_context(trajectory, int(run)):
            shares[run] = between_cluster_fractions(
                network, sequence_embedding_weights(trajectory.isel(run=run), network, at)
            )
    epoch, step = some["epoch"].values, some["step"].values
    metrics = {
        name: some[name].sel(split="train").transpose("run", "step").values.astype(np.float64)
        for name in ("accuracy", "loss")
    }
    metrics = {name: np.where(alive[:, None], values, np.nan) for name, values in metrics.items()}
    data = {
        "formed": half_rise_time(shares[:, 0], epoch),
        "separated": half_rise_time(metrics["accuracy"], epoch),
        "fitted": half_rise_time(-metrics["loss"], epoch),
        "final_share": shares[:, 0],
        "multiset_share": shares[:, 1],
        "train_accuracy": metrics["accuracy"],
        "train_loss": metrics["loss"],
    }
    dims = ("run", "step")
    coords = {"step": step, "epoch": ("step", epoch), "seed": ("run", trajectory["seed"].values)}
    return xr.Dataset({name: (dims[: x.ndim], x, _MEANINGS[name]) for name, x in data.items()}, coords)


def _said(meaning: str) -> dict[str, str]:
    return {"long_name": meaning, "units": "1"}


_MEANINGS = {
    "formed": _said("epoch from which on half of the final clusters' share of the variance is there"),
    "separated": _said("epoch from which on half of the gain of training accuracy is there"),
    "fitted": _said("epoch from which on half of the fall of the training loss is there"),
    "final_share": _said("share of the variance of xi between the clusters of the last frame"),
    "multiset_share": _said("share of the variance of xi between multisets of the tokens that count"),
    "train_accuracy": _said("accuracy on the training split"),
    "train_loss": _said("loss on the training split"),
}


def sequence_embedding_weights(one: xr.Dataset, network: ClusteringHead, at: np.ndarray) -> dict[str, torch.Tensor]:
    """The weights of one run that make its sequence embeddings, at some frames: (step, ...) float64."""
    found = {}
    for name in (
        SEQUENCE_EMBEDDING_WEIGHTS
    ):  # a chunk of the file holds many frames: all of them are read, and then some chosen
        values = one[name].transpose("step", *network.variables[name]).values[at]
        found[name] = torch.from_numpy(values.astype(np.float64))
    return found


def between_cluster_fractions(network: ClusteringHead, found: dict[str, torch.Tensor]) -> np.ndarray:
    """Shares of the variance of xi between the clusters of the last frame, and between multisets: (2, step).

    found: the `front` of one run, (step, ...).
    """
    at = invariance_probe(network.settings)
    xi = batched_sequence_embeddings(network, found, at.tokens[at.base])[0].numpy()
    labels = cluster_labels(xi[-1])
    final = between_group_fraction(xi, labels) if labels.any() else np.full(len(xi), np.nan)
    return np.stack([final, between_group_fraction(xi, at.classes, sample=not at.exhaustive)])
