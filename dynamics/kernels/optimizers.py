"""Update rules on lanes of sixteen runs (`dynamics.kernels.simd`): SGD, Adam and AdamW, as torch.optim has them.

With gradient g, after the L2 term weight_decay x w where the rule is not AdamW's, and t updates so far:

    SGD    b = momentum b + g;  w -= lr b
    Adam   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g²
           w -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + 1e-8)
    AdamW  w -= lr weight_decay w, then as Adam
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.kernels.simd import load_scalars, multiply_add, scalars, square_root, store_scalars
from dynamics.settings import OptimizerSettings

_EPSILON = 1e-8
_SGD, _ADAM, _ADAMW = range(3)


class OptimizerRule(NamedTuple):
    """`OptimizerSettings` as compiled kernels take them."""

    kind: int
    lr: float
    weight_decay: float
    beta1: float
    beta2: float
    momentum: float


class TrainingArrays(NamedTuple):
    """What training changes, each (block, parameter x lane) float32.

    first and second are the optimizer's moments: Adam's mean gradient and mean squared gradient, or SGD's buffer and
    nothing. gradient is that of the last update, before the weights before it.
    """

    weights: np.ndarray
    first: np.ndarray
    second: np.ndarray
    gradient: np.ndarray
    before: np.ndarray


def optimizer_rule(s: OptimizerSettings) -> OptimizerRule:
    """The update rule that settings name."""
    kind = {"sgd": _SGD, "adam": _ADAM, "adamw": _ADAMW}[s.optimizer]
    return OptimizerRule(kind, s.lr, s.weight_decay, s.beta1, s.beta2, s.momentum)


def moment_names(s: OptimizerSettings) -> tuple[str, ...]:
    """What the optimizer remembers of each parameter, by torch's names."""
    if s.optimizer == "sgd":
        return ("momentum_buffer",) if s.momentum else ()
    return ("exp_avg", "exp_avg_sq")


@njit(error_model="numpy")
def update_weights(memory, block, rule, number, begin, end, discount):
    """Update number `number`, from 1, of a block's parameters begin..end, at the learning rate over `discount`."""
    weights, first, second = memory.weights[block], memory.first[block], memory.second[block]
    gradient = memory.gradient[block]
    lr = rule.lr / discount
    rate, decay = scalars(np.float32(-lr)), scalars(np.float32(rule.weight_decay))
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
    beta1, rest1 = scalars(np.float32(rule.beta1)), scalars(np.float32(1 - rule.beta1))
    beta2, rest2 = scalars(np.float32(rule.beta2)), scalars(np.float32(1 - rule.beta2))
    shrunk, epsilon = scalars(np.float32(1 - lr * rule.weight_decay)), scalars(np.float32(_EPSILON))
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
        store_scalars(weights, at, multiply_add(m / multiply_add(square_root(v), size, epsilon), rate, weight))
