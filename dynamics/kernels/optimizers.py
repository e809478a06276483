"""Optimizer updates on SIMD lanes, one run per lane.

`optimizer_update` compiles the update of a value of `dynamics.optimizers` into a loop
over parameters. The numbers of an update (learning rate, decay rates) are float64, and
are rounded to float32 where they meet weights."""

import functools
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core.errors import NumbaError
from numba.extending import overload

from dynamics import optimizers
from dynamics.kernels import simd
from dynamics.kernels.compiling import variant_function
from dynamics.kernels.simd import LANES_32, ScalarsType, lanes_of, scalars, where_above
from dynamics.networks.parameters import NetworkParameters
from dynamics.optimizers import Optimizer
from dynamics.settings import OptimizerSettings, SettingsError

# --------------------------------------------------------- functions of updates on lanes


def _is_number(kind: Any) -> bool:
    return isinstance(kind, ScalarsType | types.Number)


def _on_lanes(*kinds: Any) -> bool:
    """Whether arguments of these types are `Scalars`, or numbers and `Scalars`."""
    lanes = [kind for kind in kinds if isinstance(kind, ScalarsType)]
    return bool(lanes) and all(map(_is_number, kinds))


@simd._intrinsic
def _fused(context, left, right, added):
    """left * right + added with one rounding, of `Scalars` and numbers."""
    kinds = (left, right, added)
    kind = next(item for item in kinds if isinstance(item, ScalarsType))

    def generate(context, builder, signature, args):
        sides = [
            lanes_of(context, builder, given, arg, kind)
            for given, arg in zip(signature.args, args, strict=True)
        ]
        return simd._call_llvm(builder, "fma", kind, sides)

    return kind(left, right, added), generate


@simd._intrinsic
def _lanes(context, value, like):
    """`Scalars` as they are, and a number in every lane of the type of `like`."""
    kind = value if isinstance(value, ScalarsType) else like

    def generate(context, builder, signature, args):
        return lanes_of(context, builder, value, args[0], kind)

    return kind(value, like), generate


@overload(optimizers.multiply_add)
def _multiply_add(left, right, added):
    if _on_lanes(left, right, added):
        return lambda left, right, added: _fused(left, right, added)
    return lambda left, right, added: left * right + added


@overload(optimizers.square_root)
def _square_root(x):
    if _on_lanes(x):
        return lambda x: simd.square_root(x)
    return lambda x: np.sqrt(x)


@overload(optimizers.absolute)
def _absolute(x):
    if _on_lanes(x):
        return lambda x: simd.maximum(x, -x)
    return lambda x: abs(x)


@overload(optimizers.sign)
def _sign(x):
    if not _on_lanes(x):
        return lambda x: np.sign(x)

    def on_lanes(x):
        zero = np.float32(0)
        one = scalars(np.float32(1))
        nothing = x - x  # NaN where x is
        return nothing + where_above(x, zero, one) - where_above(-x, zero, one)

    return on_lanes


@overload(optimizers.maximum)
def _maximum(x, y):
    if _on_lanes(x, y):
        return lambda x, y: simd.maximum(_lanes(x, y), _lanes(y, x))
    return lambda x, y: max(x, y)


@overload(optimizers.minimum)
def _minimum(x, y):
    if _on_lanes(x, y):
        return lambda x, y: -simd.maximum(-_lanes(x, y), -_lanes(y, x))
    return lambda x, y: min(x, y)


# ----------------------------------------------------------------------- compiled updates


class UpdateRates(NamedTuple):
    """What updates of a network have in common: decay rates, and for each range of
    parameters with the same learning rate and weight decay these two and its end."""

    beta1: float
    beta2: float
    momentum: float
    eps: float
    lr: np.ndarray
    """(part,)"""
    weight_decay: np.ndarray
    """(part,)"""
    ends: np.ndarray
    """(part,)"""


class TrainingArrays(NamedTuple):
    """The arrays that training changes, each (block, parameter x lane) float32."""

    weights: np.ndarray
    moments: np.ndarray
    """Moments of the optimizer, (moment, block, parameter x lane)."""
    gradient: np.ndarray
    """Gradient that the last update used."""
    before: np.ndarray
    """Weights before the last update."""


def training_arrays(shape: tuple[int, int], moments: int) -> TrainingArrays:
    """Arrays of zeros (block, parameter x lane) for an optimizer with a number of
    moments."""
    return TrainingArrays(
        weights=_aligned_zeros(shape),
        moments=_aligned_zeros((moments, *shape)),
        gradient=_aligned_zeros(shape),
        before=_aligned_zeros(shape),
    )


