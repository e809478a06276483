"""exp, log, powers, comparisons and tables in lanes against exact or NumPy's values."""

import math
from decimal import Context, Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynamics.kernels import lane_functions as lf
from dynamics.kernels.compiling import njit
from dynamics.kernels.simd import LANES_64, load_scalars, scalars, store_scalars

INF, NAN = math.inf, math.nan
EXACT = Context(prec=50)


def in_lanes(function, x):
    """A compiled function of `Scalars` at every number of an array."""

    @njit
    def run(numbers, values):
        for group in range(numbers.size // LANES_64):
            store_scalars(values, group, function(load_scalars(numbers, group)))

    numbers = np.zeros(-(-x.size // LANES_64) * LANES_64)
    numbers[: x.size] = x
    values = np.empty(numbers.size)
    run(numbers, values)
    return values[: x.size]


def in_both(function, x):
    """The same, also for one float64 at a time, with the same bits."""
    one = njit(lambda number: function(number))
    values = in_lanes(function, x)
    assert_array_equal([one(number) for number in x], values)
    return values


def units_in_the_last_place(values, x, exact):
    """The largest error, in units in the last place of the exact values."""
    wanted = [exact(Decimal(number)) for number in x.tolist()]
    errors = [
        abs(Decimal(value) - true) / Decimal(math.ulp(float(true)))
        for value, true in zip(values.tolist(), wanted, strict=True)
    ]
    return float(max(errors))


@njit
def exponential(x):
    return lf.exponential(x)


@njit
def logarithm(x):
    return lf.logarithm(x)


def test_exponential_of_the_whole_range(generator):
    x = np.concatenate(
        [
            generator.uniform(-745.1, 709.78, 1000),
            generator.uniform(-745.1, -708.0, 500),
            generator.uniform(-1.0, 1.0, 1000),
            generator.standard_normal(200) * 1e-9,
            [0.0, 5e-324, 709.782712893384, -745.133219101941],
            math.log(2) * (np.arange(-40, 40) + 0.5),
        ]
    )
    values = in_both(exponential, x)
    assert units_in_the_last_place(values, x, lambda v: v.exp(EXACT)) < 1.0


def test_exponential_outside_of_the_range():
    x = np.array([709.7827128933841, 710.0, 1e300, INF, -745.2, -746.0, -1e300, -INF])
    assert_array_equal(in_both(exponential, x), [INF] * 4 + [0.0] * 4)
    assert np.isnan(in_both(exponential, np.array([NAN, -NAN]))).all()


def test_logarithm_of_the_whole_range(generator):
    x = np.concatenate(
        [
            np.exp(generator.uniform(-740.0, 709.7, 1000)),
            generator.uniform(0.5, 2.0, 1000),
            1.0 + generator.standard_normal(500) * 1e-5,
            1.0 + generator.standard_normal(200) * 1e-14,
            2.0 ** np.arange(-1074, 1024, 25.0),
            [5e-324, 2.0**-1022, math.sqrt(0.5), math.sqrt(2), 1.7976931348623157e308],
        ]
    )
    x = x[x != 1.0]
    values = in_both(logarithm, x)
    assert units_in_the_last_place(values, x, lambda v: v.ln(EXACT)) < 1.0


def test_logarithm_of_other_numbers():
    x = np.array([1.0, INF, 0.0, -0.0, -1.0, -5e-324, -INF, NAN])
    assert_array_equal(in_both(logarithm, x), [0.0, INF, -INF, -INF, *[NAN] * 4])


@pytest.mark.parametrize("halves", [-7, -6, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 20, 128])
def test_powers_by_products(generator, halves):
    @njit
    def power(x):
        return lf.half_integer_power(x, halves)

    x = generator.uniform(0.1, 4.0, 100)
    if halves % 2 == 0:
        x[::2] *= -1
    assert_allclose(in_both(power, x), x ** (halves / 2), rtol=1e-14)
    assert_array_equal(in_both(power, np.zeros(8)), np.full(8, _power_of_zero(halves)))


def _power_of_zero(halves):
    return 1.0 if halves == 0 else 0.0 if halves > 0 else INF


def test_other_powers(generator):
    @njit
    def positive(x):
        return lf.positive_power(x, lf.number_as(x, -0.3))

    @njit
    def odd(x):
        return lf.odd_power(x, lf.number_as(x, 101.0))

    x = generator.uniform(0.01, 4.0, 100)
    assert_allclose(in_both(positive, x), x**-0.3, rtol=1e-14)
    assert_array_equal(in_both(positive, np.array([0.0, INF, -1.0])), [INF, 0.0, NAN])
    x[::2] *= -1
    assert_allclose(in_both(odd, x), x**101.0, rtol=1e-13)


def test_comparisons_and_choices():
    a = np.array([1.0, 2.0, 3.0, NAN, 1.0, NAN, INF, -INF])
    b = np.array([2.0, 2.0, 1.0, 1.0, NAN, NAN, INF, INF])

    @njit
    def run(a, b, out):
        x, y = load_scalars(a, 0), load_scalars(b, 0)
        results = (
            lf.less(x, y),
            lf.less_equal(x, y),
            lf.where(lf.less(x, y), x, y),
            lf.smaller(x, y),
            lf.larger(x, y),
            lf.absolute(lf.negative(x)),
            lf.root(x),
            lf.where(x, scalars(1.0), scalars(2.0)),
        )
        for k, value in enumerate(results):
            store_scalars(out, k, value)

    out = np.empty(8 * LANES_64)
    run(a, b, out)
    with np.errstate(invalid="ignore"):
        wanted = [
            a < b,
            a <= b,
            np.where(a < b, a, b),
            np.minimum(a, b),
            np.maximum(a, b),
            np.abs(a),
            np.sqrt(a),
            np.where(a != 0, 1.0, 2.0),
        ]
    assert_array_equal(out.reshape(8, LANES_64), wanted)


def tables(generator):
    """Points of tables: equidistant, random, in clusters, and few."""
    random = np.sort(generator.uniform(-3.0, 5.0, 60))
    clusters = np.sort(np.concatenate([1e-9 * random, 1.0 + 1e-6 * random, [7.0, 7.5]]))
    return {
        "even": np.linspace(0.0, 6.0, 41),
        "even and many": np.linspace(0.1, 3.0, 5000),
        "random": random,
        "geometric": np.geomspace(1e-4, 10.0, 5000),
        "clusters": clusters,
        "two": np.array([0.5, 2.0]),
        "three": np.array([0.0, 1e-12, 1.0]),
        "next to each other": 1e9 + 1.2e-7 * np.array([0.0, 1, 2, 3, 5, 6, 7, 8, 11]),
        "large": np.array([-8e307, 1.0, 8e307]),
    }


@pytest.mark.parametrize("name", tables(np.random.default_rng(0)))
def test_tables(generator, name):
    points = tables(generator)[name]
    values = np.cos(7.0 * np.arange(points.size))
    table = lf.lane_table(points, values, is_linear=True)

    @njit
    def interpolate(x):
        return lf.interpolate(x, table)

    @njit
    def steps(x):
        return lf.steps(x, step_table)

    inside = generator.uniform(points[0], points[-1], 400)
    near = [np.nextafter(points, -INF), points, np.nextafter(points, INF)]
    x = np.concatenate([inside, *near, [-1e300, 1e300, INF, -INF]])
    # the value at a place that is rounded
    rounding = (
        1e-15 * np.abs(points).max() * np.abs(np.diff(values) / np.diff(points)).max()
    )
    atol = 1e-15 + (4 * rounding if table.first_step == 0 else 0.0)
    assert_allclose(
        in_both(interpolate, x), np.interp(x, points, values), rtol=1e-12, atol=atol
    )
    step_table = lf.lane_table(points, np.append(values[:-1], 0.0), is_linear=False)
    place = np.searchsorted(points, x, side="right")
    assert_array_equal(in_both(steps, x), np.array([0.0, *values[:-1], 0.0])[place])
    nothing = np.array([NAN])
    assert np.isnan(in_both(interpolate, nothing)).all()
    assert np.isnan(in_both(steps, nothing)).all()
