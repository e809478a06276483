"""Alignment of hidden weights and pair sums (CA section 5.2), each measure with its
chance level.

Array functions take, with any leading axes, pair sums (..., pair, axis) E_i + E_j,
usually of the training pairs as in the paper, and hidden weights (..., hidden, axis)
with biases (..., hidden); they return a `MeasureWithChance` of arrays (...). All values
are dimensionless. They are invariant under a common rotation of embeddings and weights,
within the accuracy of the random directions.

If many pair sums surround the origin, every direction is near some pair sum: with N =
17 tokens on a circle no direction is farther than 5.3 degrees from one. Nearness is
therefore expressed as a rank: the fraction of uniformly random directions that are less
near, with ties counted half. The rank is between 0 and 1, and its mean for weights of
random direction is 0.5, for any embeddings, dimension and number of units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from analysis.statistics.division import ratio
from dynamics import randomness
from dynamics.tasks import modular_sum

DIRECTIONS = 4096
"""Number of random directions among which a nearness is ranked."""
ROTATIONS = 50
"""Number of random rotations of the weights for a chance level."""

PERMUTATIONS = 50
"""Number of permutations of the tokens for a chance level."""

DEAD_NORM_FRACTION = 1e-6
"""A unit whose weights have a norm of at most this fraction of the largest one of its
layer is dead."""
COSINE_TOLERANCE = 1e-12
"""Cosines that differ by less are equal."""


class MeasureWithChance(NamedTuple):
    """A measure of each frame and its chance level: (...) and (...)."""

    value: np.ndarray
    chance: np.ndarray


def embedding_pair_sums(embedding: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Pair sums E_i + E_j.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)
    pairs : array of int, shape (..., pair, 2)
        Token numbers i, j; of each frame or for all frames.

    Returns
    -------
    array, shape (..., pair, axis)

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import embedding_pair_sums
    >>> embedding_pair_sums(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0, 0], [0, 1]]))
    array([[2., 0.],
           [1., 1.]])
    """
    x = np.asarray(embedding, dtype=np.float64)
    index = np.broadcast_to(pairs, (*x.shape[:-2], *np.shape(pairs)[-2:]))
    first, second = index[..., 0][..., None], index[..., 1][..., None]
    return np.take_along_axis(x, first, axis=-2) + np.take_along_axis(
        x, second, axis=-2
    )


# ------------------------------------------------------------------------- hidden units


