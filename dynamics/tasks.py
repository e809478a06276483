"""The tasks: addition modulo N over unordered pairs of tokens (CA), and sparse modular addition (VC)."""

import numpy as np

from dynamics import randomness
from dynamics.settings import SettingsError, SparseTask, check_whole


def all_pairs(n: int) -> np.ndarray:
    """All N(N+1)/2 unordered pairs i <= j of tokens, (pair, 2), in the order of CA algorithm 2."""
    check_whole("n", n, 1, 100_000)
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
        chosen[row, randomness.stream(int(seed), "modular/split").permutation(total)[:count]] = True
    return chosen


def sequences(task: SparseTask, seeds: np.ndarray, split: str) -> np.ndarray:
    """Random sequences, (run, sequence, position) int64, drawn uniformly with replacement, from each seed alone.

    split: "train" or "test", each from a stream of its own.
    """
    shape = (task.data, task.length)
    rows = [randomness.stream(int(seed), f"sparse/{split}").integers(0, task.vocab, shape) for seed in seeds]
    return np.stack(rows) if rows else np.empty((0, *shape), np.int64)


def sparse_sum(tokens: np.ndarray, task: SparseTask) -> np.ndarray:
    """The target of each sequence, the sum modulo p at the positions that count: (..., position) -> (...)."""
    return tokens[..., list(task.counting)].sum(axis=-1) % task.vocab


def unseen(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Which test sequences do not occur in the training set: both (run, sequence, position) -> (run, sequence) bool."""
    found = np.empty(test.shape[:2], dtype=bool)
    for run, (known, asked) in enumerate(zip(train, test, strict=True)):
        seen = {row.tobytes() for row in np.ascontiguousarray(known)}
        found[run] = [row.tobytes() not in seen for row in np.ascontiguousarray(asked)]
    return found
