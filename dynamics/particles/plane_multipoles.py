r"""Sums over all pairs of points in the plane by the fast multipole method (Greengard and Rokhlin, 1987).

With points as complex numbers z, the repulsion (z - w) / \|z - w\|² is the conjugate of 1 / (z - w). Between far cells
with centres at R = c_A - c_B and offsets u of the points from their centres

    sum 1/(R + u_A - u_B) = sum_kl C(k+l, l) (-u_A)^l M_k / R^(k+l+1),                       M_k = sum u_B^k,  k, l < p
    sum 1/|R + u_A - u_B| = 1/|R| sum W_kk' W_ll' A_kl B_k'l' R^-(k+k') conj(R)^-(l+l'),   A_kl = sum u_A^k conj(u_A)^l,

where W_kk' = C(k+k', k) binomial(-1/2, k+k'), B has the offsets -u_B, and all indices of the second sum are below q. Of
the second, only the total over all pairs is computed. Offsets are in units of the radius of the cell.

Pairs of points in cells that are not far are summed directly.
"""

from typing import NamedTuple

import numpy as np
from numba import prange
from scipy import special

from dynamics.kernels import simd
from dynamics.kernels.compiling import cached_kernel, kernel_function
from dynamics.kernels.simd import (
    LANES_64,
    broadcast_vectors,
    dot,
    load_scalars,
    load_vectors,
    maximum,
    scalars,
    square_root,
    store_scalars,
    store_vectors,
    where_above,
)
from dynamics.particles import point_tree
from dynamics.particles.point_tree import APART, OPENING, PointTree, cell_range, compare_cells, near_cells, tree_depth

TINY = 1e-280
"""Squared distances up to this count as zero, as in `pair_forces`."""


class Expansion(NamedTuple):
    """Constants of expansions to a given accuracy. Rows are padded with zeros to whole groups of lanes."""

    binomials: np.ndarray
    """(p, p padded) C(k + l, k)."""
    weights: np.ndarray
    """(q, q padded) C(k + k', k) binomial(-1/2, k + k')."""


TERMS, PRODUCT_TERMS = 0.9, 0.75
"""Numbers of terms p and q, relative to the number n at which OPENING^n is the accuracy. Chosen by measurement."""


def expansion(accuracy: float) -> Expansion:
    """The constants of the expansions for errors below `accuracy`, relative to the largest force and to the sum."""
    terms = np.log(accuracy) / np.log(OPENING)
    p, q = max(4, int(np.ceil(TERMS * terms))), max(3, int(np.ceil(PRODUCT_TERMS * terms)))
    k, m = np.arange(p), np.arange(q)
    total = m[:, None] + m
    weights = special.binom(total, m) * special.binom(-0.5, total)
    return Expansion(_pad_rows(special.binom(k[:, None] + k, k)), _pad_rows(weights))


def _pad_rows(matrix: np.ndarray) -> np.ndarray:
    """The matrix with zeros behind each row, up to a multiple of the number of lanes."""
    return np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % LANES_64)))


def expansion_bytes(count: int, accuracy: float) -> int:
    """Memory in bytes of the expansions of all cells of a tree of `count` points."""
    constants = expansion(accuracy)
    return (2 << tree_depth(count)) * 16 * (2 * len(constants.binomials) + len(constants.weights) ** 2)


# ----------------------------------------------------------------------------------------------- moments


@kernel_function
def _offset(tree, cell, other):
    """Centre of `other` from that of the cell, in units of its radius, and the ratio of the radii."""
    unit = tree.radius[cell] if tree.radius[cell] > 0.0 else 1.0
    x, y = tree.centre[other, 0] - tree.centre[cell, 0], tree.centre[other, 1] - tree.centre[cell, 1]
    return complex(x / unit, y / unit), tree.radius[other] / unit


