"""The functions of `dynamics.networks.activation_functions` on SIMD lanes in float32,
each with its derivative."""

from typing import get_args

import numpy as np

from dynamics.kernels.compiling import kernel_function
from dynamics.kernels.simd import (
    exponential,
    maximum,
    multiply_add,
    scalars,
    where_above,
)
from dynamics.settings import ActivationName

ACTIVATION_CODES = {
    name: tuple(range(at)) for at, name in enumerate(get_args(ActivationName))
}
"""What stands for each activation in kernels: a tuple, whose length is part of its type,
so that kernels are compiled for one activation."""
_RELU, _GELU, _TANH = (len(ACTIVATION_CODES[name]) for name in ("relu", "gelu", "tanh"))


@kernel_function
def relu(x):
    """max(x, 0) and its derivative, 0 at 0."""
    zero, one = scalars(np.float32(0)), scalars(np.float32(1))
    return maximum(zero, x), where_above(x, np.float32(0), one)


@kernel_function
def gelu(x):
    """GELU, x Phi(x), and its derivative, Phi(x) + x phi(x); Phi to 1e-7 by Abramowitz
    and Stegun 7.1.26."""
    one, zero = scalars(np.float32(1)), scalars(np.float32(0))
    size = maximum(x, zero - x) * scalars(np.float32(0.70710678))
    density = exponential(zero - size * size)  # e^(-x²/2)
    t = one / multiply_add(size, scalars(np.float32(0.3275911)), one)
    tail = scalars(np.float32(1.061405429))
    tail = multiply_add(tail, t, scalars(np.float32(-1.453152027)))
    tail = multiply_add(tail, t, scalars(np.float32(1.421413741)))
    tail = multiply_add(tail, t, scalars(np.float32(-0.284496736)))
    tail = multiply_add(tail, t, scalars(np.float32(0.254829592)))
    beyond = tail * t * density * scalars(np.float32(0.5))  # Phi(-|x|)
    above = where_above(x, np.float32(0), one)
    phi = beyond + above * (one - beyond - beyond)
    return x * phi, multiply_add(x * density, scalars(np.float32(0.39894228)), phi)


@kernel_function
def tanh(x):
    """tanh x, to 3 units in the last place, and its derivative, 1 - tanh² x: a
    polynomial for |x| < 0.625 (Cephes tanhf), exponentials beyond."""
    one, zero = scalars(np.float32(1)), scalars(np.float32(0))
    size = maximum(x, zero - x)
    square = x * x
    power = scalars(np.float32(-5.70498872745e-3))
    power = multiply_add(power, square, scalars(np.float32(2.06390887954e-2)))
    power = multiply_add(power, square, scalars(np.float32(-5.37397155531e-2)))
    power = multiply_add(power, square, scalars(np.float32(1.33314422036e-1)))
    power = multiply_add(power, square, scalars(np.float32(-3.33332819422e-1)))
    near = multiply_add(power * square, x, x)
    decay = exponential(zero - (size + size))
    far = (one - decay) / (one + decay)
    far = far - where_above(zero - x, np.float32(0), far + far)
    is_far = one - where_above(scalars(np.float32(0.625)) - size, np.float32(0), one)
    value = where_above(is_far, np.float32(0.5), far) + where_above(
        one - is_far, np.float32(0.5), near
    )
    return value, one - value * value


@kernel_function
def activate(x, activation):
    """The function of one of `ACTIVATION_CODES`, and its derivative."""
    if len(activation) == _GELU:
        return gelu(x)
    if len(activation) == _TANH:
        return tanh(x)
    return relu(x)


@kernel_function
def pass_back(error, slope, activation):
    """A derivative with respect to the function of numbers, as one with respect to
    these; 0 for units of ReLU that are not active, also if it is infinite."""
    if len(activation) == _RELU:
        return where_above(slope, np.float32(0), error)
    return error * slope
