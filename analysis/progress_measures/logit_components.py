"""Components of the logits of all pairs of numbers modulo N, and the losses of parts of
them.

Logits are arrays (..., a, b, class) over all ordered pairs. Their components of a + b
are the part that depends on the sum s = a + b alone, the mean over a - b, and its
Fourier transform over s. A network that has learned addition by a few key frequencies w
= 2 pi k / N has logits sum_w A_w cos(w (a + b - c)), which are such components (Nanda
et al., arXiv 2301.05217, NA; Zhong et al., arXiv 2306.17844, ZL). Powers are of logits
whose mean over the classes is subtracted, as it does not change the loss. All values
are dimensionless, losses in nats."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from analysis.statistics.division import ratio

KEY_FRACTION = 0.02
"""Power of a key frequency, as a fraction of the largest power."""


def sum_component(logits: np.ndarray) -> np.ndarray:
    """The part of the logits that depends on the sum of the numbers alone.

    Parameters
    ----------
    logits : array, shape (..., a, b, class)

    Returns
    -------
    array, shape (..., sum, class)
        Means over the pairs with a + b = s modulo N.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import sum_component
    >>> a, b = np.indices((3, 3))
    >>> sum_component(((a + b) % 3 + (a - b) % 3)[..., None])[:, 0]
    array([1., 2., 3.])
    """
    n = logits.shape[-2]
    a = np.arange(n)
    total = np.arange(n)[:, None]
    return logits[..., a, (total - a) % n, :].mean(axis=-2)


def sum_frequency_fractions(logits: np.ndarray) -> np.ndarray:
    """The fraction of the variance of the logits in each frequency of a + b.

    Parameters
    ----------
    logits : array, shape (..., a, b, class)

    Returns
    -------
    array, shape (..., frequency)
        At the frequencies 1 to N/2; NaN if the logits are the same for all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import sum_frequency_fractions
    >>> a, b, c = np.indices((5, 5, 5))
    >>> sum_frequency_fractions(np.cos(2 * np.pi * 2 * (a + b - c) / 5)).round(6)
    array([0., 1.])
    """
    centred = logits - logits.mean(axis=-1, keepdims=True)
    variance = centred.var(axis=(-3, -2)).sum(axis=-1)
    n = logits.shape[-2]
    spectrum = np.fft.rfft(sum_component(centred), axis=-2)[..., 1:, :] / n
    both = np.where(
        2 * np.arange(1, n // 2 + 1) == n, 1.0, 2.0
    )  # k and -k, which are the same for N/2
    power = both * (np.abs(spectrum) ** 2).sum(axis=-1)
    variance = np.broadcast_to(variance[..., None], power.shape)
    return ratio(power, variance)


def key_frequencies(
    fractions: np.ndarray, threshold: float = KEY_FRACTION
) -> np.ndarray:
    """Whether each frequency is a key frequency: it has at least `threshold` times the
    largest power.

    Parameters
    ----------
    fractions : array, shape (..., frequency)
        From `sum_frequency_fractions`.
    threshold : float

    Returns
    -------
    array of bool, shape (..., frequency)

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import key_frequencies
    >>> key_frequencies(np.array([0.5, 0.005, 0.2]))
    array([ True, False,  True])
    """
    defined = np.nan_to_num(fractions)
    return (defined >= threshold * defined.max(axis=-1, keepdims=True)) & (defined > 0)


def key_component(component: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The key frequencies of a component (..., sum, class), without its mean: (...,
    sum, class).

    keys (..., frequency) bool.
    """
    n = component.shape[-2]
    spectrum = np.fft.rfft(component, axis=-2)
    weights = np.concatenate([np.zeros_like(keys[..., :1]), keys], axis=-1)
    return np.fft.irfft(spectrum * weights[..., None], n, axis=-2)


def restricted_loss(logits: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The loss of all pairs by the mean logits and the key frequencies of a + b alone
    (NA).

    Parameters
    ----------
    logits : array, shape (..., a, b, class)
    keys : array of bool, shape (..., frequency)
        The key frequencies among 1 to N/2.

    Returns
    -------
    array, shape (...)

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import restricted_loss
    >>> a, b, c = np.indices((5, 5, 5))
    >>> logits = np.cos(2 * np.pi * (a + b - c) / 5)
    >>> float(restricted_loss(logits, np.array([False, True]))), float(np.log(5))
    (1.609, 1.609)
    """
    component = sum_component(logits)
    restricted = component.mean(axis=-2, keepdims=True) + key_component(component, keys)
    correct = np.arange(logits.shape[-1])
    return -log_softmax(restricted, axis=-1)[..., correct, correct].mean(axis=-1)


def excluded_loss(
    logits: np.ndarray, keys: np.ndarray, pairs: np.ndarray
) -> np.ndarray:
    """The loss of the training pairs by the logits without the key frequencies of a + b
    (NA).

    Parameters
    ----------
    logits : array, shape (..., a, b, class)
    keys : array of bool, shape (..., frequency)
        The key frequencies among 1 to N/2.
    pairs : array, shape (pair, 2)
        The training pairs.

    Returns
    -------
    array, shape (...)

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import excluded_loss
    >>> a, b, c = np.indices((5, 5, 5))
    >>> logits = np.cos(2 * np.pi * (a + b - c) / 5)
    >>> float(excluded_loss(logits, np.array([True, False]), np.array([[0, 1], [2, 2]]))), float(np.log(5))
    (1.609, 1.609)
    """
    first, second = pairs.T
    total = (first + second) % logits.shape[-1]
    rest = (
        logits[..., first, second, :]
        - key_component(sum_component(logits), keys)[..., total, :]
    )
    return -log_softmax(rest, axis=-1)[..., np.arange(len(pairs)), total].mean(axis=-1)


def distance_irrelevance(logits: np.ndarray) -> np.ndarray:
    """How little the correct logit depends on the difference a - b: 0 for a pizza, near
    1 for a clock (ZL).

    The correct logits are arranged by a + b and a - b. The result is their standard
    deviation along a + b, averaged over a - b, divided by that of the whole array.

    Parameters
    ----------
    logits : array, shape (..., a, b, class)

    Returns
    -------
    array, shape (...)
        NaN for an even N, for which a + b and a - b do not determine a and b, and if
        all correct logits are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.progress_measures import distance_irrelevance
    >>> a, b, c = np.indices((7, 7, 7))
    >>> pizza = abs(np.cos(np.pi * (a - b) / 7)) * np.cos(2 * np.pi * (a + b - c) / 7)
    >>> float(distance_irrelevance(pizza).round(6))
    0.0
    """
    n = logits.shape[-1]
    if n % 2 == 0:
        return np.full(logits.shape[:-3], np.nan)
    total = np.arange(n)[:, None]
    difference = np.arange(n)
    half = (n + 1) // 2  # 1/2 modulo N
    correct = logits[
        ..., (total + difference) * half % n, (total - difference) * half % n, total
    ]
    whole = correct.std(axis=(-2, -1))
    along = correct.std(axis=-2).mean(axis=-1)
    varies = whole > 1e-12 * np.abs(correct).max(axis=(-2, -1))
    return np.divide(along, whole, out=np.full(np.shape(whole), np.nan), where=varies)
