"""Directions of motions of an embedding: their cosine, and their part without shift and
scaling.

Motions are arrays (..., token, axis), treated as flat vectors. All values are
dimensionless."""

from __future__ import annotations

import numpy as np

from analysis.statistics.division import ratio


def cosine_similarity(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine of the angle between two motions.

    Parameters
    ----------
    first, second : arrays, shape (..., token, axis)

    Returns
    -------
    array, shape (...)
        NaN if a motion is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import cosine_similarity
    >>> float(cosine_similarity(np.array([[1.0, 0.0]]), np.array([[3.0, 4.0]])))
    0.6
    """
    a, b = (np.asarray(x, dtype=np.float64) for x in (first, second))
    norms = np.linalg.norm(a, axis=(-2, -1)) * np.linalg.norm(b, axis=(-2, -1))
    return ratio((a * b).sum(axis=(-2, -1)), norms)


def without_shift_and_scaling(motion: np.ndarray, embedding: np.ndarray) -> np.ndarray:
    """The part of a motion that keeps the mean and the spread of the embedding.

    Parameters
    ----------
    motion, embedding : arrays, shape (..., token, axis)

    Returns
    -------
    array, shape (..., token, axis)
        The motion without its mean over tokens and without its component along the
        centred embedding; 0 if only rounding is left.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import without_shift_and_scaling
    >>> x = np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> rotation = np.array([[0.0, 2.0], [0.0, -2.0]])
    >>> np.allclose(without_shift_and_scaling(4 * x + rotation + 7, x), rotation)
    True
    """
    moved = motion - motion.mean(axis=-2, keepdims=True)
    outward = embedding - embedding.mean(axis=-2, keepdims=True)
    size = np.linalg.norm(outward, axis=(-2, -1), keepdims=True)
    outward = ratio(outward, size, 0.0)
    rest = moved - (moved * outward).sum(axis=(-2, -1), keepdims=True) * outward
    # What is left of a mere shift or change of size is rounding.
    least = 1e-13 * np.linalg.norm(motion, axis=(-2, -1), keepdims=True)
    return np.where(
        np.linalg.norm(rest, axis=(-2, -1), keepdims=True) <= least, 0.0, rest
    )
