"""Clusters of sequence embeddings: planted ones, their invariances, and the ideal circuit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.clustering_heads.clusters import (
    cluster_labels,
    count_clusters,
    embedding_cluster_counts,
    ideal_cluster_count,
    reference_sequences,
)
from dynamics.errors import TrajectoryError
from dynamics.settings import ModularSettings, SparseSettings
from dynamics.simulation import simulate
from tests.dynamics.networks.test_clustering_head import ideal_circuit


@given(
    count=st.integers(1, 12), dim=st.integers(1, 4), each=st.integers(1, 30),
    scale=st.sampled_from([1e-12, 1.0, 1e9]), seed=st.integers(0, 99),
)  # fmt: skip
def test_planted_clusters_are_counted(count, dim, each, scale, seed):
    generator = np.random.default_rng(seed)
    centres = np.zeros((count, dim))
    centres[:, 0] = np.arange(count)
    turn = np.linalg.qr(generator.standard_normal((dim, dim)))[0]
    noise = generator.uniform(-1, 1, (count, each, dim)) / np.sqrt(dim)
    points = (centres[:, None] + 0.02 * noise).reshape(-1, dim) @ turn + generator.standard_normal(dim)
    if count > 1:
        assert count_clusters(scale * points) == count
        order = generator.permutation(len(points))
        labels, planted = cluster_labels(scale * points[order]), np.repeat(np.arange(count), each)[order]
        assert len({*zip(labels.tolist(), planted.tolist(), strict=True)}) == count == labels.max() + 1


def test_points_in_one_place_are_one_cluster():
    assert count_clusters(np.zeros((5, 2))) == 1
    assert count_clusters(np.full((5, 2), 3.7)) == 1
    assert count_clusters(np.full((5, 2), 3.7) + 1e-12 * np.arange(10).reshape(5, 2)) == 1
    for wrong in (np.zeros((0, 2)), np.zeros(3), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="points: found shape"):
            count_clusters(wrong)


@pytest.mark.parametrize("norm", ["rms", "unit-smooth"])
def test_the_ideal_circuit_has_as_many_as_the_formula(norm):
    import torch

    network, weights = ideal_circuit(norm)
    tokens = torch.from_numpy(reference_sequences(network.settings))
    assert tokens.shape == (4096, 12)
    found = count_clusters(network.sequence_embedding(weights, tokens).numpy())
    assert found == ideal_cluster_count(network.settings) == 6
    assert ideal_cluster_count(SparseSettings(vocab=3)) == 21
    assert reference_sequences(SparseSettings(vocab=3)).shape[1] == 12


def test_clusters_of_a_trajectory():
    settings = SparseSettings(length=6, sparsity=2, data=50, batch=8, hidden=5)
    trajectory = simulate(settings, runs=3, steps=7, progress=False)
    found = embedding_cluster_counts(trajectory)
    assert found.dims == ("run",)
    assert (found >= 1).all()
    first = embedding_cluster_counts(trajectory, step=0, link=1e-9)
    np.testing.assert_array_equal(first, 2**6)
    with pytest.raises(TrajectoryError, match="expected sparse"):
        embedding_cluster_counts(simulate(ModularSettings(n=5), runs=1, steps=1, progress=False))
