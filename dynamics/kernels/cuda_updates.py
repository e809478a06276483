"""Optimizer updates on a CUDA device, one thread for each weight.

`parameter_update` compiles the update of a value of `dynamics.optimizers`, with device
functions in place of the functions that it may call. Weights and moments are float32.
The numbers of an update (learning rate, decay rates) are float64; `multiply_add` rounds
them to float32, and a plain product of a number and a weight is rounded where it is
stored."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynamics import optimizers
from dynamics.kernels.cuda_launching import device_function, index
from dynamics.kernels.optimizers import UpdateRates
from dynamics.optimizers import Optimizer
from dynamics.own_functions import frozen_copy

# ----------------------------------------------------------------- functions of updates


@device_function
def _multiply_add(left, right, added):
    """The compiler rounds once."""
    return np.float32(left) * np.float32(right) + np.float32(added)


@device_function
def _square_root(x):
    return math.sqrt(x)


@device_function
def _sign(x):
    nothing = x - x  # NaN where x is
    return nothing + (1 if x > 0 else 0) - (1 if x < 0 else 0)


@device_function
def _absolute(x):
    return abs(x)


@device_function
def _maximum(x, y):
    return x if x > y or x != x else y


@device_function
def _minimum(x, y):
    return x if x < y or x != x else y


_ON_DEVICE: dict[Any, Any] = {
    optimizers.multiply_add: _multiply_add,
    optimizers.square_root: _square_root,
    optimizers.sign: _sign,
    optimizers.absolute: _absolute,
    optimizers.maximum: _maximum,
    optimizers.minimum: _minimum,
}


# --------------------------------------------------------------------- numbers of updates


class DeviceRates(NamedTuple):
    """The numbers of updates, as arrays that kernels take."""

    hyperparameters: np.ndarray
    """beta1, beta2, momentum, eps: (4,) float64."""
    lr: np.ndarray
    """(parameter,) float64"""
    weight_decay: np.ndarray
    """(parameter,) float64"""


def device_rates(rates: UpdateRates) -> DeviceRates:
    """The numbers of the settings for each weight of a network."""
    sizes = np.diff(rates.ends, prepend=0)
    return DeviceRates(
        np.array([rates.beta1, rates.beta2, rates.momentum, rates.eps]),
        np.repeat(rates.lr, sizes),
        np.repeat(rates.weight_decay, sizes),
    )


def step_numbers(rates: UpdateRates, factors: np.ndarray, number: int) -> np.ndarray:
    """What changes from update to update, (step, 4) float64: what multiplies learning
    rates, the number of the update, and the two bias corrections.

    factors: (step,). number: that of the first update, counted from 1."""
    numbers = np.arange(number, number + len(factors), dtype=np.float64)
    corrections = (1 - beta**numbers for beta in (rates.beta1, rates.beta2))
    return np.stack([factors, numbers, *corrections], axis=1)


# ----------------------------------------------------------------------- compiled updates


@functools.cache
def parameter_update(optimizer: Optimizer) -> Callable[..., Any]:
    """A device function for kernels that are compiled for one optimizer: it updates the
    weight `at`.

    Its arguments are the weights and gradient of a run (parameter,), its moments
    (moment x parameter), the place `at`, the number of parameters, the three arrays of
    `DeviceRates`, the array of `step_numbers` and the place of the step in it."""
    update = device_function(frozen_copy(optimizer.update, _ON_DEVICE))
    count = len(optimizer.moments)
    values = {
        "lr": "lr[at] * numbers[step, 0]",
        "weight_decay": "weight_decay[at]",
        "beta1": "hyperparameters[0]",
        "beta2": "hyperparameters[1]",
        "momentum": "hyperparameters[2]",
        "eps": "hyperparameters[3]",
        "step": "numbers[step, 1]",
        "bias_correction1": "numbers[step, 2]",
        "bias_correction2": "numbers[step, 3]",
    }
    loaded = [
        "gradient[index(at)]",
        "weights[index(at)]",
        *(f"moments[index({place} * size + at)]" for place in range(count)),
        *(values[name] for name in optimizer.numbers),
    ]
    results = ", ".join(["weight", *(f"moment{place}" for place in range(count))])
    lines = [
        "def update_parameter(weights, gradient, moments, at, size,"
        " hyperparameters, lr, weight_decay, numbers, step):",
        f"    {results} = update({', '.join(loaded)})",
        "    weights[index(at)] = weight",
        *(
            f"    moments[index({place} * size + at)] = moment{place}"
            for place in range(count)
        ),
    ]
    namespace: dict[str, Any] = {"update": update, "index": index}
    exec(compile("\n".join(lines), "<update of an optimizer>", "exec"), namespace)
    return device_function(namespace["update_parameter"])
