"""The functions of `dynamics.networks.activation_functions` on a CUDA device in
float32, each with its derivative."""

import math
from typing import Any

import numpy as np

from dynamics.kernels.activations import ACTIVATION_CODES
from dynamics.kernels.cuda_launching import device_function, exponential


@device_function
def _relu(x):
    """max(x, 0), and its derivative, 0 at 0; NaN remains NaN."""
    value = np.float32(0) if x <= 0 else x
    return value, np.float32(1) if x > 0 else np.float32(0)


@device_function
def _gelu(x):
    """GELU, x Phi(x), and its derivative, Phi(x) + x phi(x); Phi to 1e-7 by Abramowitz
    and Stegun 7.1.26."""
    size = abs(x) * np.float32(0.70710678)
    density = exponential(-size * size)  # e^(-x²/2)
    t = np.float32(1) / (size * np.float32(0.3275911) + np.float32(1))
    tail = np.float32(1.061405429) * t + np.float32(-1.453152027)
    tail = tail * t + np.float32(1.421413741)
    tail = tail * t + np.float32(-0.284496736)
    tail = tail * t + np.float32(0.254829592)
    beyond = tail * t * density * np.float32(0.5)  # Phi(-|x|)
    phi = np.float32(1) - beyond if x > 0 else beyond
    return x * phi, x * density * np.float32(0.39894228) + phi


@device_function
def _tanh(x):
    """tanh x, and its derivative, 1 - tanh² x."""
    value = np.float32(math.tanh(x))
    return value, np.float32(1) - value * value


_FUNCTIONS = {"relu": _relu, "gelu": _gelu, "tanh": _tanh}


def device_activation(code: tuple[int, ...]) -> Any:
    """The device function of one of `ACTIVATION_CODES`, which returns the activation of
    a number and its derivative."""
    names = {value: name for name, value in ACTIVATION_CODES.items()}
    return _FUNCTIONS[names[code]]


def is_relu(code: tuple[int, ...]) -> bool:
    """Whether one of `ACTIVATION_CODES` stands for ReLU."""
    return code == ACTIVATION_CODES["relu"]
