"""How much of where a run of VC's network ends is inherited from where it began.

VC section 4.1 sees strong similarity between attention at the start and at the end (figure 8), and final weights that
changed hyperparameters hardly alter if the first weights are the same. Both are measured against other runs of the
same ensemble, which share everything but the seed:

- `inherited`: Pearson's correlation, over sequences and positions, of the attention map at the start of run i with that
  at the end of run j;
- `moved`: distance of final weights, Procrustes distance of final sequence embeddings, and correlation of final
  attention maps, between run i of one ensemble and run j of another that has other settings but begins at the same
  weights, run by run.

The own pairs i = j are compared with the others. Their difference is tested by permutation: had the ends been dealt out
to the starts at random, how often would the mean over own pairs come out as extreme? All values are dimensionless.
"""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads.clusters import reference_sequences
from analysis.statistics.intervals import Interval, mean_interval
from analysis.statistics.resampling import mean_distance_between
from analysis.structures.procrustes import procrustes_distance
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import check_variable_recorded, clustering_head_of, weights
from dynamics.randomness import random_stream
from dynamics.trajectory.diverged import not_diverged

_PERMUTATIONS = 9999
ATTENTION_SEQUENCES = 512
"""At most so many sequences make an attention map."""


# ----------------------------------------------------------------------------------------- array functions


def pairwise_correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pearson's correlation of each of (one, entry) with each of (other, entry): (one, other); NaN without spread."""
    scaled = []
    for values in (first, second):
        x = np.asarray(values, dtype=np.float64)
        x = x - x.mean(axis=1, keepdims=True)
        size = np.linalg.norm(x, axis=1, keepdims=True)
        enough = size > 1e-12 * np.abs(values).max(initial=0)
        scaled.append(np.divide(x, size, out=np.full(x.shape, np.nan), where=enough))
    return np.clip(scaled[0] @ scaled[1].T, -1, 1)


class SameSeedComparison(NamedTuple):
    """Own pairs against others."""

    own: Interval
    """Mean of a measure over own pairs, with its interval over runs"""
    others: Interval
    """Mean over pairs of different runs"""
    p: float
    """Share of permutations of the ends with a mean over own pairs at least as far above, or below, what is usual"""
    runs: int


def compare_same_seed(measure: np.ndarray, higher: bool, permutations: int = _PERMUTATIONS) -> SameSeedComparison:
    """Own pairs, on the diagonal of (run, other_run), against the others; runs without values are left out.

    higher: whether own pairs are expected above the others, else below. The test is one-sided and its p-value
    counts the permutation that was found, so that it is never 0.
    """
    kept = np.isfinite(np.diagonal(measure))
    x = measure[np.ix_(kept, kept)]
    if len(x) < 2:
        return SameSeedComparison(
            mean_interval(np.diagonal(x)), mean_distance_between(x, paired=True), float("nan"), len(x)
        )
    generator, found = random_stream(0, "inheritance/permutations"), float(np.trace(x))
    drawn = np.array([x[np.arange(len(x)), generator.permutation(len(x))].sum() for _ in range(permutations)])
    slack = 1e-12 * np.abs(x).sum()
    extreme = (drawn >= found - slack) if higher else (drawn <= found + slack)
    p = (1 + int(extreme.sum())) / (1 + permutations)
    return SameSeedComparison(mean_interval(np.diagonal(x)), mean_distance_between(x, paired=True), p, len(x))


# ---------------------------------------------------------------------------------------- start against end


@torch.no_grad()
def _attention_maps(network: ClusteringHead, found: dict[str, torch.Tensor]) -> np.ndarray:
    """Attention of runs (run, ...) to every position of a fixed set of sequences: (run, sequence, position)."""
    tokens = reference_sequences(network.settings)
    if len(tokens) > ATTENTION_SEQUENCES:
        tokens = tokens[random_stream(0, "inheritance/sequences").permutation(len(tokens))[:ATTENTION_SEQUENCES]]
    asked = torch.from_numpy(tokens)
    runs = range(len(found["query"]))
    each = ({name: weight[run].double() for name, weight in found.items()} for run in runs)
    return np.stack([network.attention(one, asked).numpy() for one in each])


def _frame(trajectory: xr.Dataset, network: ClusteringHead, step: int) -> dict[str, torch.Tensor]:
    for name in network.variables:
        check_variable_recorded(trajectory, name)
    one = trajectory[list(network.variables)].sel(step=[step])
    return weights(one.assign_attrs(trajectory.attrs), step=step)


