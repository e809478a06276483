"""Similarity of representations, and their dimension.

With X (example, feature), centred, linear CKA of X and Y is |X^T Y|^2 / (|X^T X| |Y^T
Y|) in Frobenius norms (Kornblith, Norouzi, Lee and Hinton 2019, arXiv 1905.00414), and
the participation ratio of X is (tr C)^2 / tr C^2 with the covariance C of the features
(Gao et al. 2017, bioRxiv 214262)."""

import numpy as np

from analysis.statistics.division import ratio


def linear_cka(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Linear centred kernel alignment of representations of the same examples.

    Parameters
    ----------
    first, second : arrays, shape (..., example, feature)
        Leading axes broadcast; numbers of features may differ.

    Returns
    -------
    array, shape (...)
        From 0 to 1, dimensionless; NaN if all examples are in one point.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    >>> round(float(linear_cka(x, 3 * x[:, ::-1] + 2)), 6)
    1.0
    """
    x, y = _unit_gram(first), _unit_gram(second)
    return (x * y).sum(axis=(-2, -1))


def participation_ratio(points: np.ndarray) -> np.ndarray:
    """The effective number of directions of a representation.

    Parameters
    ----------
    points : array, shape (..., example, feature)

    Returns
    -------
    array, shape (...)
        At least 1, dimensionless; NaN if all examples are in one point.

    Examples
    --------
    >>> round(float(participation_ratio(np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))), 6)
    2.0
    """
    gram = _unit_gram(points)
    return np.trace(gram, axis1=-2, axis2=-1) ** 2


def _unit_gram(points: np.ndarray) -> np.ndarray:
    """Inner products of the centred examples, (..., example, example), with Frobenius
    norm 1."""
    x = np.asarray(points, np.float64)
    x = x - x.mean(axis=-2, keepdims=True)
    gram = x @ np.swapaxes(x, -1, -2)
    norms = np.linalg.norm(gram, axis=(-2, -1), keepdims=True)
    return ratio(gram, norms)
