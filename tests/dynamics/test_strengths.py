"""Expressions on arrays, compiled for one float64, and in lanes."""

import math
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dynamics.expressions import parse_expression
from dynamics.kernels.compiling import njit
from dynamics.kernels.simd import LANES_64, load_scalars, store_scalars
from dynamics.strengths import evaluate, lane_source, scalar_function
from tests.dynamics.expression_texts import EXAMPLES, UNEVEN, VALUES, texts

PLACES = np.concatenate([np.linspace(-1.0, 4.0, 93), [1e-3, 1e3, 0.5]])
NOISE = 1e-13


def plain_operations(noise):
    """The operations on floats by `math`, whose results have a relative error `noise`,
    positive or negative."""
    signs = random.Random(repr(noise))

    def rounded(function):
        def result(*arguments):
            value = function(*arguments)
            if not math.isfinite(value):
                raise OverflowError
            return value * (1.0 + noise * signs.choice((-1.0, 1.0)))

        return result

    def interp(x, points, values):
        if not points[0] < x < points[-1]:
            return values[0 if x <= points[0] else -1]
        i = max(k for k in range(len(points)) if points[k] <= x)
        share = (x - points[i]) / (points[i + 1] - points[i])
        return values[i] + share * (values[i + 1] - values[i])

    return {
        "number": float,
        "negative": lambda a: -a,
        "add": rounded(lambda a, b: a + b),
        "subtract": rounded(lambda a, b: a - b),
        "multiply": rounded(lambda a, b: a * b),
        "divide": rounded(lambda a, b: a / b),
        "power": rounded(math.pow),
        "exp": rounded(math.exp),
        "log": rounded(math.log),
        "sqrt": rounded(math.sqrt),
        "less": lambda a, b: float(a < b),
        "less_equal": lambda a, b: float(a <= b),
        "greater": lambda a, b: float(a > b),
        "greater_equal": lambda a, b: float(a >= b),
        "where": lambda condition, a, b: a if condition != 0 else b,
        "absolute": abs,
        "minimum": min,
        "maximum": max,
        "interp": rounded(interp),
    }


def assert_equal_to_rounding(computed, expression, place):
    """The value by `math` agrees with `computed`, but for changes by errors of all
    operations; or an operation is not defined."""
    try:
        value, *others = (
            expression.evaluate(place, plain_operations(noise))
            for noise in (0.0, *(NOISE * (1.0 + k) for k in range(8)))
        )
    except (ArithmeticError, ValueError):
        return
    change = max(abs(other - value) for other in others)
    assert abs(computed - value) <= 1e-14 * abs(value) + change, place


def values_in_lanes(expression, x):
    """The values by `lane_source`."""
    source, names = lane_source(expression, "x")
    names = {**names, "load": load_scalars, "store": store_scalars}
    code = f"""
def run(numbers, values):
    for group in range(numbers.size // {LANES_64}):
        x = load(numbers, group)
        store(values, group, {source})
"""
    exec(code, names)
    assert x.size % LANES_64 == 0
    values = np.empty(x.size)
    njit(names["run"])(x, values)
    return values


@given(texts, st.floats(0.1, 4.0))
def test_numpy_and_math(text, place):
    expression = parse_expression(text, "r")
    assert_equal_to_rounding(evaluate(expression, place), expression, place)


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_compiled(text):
    expression = parse_expression(text, "r")
    expected = evaluate(expression, PLACES)
    lanes = values_in_lanes(expression, PLACES)
    function = scalar_function(expression)
    assert_allclose(lanes, expected, rtol=1e-13)
    assert_array_equal([function(place) for place in PLACES], lanes)
    assert_array_equal(np.isnan(lanes), np.isnan(expected))


@settings(max_examples=12)
@given(texts)
def test_compiled_and_math(text):
    expression = parse_expression(text, "r")
    lanes = values_in_lanes(expression, PLACES)
    function = scalar_function(expression)
    assert_array_equal([function(place) for place in PLACES], lanes)
    for place, computed in zip(PLACES, lanes, strict=True):
        assert_equal_to_rounding(computed, expression, place)


def test_derivative_of_a_table_compiled():
    expression = parse_expression(f"interp(r, {UNEVEN}, {VALUES})", "r").derivative()
    assert_array_equal(
        values_in_lanes(expression, PLACES), evaluate(expression, PLACES)
    )


@pytest.mark.filterwarnings("error")
def test_undefined_values_give_no_warning():
    expression = parse_expression("log(r)/(r - r) + exp(1000*r)", "r")
    assert not np.isfinite(evaluate(expression, [-1.0, 0.0, 1.0])).any()


def test_shapes_of_values():
    one = parse_expression("1", "r")
    assert evaluate(one, np.zeros((2, 3))).shape == (2, 3)
    assert evaluate(one, np.zeros((2, 3))).flags.writeable
    assert evaluate(one, 3).shape == ()
    assert evaluate(one, 3).dtype == np.float64


def test_scalar_functions_are_compiled_once_and_serve_kernels():
    function = scalar_function(parse_expression("1/r**2", "r"))
    assert scalar_function(parse_expression("1 / (r ** 2)", "r")) is function

    @njit
    def doubled(r):
        return 2.0 * function(r)

    assert doubled(0.5) == 8.0
    assert function(2) == 0.25


BITS = f"""
import numpy as np
from dynamics.expressions import parse_expression
from tests.dynamics.test_strengths import values_in_lanes

text = "exp(-r) + log(r) + r**0.3 + interp(r, {UNEVEN}, {VALUES})"
places = np.geomspace(1e-3, 1e2, 800)
print(values_in_lanes(parse_expression(text, "r"), places).tobytes().hex())
"""


def test_bits_on_other_processors(environment):
    """A processor without fused products and AVX has the same bits."""
    results = []
    for processor in ({}, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}):
        words = environment | processor
        command = [sys.executable, "-c", BITS]
        result = subprocess.run(
            command, env=words, capture_output=True, text=True, check=True
        )
        results.append(result.stdout)
    assert results[0] == results[1] != ""
