"""Optimizer updates on SIMD lanes, one run per lane: SGD, Adam and AdamW, as in
torch.optim.

g is the gradient, including the L2 term weight_decay w except for AdamW, and t is the
number of the update, from 1:

    SGD    b = momentum b + g;  w -= lr b
    Adam   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g²
           w -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + 1e-8)
    AdamW  w -= lr weight_decay w, then as Adam
"""

from typing import NamedTuple

import numpy as np

from dynamics.kernels.compiling import kernel_function
from dynamics.kernels.simd import (
    load_scalars,
    multiply_add,
    scalars,
    square_root,
    store_scalars,
)
from dynamics.settings import OptimizerSettings

_EPSILON = OptimizerSettings.eps
_SGD, _ADAM, _ADAMW = range(3)


class OptimizerRule(NamedTuple):
    """`OptimizerSettings` in the form that compiled kernels take."""

    kind: int
    lr: float
    weight_decay: float
    beta1: float
    beta2: float
    momentum: float


class TrainingArrays(NamedTuple):
    """The arrays that training changes, each (block, parameter x lane) float32."""

    weights: np.ndarray
    first: np.ndarray
    """First optimizer moment: Adam's mean gradient, or the momentum buffer of SGD."""
    second: np.ndarray
    """Second optimizer moment: Adam's mean squared gradient; unused by SGD."""
    gradient: np.ndarray
    """Gradient that the last update used."""
    before: np.ndarray
    """Weights before the last update."""


def optimizer_rule(s: OptimizerSettings) -> OptimizerRule:
    """The optimizer of the settings, for `update_weights`."""
    kind = {"sgd": _SGD, "adam": _ADAM, "adamw": _ADAMW}[s.optimizer]
    return OptimizerRule(kind, s.lr, s.weight_decay, s.beta1, s.beta2, s.momentum)


def moment_names(s: OptimizerSettings) -> tuple[str, ...]:
    """Names of the optimizer's moments in torch.optim."""
    if s.optimizer == "sgd":
        return ("momentum_buffer",) if s.momentum else ()
    return ("exp_avg", "exp_avg_sq")


@kernel_function
def update_weights(memory, block, rule, number, begin, end, discount):
    """Apply update `number`, counted from 1, to the parameters begin to end - 1 of a
    block.

    The learning rate is divided by `discount`.
    """
    weights = memory.weights[block]
    first = memory.first[block]
    second = memory.second[block]
    gradient = memory.gradient[block]
    lr = rule.lr / discount
    rate = scalars(np.float32(-lr))
    decay = scalars(np.float32(rule.weight_decay))
    if rule.kind == _SGD:
        momentum = scalars(np.float32(rule.momentum))
        for at in range(begin, end):
            weight = load_scalars(weights, at)
            g = multiply_add(weight, decay, load_scalars(gradient, at))
            if rule.momentum != 0:
                g = multiply_add(load_scalars(first, at), momentum, g)
                store_scalars(first, at, g)
            store_scalars(weights, at, multiply_add(g, rate, weight))
        return
    rate = scalars(np.float32(-lr / (1 - rule.beta1**number)))
    size = scalars(np.float32(1 / np.sqrt(1 - rule.beta2**number)))
    beta1 = scalars(np.float32(rule.beta1))
    rest1 = scalars(np.float32(1 - rule.beta1))
    beta2 = scalars(np.float32(rule.beta2))
    rest2 = scalars(np.float32(1 - rule.beta2))
    shrunk = scalars(np.float32(1 - lr * rule.weight_decay))
    epsilon = scalars(np.float32(_EPSILON))
    for at in range(begin, end):
        weight, g = load_scalars(weights, at), load_scalars(gradient, at)
        if rule.kind == _ADAMW:
            weight = weight * shrunk
        else:
            g = multiply_add(weight, decay, g)
        m = multiply_add(load_scalars(first, at), beta1, g * rest1)
        v = multiply_add(load_scalars(second, at), beta2, g * g * rest2)
        store_scalars(first, at, m)
        store_scalars(second, at, v)
        store_scalars(
            weights,
            at,
            multiply_add(m / multiply_add(square_root(v), size, epsilon), rate, weight),
        )