@kernel_function
def _leaf_moments(tree, cell, first, last, moments, products):
    """Add the moments M_k and A_kl of a leaf, the latter for l <= k."""
    unit = tree.radius[cell] if tree.radius[cell] > 0.0 else 1.0
    for point in range(first, last):
        x, y = tree.points[point, 0] - tree.centre[cell, 0], tree.points[point, 1] - tree.centre[cell, 1]
        u = complex(x / unit, y / unit)
        power = 1.0 + 0.0j
        for k in range(len(moments)):
            moments[k] += power
            if k < len(products):
                product = power
                for m in range(k + 1):
                    products[k, m] += product
                    product *= u.conjugate()
            power *= u


@kernel_function
def _shift_matrix(shift, scale, binomials, matrix):
    """matrix[k, j] = C(k, j) shift^(k-j) scale^j, which expands (shift + scale u)^k in powers of u."""
    for j in range(len(matrix)):
        factor = complex(scale**j, 0.0)
        for k in range(j, len(matrix)):
            matrix[k, j] = binomials[k - j, j] * factor
            factor *= shift


@kernel_function
def _child_moments(tree, cell, child, constants, moments, products, matrix, half):
    """Add the moments of a child to those of its cell, the products for l <= k."""
    shift, scale = _offset(tree, cell, child)
    _shift_matrix(shift, scale, constants.binomials, matrix)
    q = len(products[cell])
    for k in range(len(matrix)):
        for j in range(k + 1):
            moments[cell, k] += matrix[k, j] * moments[child, j]
    for k in range(q):
        half[k] = 0.0
        for j in range(k + 1):
            for m in range(q):
                half[k, m] += matrix[k, j] * products[child, j, m]
    for k in range(q):
        for m in range(k + 1):
            for j in range(m + 1):
                products[cell, k, m] += half[k, j] * matrix[m, j].conjugate()


@kernel_function
def _fill_conjugates(products):
    """Set A_kl for l > k to the conjugate of A_lk."""
    for k in range(len(products)):
        for m in range(k + 1, len(products)):
            products[k, m] = products[m, k].conjugate()


@cached_kernel(point_tree, parallel=True)
def _cell_moments(tree, constants):
    """Moments M_k (cell, k) and A_kl (cell, k, l) of all cells, from the leaves upwards."""
    p, q = len(constants.binomials), len(constants.weights)
    cells = len(tree.radius)
    moments, products = np.zeros((cells, p), np.complex128), np.zeros((cells, q, q), np.complex128)
    for up in range(tree.depth + 1):
        level = tree.depth - up
        offset = (1 << level) - 1
        for number in prange(1 << level):
            j = np.int64(number)
            cell = offset + j
            if level == tree.depth:
                first, last = cell_range(len(tree.points), level, j)
                _leaf_moments(tree, cell, first, last, moments[cell], products[cell])
            else:
                matrix, half = np.zeros((p, p), np.complex128), np.empty((q, q), np.complex128)
                for child in range(2 * cell + 1, 2 * cell + 3):
                    _child_moments(tree, cell, child, constants, moments, products, matrix, half)
            _fill_conjugates(products[cell])
    return moments, products


# ------------------------------------------------------------------------------------ between two far cells


@kernel_function
def _add_local_expansion(tree, a, b, binomials, source, local, work):
    """Add the field of cell b to the local expansion of cell a, sum_l local[l] u^l, u in units of its radius."""
    inverse = 1.0 / complex(tree.centre[a, 0] - tree.centre[b, 0], tree.centre[a, 1] - tree.centre[b, 1])
    p, groups, matrix = len(source), binomials.shape[1] // LANES_64, binomials.reshape(-1)
    real, imaginary, sum_real, sum_imaginary = work[0], work[1], work[2], work[3]
    power = 1.0 + 0.0j
    for k in range(p):
        value = source[k] * power
        real[k], imaginary[k] = value.real, value.imag
        power *= tree.radius[b] * inverse
    for group in range(groups):
        total_real, total_imaginary = scalars(0.0), scalars(0.0)
        for k in range(p):
            row = load_scalars(matrix, k * groups + group)
            total_real += scalars(real[k]) * row
            total_imaginary += scalars(imaginary[k]) * row
        store_scalars(sum_real, group, total_real)
        store_scalars(sum_imaginary, group, total_imaginary)
    power = inverse
    for m in range(p):
        local[m] += complex(sum_real[m], sum_imaginary[m]) * power
        power *= -tree.radius[a] * inverse


