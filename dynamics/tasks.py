"""The tasks: addition modulo N over unordered pairs of tokens (CA), and sparse modular addition (VC)."""

import math
from typing import NamedTuple

import numpy as np

from dynamics import randomness
from dynamics.settings import SettingsError, SparseSettings, check_integer


def all_pairs(n: int) -> np.ndarray:
    """All N(N+1)/2 unordered pairs i <= j of tokens, (pair, 2), in the order of CA algorithm 2."""
    check_integer("n", n, 1, 100_000)
    return np.stack(np.triu_indices(n), axis=-1)


def modular_sum(pairs: np.ndarray, n: int) -> np.ndarray:
    """(i + j) mod N of each pair: (..., 2) -> (...)."""
    return (pairs[..., 0] + pairs[..., 1]) % n


def training_pairs(n: int, count: int, seeds: np.ndarray) -> np.ndarray:
    """Which of `all_pairs(n)` each run trains on, (run, pair) bool: `count` of them at random, from its seed alone.

    Raises SettingsError.
    """
    total = n * (n + 1) // 2
    if not 1 <= count <= total:
        raise SettingsError("count", count, f"from 1 to the {total} pairs there are")
    chosen = np.zeros((len(seeds), total), dtype=bool)
    for row, seed in enumerate(seeds):
        chosen[row, randomness.random_stream(int(seed), "modular/split").permutation(total)[:count]] = True
    return chosen


def sample_sequences(s: SparseSettings, seeds: np.ndarray, split: str) -> np.ndarray:
    """Random sequences, (run, sequence, position) int16, drawn uniformly with replacement, from each seed alone.

    split: "train" or "test", each from a stream of its own.
    """
    shape = (s.data, s.length)
    drawn = np.empty((len(seeds), *shape), np.int16)
    for run, seed in enumerate(seeds):
        drawn[run] = randomness.random_stream(int(seed), f"sparse/{split}").integers(0, s.vocab, shape)
    return drawn


def distinct_sequences(s: SparseSettings, seed: int, split: str) -> tuple[np.ndarray, np.ndarray]:
    """A run's sequences, each once, (sequence, position) int64, and how often each was drawn, (sequence,)."""
    tokens, counts = np.unique(sample_sequences(s, np.array([seed]), split)[0], axis=0, return_counts=True)
    return tokens.astype(np.int64), counts


def sparse_sum(tokens: np.ndarray, s: SparseSettings) -> np.ndarray:
    """The target of each sequence, the sum modulo p at the positions that count: (..., position) -> (...)."""
    return tokens[..., list(s.counting)].sum(axis=-1, dtype=np.int64) % s.vocab


def unseen_mask(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Which test sequences do not occur in the training set: both (run, sequence, position) -> (run, sequence) bool."""
    return np.stack([~np.isin(_as_items(asked), _as_items(known)) for known, asked in zip(train, test, strict=True)])


def sparse_splits(s: SparseSettings) -> tuple[str, ...]:
    """Names of the splits: unseen only where at least 20 test sequences are expected not to occur in training."""
    left_out = s.data * math.exp(s.data * math.log1p(-(float(s.vocab) ** -s.length)))
    return ("train", "test", "unseen") if left_out >= 20 else ("train", "test")


class EvaluationSequences(NamedTuple):
    """Sequences by which runs are judged, each once, and how often they occur in each split."""

    tokens: np.ndarray  # (run, sequence, position) int16; runs with fewer than others have some that do not occur
    targets: np.ndarray  # (run, sequence) int16
    counts: np.ndarray  # (run, sequence, split) float32, exact


def evaluation_sequences(s: SparseSettings, train: np.ndarray, test: np.ndarray) -> EvaluationSequences:
    """The distinct sequences of both splits: (run, sequence, position) each. Raises SettingsError."""
    kept, runs = sparse_splits(s), []
    for known, asked in zip(train, test, strict=True):
        both = np.concatenate([known, asked])
        _, first, place = np.unique(_as_items(both), return_index=True, return_inverse=True)
        counts = [np.bincount(each, minlength=len(first)) for each in (place[: s.data], place[s.data :])]
        counts.append(np.where(counts[0] == 0, counts[1], 0))
        if len(kept) == 3 and not counts[2].any():
            raise SettingsError("data", s.data, "a number of sequences that leaves some unseen")
        runs.append((both[first], np.stack(counts[: len(kept)], axis=-1)))
    most = max((len(tokens) for tokens, _ in runs), default=0)
    tokens = np.zeros((len(runs), most, s.length), np.int16)
    counted = np.zeros((len(runs), most, len(kept)), np.float32)
    for run, (found, often) in enumerate(runs):
        tokens[run, : len(found)], counted[run, : len(found)] = found, often
    return EvaluationSequences(tokens, sparse_sum(tokens, s).astype(np.int16), counted)


def _as_items(rows: np.ndarray) -> np.ndarray:
    """Rows (row, number) as single items that can be compared: (row,)."""
    rows = np.ascontiguousarray(rows, np.int16)
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
