"""The task of CA: addition modulo N over unordered pairs of tokens."""

import numpy as np

from dynamics import randomness
from dynamics.settings import SettingsError, check_whole


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
