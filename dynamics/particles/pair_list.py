"""Lists of pairs of tokens, grouped by modular sum as the force kernels need them."""

from typing import NamedTuple

import numpy as np

from dynamics.kernels.simd import LANES_64
from dynamics.settings import SettingsError
from dynamics.tasks import all_pairs, modular_sum


class PairList(NamedTuple):
    """Pairs of tokens grouped by modular sum, in the form that compiled kernels take.
    Created by `group_pairs`."""

    n: int
    """Modulus N."""
    first: np.ndarray
    """(pair,) The smaller token of each pair; pairs are sorted by class and keep their
    order within a class."""
    second: np.ndarray
    """(pair,) The larger token of each pair."""
    bounds: np.ndarray
    """(class + 1,) Index of the first pair of each class."""
    groups: np.ndarray
    """(group, 2) Class and index of the first pair, for each group of up to eight pairs
    of a class."""
    twice: bool
    """Whether the force on the pair sum of (i, i) acts twice on particle i."""
    like: int
    """Number of unordered pairs of pairs with equal modular sum."""
    unlike: int
    """Number of unordered pairs of pairs with different modular sums."""


def group_pairs(
    n: int, pairs: np.ndarray | None = None, twice: bool = True
) -> PairList:
    """Group pairs of tokens by their modular sum.

    Parameters
    ----------
    n : int
        Modulus N; tokens are 0 to N - 1.
    pairs : array_like of int, optional
        Pairs of tokens, (pair, 2), each at most once; the order within a pair does not
        matter. By default all N(N + 1)/2 pairs i <= j.
    twice : bool, optional
        Whether the force on the pair sum of (i, i) acts twice on particle i (default),
        or once.

    Returns
    -------
    PairList

    Raises
    ------
    SettingsError
        If `pairs` has a wrong shape or type, contains a token outside 0 to N - 1, or a
        pair more than once.

    Examples
    --------
    >>> pairs = group_pairs(3)
    >>> # sums modulo 3: 0, 0, 1, 1, 2, 2
    >>> list(zip(pairs.first.tolist(), pairs.second.tolist()))
    [(0, 0), (1, 2), (0, 1), (2, 2), (0, 2), (1, 1)]
    >>> pairs.like, pairs.unlike
    (3, 12)
    """
    pairs = all_pairs(n) if pairs is None else np.asarray(pairs)
    if pairs.size == 0:
        pairs = np.empty((0, 2), dtype=np.int64)
    if (
        pairs.ndim != 2
        or pairs.shape[1] != 2
        or not np.issubdtype(pairs.dtype, np.integer)
    ):
        raise SettingsError(
            "pairs", f"{pairs.dtype} {pairs.shape}", "integers of shape (pair, 2)"
        )
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < n:
        raise SettingsError(
            "pairs", f"tokens {pairs.min()}..{pairs.max()}", f"tokens from 0 to {n - 1}"
        )
    pairs = np.sort(pairs.astype(np.int64), axis=1)
    if len(np.unique(pairs, axis=0)) != len(pairs):
        raise SettingsError("pairs", "a pair more than once", "each pair once")
    residue = modular_sum(pairs, n)
    pairs = pairs[np.argsort(residue, kind="stable")]
    size = np.bincount(residue, minlength=n)
    bounds = np.concatenate([[0], np.cumsum(size)])
    groups = [
        (c, start)
        for c in range(n)
        for start in range(bounds[c], bounds[c + 1], LANES_64)
    ]
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
