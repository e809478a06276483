"""How hidden weights and pair sums lie to each other (CA section 5.2), each measure beside its chance level.

Array functions take, with any leading axes, pair sums (..., pair, axis) E_i + E_j, usually of the training
pairs as in the paper, and hidden weights (..., hidden, axis) with biases (..., hidden); they give `Measured`
arrays (...). All values are dimensionless. To turn embeddings and weights together changes nothing, within
the accuracy of the random directions.

Where many pair sums surround the origin, every direction is near some pair sum: with N = 17 tokens on a
circle no direction is farther than 5.3 degrees from one. So a nearness is stated as a rank: the share of
uniformly random directions that are less near, equally near ones counted half. It is 0 to 1, and 0.5 on
average for weights of random direction, whatever the embeddings, the dimension and the number of units.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics import randomness
from dynamics.tasks import modular_sum

DIRECTIONS, TURNS, PERMUTATIONS = 4096, 50, 50
"""Random directions that a nearness is ranked among; turns, and permutations of the tokens, of a chance level."""
DEAD_NORM_FRACTION = 1e-6
"""A unit is dead if its weights' norm is no more than this share of the largest one of its layer."""
COSINE_TOLERANCE = 1e-12
"""Cosines that differ by less are equally near."""


class MeasureWithChance(NamedTuple):
    """A measure of each frame, and what chance alone gives for it: (...) and (...)."""

    value: np.ndarray
    chance: np.ndarray


