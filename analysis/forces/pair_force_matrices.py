r"""Forces between pair sums in any dimension, as products of matrices (token, token)
with the embedding.

A force on a pair sum x_ij = x_i + x_j by x_km that is a function of distances and
angles times x_ij - x_km or x_km is a combination of embedding vectors. Summed onto the
tokens it is M E, with the embedding E (token, axis). M depends on the products x_i .
x_j alone, so that its cost does not grow with the dimension, and no kernel is compiled
for each dimension as in `dynamics.particles.pair_forces`. The fields are

- those of the forces of a law (`dynamics.forces`);
- optionally the basis of a general pair law: piecewise linear functions of log r times
  (x_ij - x_km) / r, for pairs with equal and with different modular sums, and step
  functions of the cosine of x_ij and x_km times x_km / \|x_km\|, for both.

Distances in the basis are in units of the root mean square distance of two pair sums.
Pair sums are coincident below 1e-6 of their length; there is no force along their
difference."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics import strengths
from dynamics.forces import CA, Force, bare_forces
from dynamics.kernels import lane_functions
from dynamics.kernels.compiling import (
    cached_kernel,
    kernel_function,
    variant_function,
)
from dynamics.particles import (
    ForceFields,
    ParticleSystem,
    check_moves_as_particles,
    force_fields,
    group_pairs,
    known_law,
)
from dynamics.particles.fast_forces import fast_force_fields
from dynamics.particles.integrator import field_weights
from dynamics.particles.pair_forces import variant_name
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.strengths import scalar_function
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
"""Largest dimension for which fields are computed by the kernels of the particles."""
_COINCIDENT = 1e-12
"""Squared distance, relative to the squared lengths, up to which two pair sums are
coincident."""


class _Between(NamedTuple):
    """Two pair sums x_ij and x_km, of which x_km acts."""

    k: int
    m: int
    distance: float
    """0 if they are coincident."""
    length: float
    """Length of x_km; 0 if x_ij or x_km is at the origin."""
    cosine: float
    unit: float
    """Unit of length of the basis."""


@kernel_function
def _add_force(sums, field, between, strength, radial):
    """Add the force of x_km on x_ij to the sums of one field. radial: whether the force
    is along the difference of the two; otherwise it is along x_km.

    The force on x_ij is a sum of embedding vectors. sums: the factors of the vectors of
    all tokens (field, token), the factor of x_ij (field,), and the summed magnitudes
    (field,)."""
    row, total, magnitude = sums
    factor = strength / between.length
    if radial:
        factor = -strength / between.distance
        total[field] -= factor
    row[field, between.k] += factor
    row[field, between.m] += factor
    magnitude[field] += abs(strength)


class _Term(NamedTuple):
    """The addition of one force or several."""

    add: Callable[..., None]
    """A compiled function of sums and of two pair sums."""
    variant: str
    """Text that determines it."""


def _force_term(force: Force, field: int) -> _Term:
    strength = scalar_function(force.expression)
    radial = force.is_radial
    variant = f"{field} {force.along} {force.strength}"

    @variant_function(variant)
    def term(sums, between):
        size = between.distance if radial else between.length
        if size > 0:
            variable = between.distance if radial else between.cosine
            _add_force(sums, field, between, strength(variable), radial)

    return _Term(term, variant)


def _basis_term(first: int, first_step: int) -> _Term:
    """The basis functions of the distance, from field `first` on, and of the cosine,
    from `first_step` on."""
    least = float(DISTANCES[0])
    spacing = float(np.log(DISTANCES[1] / least))
    last = len(DISTANCES) - 1
    variant = f"{first} {first_step}"

    @variant_function(variant)
    def term(sums, between):
        if between.distance > 0:
            place = np.log(between.distance / between.unit / least) / spacing
            place = min(max(place, 0.0), float(last))
            knot = min(int(place), last - 1)
            later = place - knot
            _add_force(sums, first + knot, between, 1 - later, True)
            _add_force(sums, first + knot + 1, between, later, True)
        if between.length > 0:
            step = int(np.floor((between.cosine + 1) / 2 * ANGLES))
            step = min(max(step, 0), ANGLES - 1)
            _add_force(sums, first_step + step, between, 1.0, False)

    return _Term(term, variant)


def _join_terms(first: _Term, second: _Term) -> _Term:
    add_first, add_second = first.add, second.add
    variant = f"{first.variant}; {second.variant}"

    @variant_function(variant)
    def term(sums, between):
        add_first(sums, between)
        add_second(sums, between)

    return _Term(term, variant)


@kernel_function
def _add_nothing(sums, between):
    pass


@functools.lru_cache(maxsize=64)
def _law_matrices(forces: tuple[Force, ...]) -> Callable[..., Any]:
    """The compiled matrices of the fields of a law; its constants and balance do not
    matter."""
    like, unlike = (
        functools.reduce(
            _join_terms,
            [
                _force_term(force, field)
                for field, force in enumerate(forces)
                if force.acts_between(kind)
            ],
            _Term(_add_nothing, "nothing"),
        )
        for kind in ("like", "unlike")
    )
    return _force_matrices(like, unlike, len(forces), variant_name(forces, 0))


@functools.cache
def _basis_matrices() -> Callable[..., Any]:
    """The compiled matrices of the basis of a pair law."""
    steps = 2 * len(DISTANCES)
    like = _basis_term(0, steps)
    unlike = _basis_term(len(DISTANCES), steps + ANGLES)
    return _force_matrices(like, unlike, sum(BASIS.values()), "basis")


def _force_matrices(
    like: _Term, unlike: _Term, fields: int, variant: str
) -> Callable[..., Any]:
    """The compiled matrices of forces between like and between unlike pairs."""
    add_like, add_unlike = like.add, unlike.add

    @cached_kernel(lane_functions, strengths, variant=variant)
    def matrices(gram, first, second, residue, start, stop, unit):
        """Matrices (field, token, token) and magnitudes (field,) from the products of
        embedding vectors, (token, token).

        residue: the modular sum of each pair. Pair ij is acted on by the pairs
        start[ij] to stop[ij] - 1. unit: the unit of length of the basis."""
        n = len(gram)
        count = len(first)
        result = np.zeros((fields, n, n))
        row = np.empty((fields, n))
        total = np.empty(fields)
        magnitude = np.zeros(fields)
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
                k, m = first[km], second[km]
                product = gram[i, k] + gram[i, m] + gram[j, k] + gram[j, m]
                both = square[ij] + square[km]
                distance = 0.0
                if both - 2 * product > _COINCIDENT * both:
                    distance = np.sqrt(both - 2 * product)
                length = 0.0
                cosine = 0.0
                if square[ij] > 0 and square[km] > 0:
                    length = np.sqrt(square[km])
                    cosine = product / (np.sqrt(square[ij]) * length)
                    cosine = min(max(cosine, -1.0), 1.0)
                between = _Between(k, m, distance, length, cosine, unit)
                if residue[ij] == residue[km]:
                    add_like((row, total, magnitude), between)
                else:
                    add_unlike((row, total, magnitude), between)
            for field in range(fields):
                for token in (i, j):  # a pair of equal tokens acts twice on it
                    result[field, token] += row[field]
                    result[field, token, i] += total[field]
                    result[field, token, j] += total[field]
        return result, magnitude

    return matrices


def fields_by_matrices(
    embedding: np.ndarray,
    pairs: np.ndarray,
    law: tuple[Force, ...] = CA,
    basis: bool = False,
) -> ForceFields:
    """The fields of the forces of a law on embeddings (..., token, axis).

    pairs: (pair, 2). basis: append the fields of the functions of `BASIS`.
    """
    count = len(pairs)
    residue = pairs.sum(axis=1) % embedding.shape[-2]
    acting = np.zeros(count, np.int64), np.full(count, count)
    kernels = [_law_matrices(bare_forces(law))]
    if basis:
        kernels.append(_basis_matrices())
    fields = [
        _sum_by_matrices(kernel, embedding, pairs, residue, *acting)
        for kernel in kernels
    ]
    return ForceFields(*map(np.concatenate, zip(*fields, strict=True)))


def _sum_by_matrices(
    kernel: Callable[..., Any],
    embedding: np.ndarray,
    pairs: np.ndarray,
    residue: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
) -> ForceFields:
    """The fields on embeddings (..., token, axis) by a kernel of `_force_matrices`."""
    x = np.asarray(embedding, np.float64)
    first, second = (np.ascontiguousarray(pairs[:, end], np.int64) for end in range(2))
    forces = []
    magnitudes = []
    for frame in x.reshape(-1, *x.shape[-2:]):
        unit = pair_sum_distance(frame, pairs) or 1.0
        matrices, magnitude = kernel(
            frame @ frame.T, first, second, residue, start, stop, unit
        )
        forces.append(matrices @ frame)
        magnitudes.append(magnitude)
    lead = x.shape[:-2]
    return ForceFields(
        np.stack(forces, axis=1).reshape(-1, *x.shape),
        np.stack(magnitudes, axis=1).reshape(-1, *lead),
    )


def _fields_within_classes(
    embedding: np.ndarray,
    pairs: np.ndarray,
    numbers: np.ndarray,
    law: tuple[Force, ...],
) -> np.ndarray:
    """The fields, (force, ..., token, axis), of the other pairs with equal sums of
    numbers (token,), if all forces act between these."""
    residue = numbers[pairs].sum(axis=1) % len(numbers)
    order = np.argsort(residue, kind="stable")
    residue, pairs = residue[order], pairs[order]
    bounds = (np.searchsorted(residue, residue, side) for side in ("left", "right"))
    start, stop = (bound.astype(np.int64) for bound in bounds)
    everywhere = tuple(dataclasses.replace(force, pairs="all") for force in law)
    kernel = _law_matrices(bare_forces(everywhere))
    return _sum_by_matrices(kernel, embedding, pairs, residue, start, stop).force


def pair_sum_distance(embedding: np.ndarray, pairs: np.ndarray) -> float:
    """The root mean square distance of two pair sums of an embedding (token, axis)."""
    sums = embedding[pairs].sum(axis=1)
    return float(np.sqrt(2 * ((sums - sums.mean(axis=0)) ** 2).sum(axis=1).mean()))


def law_fields(
    embedding: np.ndarray, pairs: np.ndarray, law: tuple[Force, ...] = CA
) -> ForceFields:
    """The fields of a law on embeddings (..., token, axis), by fast sums where particles
    have them by default."""
    n, dim = embedding.shape[-2:]
    if dim > _COMPILED:
        return fields_by_matrices(embedding, pairs, law)
    grouped = group_pairs(n, pairs)
    if ParticleSettings(n=n, dim=dim, law=law).uses_mesh:
        return fast_force_fields(embedding, grouped, ParticleSettings.accuracy)
    return force_fields(embedding, grouped, law)


def fields_with_renamed_tokens(
    embedding: np.ndarray,
    pairs: np.ndarray,
    fields: np.ndarray,
    renamings: Sequence[np.ndarray],
    law: tuple[Force, ...] = CA,
) -> Iterator[np.ndarray]:
    """The fields of a law (force, ..., token, axis) if token i had the number names[i],
    for each of the renamings.

    pairs (pair, 2) are of true numbers, fields those of `law_fields`. With matrices,
    only the part by pairs of the same class is computed again; the rest is the
    difference from what all pairs do."""
    n, dim = embedding.shape[-2:]
    if dim <= _COMPILED:
        for names in renamings:
            renamed = np.empty_like(embedding)
            renamed[..., names, :] = embedding
            yield law_fields(renamed, names[pairs], law).force[..., names, :]
        return
    truly_like = _fields_within_classes(embedding, pairs, np.arange(n), law)
    for names in renamings:
        like = _fields_within_classes(embedding, pairs, names, law)
        by_pairs = {
            "like": like,
            "unlike": fields + truly_like - like,
            "all": fields,
        }
        yield np.stack(
            [by_pairs[force.pairs][field] for field, force in enumerate(law)]
        )


def law_force(
    embedding: np.ndarray, pairs: np.ndarray, law: ParticleSettings, fields: ForceFields
) -> np.ndarray:
    """The total force of a law with its constants and balance, (step, token, axis), from
    its `law_fields`.

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
    weights = field_weights(fields.magnitude, law, group_pairs(n, pairs))
    return np.einsum("fs,fsta->sta", weights, fields.force)


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
        Forces, constants, balance and step size; its n, dim and start are not used.
    steps : int

    Returns
    -------
    array, shape (token, axis)
        The positions after the last step, with mean zero and standard deviation 1.

    Raises
    ------
    SettingsError
        For other rules of the step or of the normalisation than the default, for noise,
        and for settings of a system that may move otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import simulate_in_any_dimension
    >>> from dynamics import ParticleSettings
    >>> simulate_in_any_dimension(np.eye(5, 100), ParticleSettings(), 2).shape
    (5, 100)
    """
    check_moves_as_particles(law)
    law = known_law(law)
    for name in ("step_rule", "variance", "temperature"):
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
        fields = law_fields(x[None], pairs, law.forces)
        force = law_force(x[None], pairs, law, fields)[0]
        x = _normalise(x + law.step_size * force)
    return x


def _normalise(positions: np.ndarray) -> np.ndarray:
    centred = positions - positions.mean(axis=0)
    return centred / centred.std()