def _aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros (shape) of float32 whose groups of lanes do not extend over two cache
    lines."""
    size = math.prod(shape)
    numbers = np.zeros(size + LANES_32, np.float32)
    start = -numbers.ctypes.data % 64 // 4
    return numbers[start : start + size].reshape(shape)


def update_rates(s: OptimizerSettings, network: NetworkParameters) -> UpdateRates:
    """The numbers of the settings for the weights of a network."""
    values, sizes = network.parts(s.learning_rate_of, s.weight_decay_of)
    lr, weight_decay = np.array(values, np.float64).T.copy()
    ends = np.cumsum(sizes)
    return UpdateRates(s.beta1, s.beta2, s.momentum, s.eps, lr, weight_decay, ends)


def _copy_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the same code, which can be given another name."""
    return FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


@functools.cache
def optimizer_update(optimizer: Optimizer) -> Callable[..., Any]:
    """A function for kernels that are compiled for one optimizer: it applies update
    `number`, counted from 1, to all parameters of a block, with learning rates times
    `factor`."""
    variant = optimizer.digest
    lines = _update_lines(optimizer)
    compiled = variant_function(variant)(_copy_function(optimizer.update))
    if optimizer.in_torch is None:
        _check_types(optimizer, compiled)
    namespace = {**vars(simd), "compiled": compiled}
    source = "\n    ".join(["def update_part(" + ", ".join(_ARGUMENTS) + "):", *lines])
    exec(compile(source, "<update of an optimizer>", "exec"), namespace)
    update_part = variant_function(variant)(namespace["update_part"])

    @variant_function(variant)
    def update_weights(memory, block, rates, factor, number):
        begin = 0
        correction1 = 1 - rates.beta1**number
        correction2 = 1 - rates.beta2**number
        for part in range(len(rates.ends)):
            end = rates.ends[part]
            update_part(
                memory,
                block,
                begin,
                end,
                rates.lr[part] * factor,
                rates.weight_decay[part],
                rates.beta1,
                rates.beta2,
                rates.momentum,
                rates.eps,
                float(number),
                correction1,
                correction2,
            )
            begin = end

    return update_weights


def _check_types(optimizer: Optimizer, compiled: Any) -> None:
    """Raise SettingsError if the update of an optimizer cannot be compiled for lanes."""
    lanes = ScalarsType(types.float32)
    count = 1 + len(optimizer.moments)
    numbers: list[Any] = [types.float64] * len(optimizer.numbers)
    numbers += map(types.Omitted, optimizer.update.__defaults__ or ())
    try:
        compiled.compile((lanes,) * (1 + count) + tuple(numbers))
        result = compiled.overloads[
            next(iter(compiled.overloads))
        ].signature.return_type
    except NumbaError as error:
        reason = str(error).strip().splitlines()[0]
        names = ", ".join(function.__name__ for function in optimizers.FUNCTIONS)
        allowed = f"a function of + - * /, {names} that Numba compiles ({reason})"
        raise SettingsError("optimizer", optimizer.name, allowed) from None
    if result != (lanes if count == 1 else types.UniTuple(lanes, count)):
        allowed = f"one whose update returns {count} numbers of a weight, not {result}"
        raise SettingsError("optimizer", optimizer.name, allowed)


_ARGUMENTS = ("memory", "block", "begin", "end", *optimizers.NUMBERS)


def _update_lines(optimizer: Optimizer) -> list[str]:
    """Lines that load, update and store the parameters begin to end - 1 of a block."""
    moments = range(len(optimizer.moments))
    loaded = [
        "load_scalars(gradient, at)",
        "load_scalars(weights, at)",
        *(f"load_scalars(moment{place}, at)" for place in moments),
        *optimizer.numbers,
    ]
    results = ", ".join(["weight", *(f"new{place}" for place in moments)])
    return [
        "weights = memory.weights[block]",
        "gradient = memory.gradient[block]",
        *(f"moment{place} = memory.moments[{place}, block]" for place in moments),
        "for at in range(begin, end):",
        f"    {results} = compiled({', '.join(loaded)})",
        "    store_scalars(weights, at, weight)",
        *(f"    store_scalars(moment{place}, at, new{place})" for place in moments),
    ]
