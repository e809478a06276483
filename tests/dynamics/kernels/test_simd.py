"""The eight-lane arithmetic against NumPy, lane by lane and bit for bit."""

import numpy as np
from numba import njit

from dynamics.kernels.simd import (
    LANES_64,
    broadcast_vectors,
    dot,
    lane_numbers,
    load_scalars,
    load_vectors,
    scalars,
    square_root,
    store_scalars,
    store_vectors,
    where_above,
)


@njit
def arithmetic(a, b, out):
    x, y = load_scalars(a, 0), load_scalars(b, 0)
    for k, value in enumerate((x + y, x - y, x * y, x / y, square_root(x), scalars(2.5), lane_numbers())):
        store_scalars(out, k, value)
    x += y
    x -= scalars(1.0)
    x *= y
    x /= scalars(3.0)
    store_scalars(out, 7, x)


@njit
def geometry(a, b, points, out, scalar_out, axes):
    v, w = load_vectors(a, 0, axes), load_vectors(b, 0, axes)
    s = dot(v, w)
    store_scalars(scalar_out, 0, s)
    results = (
        v + w,
        v * w,
        v * s,
        v / s,
        where_above(s, 0.0, v),
        where_above(v, 0.0, w),
        broadcast_vectors(points, 1, axes),
    )
    for k, value in enumerate(results):
        store_vectors(out, k, value)


def test_arithmetic_of_scalars(generator):
    a, b = generator.random(LANES_64) + 0.1, generator.random(LANES_64) + 0.1
    out = np.empty(8 * LANES_64)
    arithmetic(a, b, out)
    changed = (a + b - 1.0) * b / 3.0
    wanted = [a + b, a - b, a * b, a / b, np.sqrt(a), np.full(LANES_64, 2.5), np.arange(LANES_64), changed]
    np.testing.assert_array_equal(out.reshape(8, LANES_64), wanted)


def test_geometry_of_vectors(generator):
    dim = 3
    a, b = generator.standard_normal((2, dim, LANES_64))
    points = generator.standard_normal((2, dim))
    out, scalar_out = np.empty(7 * dim * LANES_64), np.empty(LANES_64)
    geometry(a.ravel(), b.ravel(), points.ravel(), out, scalar_out, tuple(range(dim)))
    s = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    np.testing.assert_array_equal(scalar_out, s)
    spread = np.repeat(points[1][:, None], LANES_64, axis=1)
    wanted = [a + b, a * b, a * s, a / s, np.where(s > 0, a, 0), np.where(a > 0, b, 0), spread]
    np.testing.assert_array_equal(out.reshape(7, dim, LANES_64), wanted)


def test_a_condition_that_is_not_a_number_does_not_hold():
    a = np.array([np.nan, 1.0] * (LANES_64 // 2))
    out, scalar_out = np.empty(7 * LANES_64), np.empty(LANES_64)
    geometry(a, np.ones(LANES_64), np.ones(2), out, scalar_out, (0,))
    np.testing.assert_array_equal(out.reshape(7, LANES_64)[5], np.array([0.0, 1.0] * (LANES_64 // 2)))