def embedding_pair_sums(embedding: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """E_i + E_j of pairs (..., pair, 2): embedding (..., token, axis) -> (..., pair, axis)."""
    x = np.asarray(embedding, dtype=np.float64)
    index = np.broadcast_to(pairs, (*x.shape[:-2], *np.shape(pairs)[-2:]))
    first, second = index[..., 0][..., None], index[..., 1][..., None]
    return np.take_along_axis(x, first, axis=-2) + np.take_along_axis(x, second, axis=-2)


# ----------------------------------------------------------------------------------------------- hidden units


def unit_norm_fractions(sums: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Each unit's share of the summed norms of the living units' weights: (..., hidden), 0 for dead units.

    A unit is dead if it is active at no pair sum or has next to no weights. NaN where none is alive.
    """
    w = np.asarray(weight, dtype=np.float64)
    active = (sums @ np.swapaxes(w, -1, -2) + np.asarray(bias, dtype=np.float64)[..., None, :] > 0).any(axis=-2)
    norm = np.linalg.norm(w, axis=-1)
    share = np.where(active & (norm > DEAD_NORM_FRACTION * norm.max(axis=-1, keepdims=True)), norm, 0.0)
    total = share.sum(axis=-1, keepdims=True)
    return np.divide(share, total, out=np.full(share.shape, np.nan), where=total > 0)


def weight_alignment(sums: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> MeasureWithChance:
    """How much nearer the hidden weights point at pair sums than random directions do: (...) each.

    Nearness of a unit is the cosine between its weights and the pair sum nearest in direction, ranked as the
    module says; the value is the mean rank over living units, weighted by the norms of their weights, so that
    units that fade away do so smoothly. Nearly 1: all weights point at a pair sum ("the weight vectors of
    the linear layer will tend to align with the pair sums", CA 5.2); 0.5: chance; nearly 0: all lie midway
    between pair sums. Chance is the mean over random turns of all weights together, which keeps how they lie
    to one another. NaN without living units or without pair sums off the origin.
    """
    return _ranked(lambda cosines: cosines.max(axis=-1), sums, weight, bias)


def boundary_alignment(sums: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> MeasureWithChance:
    """How much nearer to a pair sum the units' boundaries pass than random ones do: (...) each.

    As `alignment`, but of the hyperplane through the origin on which a unit without bias begins to be
    active (CA 5.2 takes the bias as zero): nearness is the smallest angle between it and a pair sum. Nearly
    1: every boundary passes through a pair sum. With one axis all boundaries are the origin, and it is 0.5.
    The pair sums of a circle lie on N lines pi/N apart, so if N is odd, weights whose boundary is on one of
    these lines point midway between two others, and are as far from alignment as they can be.
    """
    return _ranked(lambda cosines: -np.abs(cosines).min(axis=-1), sums, weight, bias)


def _ranked(
    nearness: Callable[[np.ndarray], np.ndarray], sums: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> MeasureWithChance:
    """Mean rank, over units by their shares, of the weights' nearness and of that of turned weights."""
    share = unit_norm_fractions(sums, weight, bias)
    lead, dim = share.shape[:-1], np.shape(weight)[-1]
    reference, turns = random_directions(dim), random_orthogonal_matrices(dim)
    found = np.full((*lead, 1 + TURNS), np.nan)
    for frame in np.ndindex(*lead):
        used = share[frame] > 0  # none where it is NaN
        targets = _directions(sums[frame])
        if not used.any() or not len(targets):
            continue
        vectors = _directions(np.asarray(weight, dtype=np.float64)[frame][used])
        every = np.concatenate([vectors[None], vectors @ turns])  # (1 + turn, unit, axis)
        rank = fraction_below(nearness(every @ targets.T), nearness(reference @ targets.T))
        found[frame] = rank @ share[frame][used]
    return MeasureWithChance(found[..., 0], found[..., 1:].mean(axis=-1))


def fraction_below(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Share of a reference (number,) below each value, equal ones counted half: (...) -> (...)."""
    ordered = np.sort(reference)
    below = np.searchsorted(ordered, values - COSINE_TOLERANCE, side="left")
    not_above = np.searchsorted(ordered, values + COSINE_TOLERANCE, side="right")
    return (below + not_above) / (2 * len(ordered))


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors along those of vectors (number, axis) that are not at the origin: (up to number, axis)."""
    norm = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(norm > 0, norm, 1.0))[norm[:, 0] > 0]


def random_directions(dim: int) -> np.ndarray:
    """Unit vectors of uniformly random direction, always the same: (DIRECTIONS, axis)."""
    return _directions(randomness.random_stream(0, f"alignment/directions/{dim}").standard_normal((DIRECTIONS, dim)))


def random_orthogonal_matrices(dim: int) -> np.ndarray:
    """Uniformly random orthogonal matrices, always the same: (TURNS, axis, axis)."""
    q, r = np.linalg.qr(randomness.random_stream(0, f"alignment/turns/{dim}").standard_normal((TURNS, dim, dim)))
    return q * np.sign(np.einsum("tii->ti", r))[:, None, :]


# ----------------------------------------------------------------------------------------------- pair sums


def pair_sum_collinearity(embedding: np.ndarray, pairs: np.ndarray) -> MeasureWithChance:
    """How far the pair sums of a class lie on one line through the origin: (...) each, 1 if all do.

    embedding (..., token, axis), pairs (..., pair, 2). Of the summed squared norms of pair sums, the share
    along their own class's first principal direction, taken without centring. For circles the pair sums are
    "aligned along lines that pass through the origin" (CA 5.2). It is at least 1/D. Chance is its mean over
    random permutations of the tokens' numbers; labels permuted among the pairs would give too much, as pairs
    of a class share no token, whose sums are alike. NaN if all pair sums are at the origin.
    """
    sums, n = embedding_pair_sums(embedding, pairs), np.shape(embedding)[-2]
    generator = randomness.random_stream(0, "alignment/labels")
    numbers = [generator.permutation(n) for _ in range(PERMUTATIONS)]
    permuted = [_along_class_lines(sums, modular_sum(number[pairs], n), n) for number in numbers]
    return MeasureWithChance(_along_class_lines(sums, modular_sum(pairs, n), n), np.mean(permuted, axis=0))


def _along_class_lines(sums: np.ndarray, residue: np.ndarray, n: int) -> np.ndarray:
    belongs = (residue[..., None] == np.arange(n)).astype(np.float64)  # (..., pair, class)
    dim = sums.shape[-1]
    products = (sums[..., :, None] * sums[..., None, :]).reshape(*sums.shape[:-1], dim * dim)
    spread = (np.swapaxes(belongs, -1, -2) @ products).reshape(*sums.shape[:-2], n, dim, dim)
    along = np.linalg.eigvalsh(spread)[..., -1].sum(axis=-1)
    total = np.einsum("...cii->...", spread)
    return np.divide(along, total, out=np.full(np.shape(total), np.nan), where=total > 0)
