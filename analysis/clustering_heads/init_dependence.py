"""How far the end of a run of VC's network depends on its initial weights.

VC section 4.1 describes strong similarity between attention at the start and at the end
(figure 8), and final weights that hardly change with hyperparameters if the initial
weights are the same. Both are compared with pairs of different runs of the same
ensemble, which differ only in their seeds:

- `attention_start_end_correlation`: Pearson's correlation, over sequences and
  positions, of the attention of run i at the start with that of run j at the end;
- `endpoint_similarity`: distance of final weights, Procrustes distance of final
  sequence embeddings and correlation of final attention, between run i of one ensemble
  and run j of another one with the same initial weights, run by run, and other
  settings.

Pairs i = j, of the same seed, are compared with the others. Their difference is tested
by permutations: if the ends were assigned to the starts at random, how often would the
mean over same-seed pairs be as extreme? All values are dimensionless."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads.clusters import reference_sequences
from analysis.clustering_heads.invariances import weights_at_step
from analysis.output.results import dimensionless, labelled
from analysis.statistics.division import ratio
from analysis.statistics.intervals import Interval, mean_interval
from analysis.statistics.resampling import mean_distance_between
from analysis.structures.procrustes import procrustes_distance
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.randomness import random_stream
from dynamics.trajectory.diverged import not_diverged

_PERMUTATIONS = 9999
ATTENTION_SEQUENCES = 512
"""Largest number of sequences of an attention map."""


# ---------------------------------------------------------------------- array functions


def pairwise_correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pearson's correlations between rows, (one, entry) and (other, entry) -> (one,
    other); NaN for constant rows.

    >>> pairwise_correlations(np.array([[0.0, 1.0, 2.0]]), np.array([[5.0, 6.0, 7.0], [2.0, 1.0, 0.0]])).round(6)
    array([[ 1., -1.]])
    """
    scaled = []
    for values in (first, second):
        x = np.asarray(values, dtype=np.float64)
        x = x - x.mean(axis=1, keepdims=True)
        size = np.linalg.norm(x, axis=1, keepdims=True)
        enough = size > 1e-12 * np.abs(values).max(initial=0)
        scaled.append(np.divide(x, size, out=np.full(x.shape, np.nan), where=enough))
    return np.clip(scaled[0] @ scaled[1].T, -1, 1)


class SameSeedComparison(NamedTuple):
    """Comparison of pairs of the same seed with pairs of different seeds."""

    own: Interval
    """Mean over same-seed pairs, with its interval over runs"""
    others: Interval
    """Mean over pairs of different runs"""
    p: float
    """Fraction of permutations of the ends for which the mean over same-seed pairs is
    at least as extreme"""
    runs: int


def compare_same_seed(
    measure: np.ndarray, higher: bool, permutations: int = _PERMUTATIONS
) -> SameSeedComparison:
    """Compare same-seed pairs, on the diagonal of a measure (run, other_run), with the
    others.

    Runs without values are left out. higher: whether same-seed pairs are expected to be
    above the others or below. The test is one-sided; its p-value counts the identity as
    a permutation, so that it is never 0."""
    finite = np.isfinite(np.diagonal(measure))
    x = measure[np.ix_(finite, finite)]
    own, others = mean_interval(np.diagonal(x)), mean_distance_between(x, paired=True)
    if len(x) < 2:
        return SameSeedComparison(own, others, float("nan"), len(x))
    generator = random_stream(0, "inheritance/permutations")
    result = float(np.trace(x))
    rows = np.arange(len(x))
    drawn = np.array(
        [x[rows, generator.permutation(len(x))].sum() for _ in range(permutations)]
    )
    slack = 1e-12 * np.abs(x).sum()
    extreme = (drawn >= result - slack) if higher else (drawn <= result + slack)
    p = (1 + int(extreme.sum())) / (1 + permutations)
    return SameSeedComparison(own, others, p, len(x))


# -------------------------------------------------------------------- start against end


@torch.no_grad()
def _attention_maps(
    network: ClusteringHead, result: dict[str, torch.Tensor]
) -> np.ndarray:
    """Attention of runs (run, ...) on a fixed set of sequences: (run, sequence x
    position)."""
    tokens = reference_sequences(network.settings)
    if len(tokens) > ATTENTION_SEQUENCES:
        order = random_stream(0, "inheritance/sequences").permutation(len(tokens))
        tokens = tokens[order[:ATTENTION_SEQUENCES]]
    sequences = torch.from_numpy(tokens)
    runs = _single_runs(result)
    return np.stack([network.attention(run, sequences).numpy().ravel() for run in runs])