def unit_norm_fractions(
    sums: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """Norm of each living unit's weights over the sum of these norms: (..., hidden), 0
    for dead units.

    A unit is dead if it is active at no pair sum or its weights are negligible. NaN if
    all units are dead."""
    w = np.asarray(weight, dtype=np.float64)
    active = (
        sums @ np.swapaxes(w, -1, -2) + np.asarray(bias, dtype=np.float64)[..., None, :]
        > 0
    ).any(axis=-2)
    norm = np.linalg.norm(w, axis=-1)
    fraction = np.where(
        active & (norm > DEAD_NORM_FRACTION * norm.max(axis=-1, keepdims=True)),
        norm,
        0.0,
    )
    total = fraction.sum(axis=-1, keepdims=True)
    return ratio(fraction, total)


def weight_alignment(
    sums: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> MeasureWithChance:
    """Rank of the hidden weights' nearness to the directions of pair sums, among random
    directions.

    The nearness of a unit is the cosine between its weights and the pair sum nearest in
    direction. The value is the mean rank over living units, weighted by the norms of
    their weights. A value near 1 means that all weights point at a pair sum ("the
    weight vectors of the linear layer will tend to align with the pair sums", CA
    section 5.2), 0.5 is expected by chance, and a value near 0 means that all weights
    point midway between pair sums. The chance level is the mean over random rotations
    of all weights together, which preserve the angles between them.

    Parameters
    ----------
    sums : array, shape (..., pair, axis)
        Pair sums, from `embedding_pair_sums`.
    weight, bias : arrays, shapes (..., hidden, axis) and (..., hidden)

    Returns
    -------
    MeasureWithChance
        Two arrays (...); NaN without living units or without pair sums off the origin.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import weight_alignment
    >>> sums = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> bool(weight_alignment(sums, 3 * sums, np.zeros(2)).value > 0.999)
    True
    """
    return _ranked(lambda cosines: cosines.max(axis=-1), sums, weight, bias)


def boundary_alignment(
    sums: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> MeasureWithChance:
    """Rank of the nearness of the units' boundaries to pair sums, among random
    boundaries.

    Like `weight_alignment`, but for the hyperplane through the origin beyond which a
    unit without bias is active (CA section 5.2 takes the bias as zero): nearness is the
    smallest angle between it and a pair sum. A value near 1 means that every boundary
    passes through a pair sum. With one axis all boundaries are the origin, and the
    value is 0.5. The pair sums of a circle are on N lines at angles pi/N. For odd N,
    weights whose boundary is one of these lines therefore point midway between two
    others and have the least alignment.

    Parameters
    ----------
    sums, weight, bias : arrays
        As for `weight_alignment`.

    Returns
    -------
    MeasureWithChance
        Two arrays (...).

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import boundary_alignment
    >>> bool(boundary_alignment(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.ones(1)).value > 0.99)
    True
    """
    return _ranked(lambda cosines: -np.abs(cosines).min(axis=-1), sums, weight, bias)


def _ranked(
    nearness: Callable[[np.ndarray], np.ndarray],
    sums: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
) -> MeasureWithChance:
    """Mean rank of the nearness of the weights and of randomly rotated weights, over
    units weighted by their norms."""
    dim = np.shape(weight)[-1]
    reference = random_directions(dim)
    rotations = random_orthogonal_matrices(dim)
    result = np.full((*np.shape(weight)[:-2], 1 + ROTATIONS), np.nan)
    for frame, vectors, fraction, targets in _living_units(sums, weight, bias):
        every = np.concatenate(
            [vectors[None], vectors @ rotations]
        )  # (1 + rotation, unit, axis)
        rank = fraction_below(
            nearness(every @ targets.T), nearness(reference @ targets.T)
        )
        result[frame] = rank @ fraction
    return MeasureWithChance(result[..., 0], result[..., 1:].mean(axis=-1))


def weight_angles(
    sums: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> MeasureWithChance:
    """Mean angle, in degrees, between a unit's weights and the pair sum nearest in
    direction; NaN without living units.

    Units are weighted by the norms of their weights. The chance level is the mean over
    random directions."""
    return _mean_angles(
        lambda cosines: np.arccos(cosines.max(axis=-1).clip(-1, 1)), sums, weight, bias
    )


def boundary_angles(
    sums: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> MeasureWithChance:
    """Like `weight_angles`, the angle between a unit's boundary, without its bias, and
    the nearest pair sum."""
    return _mean_angles(
        lambda cosines: np.arcsin(np.abs(cosines).min(axis=-1).clip(0, 1)),
        sums,
        weight,
        bias,
    )


def _mean_angles(
    angle: Callable[[np.ndarray], np.ndarray],
    sums: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
) -> MeasureWithChance:
    result = np.full((2, *np.shape(weight)[:-2]), np.nan)
    reference = random_directions(np.shape(weight)[-1])
    for frame, vectors, fraction, targets in _living_units(sums, weight, bias):
        result[(0, *frame)] = angle(vectors @ targets.T) @ fraction
        result[(1, *frame)] = angle(reference @ targets.T).mean()
    return MeasureWithChance(*np.degrees(result))


def _living_units(
    sums: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> Iterator[tuple[tuple[int, ...], np.ndarray, np.ndarray, np.ndarray]]:
    """Each frame that has some: its index, directions and norm fractions of living
    units, directions of pair sums."""
    fractions = unit_norm_fractions(sums, weight, bias)
    for frame in np.ndindex(*fractions.shape[:-1]):
        used = fractions[frame] > 0  # False where it is NaN
        targets = _directions(sums[frame])
        if used.any() and len(targets):
            yield (
                frame,
                _directions(np.asarray(weight, np.float64)[frame][used]),
                fractions[frame][used],
                targets,
            )


def fraction_below(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Fraction of a reference (number,) below each value, with ties counted half: (...)
    -> (...)."""
    ordered = np.sort(reference)
    below = np.searchsorted(ordered, values - COSINE_TOLERANCE, side="left")
    not_above = np.searchsorted(ordered, values + COSINE_TOLERANCE, side="right")
    return (below + not_above) / (2 * len(ordered))


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors along those of vectors (number, axis) that are not at the origin:
    (up to number, axis)."""
    norm = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(norm > 0, norm, 1.0))[norm[:, 0] > 0]


def random_directions(dim: int) -> np.ndarray:
    """Unit vectors of uniformly random direction, always the same: (DIRECTIONS,
    axis)."""
    generator = randomness.random_stream(0, f"alignment/directions/{dim}")
    return _directions(generator.standard_normal((DIRECTIONS, dim)))


def random_orthogonal_matrices(dim: int) -> np.ndarray:
    """Uniformly random orthogonal matrices, always the same: (ROTATIONS, axis,
    axis)."""
    generator = randomness.random_stream(0, f"alignment/turns/{dim}")
    q, r = np.linalg.qr(generator.standard_normal((ROTATIONS, dim, dim)))
    return q * np.sign(np.einsum("tii->ti", r))[:, None, :]


# ---------------------------------------------------------------------------- pair sums


def pair_sum_collinearity(
    embedding: np.ndarray, pairs: np.ndarray
) -> MeasureWithChance:
    """Fraction of the pair sums' variance along one line through the origin for each
    class; 1 if all are on it.

    The value is the fraction of the summed squared norms of the pair sums along the
    first principal direction of their class, without centring. For circles the pair
    sums are "aligned along lines that pass through the origin" (CA section 5.2). The
    value is at least 1/D. The chance level is the mean over random permutations of the
    tokens' numbers; a permutation of the classes among the pairs would give too high a
    level, since pairs of one class have no token in common.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)
    pairs : array of int, shape (..., pair, 2)

    Returns
    -------
    MeasureWithChance
        Two arrays (...); NaN if all pair sums are at the origin.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import pair_sum_collinearity
    >>> from dynamics import all_pairs
    >>> angle = 2 * np.pi * np.arange(7) / 7
    >>> circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    >>> round(float(pair_sum_collinearity(circle, all_pairs(7)).value), 6)
    1.0
    """
    sums = embedding_pair_sums(embedding, pairs)
    n = np.shape(embedding)[-2]
    generator = randomness.random_stream(0, "alignment/labels")
    numbers = [generator.permutation(n) for _ in range(PERMUTATIONS)]
    permuted = [
        _along_class_lines(sums, modular_sum(number[pairs], n), n) for number in numbers
    ]
    return MeasureWithChance(
        _along_class_lines(sums, modular_sum(pairs, n), n), np.mean(permuted, axis=0)
    )


def _along_class_lines(sums: np.ndarray, residue: np.ndarray, n: int) -> np.ndarray:
    belongs = (residue[..., None] == np.arange(n)).astype(
        np.float64
    )  # (..., pair, class)
    dim = sums.shape[-1]
    products = (sums[..., :, None] * sums[..., None, :]).reshape(
        *sums.shape[:-1], dim * dim
    )
    spread = (np.swapaxes(belongs, -1, -2) @ products).reshape(
        *sums.shape[:-2], n, dim, dim
    )
    along = np.linalg.eigvalsh(spread)[..., -1].sum(axis=-1)
    total = np.einsum("...cii->...", spread)
    return ratio(along, total)
