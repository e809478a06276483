"""How near to the origin a network's points come that it normalises, against how far they move (VC section 5).

VC's network normalises x = E(token) + P(position) and, before the feed-forward layer, the sequence embeddings xi. Near
the origin the derivatives of x / |x| grow without bound, and an update longer than |x| can turn x / |x| around: the
spikes of the loss. For each recorded frame and the one after it,

    flip ratio     |x' - x| / |x|      above 1 where the movement could turn the direction around
    step ratio     lr / |x|            the same with the learning rate, which is about what Adam moves a coordinate by

The movement is that between recorded frames, which may be many updates apart. Tokens are those that occur; sequences
are the distinct ones of the training split. All values are dimensionless.
"""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from analysis.linearization.attention_derivatives import AttentionMixture, PositionTokenTable
from analysis.linearization.network_curvature import flat_weight_pairs, map_in_threads
from analysis.linearization.normalisation import normalisation_jacobian_norm, normalisation_second_derivative_norm
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import check_variable_recorded, clustering_head_of
from dynamics.networks.parameters import Weights
from dynamics.settings import SparseSettings
from dynamics.tasks import distinct_sequences

_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of sequences, that their values are reduced to; 0 and 1 are the smallest and the largest."""

_POINT_MEASURES = {
    "length": "distance from the origin",
    "jacobian_norm": "operator norm of the normalisation's derivative",
    "second_derivative_norm": "norm of the normalisation's second derivative, as a bilinear map",
    "flip_ratio": "movement to the next recorded frame over the distance from the origin",
}


def flip_ratios(x: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """|x' - x| / |x|: points (..., axis), twice -> (...). At the origin infinite, or 0 for a point that rests."""
    size, movement = (np.linalg.norm(np.asarray(each, np.float64), axis=-1) for each in (x, moved - x))
    beyond = np.where(movement > 0, np.inf, 0.0)
    return np.divide(movement, size, out=beyond, where=size > 0)


def turns_over_right_angle(x: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Whether a point's direction has turned by more than a right angle: (..., axis), twice -> (...) bool."""
    return (x * moved).sum(axis=-1) < 0


def measure_normalisation_margins(trajectory: xr.Dataset, places: Sequence[int], quiet: bool = False) -> xr.Dataset:
    """How near the points of VC's network are to the origin, at frames that stand at some places along `step`.

    x_<name> (run, step, position, token) and xi_<name> (run, step, quantile) for each name of POINTS; xi_flips,
    xi_turns (run, step), the shares of sequences with a flip ratio above 1 and of those that turn by more than a right
    angle; and of all recorded frames x_smallest and x_largest_flip_ratio (run, frame), over positions and tokens, with
    the coordinate frame_step. NaN in the frames of a run after it diverged, and of a movement from the last frame.
    Raises TrajectoryError.
    """
    network = clustering_head_of(trajectory)
    s = network.settings
    steps, last = trajectory["step"].values, trajectory["last_step"].values
    tokens = distinct_training_sequences(s, trajectory["seed"].values)
    rows = flat_weight_pairs(trajectory, network, places)
    jobs = [(run, frame) for run in range(trajectory.sizes["run"]) for frame in range(len(places))]
    at = map_in_threads(
        lambda job: _sequence_embeddings(network, torch.from_numpy(rows[job]), tokens[job[0]]), jobs, "sequences", quiet
    )
    valid = steps[list(places)] <= last[:, None]
    after = np.minimum(np.asarray(places) + 1, len(steps) - 1)
    moves = (np.asarray(places) + 1 < len(steps)) & (steps[after] <= last[:, None])

    weights = network.unflatten(torch.from_numpy(rows))
    x = _sums(weights["embedding"].numpy(), weights["position_embedding"].numpy(), s)  # (run, frame, this or next, ...)
    found = _points("x", x[:, :, 0], x[:, :, 1], s, valid, moves, ("position", "token"))
    shape = (trajectory.sizes["run"], len(places))
    reduced = {name: np.full((*shape, len(_QUANTILES)), np.nan) for name in _POINT_MEASURES}
    flips, turns = np.full(shape, np.nan), np.full(shape, np.nan)
    for job, xi in zip(jobs, at, strict=True):
        each = _measures(xi[0], xi[1], s)
        for name, values in each.items():
            known = moves[job] if name == "flip_ratio" else valid[job]
            if known:
                reduced[name][job] = np.quantile(values, _QUANTILES, method="inverted_cdf")
        if moves[job]:
            flips[job], turns[job] = (each["flip_ratio"] > 1).mean(), turns_over_right_angle(xi[0], xi[1]).mean()
    for name, values in reduced.items():
        found[f"xi_{name}"] = (
            ("run", "step", "quantile"),
            values,
            _attrs(f"quantiles over sequences: {_POINT_MEASURES[name]}"),
        )
    found["xi_flips"] = (("run", "step"), flips, _attrs("share of sequence embeddings with a flip ratio above 1"))
    found["xi_turns"] = (("run", "step"), turns, _attrs("share of sequence embeddings that turn by over a right angle"))
    found |= _all_frames(trajectory, s)
    coords = {
        "step": steps[list(places)],
        "seed": ("run", trajectory["seed"].values),
        "token": np.arange(s.vocab),
        "quantile": list(_QUANTILES),
        "frame_step": ("frame", steps),
    }
    return xr.Dataset(found, coords, {"lr": s.lr})


_Variables = dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]


