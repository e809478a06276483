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
from typing import Literal, NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads.clusters import reference_sequences
from analysis.clustering_heads.invariances import weights_at_step
from analysis.output.results import dimensionless, labelled
from analysis.statistics.division import ratio
from analysis.statistics.intervals import Interval, mean_interval
from analysis.statistics.resampling import mean_between_runs
from analysis.structures.procrustes import procrustes_distance
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.networks.parameters import Weights
from dynamics.randomness import random_stream
from dynamics.trajectory.diverged import not_diverged

_PERMUTATIONS = 9999
Alternative = Literal["greater", "less"]
"""Whether same-seed pairs are expected above the others or below."""
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
    measure: np.ndarray, alternative: Alternative, permutations: int = _PERMUTATIONS
) -> SameSeedComparison:
    """Compare same-seed pairs, on the diagonal of a measure (run, other_run), with the
    others by a one-sided test.

    Runs without values are left out. permutations: number of random permutations of the
    ends; the identity counts as one more, so that the p-value is never 0."""
    finite = np.isfinite(np.diagonal(measure))
    x = measure[np.ix_(finite, finite)]
    own = mean_interval(np.diagonal(x))
    others = mean_between_runs(x, paired=True)
    if len(x) < 2:
        return SameSeedComparison(own, others, float("nan"), len(x))
    generator = random_stream(0, "inheritance/permutations")
    own_sum = float(np.trace(x))
    runs = np.arange(len(x))
    permuted_sums = np.array(
        [x[runs, generator.permutation(len(x))].sum() for _ in range(permutations)]
    )
    rounding = 1e-12 * np.abs(x).sum()
    if alternative == "greater":
        extreme = permuted_sums >= own_sum - rounding
    else:
        extreme = permuted_sums <= own_sum + rounding
    p = (1 + int(extreme.sum())) / (1 + permutations)
    return SameSeedComparison(own, others, p, len(x))


# -------------------------------------------------------------------- start against end


def _weights_at(
    trajectory: xr.Dataset, network: ClusteringHead, frame: int
) -> dict[str, torch.Tensor]:
    """The weights of all runs in a frame, 0 for the first and -1 for the last."""
    return weights_at_step(trajectory, network, int(trajectory["step"][frame]))


@torch.no_grad()
def _attention_maps(network: ClusteringHead, weights: Weights) -> np.ndarray:
    """Attention of runs (run, ...) on a fixed set of sequences: (run, sequence x
    position)."""
    tokens = reference_sequences(network.settings)
    if len(tokens) > ATTENTION_SEQUENCES:
        order = random_stream(0, "inheritance/sequences").permutation(len(tokens))
        tokens = tokens[order[:ATTENTION_SEQUENCES]]
    sequences = torch.from_numpy(tokens)
    runs = _single_runs(weights)
    return np.stack([network.attention(run, sequences).numpy().ravel() for run in runs])


def _single_runs(weights: Weights) -> Iterator[dict[str, torch.Tensor]]:
    """The float64 weights of each run, one at a time."""
    for run in range(len(weights["query"])):
        yield {name: weight[run].double() for name, weight in weights.items()}


def attention_start_end_correlation(trajectory: xr.Dataset) -> xr.DataArray:
    """Correlation of attention of each run at the first frame with that of every run,
    itself included, at the last.

    (run, other_run); NaN where `other_run`, whose end is used, has diverged. Raises
    TrajectoryError.
    """
    network = clustering_head_of(trajectory)
    correlations = pairwise_correlations(
        _attention_maps(network, _weights_at(trajectory, network, 0)),
        _attention_maps(network, _weights_at(trajectory, network, -1)),
    )
    correlations = np.where(not_diverged(trajectory), correlations, np.nan)
    attrs = dimensionless(
        "correlation of attention at the start with attention at the end of a run"
    )
    return xr.DataArray(
        correlations, _pairs_of(trajectory), ("run", "other_run"), attrs=attrs
    )


def _pairs_of(trajectory: xr.Dataset) -> dict:
    """Coordinates of pairs of runs: the seeds of `run` and `other_run`."""
    seeds = trajectory["seed"].values
    return {"seed": ("run", seeds), "other_seed": ("other_run", seeds)}


# --------------------------------------------------------------------- changed settings


