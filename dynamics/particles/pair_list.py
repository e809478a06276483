"""Lists of pairs of tokens, grouped by modular sum as the force kernels take them."""

from typing import NamedTuple

import numpy as np

from dynamics.kernels.simd import LANES_64
from dynamics.settings import SettingsError
from dynamics.tasks import all_pairs, modular_sum


class PairList(NamedTuple):
    """Pairs of tokens grouped by modular sum; compiled kernels take it as it is. From `pair_list`."""

    n: int
    first: np.ndarray  # (pair,) smaller token of each pair, by class, within a class in the order given
    second: np.ndarray  # (pair,)
    bounds: np.ndarray  # (class + 1,) where each class begins
    groups: np.ndarray  # (group, 2) class and first pair of every eight pairs of one class
    twice: bool  # whether a pair (i, i) moves particle i twice
    like: int  # unordered pairs of pairs of equal modular sum
    unlike: int  # and of different


def group_pairs(n: int, pairs: np.ndarray | None = None, twice: bool = True) -> PairList:
    """Group pairs (pair, 2) of tokens below n, all i <= j by default, by their modular sum.

    The order of a pair's two tokens does not matter; a pair given twice is an error. Raises SettingsError.
    """
    pairs = all_pairs(n) if pairs is None else np.asarray(pairs)
    if pairs.size == 0:
        pairs = np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise SettingsError("pairs", f"{pairs.dtype} {pairs.shape}", "whole numbers of shape (pair, 2)")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < n:
        raise SettingsError("pairs", f"tokens {pairs.min()}..{pairs.max()}", f"tokens from 0 to {n - 1}")
    pairs = np.sort(pairs.astype(np.int64), axis=1)
    if len(np.unique(pairs, axis=0)) != len(pairs):
        raise SettingsError("pairs", "a pair more than once", "each pair once")
    residue = modular_sum(pairs, n)
    pairs = pairs[np.argsort(residue, kind="stable")]
    size = np.bincount(residue, minlength=n)
    bounds = np.concatenate([[0], np.cumsum(size)])
    groups = [(c, start) for c in range(n) for start in range(bounds[c], bounds[c + 1], LANES_64)]
    like = int((size * (size - 1) // 2).sum())
    return PairList(
        n=n,
        first=np.ascontiguousarray(pairs[:, 0]),
        second=np.ascontiguousarray(pairs[:, 1]),
        bounds=bounds.astype(np.int64),
        groups=np.array(groups, dtype=np.int64).reshape(-1, 2),
        twice=twice,
        like=like,
        unlike=len(pairs) * (len(pairs) - 1) // 2 - like,
    )
