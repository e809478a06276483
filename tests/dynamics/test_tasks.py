"""The task and the streams of random numbers."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynamics.randomness import normal_samples, random_stream
from dynamics.settings import SettingsError, SparseSettings, TransformerSettings
from dynamics.tasks import (
    all_pairs,
    distinct_sequences,
    modular_sum,
    operation_pairs,
    operation_splits,
    operation_table,
    sample_sequences,
    sparse_splits,
)
from tests import naive


def test_pairs_stand_in_the_order_of_algorithm_2_and_have_modular_sums():
    for n in (1, 2, 17):
        assert all_pairs(n).tolist() == [list(pair) for pair in naive.pairs_of(n, True)]
    assert modular_sum(np.array([[3, 4], [0, 0]]), 5).tolist() == [2, 0]
    with pytest.raises(SettingsError, match="n: found 0"):
        all_pairs(0)


def test_operations_modulo_p_are_those_of_python():
    for task, operation in (
        ("add", lambda a, b: a + b),
        ("subtract", lambda a, b: a - b),
        ("multiply", lambda a, b: a * b),
        ("quadratic", lambda a, b: a * a + a * b + b * b),
    ):
        table = operation_table(TransformerSettings(task=task, n=7))
        assert table.tolist() == [
            [operation(a, b) % 7 for b in range(7)] for a in range(7)
        ]


def test_unseen_is_a_split_where_twenty_unseen_sequences_are_expected():
    for data, splits in ((990, 3), (1000, 2)):
        expected = data * (1 - 2.0**-8) ** data
        assert (expected >= 20) == (splits == 3)
        settings = SparseSettings(length=8, data=data)
        assert sparse_splits(settings) == ("train", "test", "unseen")[:splits]


@pytest.mark.parametrize(
    ("task", "n", "order"),
    [("symmetric", 3, 6), ("symmetric", 4, 24), ("dihedral", 5, 10)],
)
def test_compositions_are_groups_that_do_not_commute(task, n, order):
    table, numbers = (
        operation_table(TransformerSettings(task=task, n=n)),
        np.arange(order),
    )
    assert (table[0] == numbers).all()
    assert (table[:, 0] == numbers).all()
    assert_array_equal(table[table], table[:, table])  # (a b) c = a (b c)
    for item in (table, table.T):
        assert_array_equal(np.sort(item, axis=1), np.broadcast_to(numbers, table.shape))
    assert (table != table.T).any()


def test_permutations_compose_from_right_to_left_and_rotations_turn_reflections():
    permutations = list(itertools.permutations(range(4)))
    table = operation_table(TransformerSettings(task="symmetric", n=4))
    for a, b in ((3, 17), (22, 5)):
        assert permutations[table[a, b]] == tuple(
            permutations[a][i] for i in permutations[b]
        )
    dihedral = operation_table(TransformerSettings(task="dihedral", n=5))
    assert dihedral[1, 5] == dihedral[5, 4]  # r s = s r^-1
    assert dihedral[5, 5] == 0


def test_splits_of_pairs_depend_on_the_seed_alone():
    s = TransformerSettings(n=6, ordered=False, train_share=0.5)
    assert len(operation_pairs(s)) == s.pairs == 21
    train, test = operation_splits(s, np.array([4, 5]))
    assert (train.shape, test.shape) == ((2, 10), (2, 11))
    for run in range(2):
        assert sorted([*train[run], *test[run]]) == list(range(21))
    assert_array_equal(operation_splits(s, np.array([5]))[0][0], train[1])


@pytest.mark.parametrize("data", [1, 2, 300])
def test_distinct_sequences_are_those_drawn(data):
    s = SparseSettings(length=4, sparsity=2, vocab=3, data=data, batch=1)
    tokens, counts = distinct_sequences(s, 5, "test")
    drawn = sample_sequences(s, np.array([5]), "test")[0]
    assert_array_equal(
        np.repeat(tokens, counts, axis=0), drawn[np.lexsort(drawn.T[::-1])]
    )
    assert len(np.unique(tokens, axis=0)) == len(tokens)


def test_a_stream_depends_on_seed_and_name_alone():
    alone, among = (
        normal_samples(np.array([7]), "a", (3, 2)),
        normal_samples(np.array([5, 7, 6]), "a", (3, 2)),
    )
    assert_array_equal(alone[0], among[1])
    assert not np.array_equal(alone, normal_samples(np.array([7]), "b", (3, 2)))
    assert not np.array_equal(alone, normal_samples(np.array([8]), "a", (3, 2)))


def test_streams_of_a_seed_are_fixed():
    """Fixed numbers: a change here changes every trajectory, and wants a higher
    numerics_version."""
    expected = [0.30076264407359865, 1.9055891628106287, 0.36722424359316547]
    assert_allclose(
        random_stream(7, "particles/start").standard_normal(3), expected, rtol=1e-15
    )
