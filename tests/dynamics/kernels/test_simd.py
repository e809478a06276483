"""The eight-lane arithmetic against NumPy, lane by lane and bit for bit."""

import numpy as np
from numba import njit
from numpy.testing import assert_array_equal

from dynamics.kernels import simd


@njit
def arithmetic(a, b, out):
    x, y = simd.load_scalars(a, 0), simd.load_scalars(b, 0)
    results = (
        x + y,
        x - y,
        x * y,
        x / y,
        simd.square_root(x),
        simd.scalars(2.5),
        simd.lane_numbers(),
    )
    for k, value in enumerate(results):
        simd.store_scalars(out, k, value)
    x += y
    x -= simd.scalars(1.0)
    x *= y
    x /= simd.scalars(3.0)
    simd.store_scalars(out, 7, x)


@njit
def geometry(a, b, points, out, scalar_out, axes):
    v, w = simd.load_vectors(a, 0, axes), simd.load_vectors(b, 0, axes)
    s = simd.dot(v, w)
    simd.store_scalars(scalar_out, 0, s)
    above = simd.where_above(s, 0.0, v), simd.where_above(v, 0.0, w)
    results = (
        v + w,
        v * w,
        v * s,
        v / s,
        above[0],
        above[1],
        simd.broadcast_vectors(points, 1, axes),
    )
    for k, value in enumerate(results):
        simd.store_vectors(out, k, value)


def test_arithmetic_of_scalars(generator):
    a, b = generator.random(simd.LANES_64) + 0.1, generator.random(simd.LANES_64) + 0.1
    out = np.empty(8 * simd.LANES_64)
    arithmetic(a, b, out)
    changed = (a + b - 1.0) * b / 3.0
    wanted = [
        a + b,
        a - b,
        a * b,
        a / b,
        np.sqrt(a),
        np.full(simd.LANES_64, 2.5),
        np.arange(simd.LANES_64),
        changed,
    ]
    assert_array_equal(out.reshape(8, simd.LANES_64), wanted)


def test_geometry_of_vectors(generator):
    dim = 3
    a, b = generator.standard_normal((2, dim, simd.LANES_64))
    points = generator.standard_normal((2, dim))
    out, scalar_out = np.empty(7 * dim * simd.LANES_64), np.empty(simd.LANES_64)
    geometry(a.ravel(), b.ravel(), points.ravel(), out, scalar_out, tuple(range(dim)))
    s = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    assert_array_equal(scalar_out, s)
    spread = np.repeat(points[1][:, None], simd.LANES_64, axis=1)
    wanted = [
        a + b,
        a * b,
        a * s,
        a / s,
        np.where(s > 0, a, 0),
        np.where(a > 0, b, 0),
        spread,
    ]
    assert_array_equal(out.reshape(7, dim, simd.LANES_64), wanted)


def test_conditions_on_nan_do_not_hold():
    a = np.array([np.nan, 1.0] * (simd.LANES_64 // 2))
    out, scalar_out = np.empty(7 * simd.LANES_64), np.empty(simd.LANES_64)
    geometry(a, np.ones(simd.LANES_64), np.ones(2), out, scalar_out, (0,))
    assert_array_equal(
        out.reshape(7, simd.LANES_64)[5], np.array([0.0, 1.0] * (simd.LANES_64 // 2))
    )
