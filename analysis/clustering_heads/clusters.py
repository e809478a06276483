"""Clusters of the sequence embeddings of VC's network.

A circuit that ignores spurious positions and the order of the others has C(k+p-1, k) clusters (VC section 3.1): 6 for
k = 5 tokens out of p = 2, and 21 out of p = 3.
"""

import itertools
import math

import numpy as np
import torch
import xarray as xr
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.settings import SparseSettings
from dynamics.tasks import sample_sequences

CLUSTER_LINK = 0.1
"""Points closer than this fraction of the root mean square distance from their mean belong to one cluster."""

MAX_REFERENCE_SEQUENCES = 4096


def count_clusters(points: np.ndarray, link: float = CLUSTER_LINK) -> int:
    """The number of clusters of points by single linkage.

    Parameters
    ----------
    points : array, (point, axis)
    link : float
        Largest distance of linked points, as a fraction of the root mean square distance from their mean.

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
    """The cluster of each point (point, axis), numbered from 0, as in `count_clusters`: (point,). Raises ValueError."""
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"points: found shape {x.shape}, expected (point, axis) of finite numbers")
    size = np.abs(x).max()
    if size == 0:
        return np.zeros(len(x), dtype=np.int64)
    x, place = np.unique((x - x.mean(axis=0)) / size, axis=0, return_inverse=True)
    spread = float(np.sqrt((x * x).sum(axis=1).mean()))
    if spread <= 1e-6:
        return np.zeros(len(place), dtype=np.int64)
    near = cKDTree(x).query_pairs(link * spread, output_type="ndarray")
    links = coo_matrix((np.ones(len(near)), near.T), shape=(len(x), len(x)))
    return connected_components(links, directed=False)[1].astype(np.int64)[place.ravel()]


def reference_sequences(s: SparseSettings) -> np.ndarray:
    """Sequences on which clusters are counted, (sequence, position): all, or 4096 test sequences of seed 0."""
    if s.vocab**s.length <= MAX_REFERENCE_SEQUENCES:
        return np.array(list(itertools.product(range(s.vocab), repeat=s.length)))
    return np.unique(sample_sequences(s, np.array([0]), "test")[0][:MAX_REFERENCE_SEQUENCES], axis=0).astype(np.int64)


def ideal_cluster_count(s: SparseSettings) -> int:
    """C(k+p-1, k), the number of multisets of the tokens at counting positions.

    >>> ideal_cluster_count(SparseSettings())
    6
    """
    return math.comb(s.sparsity + s.vocab - 1, s.sparsity)


@torch.no_grad()
def embedding_cluster_counts(
    trajectory: xr.Dataset, step: int | None = None, link: float = CLUSTER_LINK
) -> xr.DataArray:
    """The number of clusters of each run's sequence embeddings at a recorded step, the last one by default: (run,).

    Raises TrajectoryError, SettingsError.
    """
    network = clustering_head_of(trajectory)
    step = int(trajectory["step"][-1]) if step is None else step
    tokens = torch.from_numpy(reference_sequences(network.settings))
    counts = []
    for run in range(trajectory.sizes["run"]):
        found = {name: weight.double() for name, weight in weights(trajectory, run, step).items()}
        counts.append(count_clusters(network.sequence_embedding(found, tokens).numpy(), link))
    attrs = {"long_name": f"clusters of sequence embeddings at {link:g} of their spread", "units": "1"}
    return xr.DataArray(np.array(counts), {"seed": trajectory["seed"]}, "run", "clusters", attrs)