@kernel_function
def _scale_products(ratio, products, powers, real, imaginary):
    """Write A_kl ratio^k conj(ratio)^l, as real and imaginary parts in padded rows."""
    power = 1.0 + 0.0j
    for k in range(len(products)):
        powers[k] = power
        power *= ratio
    width = len(real) // len(products)
    for k in range(len(products)):
        for m in range(len(products)):
            value = products[k, m] * (powers[k] * powers[m].conjugate())
            real[k * width + m], imaginary[k * width + m] = value.real, value.imag


@kernel_function
def _inverse_distances(tree, a, b, weights, products, powers, work):
    """Sum of 1 / distance over all pairs of a point of cell a and a point of cell b."""
    inverse = 1.0 / complex(tree.centre[a, 0] - tree.centre[b, 0], tree.centre[a, 1] - tree.centre[b, 1])
    q, width = weights.shape
    groups, matrix = width // LANES_64, weights.reshape(-1)
    real_a, imaginary_a, real_b, imaginary_b, lanes = work[0], work[1], work[2], work[3], work[4]
    _scale_products(tree.radius[a] * inverse, products[a], powers, real_a, imaginary_a)
    _scale_products(-tree.radius[b] * inverse, products[b], powers, real_b, imaginary_b)
    total = scalars(0.0)
    for group in range(groups):
        for k in range(q):
            left_real, left_imaginary = scalars(0.0), scalars(0.0)
            right_real, right_imaginary = scalars(0.0), scalars(0.0)
            for j in range(q):
                weight, row = scalars(weights[k, j]), load_scalars(matrix, j * groups + group)
                left_real += weight * load_scalars(real_b, j * groups + group)
                left_imaginary += weight * load_scalars(imaginary_b, j * groups + group)
                right_real += scalars(real_a[k * width + j]) * row
                right_imaginary += scalars(imaginary_a[k * width + j]) * row
            total += left_real * right_real - left_imaginary * right_imaginary
    store_scalars(lanes, 0, total)
    return lanes[:LANES_64].sum() * abs(inverse)


@cached_kernel(point_tree, simd, parallel=True)
def _far_fields(tree, constants, level, parents, starts, moments, products, local, strength):
    """Add to the cells of a level the fields of the far cells in the lists of their parents.

    The sum of 1 / distance is added once for each pair of cells, to `strength` of the cell of the greater number.
    """
    size = 1 << level
    offset = size - 1
    width, q = constants.binomials.shape[1], len(constants.weights)
    for number in prange(size):
        a = offset + np.int64(number)
        work, powers = np.empty((4, width)), np.empty(q, np.complex128)
        squares = np.zeros((5, constants.weights.size))
        parent = np.int64(number) >> 1
        for entry in range(starts[parent], starts[parent + 1]):
            for b in range(offset + 2 * parents[entry], offset + 2 * parents[entry] + 2):
                if compare_cells(tree, a, b) == APART:
                    _add_local_expansion(tree, a, b, constants.binomials, moments[b], local[a], work)
                    if b < a:
                        strength[a] += _inverse_distances(tree, a, b, constants.weights, products, powers, squares)


@cached_kernel(point_tree, parallel=True)
def _expand_in_children(tree, constants, level, local):
    """Add the local expansions of the cells of level - 1 to those of their children."""
    size = 1 << level
    p = len(constants.binomials)
    for number in prange(size):
        child = size - 1 + np.int64(number)
        cell = (child - 1) >> 1
        matrix = np.zeros((p, p), np.complex128)
        shift, scale = _offset(tree, cell, child)
        _shift_matrix(shift, scale, constants.binomials, matrix)
        for k in range(p):
            for j in range(k + 1):
                local[child, j] += local[cell, k] * matrix[k, j]


