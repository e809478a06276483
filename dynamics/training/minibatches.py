"""The order in which an epoch goes through its data: sorted by one integer hash of (seed, epoch, index).

All arithmetic is that of 64-bit integers that wrap around, the same in NumPy and in torch on any device, so that a run
sees the same batches wherever and beside whatever it is trained. The hash is the finaliser of SplitMix64 (Steele, Lea,
Flood 2014), applied once for each of the three numbers.
"""

from typing import Any

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def _mix_bits(x: Any) -> Any:
    """A bijection of 64-bit integers in which every bit depends on every other."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST  # masked, since >> keeps the sign
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def shuffle_keys(seed: Any, epoch: Any, index: Any, bits: int) -> Any:
    """What an epoch's order is sorted by: the hash, with the index in its last `bits` bits; not negative.

    seed, epoch and index are arrays, or tensors, of int64 that broadcast.
    """
    word = _mix_bits(_mix_bits(_mix_bits(seed) + epoch * _GOLDEN) + index * _GOLDEN)
    return (((word >> (bits + 1)) & ((1 << (63 - bits)) - 1)) << bits) | index


def index_bits(n: int) -> int:
    """Bits in which every index below n can be written."""
    return max(1, (n - 1).bit_length())


def epoch_orders(seeds: np.ndarray, epoch: int, n: int) -> np.ndarray:
    """The order of n data in an epoch, from 0, of runs by their seeds: (run, n) int64."""
    bits = index_bits(n)
    keys = shuffle_keys(np.asarray(seeds, np.int64)[:, None], np.full((1, 1), epoch), np.arange(n), bits)
    keys.sort(axis=1)
    return keys & ((1 << bits) - 1)
