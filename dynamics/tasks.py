"""The task of CA: addition modulo N over unordered pairs of tokens."""

import numpy as np

from dynamics.settings import check_whole


def all_pairs(n: int) -> np.ndarray:
    """All N(N+1)/2 unordered pairs i <= j of tokens, (pair, 2), in the order of CA algorithm 2."""
    check_whole("n", n, 1, 100_000)
    return np.stack(np.triu_indices(n), axis=-1)


def modular_sum(pairs: np.ndarray, n: int) -> np.ndarray:
    """(i + j) mod N of each pair: (..., 2) -> (...)."""
    return (pairs[..., 0] + pairs[..., 1]) % n
