"""Sentences that panels show of VC's task: prefixes, which say the class, each with several suffixes, which do not.

For p = 2 and 3, k = 5 and L = 12 they are those of VC's panels. Otherwise they are made, by this rule. Whole-number
sums are taken evenly from 0 to k (p - 1), as many as there are classes but 6 to 10 of them, each the nearest that is
of the next class (of 10 classes where there are more). A sum is spread over k tokens as evenly as can be, larger ones
first; then the same in reverse, which is a permutation; then in as few tokens as can be, which is another multiset,
and that in reverse: up to 15 prefixes. Suffixes are all 0, all p - 1, and two that look random: up to 4, so that there
are 60 sentences at most.
"""

from typing import NamedTuple

import numpy as np

from dynamics.settings import SparseSettings
from dynamics.tasks import sparse_sum

PREFIXES, FEWEST_SUMS, MOST_SUMS = 15, 6, 10
GOLDEN = (5**0.5 - 1) / 2
LONGEST = 24
"""Tokens of a sentence that its name has."""

PAPER_SEQUENCES: dict[tuple[int, int, int], tuple[str, str]] = {
    (2, 5, 12): (
        "00000 11111 00001 00100 00011 01100 00111 01101 01111 11011",
        "0000000 1111111 1001001 0110010",
    ),
    (3, 5, 12): (
        "00000 10000 11000 21000 21100 21110 00201 00211 10211 10110 10210 10220 11001 12001 22001",
        "1201201 1021021 0120120 2012012",
    ),
}
"""Prefixes and suffixes of VC's panels, by p, k and L."""


class ProbeSequences(NamedTuple):
    """Sentences in the order of their prefixes, and what they have in common."""

    tokens: np.ndarray  # (sentence, position) int64
    prefix: np.ndarray  # (sentence,) which prefix, from 0
    multiset: np.ndarray  # (prefix,) which multiset of tokens a prefix has, from 0; permutations share it
    classes: np.ndarray  # (sentence,) the right answer
    names: tuple[str, ...]  # prefix and suffix in digits


def make_probe_sequences(s: SparseSettings) -> ProbeSequences:
    """The sentences of a task: each prefix, on the positions that count, with each suffix, on the others."""
    rest = s.length - s.sparsity
    listed = PAPER_SEQUENCES.get((s.vocab, s.sparsity, s.length))
    if listed:
        prefixes, suffixes = (np.array([list(map(int, word)) for word in words.split()]) for words in listed)
    else:
        prefixes, suffixes = _make_prefixes(s.vocab, s.sparsity), make_suffixes(s.vocab, rest)
    prefix, suffix = (each.ravel() for each in np.indices((len(prefixes), len(suffixes))))
    counting = list(s.counting)
    others = [position for position in range(s.length) if position not in set(counting)]
    tokens = np.empty((len(prefix), s.length), np.int64)
    tokens[:, counting], tokens[:, others] = prefixes[prefix], suffixes[suffix]
    numbers: dict[tuple[int, ...], int] = {}
    multiset = np.array([numbers.setdefault(tuple(sorted(each)), len(numbers)) for each in prefixes.tolist()])
    names = tuple(
        " ".join(filter(None, (_sequence_name(prefixes[i], s.vocab), _sequence_name(suffixes[j], s.vocab))))
        for i, j in zip(prefix, suffix, strict=True)
    )
    return ProbeSequences(tokens, prefix, multiset, np.asarray(sparse_sum(tokens, s)), names)


def _sequence_name(tokens: np.ndarray, vocab: int) -> str:
    """Tokens as digits, or with commas where they have more than one digit; the first ones of many."""
    shown = [str(token) for token in tokens[:LONGEST]]
    return ("" if vocab <= 10 else ",").join(shown) + ("…" if len(tokens) > LONGEST else "")


def _make_prefixes(vocab: int, count: int) -> np.ndarray:
    """Up to 15 different prefixes (prefix, position) of `count` tokens, by the rule above."""
    sums = evenly_spread_sums(vocab, count)
    spread = [_equal_tokens(total, vocab, count) for total in sums]
    few = [concentrated_tokens(total, vocab, count) for total in sums]
    found = spread + [each[::-1] for each in spread] + [turned for each in few for turned in (each, each[::-1])]
    return np.array(list(dict.fromkeys(map(tuple, found)))[:PREFIXES], np.int64)


def evenly_spread_sums(vocab: int, count: int) -> list[int]:
    """Whole-number sums from 0 to the largest, evenly, so that classes, or some of many, take turns."""
    largest = count * (vocab - 1)
    wanted = min(max(FEWEST_SUMS, min(vocab, MOST_SUMS)), largest + 1)
    found: list[int] = []
    for place in range(wanted):
        target = place * largest / max(1, wanted - 1)
        of_class = place % vocab if wanted >= vocab else place * vocab // wanted
        nearest = of_class + vocab * round((target - of_class) / vocab)
        around = (nearest + vocab * turn for away in range(MOST_SUMS) for turn in (away, -away))
        found += next(([total] for total in around if 0 <= total <= largest and total not in found), [])
    return sorted(found)


def _equal_tokens(total: int, vocab: int, count: int) -> list[int]:
    """A sum in `count` tokens that are as equal as can be, larger ones first."""
    each, more = divmod(total, count)
    return [each + 1] * more + [each] * (count - more)


def concentrated_tokens(total: int, vocab: int, count: int) -> list[int]:
    """A sum in `count` tokens of which as few as can be are not 0."""
    full, rest = divmod(total, vocab - 1)
    return ([vocab - 1] * full + [rest] * (full < count) + [0] * count)[:count]


def make_suffixes(vocab: int, count: int) -> np.ndarray:
    """Up to 4 different suffixes (suffix, position) of `count` tokens, by the rule above; one if they have none."""
    looks_random = (np.arange(1, count + 1) * GOLDEN % 1 * vocab).astype(np.int64)
    rows = np.stack([np.zeros(count, np.int64), np.full(count, vocab - 1), looks_random, vocab - 1 - looks_random])
    return np.array(list(dict.fromkeys(map(tuple, rows.tolist()))), np.int64)
