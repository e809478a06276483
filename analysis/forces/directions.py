"""Directions of motions of an embedding: how far two agree, and what is left without shift and change of size.

Motions are (..., token, axis), taken as vectors of all their numbers. All values are dimensionless.
"""

import numpy as np


def cosine_similarity(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine between two (..., token, axis), taken as vectors: (...), NaN where one is 0."""
    a, b = (np.asarray(x, dtype=np.float64) for x in (first, second))
    norms = np.linalg.norm(a, axis=(-2, -1)) * np.linalg.norm(b, axis=(-2, -1))
    return np.divide((a * b).sum(axis=(-2, -1)), norms, out=np.full(norms.shape, np.nan), where=norms > 0)


def without_shift_and_scaling(motion: np.ndarray, embedding: np.ndarray) -> np.ndarray:
    """What is left of a motion (..., token, axis) of an embedding without shift and without change of spread."""

    def centred(x):
        return x - x.mean(axis=-2, keepdims=True)

    moved, outward = centred(motion), centred(embedding)
    size = np.linalg.norm(outward, axis=(-2, -1), keepdims=True)
    outward = np.divide(outward, size, out=np.zeros_like(outward), where=size > 0)
    return moved - (moved * outward).sum(axis=(-2, -1), keepdims=True) * outward
