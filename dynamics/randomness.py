"""Named streams of random numbers: the same seed and name give the same numbers, whatever else is drawn."""

import hashlib

import numpy as np


def random_stream(seed: int, name: str) -> np.random.Generator:
    """NumPy's counter-based Philox, keyed by the seed (64 bits) and a hash of the stream's name (64 bits)."""
    word = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    return np.random.Generator(np.random.Philox(key=np.array([seed, word], dtype=np.uint64)))


def normal_samples(seeds: np.ndarray, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers, (run, *shape) float64: row r depends on seeds[r] and the name alone."""
    rows = [random_stream(int(seed), name).standard_normal(shape) for seed in seeds]
    return np.stack(rows) if rows else np.empty((0, *shape))


def uniform_samples(seeds: np.ndarray, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers uniform in [-1, 1), (run, *shape) float64: row r depends on seeds[r] and the name alone."""
    rows = [2 * random_stream(int(seed), name).random(shape) - 1 for seed in seeds]
    return np.stack(rows) if rows else np.empty((0, *shape))