def _single_runs(result: dict[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """The float64 weights of each run, one at a time."""
    for run in range(len(result["query"])):
        yield {name: weight[run].double() for name, weight in result.items()}


def attention_start_end_correlation(trajectory: xr.Dataset) -> xr.DataArray:
    """Correlation of attention of each run at the first frame with that of each other
    run at the last.

    (run, other_run); NaN for runs that have diverged. Raises TrajectoryError.
    """
    network = clustering_head_of(trajectory)
    first, last = int(trajectory["step"][0]), int(trajectory["step"][-1])
    maps = [
        _attention_maps(network, weights_at_step(trajectory, network, step))
        for step in (first, last)
    ]
    result = np.where(not_diverged(trajectory), pairwise_correlations(*maps), np.nan)
    attrs = dimensionless(
        "correlation of attention at the start with attention at the end of a run"
    )
    return xr.DataArray(
        result, _pairs_of(trajectory), ("run", "other_run"), attrs=attrs
    )


def _pairs_of(trajectory: xr.Dataset) -> dict:
    seeds = trajectory["seed"].values
    return {"seed": ("run", seeds), "other_seed": ("other_run", seeds)}


# --------------------------------------------------------------------- changed settings


ENDPOINT_MEASURES = {
    "weight_distance": (
        "distance of final weights over the distance from the start",
        False,
    ),
    "shape_distance": ("Procrustes distance of the final sequence embeddings", False),
    "attention_correlation": ("correlation of final attention", True),
}
"""Meaning of the variables of `endpoint_similarity`, and whether they are high for
similar runs."""


def endpoint_similarity(first: xr.Dataset, second: xr.Dataset) -> xr.Dataset:
    """Similarity of the ends of two ensembles with the same initial weights:
    `ENDPOINT_MEASURES` (run, other_run).

    The distance of weights is relative to the root mean square of both runs' distances
    from their starts, so that it is about 1.4 for two random directions from one start.
    NaN for runs that have diverged. Raises TrajectoryError."""
    both = (first, second)
    networks = [clustering_head_of(item) for item in both]
    _check_alike(first, second, networks)
    starts, ends = (
        [
            weights_at_step(item, network, int(item["step"][index]))
            for item, network in zip(both, networks, strict=True)
        ]
        for index in (0, -1)
    )
    flat_starts = list(map(_flat_weights, networks, starts))
    flat_ends = map(_flat_weights, networks, ends)
    if not np.array_equal(flat_starts[0], flat_starts[1]):
        raise TrajectoryError("the two trajectories do not begin at the same weights")
    attention = pairwise_correlations(*map(_attention_maps, networks, ends))
    measures = (
        relative_weight_distances(*flat_starts, *flat_ends),
        _shape_distances(networks, ends),
        attention,
    )
    valid = not_diverged(first)[:, None] & not_diverged(second)
    data: dict[str, tuple] = {}
    for (name, (meaning, _)), values in zip(
        ENDPOINT_MEASURES.items(), measures, strict=True
    ):
        variable = {name: (np.where(valid, values, np.nan), meaning)}
        data |= labelled(("run", "other_run"), **variable)
    return xr.Dataset(data, _pairs_of(first))


def relative_weight_distances(
    first_start: np.ndarray,
    second_start: np.ndarray,
    first_end: np.ndarray,
    second_end: np.ndarray,
) -> np.ndarray:
    """Distances of ends (run, parameter) over the root mean square of both distances
    from the start: (run, other_run).

    NaN for runs that did not move.
    """
    apart = np.linalg.norm(first_end[:, None] - second_end, axis=-1)
    first_way = ((first_end - first_start) ** 2).sum(axis=1)
    second_way = ((second_end - second_start) ** 2).sum(axis=1)
    size = np.sqrt((first_way[:, None] + second_way) / 2)
    return ratio(apart, size)


def _check_alike(
    first: xr.Dataset, second: xr.Dataset, networks: list[ClusteringHead]
) -> None:
    if networks[0].shapes != networks[1].shapes:
        raise _unlike(
            f"networks of {networks[1].sizes}", f"networks of {networks[0].sizes}"
        )
    s, other = (network.settings for network in networks)
    if (s.vocab, s.length, s.counting) != (other.vocab, other.length, other.counting):
        raise _unlike(
            "another task", "one of the same p, length and non-spurious positions"
        )
    if not np.array_equal(first["seed"].values, second["seed"].values):
        raise _unlike("runs of other seeds", "runs of the same seeds")


def _unlike(result: str, expected: str) -> TrajectoryError:
    return TrajectoryError(
        f"the second trajectory: found {result}, expected {expected}"
    )


def _flat_weights(
    network: ClusteringHead, result: dict[str, torch.Tensor]
) -> np.ndarray:
    return network.flatten(
        {name: weight.double().numpy() for name, weight in result.items()}
    )


@torch.no_grad()
def _shape_distances(
    networks: list[ClusteringHead], ends: list[dict[str, torch.Tensor]]
) -> np.ndarray:
    tokens = torch.from_numpy(reference_sequences(networks[0].settings))
    first, second = (
        [network.sequence_embedding(run, tokens).numpy() for run in _single_runs(end)]
        for network, end in zip(networks, ends, strict=True)
    )
    return np.stack([procrustes_distance(run, np.stack(second)) for run in first])
