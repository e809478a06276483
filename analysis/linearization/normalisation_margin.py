"""Distance from the origin of the points that VC's network normalises, compared with
their movement (VC section 4.3).

VC's network normalises x = E(token) + P(position) and, before the MLP, the sequence
embeddings xi. Near the origin the derivatives of x / |x| grow without bound, and an
update longer than |x| can reverse the direction of x, which causes spikes of the loss.
For each recorded frame and the one after it,

    flip ratio     |x' - x| / |x|      above 1 if the movement could reverse the direction

The movement is that between recorded frames, which may be many updates apart. Tokens
are those of the task; sequences are the distinct ones of the training split. All values
are dimensionless."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from analysis.linearization.attention_derivatives import (
    AttentionMixture,
    PositionTokenTable,
)
from analysis.linearization.network_curvature import flat_weight_pairs, map_in_threads
from analysis.linearization.normalisation import (
    normalisation_jacobian_norm,
    normalisation_second_derivative_norm,
)
from analysis.output.results import dimensionless
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.settings import SparseSettings
from dynamics.tasks import distinct_sequences
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import check_variable_recorded

_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Quantiles over sequences; 0 and 1 are the smallest and the largest value."""

_MEASURES = {
    "length": "distance from the origin",
    "jacobian_norm": "operator norm of the normalisation's derivative",
    "second_derivative_norm": (
        "norm of the normalisation's second derivative, as a bilinear map"
    ),
    "flip_ratio": (
        "movement to the next recorded frame over the distance from the origin"
    ),
}