class EndpointMeasure(NamedTuple):
    """A variable of `endpoint_similarity`."""

    meaning: str
    alternative: Alternative
    """Whether the measure is greater or less for similar runs"""


ENDPOINT_MEASURES = {
    "weight_distance": EndpointMeasure(
        "distance of final weights over the distance from the start", "less"
    ),
    "shape_distance": EndpointMeasure(
        "Procrustes distance of the final sequence embeddings", "less"
    ),
    "attention_correlation": EndpointMeasure(
        "correlation of final attention", "greater"
    ),
}


def endpoint_similarity(first: xr.Dataset, second: xr.Dataset) -> xr.Dataset:
    """Similarity of the ends of two ensembles with the same initial weights:
    `ENDPOINT_MEASURES` (run, other_run).

    The distance of weights is relative to the root mean square of both runs' distances
    from their starts, so that it is about 1.4 for two random directions from one start.
    NaN for runs that have diverged. Raises TrajectoryError."""
    first_network = clustering_head_of(first)
    second_network = clustering_head_of(second)
    _check_alike(first, second, first_network, second_network)
    first_start = _flat_weights(first_network, _weights_at(first, first_network, 0))
    second_start = _flat_weights(second_network, _weights_at(second, second_network, 0))
    if not np.array_equal(first_start, second_start):
        raise TrajectoryError("the two trajectories do not begin at the same weights")
    first_end = _weights_at(first, first_network, -1)
    second_end = _weights_at(second, second_network, -1)
    measures = {
        "weight_distance": relative_weight_distances(
            first_start,
            second_start,
            _flat_weights(first_network, first_end),
            _flat_weights(second_network, second_end),
        ),
        "shape_distance": _shape_distances(
            _sequence_embeddings(first_network, first_end),
            _sequence_embeddings(second_network, second_end),
        ),
        "attention_correlation": pairwise_correlations(
            _attention_maps(first_network, first_end),
            _attention_maps(second_network, second_end),
        ),
    }
    valid = not_diverged(first)[:, None] & not_diverged(second)
    variables = {
        name: (np.where(valid, values, np.nan), ENDPOINT_MEASURES[name].meaning)
        for name, values in measures.items()
    }
    return xr.Dataset(labelled(("run", "other_run"), **variables), _pairs_of(first))


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
    first_squared_distance = ((first_end - first_start) ** 2).sum(axis=1)
    second_squared_distance = ((second_end - second_start) ** 2).sum(axis=1)
    size = np.sqrt((first_squared_distance[:, None] + second_squared_distance) / 2)
    return ratio(apart, size)


def _check_alike(
    first: xr.Dataset,
    second: xr.Dataset,
    first_network: ClusteringHead,
    second_network: ClusteringHead,
) -> None:
    """Raise TrajectoryError unless networks, tasks and seeds are the same."""
    if first_network.shapes != second_network.shapes:
        raise _difference_error(
            f"networks of {second_network.sizes}", f"networks of {first_network.sizes}"
        )
    first_task = first_network.settings
    second_task = second_network.settings
    if any(
        getattr(first_task, name) != getattr(second_task, name)
        for name in ("vocab", "length", "counting")
    ):
        raise _difference_error(
            "another task", "one of the same p, length and non-spurious positions"
        )
    if not np.array_equal(first["seed"].values, second["seed"].values):
        raise _difference_error("runs of other seeds", "runs of the same seeds")


def _difference_error(found: str, expected: str) -> TrajectoryError:
    return TrajectoryError(f"the second trajectory: found {found}, expected {expected}")


def _flat_weights(network: ClusteringHead, weights: Weights) -> np.ndarray:
    """All float64 weights of each run, (run, parameter)."""
    return network.flatten(
        {name: weight.double().numpy() for name, weight in weights.items()}
    )


@torch.no_grad()
def _sequence_embeddings(network: ClusteringHead, weights: Weights) -> np.ndarray:
    """Embeddings of the reference sequences of the task, (run, sequence, axis)."""
    tokens = torch.from_numpy(reference_sequences(network.settings))
    return np.stack(
        [
            network.sequence_embedding(run, tokens).numpy()
            for run in _single_runs(weights)
        ]
    )


def _shape_distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Procrustes distances of sequence embeddings (run, sequence, axis): (run,
    other_run)."""
    return np.stack([procrustes_distance(run, second) for run in first])
