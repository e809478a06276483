r"""Forces between pair sums in any dimension, as products of matrices (token, token)
with the embedding.

A force on a pair sum x_ij = x_i + x_j by x_km that is a function of distances and
angles times x_ij - x_km or x_km is a combination of embedding vectors. Summed onto the
tokens it is M E, with the embedding E (token, axis). M depends on the products x_i .
x_j alone, so that its cost does not grow with the dimension, and no kernel is compiled
for each dimension as in `dynamics.particles.pair_forces`. The fields are

- the four fields of CA in the order of `FIELD_NAMES`, equations 2-4;
- optionally the basis of a general pair law: piecewise linear functions of log r times
  (x_ij - x_km) / r, for pairs with equal and with different modular sums, and step
  functions of the cosine of x_ij and x_km times x_km / \|x_km\|, for both.

Distances in the basis are in units of the root mean square distance of two pair sums.
Pair sums are coincident below 1e-6 of their length; they neither attract nor repel each
other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from analysis.statistics.division import ratio
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.particles import (
    ForceFields,
    PairList,
    ParticleSystem,
    force_fields,
    group_pairs,
)
from dynamics.particles.fast_forces import fast_force_fields
from dynamics.particles.pair_forces import (
    ATTRACTION,
    LIKE_ALIGNMENT,
    REPULSION,
    UNLIKE_ALIGNMENT,
)
from dynamics.settings import (
    BalanceRule,
    ParticleSettings,
    SettingsError,
)
from dynamics.tasks import all_pairs

DISTANCES = np.geomspace(0.05, 3, 16)
"""Knots of the functions of the distance; outside of them the functions are
constant."""
ANGLES = 8
"""Number of steps of the functions of the cosine, from -1 to 1; 0 is the border of two
steps."""
ANGLE_CENTRES = (np.arange(ANGLES) + 0.5) * 2 / ANGLES - 1
BASIS = {
    "like": len(DISTANCES),
    "unlike": len(DISTANCES),
    "like_alignment": ANGLES,
    "unlike_alignment": ANGLES,
}
"""The functions of a pair law, in the order of their basis, with the number of basis
functions of each."""

_COMPILED = 4
"""Largest dimension for which the fields of CA are computed by the kernels of the
particles."""
_COINCIDENT = 1e-12
"""Squared distance, relative to the squared lengths, up to which two pair sums are
coincident."""


@kernel_function
def _add_between(row, total, field, k, m, weight):
    """Add weight (x_ij - x_km) to the force on x_ij, whose factor of x_ij is total and
    of the tokens is row."""
    total[field] += weight
    row[field, k] -= weight
    row[field, m] -= weight


@kernel_function
def _add_radial(row, total, magnitude, unlike, k, m, squared, knots):
    """Add attraction or repulsion by x_km at a squared distance and, if there are
    knots, the basis of both."""
    distance = np.sqrt(squared)
    radial = len(knots)
    _add_between(row, total, unlike, k, m, 1 / squared if unlike else -1 / distance)
    magnitude[unlike] += 1 / distance if unlike else 1.0
    if radial:
        place = min(
            max(np.log(distance / knots[0]) / np.log(knots[1] / knots[0]), 0.0),
            radial - 1.0,
        )
        knot = min(int(place), radial - 2)
        first = 4 + unlike * radial + knot
        later = (place - knot) / distance
        _add_between(row, total, first, k, m, 1 / distance - later)
        _add_between(row, total, first + 1, k, m, later)


@kernel_function
def _add_aligned(row, magnitude, unlike, k, m, product, lengths, radial, angles):
    """Add the alignment with x_km and, if there are knots, its basis. lengths: of x_ij
    and x_km."""
    unit = 1 / lengths[1]
    if product > 0:
        magnitude[2 + unlike] += 1
        row[2 + unlike, k] += -unit if unlike else unit
        row[2 + unlike, m] += -unit if unlike else unit
    if radial:
        step = int(np.floor((product / (lengths[0] * lengths[1]) + 1) / 2 * angles))
        field = 4 + 2 * radial + unlike * angles + min(max(step, 0), angles - 1)
        row[field, k] += unit
        row[field, m] += unit


@cached_kernel()
def _force_matrices(gram, first, second, residue, start, stop, knots, angles):
    """Matrices (field, token, token) and magnitudes (4,) from the products of embedding
    vectors, (token, token).

    residue: the modular sum of each pair. Pair ij is acted on by the pairs start[ij] to
    stop[ij] - 1. knots, angles: of the basis; without knots it is left out."""
    n = len(gram)
    count = len(first)
    radial = len(knots)
    matrices = np.zeros((4 + (2 * (radial + angles) if radial else 0), n, n))
    row = np.empty((len(matrices), n))
    total = np.empty(len(matrices))
    magnitude = np.zeros(4)
    square = np.empty(count)
    for k in range(count):
        square[k] = (
            gram[first[k], first[k]]
            + gram[second[k], second[k]]
            + 2 * gram[first[k], second[k]]
        )
    for ij in range(count):
        i, j = first[ij], second[ij]
        row[:] = 0.0
        total[:] = 0.0
        for km in range(start[ij], stop[ij]):
            if km == ij:
                continue
            k, m, unlike = first[km], second[km], int(residue[ij] != residue[km])
            product = gram[i, k] + gram[i, m] + gram[j, k] + gram[j, m]
            both = square[ij] + square[km]
            if both - 2 * product > _COINCIDENT * both:
                _add_radial(
                    row, total, magnitude, unlike, k, m, both - 2 * product, knots
                )
            if square[ij] > 0 and square[km] > 0:
                lengths = (np.sqrt(square[ij]), np.sqrt(square[km]))
                _add_aligned(
                    row, magnitude, unlike, k, m, product, lengths, radial, angles
                )
        for field in range(len(matrices)):
            for token in (i, j):  # a pair of equal tokens acts twice on it
                matrices[field, token] += row[field]
                matrices[field, token, i] += total[field]
                matrices[field, token, j] += total[field]
    return matrices, magnitude


def fields_by_matrices(
    embedding: np.ndarray, pairs: np.ndarray, basis: bool = False
) -> ForceFields:
    """The four fields of CA, and with `basis` also those of a general pair law, on
    embeddings (..., token, axis).

    pairs: (pair, 2). The basis is that of `BASIS`.
    """
    count = len(pairs)
    residue = pairs.sum(axis=1) % embedding.shape[-2]
    return _sum_by_matrices(
        embedding, pairs, residue, np.zeros(count, int), np.full(count, count), basis
    )


def _sum_by_matrices(
    embedding: np.ndarray,
    pairs: np.ndarray,
    residue: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    basis: bool = False,
) -> ForceFields:
    """The fields on embeddings (..., token, axis) by `_force_matrices`."""
    x = np.asarray(embedding, np.float64)
    first, second = (np.ascontiguousarray(pairs[:, end], np.int64) for end in range(2))
    knots = DISTANCES if basis else np.empty(0)
    forces = []
    magnitudes = []
    for frame in x.reshape(-1, *x.shape[-2:]):
        size = pair_sum_distance(frame, pairs) or 1.0
        gram = frame @ frame.T / size**2
        matrices, magnitude = _force_matrices(
            gram, first, second, residue, start, stop, knots, ANGLES
        )
        force = matrices @ frame / size
        for item in (force, magnitude):
            item[REPULSION] /= (
                size  # the only one of the four fields that depends on the unit of length
            )
        forces.append(force)
        magnitudes.append(magnitude)
    shape = x.shape[:-2]
    return ForceFields(
        np.moveaxis(np.stack(forces), 1, 0).reshape(-1, *x.shape),
        np.stack(magnitudes, axis=1).reshape(4, *shape),
    )


def _fields_within_classes(
    embedding: np.ndarray, pairs: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """Attraction, repulsion and alignment by the other pairs of the same class, (3,
    ..., token, axis)."""
    residue = numbers[pairs].sum(axis=1) % len(numbers)
    order = np.argsort(residue, kind="stable")
    residue, pairs = residue[order], pairs[order]
    bounds = (np.searchsorted(residue, residue, side) for side in ("left", "right"))
    start, stop = (bound.astype(np.int64) for bound in bounds)
    like = _sum_by_matrices(embedding, pairs, residue, start, stop).force
    unlike = _sum_by_matrices(
        embedding, pairs, np.arange(len(pairs)), start, stop
    ).force
    return np.stack([like[ATTRACTION], unlike[REPULSION], like[LIKE_ALIGNMENT]])


def pair_sum_distance(embedding: np.ndarray, pairs: np.ndarray) -> float:
    """The root mean square distance of two pair sums of an embedding (token, axis)."""
    sums = embedding[pairs].sum(axis=1)
    return float(np.sqrt(2 * ((sums - sums.mean(axis=0)) ** 2).sum(axis=1).mean()))


def four_fields(embedding: np.ndarray, pairs: np.ndarray) -> ForceFields:
    """The four fields of CA on embeddings (..., token, axis), by fast sums where
    particles have them by default."""
    n, dim = embedding.shape[-2:]
    if dim > _COMPILED:
        return fields_by_matrices(embedding, pairs)
    grouped = group_pairs(n, pairs)
    if ParticleSettings(n=n, dim=dim).uses_mesh:
        return fast_force_fields(embedding, grouped, ParticleSettings.accuracy)
    return force_fields(embedding, grouped)


def fields_with_renamed_tokens(
    embedding: np.ndarray,
    pairs: np.ndarray,
    fields: np.ndarray,
    renamings: Sequence[np.ndarray],
) -> Iterator[np.ndarray]:
    """The four fields (field, ..., token, axis) if token i had the number names[i], for
    each of the renamings.

    pairs (pair, 2) are of true numbers, fields those of `four_fields`. With matrices,
    only the part by pairs of the same class is computed again; the rest is the
    difference from what all pairs do."""
    n, dim = embedding.shape[-2:]
    if dim <= _COMPILED:
        for names in renamings:
            renamed = np.empty_like(embedding)
            renamed[..., names, :] = embedding
            yield four_fields(renamed, names[pairs]).force[..., names, :]
        return
    repelled = (
        fields[REPULSION] + _fields_within_classes(embedding, pairs, np.arange(n))[1]
    )
    aligned = fields[LIKE_ALIGNMENT] - fields[UNLIKE_ALIGNMENT]
    for names in renamings:
        attraction, repulsion, alignment = _fields_within_classes(
            embedding, pairs, names
        )
        yield np.stack(
            [attraction, repelled - repulsion, alignment, alignment - aligned]
        )


def law_force(
    embedding: np.ndarray, pairs: np.ndarray, law: ParticleSettings, fields: ForceFields
) -> np.ndarray:
    """The particle force of a law with its constants and balance, (step, token, axis),
    from the `four_fields`.

    Of the law, n and dim are not used.
    """
    n, dim = embedding.shape[-2:]
    if dim <= _COMPILED:
        return ParticleSystem(
            dataclasses.replace(law, n=n, dim=dim), pairs=pairs
        ).force(embedding)[0]
    if law.diagonal != "twice":
        raise SettingsError(
            "diagonal", law.diagonal, f"twice in more than {_COMPILED} dimensions"
        )
    force, magnitude = fields
    repulsion, alignment = (
        weight[:, None, None]
        for weight in balance_weights(magnitude, group_pairs(n, pairs), law)
    )
    attracted = law.ga * force[ATTRACTION] + law.gr * repulsion * force[REPULSION]
    return attracted + law.fa * (
        force[LIKE_ALIGNMENT] + alignment * force[UNLIKE_ALIGNMENT]
    )


def simulate_in_any_dimension(
    positions: np.ndarray, law: ParticleSettings, steps: int
) -> np.ndarray:
    """Move particles under all pair forces, as `dynamics.simulate` does in up to 64
    dimensions.

    Parameters
    ----------
    positions : array, shape (token, axis)
        Initial positions; they are normalised first.
    law : ParticleSettings
        Constants, balance and step size; its n, dim and start are not used.
    steps : int

    Returns
    -------
    array, shape (token, axis)
        The positions after the last step, with mean zero and standard deviation 1.

    Raises
    ------
    SettingsError
        For other rules of the step or of the normalisation than the default.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import simulate_in_any_dimension
    >>> from dynamics import ParticleSettings
    >>> simulate_in_any_dimension(np.eye(5, 100), ParticleSettings(), 2).shape
    (5, 100)
    """
    for name in ("step_rule", "variance"):
        if getattr(law, name) != getattr(ParticleSettings, name):
            raise SettingsError(
                name,
                getattr(law, name),
                f"{getattr(ParticleSettings, name)} in any dimension",
            )
    pairs = all_pairs(len(positions))
    law = dataclasses.replace(law, start="random", start_step=0)
    x = _normalise(positions)
    for _ in range(steps):
        force = law_force(x[None], pairs, law, four_fields(x[None], pairs))[0]
        x = _normalise(x + law.step_size * force)
    return x


def _normalise(positions: np.ndarray) -> np.ndarray:
    centred = positions - positions.mean(axis=0)
    return centred / centred.std()


def balance_weights(
    magnitude: np.ndarray, pairs: PairList, law: ParticleSettings
) -> tuple[np.ndarray, np.ndarray]:
    """The weights of repulsion and of unlike alignment in a law, each (step,), from the
    magnitudes (4, step)."""
    repulsion = _balance_weight(
        law.repulsion_balance, magnitude[[ATTRACTION, REPULSION]], pairs
    )
    return repulsion, _balance_weight(
        law.alignment_balance, magnitude[[LIKE_ALIGNMENT, UNLIKE_ALIGNMENT]], pairs
    )


def _balance_weight(
    rule: BalanceRule, magnitude: np.ndarray, pairs: PairList
) -> np.ndarray:
    """Weight of an unlike field, (step,), from the magnitudes (2, step) of the like and
    the unlike field."""
    like, unlike = {
        "magnitude": magnitude,
        "count": np.array([[pairs.like], [pairs.unlike]]) + 0 * magnitude,
        "none": np.ones_like(magnitude),
    }[rule]
    return ratio(like, unlike, 0.0)
