"""The task and the streams of random numbers."""

import numpy as np
import pytest

from dynamics.randomness import normal_samples, random_stream
from dynamics.settings import SettingsError, SparseSettings
from dynamics.tasks import all_pairs, distinct_sequences, modular_sum, sample_sequences
from tests import naive


def test_pairs_stand_in_the_order_of_algorithm_2_and_have_modular_sums():
    for n in (1, 2, 17):
        assert all_pairs(n).tolist() == [list(pair) for pair in naive.pairs_of(n, True)]
    assert modular_sum(np.array([[3, 4], [0, 0]]), 5).tolist() == [2, 0]
    with pytest.raises(SettingsError, match="n: found 0"):
        all_pairs(0)


@pytest.mark.parametrize("data", [1, 2, 300])
def test_distinct_sequences_are_those_drawn(data):
    s = SparseSettings(length=4, sparsity=2, vocab=3, data=data, batch=1)
    tokens, counts = distinct_sequences(s, 5, "test")
    drawn = sample_sequences(s, np.array([5]), "test")[0]
    np.testing.assert_array_equal(np.repeat(tokens, counts, axis=0), drawn[np.lexsort(drawn.T[::-1])])
    assert len(np.unique(tokens, axis=0)) == len(tokens)


def test_a_stream_depends_on_seed_and_name_alone():
    alone, among = normal_samples(np.array([7]), "a", (3, 2)), normal_samples(np.array([5, 7, 6]), "a", (3, 2))
    np.testing.assert_array_equal(alone[0], among[1])
    assert not np.array_equal(alone, normal_samples(np.array([7]), "b", (3, 2)))
    assert not np.array_equal(alone, normal_samples(np.array([8]), "a", (3, 2)))


def test_streams_of_a_seed_are_fixed():
    """Fixed numbers: a change here changes every trajectory, and wants a higher numerics_version."""
    expected = [0.30076264407359865, 1.9055891628106287, 0.36722424359316547]
    np.testing.assert_allclose(random_stream(7, "particles/start").standard_normal(3), expected, rtol=1e-15)