def attention_start_end_correlation(trajectory: xr.Dataset) -> xr.DataArray:
    """Correlation of attention at the first frame with attention at the last: (run, other_run), the latter's end.

    NaN where a run has diverged. Raises TrajectoryError.
    """
    network = clustering_head_of(trajectory)
    first, last = int(trajectory["step"][0]), int(trajectory["step"][-1])
    maps = [_attention_maps(network, _frame(trajectory, network, step)).reshape(trajectory.sizes["run"], -1)
            for step in (first, last)]  # fmt: skip
    found = np.where(not_diverged(trajectory), pairwise_correlations(*maps), np.nan)
    attrs = {"long_name": "correlation of attention at the start with attention at the end of a run", "units": "1"}
    return xr.DataArray(found, _pairs_of(trajectory), ("run", "other_run"), attrs=attrs)


def _pairs_of(trajectory: xr.Dataset) -> dict:
    seeds = trajectory["seed"].values
    return {"seed": ("run", seeds), "other_seed": ("other_run", seeds)}


# ------------------------------------------------------------------------------------ changed settings


ENDPOINT_MEASURES = {
    "weight_distance": ("distance of final weights, over how far both went from their start", False),
    "shape_distance": ("Procrustes distance of the final sequence embeddings", False),
    "attention_correlation": ("correlation of final attention", True),
}
"""What `moved` gives, and whether it is high for runs that are alike."""


def endpoint_similarity(first: xr.Dataset, second: xr.Dataset) -> xr.Dataset:
    """How alike the ends of two ensembles are that begin at the same weights: `MEASURES`, (run, other_run) each.

    The distance of weights is over the root mean square of how far the two runs went from their starts, so that ends
    that have no more to do with each other than two random directions from one start are about 1.4 apart. NaN where a
    run has diverged. Raises TrajectoryError.
    """
    networks = [clustering_head_of(each) for each in (first, second)]
    _check_alike(first, second, networks)
    starts, ends = (
        [
            _frame(each, network, int(each["step"][place]))
            for each, network in zip((first, second), networks, strict=True)
        ]
        for place in (0, -1)
    )
    rows = [
        [_rows(network, frame) for network, frame in zip(networks, frames, strict=True)] for frames in (starts, ends)
    ]
    if not np.array_equal(rows[0][0], rows[0][1]):
        raise TrajectoryError("the two trajectories do not begin at the same weights")
    found = {
        "weight_distance": relative_weight_distances(*rows[0], *rows[1]),
        "shape_distance": _shape_distances(networks, ends),
        "attention_correlation": pairwise_correlations(
            *(
                _attention_maps(network, end).reshape(len(rows[0][0]), -1)
                for network, end in zip(networks, ends, strict=True)
            )
        ),
    }
    both = not_diverged(first)[:, None] & not_diverged(second)
    data = {
        name: (
            ("run", "other_run"),
            np.where(both, values, np.nan),
            {"long_name": ENDPOINT_MEASURES[name][0], "units": "1"},
        )
        for name, values in found.items()
    }
    return xr.Dataset(data, _pairs_of(first))


def relative_weight_distances(
    first_start: np.ndarray, second_start: np.ndarray, first_end: np.ndarray, second_end: np.ndarray
) -> np.ndarray:
    """Distances of ends (run, parameter) over the root mean square of their ways: (run, other_run); NaN at rest."""
    apart = np.linalg.norm(first_end[:, None] - second_end, axis=-1)
    ways = [((end - start) ** 2).sum(axis=1) for start, end in ((first_start, first_end), (second_start, second_end))]
    size = np.sqrt((ways[0][:, None] + ways[1]) / 2)
    return np.divide(apart, size, out=np.full(apart.shape, np.nan), where=size > 0)


def _check_alike(first: xr.Dataset, second: xr.Dataset, networks: list[ClusteringHead]) -> None:
    if networks[0].shapes != networks[1].shapes:
        raise _unlike(f"networks of {networks[1].sizes}", f"networks of {networks[0].sizes}")
    s, other = (network.settings for network in networks)
    if (s.vocab, s.length, s.counting) != (other.vocab, other.length, other.counting):
        raise _unlike("another task", "one of the same p, length and counting positions")
    if not np.array_equal(first["seed"].values, second["seed"].values):
        raise _unlike("runs of other seeds", "runs of the same seeds")


def _unlike(found: str, expected: str) -> TrajectoryError:
    return TrajectoryError(f"the second trajectory: found {found}, expected {expected}")


def _rows(network: ClusteringHead, found: dict[str, torch.Tensor]) -> np.ndarray:
    return network.flatten({name: weight.double().numpy() for name, weight in found.items()})


@torch.no_grad()
def _shape_distances(networks: list[ClusteringHead], ends: list[dict[str, torch.Tensor]]) -> np.ndarray:
    tokens = torch.from_numpy(reference_sequences(networks[0].settings))
    found = []
    for network, end in zip(networks, ends, strict=True):
        each = [{name: weight[run].double() for name, weight in end.items()} for run in range(len(end["query"]))]
        found.append(np.stack([network.sequence_embedding(one, tokens).numpy() for one in each]))
    return np.stack([procrustes_distance(one, found[1]) for one in found[0]])