def flip_ratios(x: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """|x' - x| / |x| of points before and after a movement, (..., axis) each: (...).

    At the origin infinite, or 0 for a point that does not move.

    Examples
    --------
    >>> flip_ratios(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[-1.0, 0.0], [0.0, 1.0]]))
    array([ 2., inf])
    """
    size = np.linalg.norm(np.asarray(x, np.float64), axis=-1)
    movement = np.linalg.norm(np.asarray(moved - x, np.float64), axis=-1)
    return np.divide(
        movement, size, out=np.where(movement > 0, np.inf, 0.0), where=size > 0
    )


def measure_normalisation_margins(
    trajectory: xr.Dataset, frames: Sequence[int], quiet: bool = False
) -> xr.Dataset:
    """Distance of normalised points from the origin, and their movement, at some frames
    of VC's network.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of VC's network, with its weights.
    frames : sequence of int
        Indices along `step`.
    quiet : bool
        Show no progress bar.

    Returns
    -------
    xr.Dataset
        `x_<name>` (run, step, position, token) and `xi_<name>` (run, step, quantile)
        for the names length, jacobian_norm, second_derivative_norm and flip_ratio;
        `xi_flips` and `xi_turns` (run, step), fractions of sequences with a flip ratio
        above 1, and that turn by more than a right angle; for all recorded frames
        `x_smallest` and `x_largest_flip_ratio` (run, frame) over positions and tokens,
        with the coordinate `frame_step`. NaN in frames of a run after it diverged, and
        for movements from the last frame.

    Raises
    ------
    TrajectoryError
    """
    network = clustering_head_of(trajectory)
    seeds = trajectory["seed"].values
    s = network.settings
    valid = valid_frames(trajectory).values
    sequences = [distinct_sequences(s, int(seed), "train")[0] for seed in seeds]
    tokens = [torch.from_numpy(item.T.copy()) for item in sequences]
    rows = flat_weight_pairs(trajectory, network, frames)
    shape = (len(seeds), len(frames))
    jobs = list(np.ndindex(shape))
    embeddings = map_in_threads(
        lambda job: _sequence_embeddings(
            network, torch.from_numpy(rows[job]), tokens[job[0]]
        ),
        jobs,
        "sequences",
        quiet,
    )
    here = valid_frames(trajectory, frames).values
    moves = np.pad(valid, ((0, 0), (0, 1)))[:, np.asarray(frames) + 1]

    weights = {
        name: value.numpy()
        for name, value in network.unflatten(torch.from_numpy(rows)).items()
    }
    x = _sums(
        weights["embedding"], weights["position_embedding"], s
    )  # (run, frame, this or next, ...)
    data: dict[str, tuple] = {}
    for name, values in _measure(x[:, :, 0], x[:, :, 1], s).items():
        defined = moves if name == "flip_ratio" else here
        masked = np.where(defined[..., None, None], values, np.nan)
        meaning = dimensionless(f"{_MEASURES[name]}, of E + P")
        data[f"x_{name}"] = (("run", "step", "position", "token"), masked, meaning)
    quantiles = {name: np.full((*shape, len(_QUANTILES)), np.nan) for name in _MEASURES}
    flips, turns = np.full(shape, np.nan), np.full(shape, np.nan)
    for job, xi in zip(jobs, embeddings, strict=True):
        measures = _measure(xi[0], xi[1], s)
        for name, values in measures.items():
            if (moves if name == "flip_ratio" else here)[job]:
                quantiles[name][job] = np.quantile(
                    values, _QUANTILES, method="inverted_cdf"
                )
        if moves[job]:
            flips[job] = (measures["flip_ratio"] > 1).mean()
            turns[job] = ((xi[0] * xi[1]).sum(axis=-1) < 0).mean()
    for name, values in quantiles.items():
        meaning = dimensionless(f"quantiles over sequences: {_MEASURES[name]}")
        data[f"xi_{name}"] = (("run", "step", "quantile"), values, meaning)
    item = ("run", "step")
    data["xi_flips"] = (
        item,
        flips,
        dimensionless("fraction of sequence embeddings with a flip ratio above 1"),
    )
    data["xi_turns"] = (
        item,
        turns,
        dimensionless(
            "fraction of sequence embeddings that turn by over a right angle"
        ),
    )
    coords = {
        "step": trajectory["step"].values[list(frames)],
        "seed": ("run", seeds),
        "token": np.arange(s.vocab),
        "quantile": list(_QUANTILES),
        "frame_step": ("frame", trajectory["step"].values),
    }
    return xr.Dataset(data | _all_frames(trajectory, s, valid), coords, {"lr": s.lr})


def _sequence_embeddings(
    network: ClusteringHead, rows: torch.Tensor, tokens: torch.Tensor
) -> np.ndarray:
    """xi at flat weights (frame, parameter) of sequences (position, sequence): (frame,
    sequence, axis)."""
    result = []
    for row in rows:
        weights = network.unflatten(row)
        inputs = (weights["embedding"], weights["position_embedding"], weights["query"])
        mixture = AttentionMixture(
            PositionTokenTable(network.settings, *inputs), tokens
        )
        result.append((weights["value"] @ mixture.mean).T.numpy())
    return np.stack(result)


def _sums(embedding: np.ndarray, position: np.ndarray, s: SparseSettings) -> np.ndarray:
    """E(token) + P(position) of the tokens of the task: (..., position, token,
    axis)."""
    return position[..., :, None, :] + embedding[..., None, : s.vocab, :]


def _measure(
    x: np.ndarray, moved: np.ndarray, s: SparseSettings
) -> dict[str, np.ndarray]:
    length = np.linalg.norm(x, axis=-1)
    return {
        "length": length,
        "jacobian_norm": normalisation_jacobian_norm(
            length, s.norm, s.dim, s.smooth_width
        ),
        "second_derivative_norm": normalisation_second_derivative_norm(
            length, s.norm, s.dim, s.smooth_width
        ),
        "flip_ratio": flip_ratios(x, moved),
    }


def _all_frames(
    trajectory: xr.Dataset, s: SparseSettings, valid: np.ndarray
) -> dict[str, tuple]:
    """The smallest |E + P| and the largest flip ratio of every recorded frame."""
    smallest, largest = np.full(valid.shape, np.nan), np.full(valid.shape, np.nan)
    check_variable_recorded(trajectory, "embedding")
    embedding = trajectory["embedding"].transpose("run", "step", "token", "axis")
    position = trajectory["position_embedding"].transpose(
        "run", "step", "position", "axis"
    )
    for run, count in enumerate(valid.sum(axis=1)):
        some = {"run": run, "step": slice(count)}
        tokens = embedding.isel(some).values.astype(np.float64)
        positions = position.isel(some).values.astype(np.float64)
        x = _sums(tokens, positions, s)
        smallest[run, :count] = np.linalg.norm(x, axis=-1).min(axis=(-2, -1))
        largest[run, : max(0, count - 1)] = flip_ratios(x[:-1], x[1:]).max(
            axis=(-2, -1)
        )
    dims = ("run", "frame")
    return {
        "x_smallest": (
            dims,
            smallest,
            dimensionless("smallest distance of E + P from the origin"),
        ),
        "x_largest_flip_ratio": (
            dims,
            largest,
            dimensionless("largest flip ratio of E + P to the next frame"),
        ),
    }
