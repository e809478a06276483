"""Fourier components of weights over the numbers modulo N, and how unequal their norms
are. All values are dimensionless."""

from __future__ import annotations

import numpy as np

from analysis.statistics.division import ratio
from analysis.structures.fourier import power_fractions

COMPONENTS = 4
"""Principal components whose circularity is averaged (ZL)."""


def fourier_norms(table: np.ndarray) -> np.ndarray:
    """Norms of the Fourier components of a table over its rows (Nanda et al., arXiv
    2301.05217).

    Parameters
    ----------
    table : array, shape (..., row, axis)
        A row for each number modulo N: an embedding, or the neuron-logit map.

    Returns
    -------
    array, shape (..., frequency)
        At the frequencies 1 to N/2, cosine and sine together. The sum of their squares
        is that of the centred table.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import fourier_norms
    >>> angle = 2 * np.pi * 2 * np.arange(5) / 5
    >>> fourier_norms(np.stack([np.cos(angle), np.sin(angle)], axis=-1)).round(3)
    array([0.   , 2.236])
    """
    n = table.shape[-2]
    spectrum = np.fft.rfft(np.asarray(table, np.float64), axis=-2)[..., 1:, :]
    both = np.where(
        2 * np.arange(1, n // 2 + 1) == n, 1.0, 2.0
    )  # k and -k, which are the same for N/2
    return np.sqrt(both / n * (np.abs(spectrum) ** 2).sum(axis=-1))


def gini_coefficient(values: np.ndarray) -> np.ndarray:
    """The Gini coefficient: 0 for equal values, 1 - 1/m if one of m values has the
    whole sum.

    Parameters
    ----------
    values : array, shape (..., value)
        At least 0.

    Returns
    -------
    array, shape (...)
        NaN if all values are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import gini_coefficient
    >>> gini_coefficient(np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 3.0, 0.0]]))
    array([0.  , 0.75])
    """
    ordered = np.sort(values, axis=-1)
    m = ordered.shape[-1]
    whole = ordered.sum(axis=-1)
    weighted = ((2 * np.arange(1, m + 1) - m - 1) * ordered).sum(axis=-1)
    return ratio(weighted, m * whole)


def component_circularity(embedding: np.ndarray) -> np.ndarray:
    """The circularity of Zhong et al. (arXiv 2306.17844): how far each principal
    component is of one frequency.

    The largest fraction of a component's power in one frequency, averaged over the
    first four principal components of the embedding. `analysis.structures.circularity`
    is that of CA, a ratio of norms.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)

    Returns
    -------
    array, shape (...)
        At most 1, which every embedding on circles has. Of an embedding with fewer than
        four dimensions, the mean over its components; NaN if all tokens are in one
        point.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import component_circularity
    >>> angle = 2 * np.pi * 2 * np.arange(7) / 7
    >>> float(component_circularity(np.stack([np.cos(angle), np.sin(angle)], axis=-1)).round(6))
    1.0
    """
    x = np.asarray(embedding, np.float64)
    left, size, _ = np.linalg.svd(
        x - x.mean(axis=-2, keepdims=True), full_matrices=False
    )
    nonzero = (size > 1e-9 * size[..., :1]) & (size > 0)
    nonzero = nonzero[..., :COMPONENTS]
    components = np.swapaxes(left[..., :COMPONENTS], -1, -2)[
        ..., None
    ]  # (..., component, token, 1)
    largest = np.where(nonzero, power_fractions(components).max(axis=-1), 0.0)
    count = nonzero.sum(axis=-1)
    return ratio(largest.sum(axis=-1), count)
