"""The order of the training data in each epoch: indices sorted by an integer hash of
(seed, epoch, index).

The hash uses 64-bit integer arithmetic with wrap-around, which is the same in NumPy and
in torch on every device. So a run has the same mini-batches on every device and in
every ensemble. The hash is the finaliser of SplitMix64 (Steele, Lea and Flood 2014),
applied once for each of the three numbers."""

import math
from typing import Any

import numpy as np

from dynamics.system import EpochClock

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def mix_bits(x: Any) -> Any:
    """A bijection of 64-bit integers in which every output bit depends on every input
    bit."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST  # masked, since >> keeps the sign
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def shuffle_keys(seed: Any, epoch: Any, index: Any, bits: int) -> Any:
    """Keys that sort the data into the order of an epoch: the hash with the index in
    its last `bits` bits, >= 0.

    seed, epoch and index: arrays or tensors of int64 that broadcast.
    """
    word = mix_bits(mix_bits(mix_bits(seed) + epoch * _GOLDEN) + index * _GOLDEN)
    return (((word >> (bits + 1)) & ((1 << (63 - bits)) - 1)) << bits) | index


def index_bits(n: int) -> int:
    """The number of bits of the largest index below n."""
    return max(1, (n - 1).bit_length())


def epoch_orders(seeds: np.ndarray, epoch: int, n: int) -> np.ndarray:
    """Return the order in which runs visit their training data in one epoch.

    Parameters
    ----------
    seeds : array_like of int
        Seed of each run, (run,).
    epoch : int
        Epoch, counted from 0.
    n : int
        Number of training examples.

    Returns
    -------
    numpy.ndarray
        A permutation of 0 to n - 1 for each run, (run, n) int64. It depends on the seed
        and the epoch alone.

    Examples
    --------
    >>> epoch_orders([0, 1], epoch=0, n=5).shape
    (2, 5)
    >>> bool((epoch_orders([0, 1], epoch=3, n=5)[1] == epoch_orders([1], epoch=3, n=5)[0]).all())
    True
    """
    bits = index_bits(n)
    keys = shuffle_keys(
        np.asarray(seeds, np.int64)[:, None], np.full((1, 1), epoch), np.arange(n), bits
    )
    keys.sort(axis=1)
    return keys & ((1 << bits) - 1)


def epoch_and_batch(epoch_steps: int, clock: EpochClock, step: int) -> tuple[int, int]:
    """The epoch of update step + 1, and the index of its mini-batch in that epoch."""
    epochs, batch = divmod(step - clock.step, epoch_steps)
    return math.ceil(clock.epoch) + epochs, batch