def distinct_training_sequences(s: SparseSettings, seeds: np.ndarray) -> list[torch.Tensor]:
    """The distinct training sequences of each run, (position, sequence)."""
    return [torch.from_numpy(distinct_sequences(s, int(seed), "train")[0].T.copy()) for seed in seeds]


def _sequence_embeddings(network: ClusteringHead, rows: torch.Tensor, tokens: torch.Tensor) -> np.ndarray:
    """xi at some parameters (frame, parameter) of sequences (position, sequence): (frame, sequence, axis)."""
    found = []
    for row in rows:
        weights: Weights = network.unflatten(row)
        places = (weights["embedding"], weights["position_embedding"], weights["query"])
        mixed = AttentionMixture(PositionTokenTable(network.settings.norm, *places), tokens)
        found.append((weights["value"] @ mixed.mean).T.numpy())
    return np.stack(found)


def _sums(embedding: np.ndarray, position: np.ndarray, s: SparseSettings) -> np.ndarray:
    """E(token) + P(position) of the tokens that occur: (..., position, token, axis)."""
    return position[..., :, None, :] + embedding[..., None, : s.vocab, :]


def _measures(x: np.ndarray, moved: np.ndarray, s: SparseSettings) -> dict[str, np.ndarray]:
    length = np.linalg.norm(x, axis=-1)
    return {
        "length": length,
        "jacobian_norm": normalisation_jacobian_norm(length, s.norm, s.dim),
        "second_derivative_norm": normalisation_second_derivative_norm(length, s.norm, s.dim),
        "flip_ratio": flip_ratios(x, moved),
    }


def _points(
    what: str,
    x: np.ndarray,
    moved: np.ndarray,
    s: SparseSettings,
    valid: np.ndarray,
    moves: np.ndarray,
    dims: tuple[str, ...],
) -> _Variables:
    found: _Variables = {}
    for name, values in _measures(x, moved, s).items():
        known = moves if name == "flip_ratio" else valid
        masked = np.where(known.reshape(*known.shape, *(1,) * len(dims)), values, np.nan)
        found[f"{what}_{name}"] = (("run", "step", *dims), masked, _attrs(f"{_POINT_MEASURES[name]}, of E + P"))
    return found


def _all_frames(trajectory: xr.Dataset, s: SparseSettings) -> _Variables:
    """Of every recorded frame the smallest |E + P| and the largest flip ratio."""
    shape = (trajectory.sizes["run"], trajectory.sizes["step"])
    smallest, largest = np.full(shape, np.nan), np.full(shape, np.nan)
    check_variable_recorded(trajectory, "embedding")
    embedding = trajectory["embedding"].transpose("run", "step", "token", "axis")
    position = trajectory["position_embedding"].transpose("run", "step", "position", "axis")
    for run, last in enumerate(trajectory["last_step"].values):
        count = int((trajectory["step"].values <= last).sum())
        first, second = (each.isel(run=run, step=slice(count)).values for each in (embedding, position))
        x = _sums(first.astype(np.float64), second.astype(np.float64), s)
        smallest[run, :count] = np.linalg.norm(x, axis=-1).min(axis=(-2, -1))
        largest[run, : max(0, count - 1)] = flip_ratios(x[:-1], x[1:]).max(axis=(-2, -1))
    dims = ("run", "frame")
    return {
        "x_smallest": (dims, smallest, _attrs("smallest distance of E + P from the origin")),
        "x_largest_flip_ratio": (dims, largest, _attrs("largest flip ratio of E + P to the next recorded frame")),
    }


def _attrs(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}
