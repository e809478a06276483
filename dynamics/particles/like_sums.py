"""Direct sums of the forces of CA over like pairs of pair sums, of which there are
about N³/4.

The repulsion between like pairs, which is no field of the model, is summed as well, to
be subtracted from that between all pairs."""

import numpy as np
from numba import prange

from dynamics.forces import CA
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.simd import (
    LANES_64,
    broadcast_vectors,
    dot,
    load_scalars,
    load_vectors,
    multiply_add,
    scalars,
    store_scalars,
    store_vectors,
    sum_axes,
    where_above,
)
from dynamics.particles import pair_forces, point_cells
from dynamics.particles.force_terms import law_terms, radial_strength
from dynamics.particles.pair_forces import variant_name
from dynamics.particles.point_cells import AXES

ATTRACTION, REPULSION, ALIGNMENT = range(3)

_LIKE_ATTRACTION, _, _LIKE_ALIGNMENT, _ = CA
_attraction = radial_strength(_LIKE_ATTRACTION.expression)
_alignment = law_terms([_LIKE_ALIGNMENT], "like")


@kernel_function
def _like_fields(
    x_ij,
    own,
    points,
    directions,
    regions,
    square_cutoffs,
    first,
    last,
    fields,
    magnitudes,
):
    """Attraction, repulsion and alignment of eight pair sums by the pair sums first to
    last - 1, with their magnitudes.

    The alignment includes that of a pair sum by itself.
    """
    widest = scalars(square_cutoffs[0])
    attracted, repelled, aligned = x_ij - x_ij, x_ij - x_ij, x_ij - x_ij
    count, strength, partners = scalars(0.0), scalars(0.0), scalars(0.0)
    for kl in range(first, last):
        x_kl = broadcast_vectors(points, kl, AXES)
        difference = x_ij - x_kl
        square = dot(difference, difference)
        factor, magnitude = _attraction(square)
        attracted = multiply_add(difference, factor, attracted)
        count += magnitude
        inside = widest - square
        if len(square_cutoffs) > 1:
            region = np.int64(regions[kl])
            other = own - scalars(regions[kl])
            cutoff = where_above(
                scalars(0.5) - other * other, 0.0, scalars(square_cutoffs[region])
            ) + where_above(other * other, 0.5, widest)
            inside = cutoff - square
        inverse = factor * scalars(-1.0)  # the attraction has the strength -1
        inverse = inverse - where_above(inside, 0.0, inverse)
        repelled = multiply_add(difference, inverse * inverse, repelled)
        strength += inverse
        unit_kl = broadcast_vectors(directions, kl, AXES)
        on_ij, _, partner = _alignment(x_ij, x_kl, unit_kl, unit_kl)
        aligned += on_ij
        partners += sum_axes(partner)
    store_vectors(fields, ATTRACTION, attracted)
    store_vectors(fields, REPULSION, repelled)
    store_vectors(fields, ALIGNMENT, aligned)
    store_scalars(magnitudes, ATTRACTION, count)
    store_scalars(magnitudes, REPULSION, strength)
    store_scalars(magnitudes, ALIGNMENT, partners)


@cached_kernel(
    *pair_forces.MODULES,
    pair_forces,
    point_cells,
    variant=variant_name(CA, len(AXES)),
    parallel=True,
)
def like_sums(points, directions, pairs, regions, square_cutoffs):
    """Attraction, repulsion and alignment between like pair sums: (3, pair, 2), and
    their magnitudes (3, pair).

    points: (pair, 2) pair sums; directions: (pair, 2) their directions, 0 at the
    origin. Pair sums nearer than a cutoff do not repel: that of their region, if it is
    the same, otherwise the first one. regions: (pair,) float64. Magnitudes are those of
    ordered pairs. The alignment of a pair sum by itself is included."""
    count = len(points)
    fields = np.empty((3, count, 2))
    magnitudes = np.empty((3, count))
    flat_points = points.reshape(-1)
    flat_directions = directions.reshape(-1)
    for number in prange(len(pairs.groups)):
        group = np.int64(number)
        first = pairs.bounds[pairs.groups[group, 0]]
        last = pairs.bounds[pairs.groups[group, 0] + 1]
        start = pairs.groups[group, 1]
        used = min(LANES_64, last - start)
        lanes = np.zeros(2 * LANES_64)
        region = np.zeros(LANES_64)
        out = np.empty(3 * 2 * LANES_64)
        sums = np.empty(3 * LANES_64)
        for k in range(used):
            region[k] = regions[start + k]
            for axis in range(2):
                lanes[axis * LANES_64 + k] = points[start + k, axis]
        x_ij = load_vectors(lanes, 0, AXES)
        _like_fields(
            x_ij,
            load_scalars(region, 0),
            flat_points,
            flat_directions,
            regions,
            square_cutoffs,
            first,
            last,
            out,
            sums,
        )
        for field in range(3):
            for k in range(used):
                magnitudes[field, start + k] = sums[field * LANES_64 + k]
                for axis in range(2):
                    fields[field, start + k, axis] = out[
                        (2 * field + axis) * LANES_64 + k
                    ]
    return fields, magnitudes
