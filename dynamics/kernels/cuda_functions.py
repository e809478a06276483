"""Functions of one float64 for kernels on CUDA devices: those of
`dynamics.kernels.lane_functions`, and those of `dynamics.kernels.simd` from which
strengths of forces are made, under the same names.

Exponentials and logarithms are those of CUDA's library, so the last bits differ from
those of a CPU. Arguments for which Python's functions would raise an error are treated
first, so that Numba's simulator computes the same as a device."""

import math

import numpy as np

from dynamics.kernels.cuda_launching import device_function

scalars = np.float64
"""A number."""


@device_function
def negative(x):
    return -x


@device_function
def absolute(x):
    return abs(x)


@device_function
def root(x):
    """The square root; NaN below 0."""
    return np.float64(math.sqrt(x)) if x >= 0 else np.float64(math.nan)


square_root = root


@device_function
def less(a, b):
    return np.float64(1.0) if a < b else np.float64(0.0)


@device_function
def less_equal(a, b):
    return np.float64(1.0) if a <= b else np.float64(0.0)


@device_function
def where(condition, a, b):
    """`b` where `condition` is 0, else `a`."""
    return b if condition == 0 else a


@device_function
def where_above(condition, threshold, value):
    """`value` where `condition` > `threshold`, else 0."""
    return value if condition > threshold else np.float64(0.0)


@device_function
def smaller(a, b):
    """The smaller number; NaN if one is."""
    least = a if a < b else b
    return a if a != a else least


@device_function
def larger(a, b):
    """The larger number; NaN if one is."""
    most = a if a > b else b
    return a if a != a else most


LARGEST_EXPONENT = 709.782712893384
"""exp of a larger number is infinite."""


@device_function
def exponential(x):
    if x > LARGEST_EXPONENT:
        return np.float64(math.inf)
    return np.float64(math.exp(x))


@device_function
def logarithm(x):
    """log(x); log(0) = -inf, and NaN below 0."""
    if x > 0:
        return np.float64(math.log(x))
    return np.float64(-math.inf) if x == 0 else np.float64(math.nan)


@device_function
def half_integer_power(x, halves):
    """x**(halves / 2) by products and at most one square root and one division."""
    count = abs(halves)
    value = root(x) if count % 2 else np.float64(1.0)
    square = x
    count = count // 2
    while count > 0:
        if count % 2:
            value = value * square
        square = square * square
        count = count // 2
    return np.float64(1.0) / value if halves < 0 else value


@device_function
def positive_power(x, exponent):
    """x**exponent for x >= 0."""
    return exponential(exponent * logarithm(x))


@device_function
def odd_power(x, exponent):
    """x**exponent for an odd whole exponent."""
    power = exponential(exponent * logarithm(abs(x)))
    return -power if x < 0 else power


@device_function
def interpolate(x, tables, begin, count):
    """Linear interpolation in a table, constant outside: `count` points in increasing
    order from tables[begin] on, and as many values after them."""
    if x != x:
        return x
    low = begin
    high = begin + count - 1
    if x <= tables[low]:
        return tables[low + count]
    if x >= tables[high]:
        return tables[high + count]
    while high - low > 1:
        middle = (low + high) // 2
        if tables[middle] <= x:
            low = middle
        else:
            high = middle
    share = (x - tables[low]) / (tables[high] - tables[low])
    return tables[low + count] + share * (tables[high + count] - tables[low + count])
