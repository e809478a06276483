"""Input sequences of VC's task that panels show: prefixes, which determine the class,
each with several suffixes.

For p = 2 and 3, k = 5 and L = 12 they are those of VC's panels. For other tasks they
are constructed as follows. Integer sums are spread evenly from 0 to k (p - 1): as many
as there are classes, but at least 6 and at most 10, each shifted to the nearest sum of
the next class (with more than 10 classes, of every n-th class). Each sum gives up to
four prefixes: the sum divided as equally as possible among k tokens, the larger ones
first; its reverse, which is a permutation; the sum concentrated in as few tokens as
possible, which is another multiset; and its reverse. The first 15 distinct prefixes are
kept. The suffixes are all 0, all p - 1, and two pseudo-random ones. Thus there are at
most 60 sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.settings import SparseSettings
from dynamics.tasks import sparse_sum

_MAX_PREFIXES = 15
_MIN_SUMS = 6
_MAX_SUMS = 10
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_MAX_NAME_TOKENS = 24
"""Largest number of tokens of a prefix or suffix in a name; further tokens are
abbreviated."""

PAPER_SEQUENCES: dict[tuple[int, int, int], tuple[str, str]] = {
    (2, 5, 12): (
        "00000 11111 00001 00100 00011 01100 00111 01101 01111 11011",
        "0000000 1111111 1001001 0110010",
    ),
    (3, 5, 12): (
        (
            "00000 10000 11000 21000 21100 21110 00201 00211 10211 10110 10210 10220"
            " 11001 12001 22001"
        ),
        "1201201 1021021 0120120 2012012",
    ),
}
"""Prefixes and suffixes of VC's panels, by p, k and L."""


class ProbeSequences(NamedTuple):
    """Sequences ordered by prefix, with their prefixes, classes and names."""

    tokens: np.ndarray  # (sequence, position) int64
    prefix: np.ndarray  # (sequence,) index of its prefix
    multiset: (
        np.ndarray
    )  # (prefix,) index of its multiset of tokens; permutations have the same
    classes: np.ndarray  # (sequence,) correct class
    names: tuple[str, ...]  # prefix and suffix in digits


def _sequences_in_digits(text: str) -> np.ndarray:
    """Sequences (sequence, position) from words of digits."""
    return np.array([list(map(int, word)) for word in text.split()])


def make_probe_sequences(s: SparseSettings) -> ProbeSequences:
    """Sequences of a task: each prefix, on the relevant positions, with each suffix, on
    the others."""
    listed = PAPER_SEQUENCES.get((s.vocab, s.sparsity, s.length))
    if listed:
        prefixes = _sequences_in_digits(listed[0])
        suffixes = _sequences_in_digits(listed[1])
    else:
        prefixes = _make_prefixes(s.vocab, s.sparsity)
        suffixes = make_suffixes(s.vocab, s.length - s.sparsity)
    prefix, suffix = (
        index.ravel() for index in np.indices((len(prefixes), len(suffixes)))
    )
    relevant = list(s.counting)
    others = [position for position in range(s.length) if position not in relevant]
    tokens = np.empty((len(prefix), s.length), np.int64)
    tokens[:, relevant] = prefixes[prefix]
    tokens[:, others] = suffixes[suffix]
    numbers: dict[tuple[int, ...], int] = {}
    multiset = np.array(
        [
            numbers.setdefault(tuple(sorted(item)), len(numbers))
            for item in prefixes.tolist()
        ]
    )
    parts = [
        [_token_string(item, s.vocab) for item in some] for some in (prefixes, suffixes)
    ]
    names = tuple(
        f"{parts[0][i]} {parts[1][j]}".strip()
        for i, j in zip(prefix, suffix, strict=True)
    )
    return ProbeSequences(
        tokens, prefix, multiset, np.asarray(sparse_sum(tokens, s)), names
    )


def _token_string(tokens: np.ndarray, vocab: int) -> str:
    """Tokens as digits, or separated by commas where some have two digits; long ones
    abbreviated."""
    words = [str(token) for token in tokens[:_MAX_NAME_TOKENS]]
    return ("" if vocab <= 10 else ",").join(words) + (
        "…" if len(tokens) > _MAX_NAME_TOKENS else ""
    )


def _make_prefixes(vocab: int, count: int) -> np.ndarray:
    """Up to 15 distinct prefixes (prefix, position) of `count` tokens."""
    sums = evenly_spread_sums(vocab, count)
    equal = []
    for total in sums:  # tokens as equal as possible, the larger ones first
        item, remainder = divmod(total, count)
        equal.append([item + 1] * remainder + [item] * (count - remainder))
    concentrated = [concentrated_tokens(total, vocab, count) for total in sums]
    result = (
        equal
        + [item[::-1] for item in equal]
        + [one for item in concentrated for one in (item, item[::-1])]
    )
    return np.array(list(dict.fromkeys(map(tuple, result)))[:_MAX_PREFIXES], np.int64)


def evenly_spread_sums(vocab: int, count: int) -> list[int]:
    """Integer sums of `count` tokens, evenly spaced from 0 to the largest, which cycle
    through the classes."""
    largest = count * (vocab - 1)
    number = min(max(_MIN_SUMS, min(vocab, _MAX_SUMS)), largest + 1)
    result: list[int] = []
    for index in range(number):
        target = index * largest / max(1, number - 1)
        residue = index % vocab if number >= vocab else index * vocab // number
        nearest = residue + vocab * round((target - residue) / vocab)
        candidates = (
            nearest + vocab * sign
            for distance in range(_MAX_SUMS)
            for sign in (distance, -distance)
        )
        result += next(
            (
                [total]
                for total in candidates
                if 0 <= total <= largest and total not in result
            ),
            [],
        )
    return sorted(result)


def concentrated_tokens(total: int, vocab: int, count: int) -> list[int]:
    """`count` tokens of a given sum, as few as possible of them nonzero."""
    full, remainder = divmod(total, vocab - 1)
    return ([vocab - 1] * full + [remainder] * (full < count) + [0] * count)[:count]


def make_suffixes(vocab: int, count: int) -> np.ndarray:
    """Up to 4 distinct suffixes (suffix, position) of `count` tokens; a single empty
    one where count is 0."""
    random = (np.arange(1, count + 1) * _GOLDEN_RATIO % 1 * vocab).astype(np.int64)
    rows = np.stack(
        [
            np.zeros(count, np.int64),
            np.full(count, vocab - 1),
            random,
            vocab - 1 - random,
        ]
    )
    return np.array(list(dict.fromkeys(map(tuple, rows.tolist()))), np.int64)
