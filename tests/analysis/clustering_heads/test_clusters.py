"""Clusters of sequence embeddings: planted ones, their invariances, and the ideal
circuit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.clustering_heads import clusters
from dynamics import ModularSettings, SparseSettings, TrajectoryError, simulate


@given(
    count=st.integers(1, 12),
    dim=st.integers(1, 4),
    points_of_cluster=st.integers(1, 30),
    scale=st.sampled_from([1e-12, 1.0, 1e9]),
    seed=st.integers(0, 99),
)
def test_planted_clusters_are_counted(count, dim, points_of_cluster, scale, seed):
    generator = np.random.default_rng(seed)
    centres = np.zeros((count, dim))
    centres[:, 0] = np.arange(count)
    turn = np.linalg.qr(generator.standard_normal((dim, dim)))[0]
    noise = generator.uniform(-1, 1, (count, points_of_cluster, dim)) / np.sqrt(dim)
    points = (centres[:, None] + 0.02 * noise).reshape(
        -1, dim
    ) @ turn + generator.standard_normal(dim)
    if count > 1:
        assert clusters.count_clusters(scale * points) == count
        order = generator.permutation(len(points))
        labels, planted = (
            clusters.cluster_labels(scale * points[order]),
            np.repeat(np.arange(count), points_of_cluster)[order],
        )
        assert (
            len({*zip(labels.tolist(), planted.tolist(), strict=True)})
            == count
            == labels.max() + 1
        )


def test_merge_lengths_agree_with_counts_at_every_link_length(generator):
    points = generator.standard_normal((40, 2)) * np.array([1, 3])
    points[5:9] = points[4]
    lengths = clusters.merge_lengths(points)
    assert lengths.shape == (64,)
    assert (np.diff(lengths) <= 0).all()
    assert (lengths[36:] == 0).all()  # 36 different points
    for link in (0.01, 0.05, 0.1, 0.2, 0.5, 2.0):
        assert 1 + (lengths > link).sum() == clusters.count_clusters(points, link)
    assert_allclose(clusters.merge_lengths(1e6 * points + 3, 5), lengths[:5], rtol=1e-9)
    assert (clusters.merge_lengths(np.ones((5, 2))) == 0).all()


def test_points_in_one_place_are_one_cluster():
    point = np.full((5, 2), 3.7)
    for points in (0 * point, point, point + 1e-12 * np.arange(10).reshape(5, 2)):
        assert clusters.count_clusters(points) == 1
    for wrong in (np.zeros((0, 2)), np.zeros(3), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="points: found shape"):
            clusters.count_clusters(wrong)


def test_the_ideal_number_of_clusters_and_the_sequences_that_are_clustered():
    assert [
        clusters.ideal_cluster_count(SparseSettings(vocab=vocab)) for vocab in (2, 3)
    ] == [6, 21]
    assert clusters.reference_sequences(SparseSettings()).shape == (4096, 12)
    assert clusters.reference_sequences(SparseSettings(vocab=3)).shape[1] == 12


def test_clusters_and_merge_lengths_of_a_trajectory(tiny):
    result = clusters.embedding_cluster_counts(tiny)
    assert result.dims == ("run",)
    assert (result >= 1).all()
    assert_array_equal(clusters.embedding_cluster_counts(tiny, step=0, link=1e-9), 2**6)
    with pytest.raises(TrajectoryError, match="expected sparse"):
        clusters.embedding_cluster_counts(
            simulate(ModularSettings(n=5), runs=1, steps=1)
        )
    lengths = clusters.embedding_merge_lengths(tiny)
    assert_array_equal(1 + (lengths > 0.1).sum("clusters"), result)
    assert np.isnan(
        clusters.embedding_merge_lengths(tiny.assign(last_step=0 * tiny["last_step"]))
    ).all()
