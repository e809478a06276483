"""Named streams of random numbers. A stream depends only on its seed and its name, not
on other streams."""

import hashlib

import numpy as np


def random_stream(seed: int, name: str) -> np.random.Generator:
    """Return a random generator that depends only on a seed and a name: NumPy's
    counter-based Philox.

    Parameters
    ----------
    seed : int
        Seed of a run, at least 0. It is one half of the 128-bit key.
    name : str
        Name of the stream, such as "langevin/17" for step 17. Its SHA-256 gives the
        other half of the key.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> from dynamics import random_stream
    >>> random_stream(7, "particles/start").standard_normal(2)
    array([0.30076264, 1.90558916])
    """
    word = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    return np.random.Generator(
        np.random.Philox(key=np.array([seed, word], dtype=np.uint64))
    )


def normal_samples(seeds: np.ndarray, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers, (run, *shape) float64: row r depends on seeds[r] and the
    name alone."""
    rows = [random_stream(int(seed), name).standard_normal(shape) for seed in seeds]
    return np.stack(rows) if rows else np.empty((0, *shape))


def uniform_samples(seeds: np.ndarray, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers uniform in [-1, 1), (run, *shape) float64: row r depends on seeds[r] and
    the name alone."""
    rows = [2 * random_stream(int(seed), name).random(shape) - 1 for seed in seeds]
    return np.stack(rows) if rows else np.empty((0, *shape))
