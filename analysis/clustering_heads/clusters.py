"""Clusters of the sequence embeddings of VC's network.

A circuit that ignores spurious positions and the order of the others has C(k+p-1, k)
clusters (VC section 3.1): 6 for k = 5 tokens out of p = 2, and 21 out of p = 3."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import torch
import xarray as xr
from scipy.cluster.hierarchy import linkage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.settings import SparseSettings
from dynamics.tasks import sample_sequences
from dynamics.trajectory.diverged import not_diverged

CLUSTER_LINK = 0.1
"""Points closer than this fraction of the root mean square distance from their mean
belong to one cluster."""

MAX_REFERENCE_SEQUENCES = 4096

MOST_MERGES = 64
"""Largest number of clusters for which the link length is kept."""


def count_clusters(points: np.ndarray, link: float = CLUSTER_LINK) -> int:
    """The number of clusters of points by single linkage.

    Parameters
    ----------
    points : array, (point, axis)
    link : float
        Largest distance of linked points, as a fraction of the root mean square
        distance from their mean.

    Returns
    -------
    int
        1 for points that all coincide.

    Raises
    ------
    ValueError
        For points that are not finite, or none.

    Examples
    --------
    >>> count_clusters(np.array([[0.0], [0.01], [1.0], [1.01], [5.0]]))
    3
    """
    return 1 + int(cluster_labels(points, link).max())


def cluster_labels(points: np.ndarray, link: float = CLUSTER_LINK) -> np.ndarray:
    """The cluster of each point (point, axis), numbered from 0, as in `count_clusters`:
    (point,). Raises ValueError."""
    x, place, spread = _different_points(points)
    if len(x) == 1:
        return np.zeros(len(place), dtype=np.int64)
    near = cKDTree(x).query_pairs(link * spread, output_type="ndarray")
    links = coo_matrix((np.ones(len(near)), near.T), shape=(len(x), len(x)))
    return connected_components(links, directed=False)[1].astype(np.int64)[place]


def _different_points(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Different points (point, axis), the index of each given point among them, and
    their spread.

    A single point at the origin if all coincide. Raises ValueError.
    """
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or not len(x) or not np.isfinite(x).all():
        raise ValueError(
            f"points: found shape {x.shape}, expected (point, axis) of finite numbers"
        )
    x = (x - x.mean(axis=0)) / (np.abs(x).max() or 1.0)
    different, place = np.unique(x, axis=0, return_inverse=True)
    # of all points, since rounding decides which ones differ
    spread = float(np.sqrt((x * x).sum(axis=1).mean()))
    if spread <= 1e-6:
        return np.zeros((1, x.shape[1])), np.zeros(len(x), dtype=np.int64), 0.0
    return different, place.ravel(), spread


def merge_lengths(points: np.ndarray, most: int = MOST_MERGES) -> np.ndarray:
    """The link lengths at which clusters merge.

    Parameters
    ----------
    points : array, (point, axis)
    most : int
        Number of merges.

    Returns
    -------
    array, (most,)
        Element k - 1 is the smallest link length, as for `count_clusters`, at which
        there are at most k clusters; 0 if there are no more than k different points. So
        there are exactly k clusters from element k - 1 up to, but not at, element k -
        2.

    Raises
    ------
    ValueError
        For points that are not finite, or none.

    Examples
    --------
    >>> merge_lengths(np.array([[-1.0], [0.0], [3.0], [-2.0]]), 4).round(2)
    array([1.6 , 0.53, 0.53, 0.  ])
    """
    x, _, spread = _different_points(points)
    lengths = linkage(x, "single")[::-1, 2] / spread if len(x) > 1 else np.zeros(0)
    return np.pad(lengths[:most], (0, max(0, most - len(lengths))))


def reference_sequences(s: SparseSettings) -> np.ndarray:
    """Sequences on which clusters are counted, (sequence, position): all, or of more
    than 4096 those that differ among the first test sequences of seed 0."""
    if s.vocab**s.length <= MAX_REFERENCE_SEQUENCES:
        return np.array(list(itertools.product(range(s.vocab), repeat=s.length)))
    return np.unique(
        sample_sequences(s, np.array([0]), "test")[0][:MAX_REFERENCE_SEQUENCES], axis=0
    ).astype(np.int64)


def ideal_cluster_count(s: SparseSettings) -> int:
    """C(k+p-1, k), the number of multisets of the tokens at non-spurious positions.

    >>> ideal_cluster_count(SparseSettings())
    6
    """
    return math.comb(s.sparsity + s.vocab - 1, s.sparsity)


@torch.no_grad()
def _embeddings_by_run(
    trajectory: xr.Dataset, step: int | None
) -> Iterator[np.ndarray]:
    """Sequence embeddings of each run at a recorded step, the last one by default:
    (sequence, axis)."""
    network = clustering_head_of(trajectory)
    step = int(trajectory["step"][-1]) if step is None else step
    tokens = torch.from_numpy(reference_sequences(network.settings))
    for run in range(trajectory.sizes["run"]):
        result = {
            name: weight.double()
            for name, weight in weights(trajectory, run, step).items()
        }
        yield network.sequence_embedding(result, tokens).numpy()


def embedding_cluster_counts(
    trajectory: xr.Dataset, step: int | None = None, link: float = CLUSTER_LINK
) -> xr.DataArray:
    """The number of clusters of each run's sequence embeddings at a recorded step, the
    last one by default: (run,).

    Raises TrajectoryError, SettingsError.
    """
    counts = [
        count_clusters(points, link) for points in _embeddings_by_run(trajectory, step)
    ]
    attrs = {
        "long_name": f"clusters of sequence embeddings at {link:g} of their spread",
        "units": "1",
    }
    return xr.DataArray(
        np.array(counts), {"seed": trajectory["seed"]}, "run", "clusters", attrs
    )


def embedding_merge_lengths(
    trajectory: xr.Dataset, step: int | None = None
) -> xr.DataArray:
    """The `merge_lengths` of each run's sequence embeddings at a recorded step, the
    last one by default.

    (run, clusters), where `clusters` counts from 1; NaN for runs that have diverged.
    Raises TrajectoryError, SettingsError."""
    lengths = np.full((trajectory.sizes["run"], MOST_MERGES), np.nan)
    alive = not_diverged(trajectory, step)
    for run, points in enumerate(_embeddings_by_run(trajectory, step)):
        if alive[run]:
            lengths[run] = merge_lengths(points)
    attrs = {
        "long_name": (
            "smallest link length with at most so many clusters, over the spread"
        ),
        "units": "1",
    }
    coords = {"clusters": np.arange(1, MOST_MERGES + 1)}
    return xr.DataArray(lengths, coords, ("run", "clusters"), "merge_length", attrs)