# ------------------------------------------------------------------------------------------------- points


@kernel_function
def _near_field(x, label, points, labels, cells, near, depth, gap, axes):
    """Field on eight points, and their summed 1 / distance, from the points of the near cells.

    Points of equal label neither repel each other within the gap, nor do points that coincide.
    """
    force = x - x
    strength = scalars(0.0)
    count = len(labels)
    for entry in range(near[0], near[1]):
        first, last = cell_range(count, depth, cells[entry])
        for k in range(first, last):
            difference = x - broadcast_vectors(points, k, axes)
            square = dot(difference, difference)
            inverse = where_above(square, TINY, scalars(1.0) / square)
            other = label - scalars(labels[k])
            inverse = where_above(maximum(square - scalars(gap * gap), other * other), 0.0, inverse)
            force += difference * inverse
            strength += square_root(inverse)
    return force, strength


@cached_kernel(point_tree, simd, parallel=True)
def _point_fields(tree, labels, cells, starts, local, axes):
    """Field (point, 2) on every point from all others, and the sum of 1 / distance (point,) to those in near cells."""
    count, size = len(labels), 1 << tree.depth
    field, strength = np.empty((count, 2)), np.empty(count)
    points = tree.points.reshape(-1)
    for number in prange(size):
        j = np.int64(number)
        cell = size - 1 + j
        first, last = cell_range(count, tree.depth, j)
        lanes, label, power = np.zeros(2 * LANES_64), np.zeros(LANES_64), np.zeros(LANES_64)
        unit = tree.radius[cell] if tree.radius[cell] > 0.0 else 1.0
        for start in range(first, last, LANES_64):
            used = min(LANES_64, last - start)
            for k in range(used):
                lanes[k], lanes[LANES_64 + k] = tree.points[start + k, 0], tree.points[start + k, 1]
                label[k] = labels[start + k]
            force, sums = _near_field(
                load_vectors(lanes, 0, axes),
                load_scalars(label, 0),
                points,
                labels,
                cells,
                (starts[j], starts[j + 1]),
                tree.depth,
                tree.gap,
                axes,
            )
            store_vectors(lanes, 0, force)
            store_scalars(power, 0, sums)
            for k in range(used):
                x, y = (
                    tree.points[start + k, 0] - tree.centre[cell, 0],
                    tree.points[start + k, 1] - tree.centre[cell, 1],
                )
                u, value = complex(x / unit, y / unit), 0.0j
                for m in range(local.shape[1] - 1, -1, -1):
                    value = value * u + local[cell, m]
                field[start + k, 0], field[start + k, 1] = lanes[k] + value.real, lanes[LANES_64 + k] - value.imag
                strength[start + k] = power[k]
    return field, strength


def repulsion_sums(tree: PointTree, labels: np.ndarray, accuracy: float) -> tuple[np.ndarray, float]:
    """Repulsion (point, 2) of every point by all others, and the sum of 1 / distance over all ordered pairs of points.

    labels: (point,) numbers in the order of the points that the tree was built from, as is the result. Two points of
    the same label at a distance up to the gap of the tree do not count.
    """
    constants = expansion(accuracy)
    moments, products = _cell_moments(tree, constants)
    local, far = np.zeros_like(moments), np.zeros(len(tree.radius))
    cells, starts = np.zeros(1, np.int64), np.array([0, 1])
    for level in range(1, tree.depth + 1):
        _far_fields(tree, constants, level, cells, starts, moments, products, local, far)
        _expand_in_children(tree, constants, level, local)
        cells, starts = near_cells(tree, level, cells, starts)
    field, near = _point_fields(tree, labels[tree.order].astype(np.float64), cells, starts, local, (0, 1))
    result = np.empty_like(field)
    result[tree.order] = field
    return result, float(near.sum() + 2 * far.sum())
