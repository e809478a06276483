"""The sentences of VC's panels, listed and made."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from analysis.panels import probe_sequences
from analysis.panels.probe_sequences import (
    PAPER_SEQUENCES,
    evenly_spread_sums,
    make_probe_sequences,
)
from dynamics.settings import SparseSettings


def test_probe_sequences_of_vc():
    two, three = (
        make_probe_sequences(SparseSettings()),
        make_probe_sequences(SparseSettings(vocab=3)),
    )
    assert two.tokens.shape == (40, 12)
    assert three.tokens.shape == (60, 12)
    assert two.names[0] == "00000 0000000"
    assert two.names[-1] == "11011 0110010"
    assert three.names[-1] == "22001 2012012"
    for result, p in ((two, 2), (three, 3)):
        assert_array_equal(result.classes, result.tokens[:, :5].sum(axis=1) % p)
        assert (
            len(PAPER_SEQUENCES[p, 5, 12][0].split())
            == len(result.multiset)
            == result.prefix[-1] + 1
        )
    assert two.multiset.tolist() == [0, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert len(np.unique(three.multiset)) == 8


@pytest.mark.parametrize("p", [2, 3, 4, 5, 7, 10, 11, 50])
@pytest.mark.parametrize(
    ("k", "length"), [(1, 1), (1, 12), (2, 3), (5, 12), (6, 6), (20, 30)]
)
def test_generated_probe_sequences_are_distinct_and_of_all_classes(p, k, length):
    result = make_probe_sequences(SparseSettings(vocab=p, sparsity=k, length=length))
    assert len(result.tokens) <= 60
    assert len(np.unique(result.tokens, axis=0)) == len(result.tokens)
    assert 0 <= result.tokens.min() <= result.tokens.max() < p
    assert_array_equal(result.classes, result.tokens[:, :k].sum(axis=1) % p)
    assert len(np.unique(result.classes)) == (p if p <= 10 else 10)
    assert len(result.names) == len(result.tokens)
    if k > 1 and (p, k, length) not in PAPER_SEQUENCES:
        counts = np.bincount(result.multiset)
        assert counts.max() > 1  # some permutations
        for multiset in range(len(counts)):
            prefixes = [
                result.tokens[result.prefix == i][0, :k]
                for i in np.flatnonzero(result.multiset == multiset)
            ]
            assert len({tuple(sorted(prefix)) for prefix in prefixes}) == 1
            assert len({tuple(prefix) for prefix in prefixes}) == counts[multiset]


def test_prefixes_are_at_the_counting_positions():
    s = SparseSettings(sparsity=3, length=6, positions=(4, 0, 2))
    result, usual = (
        make_probe_sequences(s),
        make_probe_sequences(SparseSettings(sparsity=3, length=6)),
    )
    assert_array_equal(result.tokens[:, [4, 0, 2]], usual.tokens[:, :3])
    assert_array_equal(result.tokens[:, [1, 3, 5]], usual.tokens[:, 3:])
    assert_array_equal(result.classes, usual.classes)


def test_sums_and_suffixes_of_generated_sequences():
    assert evenly_spread_sums(2, 1) == [0, 1]
    assert evenly_spread_sums(4, 1) == [0, 1, 2, 3]
    assert len(evenly_spread_sums(50, 5)) == 10
    assert probe_sequences.concentrated_tokens(7, 4, 5) == [3, 3, 1, 0, 0]
    assert probe_sequences.concentrated_tokens(15, 4, 5) == [3, 3, 3, 3, 3]
    assert probe_sequences.make_suffixes(2, 0).shape == (1, 0)
    assert probe_sequences.make_suffixes(2, 1).shape == (2, 1)
    assert probe_sequences.make_suffixes(5, 9).shape == (4, 9)
    long = make_probe_sequences(SparseSettings(sparsity=2, length=300, vocab=12))
    assert all(len(name) < 100 for name in long.names)
