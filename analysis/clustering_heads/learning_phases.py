"""When the sequence embeddings of VC's network form clusters, and when its MLP
separates these.

VC section 4.1 describes two phases: first the sequence embeddings cluster, then the MLP
is fitted. Here the clusters of a run are those in its last frame
(`analysis.clustering_heads.clusters`), which need not be those of an ideal circuit:

    formed      the epoch from which on the fraction of the variance of xi between these clusters stays at or above the
                middle of its values in the first and in the last frame
    separated   the same for the accuracy on the training split
    fitted      the same for minus the training loss

All three are determined from the same evenly spaced subset of the recorded frames. NaN
if the last value is less than .01 above the first one, if a run ends in one cluster, if
it has diverged, or if its attention scores are too far apart."""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads import invariances
from analysis.clustering_heads.clusters import cluster_labels
from analysis.output.results import dimensionless
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.progress import progress_bar
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import check_variable_recorded
from dynamics.trajectory.selection import Selection, selected_frames

MIN_RISE = 0.01
"""Least rise from the first to the last frame."""
SEQUENCE_EMBEDDING_WEIGHTS = ("embedding", "position_embedding", "query", "value")
"""The weights on which sequence embeddings depend."""


def half_rise_time(values: np.ndarray, time: np.ndarray) -> np.ndarray:
    """The time from which on values stay at or above the middle of the first and the
    last: (..., step) -> (...).

    NaN if the last value is less than .01 above the first one, or any value is NaN.
    Raises ValueError.

    >>> float(half_rise_time(np.array([0.0, 0.7, 0.2, 0.9, 1.0]), np.arange(5)))
    3.0
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim < 1 or x.shape[-1] != len(time) or not len(time):
        raise ValueError(
            f"values: found shape {x.shape} for {len(time)} frames, expected (...,"
            " step)"
        )
    first, last = x[..., :1], x[..., -1:]
    below = x < (first + last) / 2
    after = x.shape[-1] - below[..., ::-1].argmax(
        axis=-1
    )  # the frame after the last one below
    result = np.asarray(time, dtype=np.float64)[np.minimum(after, len(time) - 1)]
    rises = (last - first >= MIN_RISE)[..., 0] & np.isfinite(x).all(axis=-1)
    return np.where(rises, result, np.nan)


@torch.no_grad()
def measure_learning_phases(
    trajectory: xr.Dataset, frames: int | Selection = 101
) -> xr.Dataset:
    """When clusters form and when the MLP separates them.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of VC's network, with its weights.
    frames : int or Selection
        Largest number of recorded frames that are used, or a selection of them.

    Returns
    -------
    xr.Dataset
        `formed`, `separated` and `fitted` (run), in epochs, and the quantities that
        they are determined from (run, step).

    Raises
    ------
    TrajectoryError, SettingsError
    """
    network = clustering_head_of(trajectory)
    for name in network.variables:
        check_variable_recorded(trajectory, name)
    indices = selected_frames(trajectory, frames, least=2)
    if len(indices) < 2:
        raise TrajectoryError("dimension step: found one frame, expected at least two")
    some = trajectory.isel(step=indices)
    valid = not_diverged(trajectory)
    final = np.full((some.sizes["run"], len(indices)), np.nan)
    multisets = np.full((some.sizes["run"], len(indices)), np.nan)
    for run in progress_bar(np.flatnonzero(valid), desc="phases", unit="run"):
        with invariances.run_error_context(trajectory, int(run)):
            run_weights = sequence_embedding_weights(
                trajectory.isel(run=run), network, indices
            )
            fractions = between_cluster_fractions(network, run_weights)
            final[run] = fractions.final
            multisets[run] = fractions.multisets
    train = some[["accuracy", "loss"]].sel(split="train").transpose("run", "step")
    train = train.astype(np.float64).where(xr.Variable("run", valid))
    accuracy = train["accuracy"].values
    loss = train["loss"].values
    epoch = some["epoch"].values
    data = {
        "formed": half_rise_time(final, epoch),
        "separated": half_rise_time(accuracy, epoch),
        "fitted": half_rise_time(-loss, epoch),
        "final_share": final,
        "multiset_share": multisets,
        "train_accuracy": accuracy,
        "train_loss": loss,
    }
    coords = {
        "step": some["step"].values,
        "epoch": ("step", epoch),
        "seed": ("run", trajectory["seed"].values),
    }
    dims = ("run", "step")
    variables = {
        name: (dims[: x.ndim], x, dimensionless(_MEANINGS[name]))
        for name, x in data.items()
    }
    return xr.Dataset(variables, coords)


_MEANINGS = {
    "formed": (
        "epoch of half the rise of the fraction of variance between the final clusters"
    ),
    "separated": "epoch of half the rise of the training accuracy",
    "fitted": "epoch of half the fall of the training loss",
    "final_share": (
        "fraction of the variance of xi between the clusters of the last frame"
    ),
    "multiset_share": (
        "fraction of the variance of xi between multisets of the tokens at non-spurious"
        " positions"
    ),
    "train_accuracy": "accuracy on the training split",
    "train_loss": "loss on the training split",
}


def sequence_embedding_weights(
    one: xr.Dataset, network: ClusteringHead, frames: np.ndarray
) -> dict[str, torch.Tensor]:
    """The weights of one run on which its sequence embeddings depend, at some frames:
    (step, ...) float64."""
    result = {}
    for name in SEQUENCE_EMBEDDING_WEIGHTS:
        values = (
            one[name].transpose("step", *network.variables[name]).values
        )  # a chunk of the file has many frames
        result[name] = torch.from_numpy(values[frames].astype(np.float64))
    return result


class ClusterFractions(NamedTuple):
    """Fractions of the variance of xi, (step,) each."""

    final: np.ndarray
    """Between the clusters of the last frame"""
    multisets: np.ndarray
    """Between multisets of the tokens at non-spurious positions"""


def between_cluster_fractions(
    network: ClusteringHead, run_weights: dict[str, torch.Tensor]
) -> ClusterFractions:
    """Fractions of the variance of xi of one run between clusters.

    run_weights: of `sequence_embedding_weights`, (step, ...).
    """
    probe = invariances.invariance_probe(network.settings)
    xi = invariances.batched_sequence_embeddings(
        network, run_weights, probe.tokens[probe.base]
    )[0].numpy()
    labels = cluster_labels(xi[-1])
    final = np.full(len(xi), np.nan)
    if labels.any():
        final = invariances.between_group_fraction(xi, labels)
    multisets = invariances.between_group_fraction(
        xi, probe.classes, sample=not probe.exhaustive
    )
    return ClusterFractions(final, multisets)
