"""The values of expressions: on arrays by NumPy, and in functions that are compiled for
one float64 or for the lanes of kernels.

The compiled functions of one float64 and of lanes have the same bits, on every
processor. Those of NumPy agree with them to rounding."""

import functools
import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from dynamics.errors import SettingsError
from dynamics.expressions import Expression, OwnFunction
from dynamics.kernels import lane_functions, simd
from dynamics.kernels.compiling import name_variant, njit
from dynamics.kernels.lane_functions import lane_table, on_lanes
from dynamics.own_functions import find_own_function, frozen_copy


def _numpy_steps(x: Any, points: tuple[float, ...], values: tuple[float, ...]) -> Any:
    after = np.searchsorted(points, x, side="right")
    value = np.array([0.0, *values, 0.0])[after]
    return np.where(np.isnan(x), x, value)


RELATIVE_STEP = 1e-3
"""Step of the central differences that differentiate functions of the user, relative to
the argument, or to a tenth if that is larger. Their error is some 1e-12 of the
function."""


@functools.cache
def _own_scalar_function(function: OwnFunction) -> Callable[[float], float]:
    """A function of the user, or its derivative, as a compiled function of one float64.
    Raises SettingsError if it cannot be compiled."""
    if function.order:
        lower = _own_scalar_function(replace(function, order=function.order - 1))

        def slope(x):
            step = RELATIVE_STEP * max(abs(x), 0.1)
            near = lower(x + step) - lower(x - step)
            far = lower(x + 2 * step) - lower(x - 2 * step)
            return (8 * near - far) / (12 * step)

        name_variant(slope, str(function))
        return njit(slope, signature_or_function="float64(float64)")
    copy = frozen_copy(find_own_function(function.name, function.digest))
    name_variant(copy, function.digest)
    try:
        return njit(copy, signature_or_function="float64(float64)")
    except NumbaError as error:
        reason = str(error).strip().splitlines()[0]
        raise SettingsError(
            "strength",
            function.name,
            f"a function of one number that Numba can compile ({reason})",
        ) from None


@functools.cache
def _own_array_function(function: OwnFunction) -> Callable[[Any], np.ndarray]:
    """The same for every number of an array."""
    compiled = _own_scalar_function(function)

    @njit
    def fill(values, results):
        for place in range(values.size):
            results[place] = compiled(values[place])

    def of_array(x: Any) -> np.ndarray:
        values = np.asarray(x, np.float64, order="C")
        results = np.empty(values.shape)
        fill(values.reshape(-1), results.reshape(-1))
        return results

    return of_array


_SAME_NAMES = (
    "negative",
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "exp",
    "log",
    "sqrt",
    "absolute",
    "minimum",
    "maximum",
)
NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _SAME_NAMES},
    "number": np.float64,
    "less": lambda a, b: np.less(a, b).astype(float),
    "less_equal": lambda a, b: np.less_equal(a, b).astype(float),
    "greater": lambda a, b: np.greater(a, b).astype(float),
    "greater_equal": lambda a, b: np.greater_equal(a, b).astype(float),
    "where": lambda condition, a, b: np.where(condition != 0, a, b),
    "interp": np.interp,
    "steps": _numpy_steps,
    "own": lambda x, function: _own_array_function(function)(x),
}
"""Operations of `Expression.evaluate` on arrays."""


def evaluate(expression: Expression, values: np.ndarray) -> np.ndarray:
    """The expression at every number of an array, in float64 and without warnings; it is
    infinite or NaN where it is not defined."""
    x = np.asarray(values, dtype=np.float64)
    with np.errstate(all="ignore"):
        result = expression.evaluate(x, NUMPY)
    return np.array(np.broadcast_to(result, x.shape))


# -------------------------------------------------------------------- compiled functions

LARGEST_PRODUCT = 64
"""Whole powers up to this one are products."""


class SourceText:
    """The operations of `Expression.evaluate` on Python source text of a kernel, and the
    names in it."""

    def __init__(
        self,
        number: Callable[[float], str],
        own_function: Callable[[OwnFunction], Callable[..., Any]],
        functions: Any = lane_functions,
    ) -> None:
        """functions: the module whose functions are called."""
        self.names: dict[str, Any] = {}
        self.functions = functions
        self.number = number
        self.own_function = own_function

    def call(self, function: str, *arguments: str) -> str:
        """The call of a function of the module."""
        name = f"lane_{function}"
        self.names[name] = getattr(self.functions, function)
        return f"{name}({', '.join(arguments)})"

    def power(self, base: str, exponent: float) -> str:
        """A power with a constant exponent."""
        halves = 2 * exponent
        if halves.is_integer() and abs(halves) <= 2 * LARGEST_PRODUCT:
            return self.call("half_integer_power", base, str(int(halves)))
        if exponent % 2 == 0:
            base = self.call("absolute", base)
        function = "odd_power" if exponent % 2 == 1 else "positive_power"
        return self.call(function, base, self.number(exponent))

    def table(
        self,
        function: str,
        x: str,
        points: tuple[float, ...],
        values: tuple[float, ...],
    ) -> str:
        """The value of a table, which becomes a constant named by its numbers."""
        digest = hashlib.sha256(repr((function, points, values)).encode()).hexdigest()
        name = f"table_{digest[:16]}"
        is_linear = function == "interpolate"
        numbers = values if is_linear else (*values, 0.0)
        self.names[name] = lane_table(np.array(points), np.array(numbers), is_linear)
        return self.call(function, x, name)

    def own(self, x: str, function: OwnFunction) -> str:
        """The value of a function of the user."""
        name = f"own_{function.name}_{function.digest}_{function.order}"
        self.names[name] = self.own_function(function)
        return f"{name}({x})"

    @property
    def operations(self) -> dict[str, Callable[..., str]]:
        call = self.call
        infix = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
        functions = {
            "negative": "negative",
            "less": "less",
            "less_equal": "less_equal",
            "where": "where",
            "exp": "exponential",
            "log": "logarithm",
            "sqrt": "root",
            "absolute": "absolute",
            "minimum": "smaller",
            "maximum": "larger",
        }
        return {
            "number": self.number,
            "power": self.power,
            "greater": lambda a, b: call("less", b, a),
            "greater_equal": lambda a, b: call("less_equal", b, a),
            "interp": functools.partial(self.table, "interpolate"),
            "steps": functools.partial(self.table, "steps"),
            "own": self.own,
            **{
                name: (lambda a, b, symbol=symbol: f"({a} {symbol} {b})")
                for name, symbol in infix.items()
            },
            **{
                name: functools.partial(call, function)
                for name, function in functions.items()
            },
        }


def lane_source_text() -> SourceText:
    """The operations on source text over float64 `Scalars`."""

    def own_function(function: OwnFunction) -> Callable[..., Any]:
        return on_lanes(_own_scalar_function(function), str(function))

    source = SourceText(lambda number: f"scalars({number!r})", own_function)
    source.names["scalars"] = simd.scalars
    return source


def lane_source(expression: Expression, value: str) -> tuple[str, dict[str, Any]]:
    """Python source text of the expression for kernels, over float64 `Scalars`, and the
    functions and tables that it names.

    value: source text of the variable, such as a name."""
    source = lane_source_text()
    return expression.evaluate(value, source.operations), source.names


@functools.cache
def scalar_function(expression: Expression) -> Callable[[float], float]:
    """The expression as a compiled function of one float64, also for kernels; its bits
    are those of `lane_source`."""
    source = SourceText(repr, _own_scalar_function)
    text = expression.evaluate("value", source.operations)
    code = f"def strength(value):\n    return {text}\n"
    exec(code, source.names)  # consists of these names, numbers and operators
    strength = name_variant(source.names["strength"], f"{code} {sorted(source.names)}")
    return njit(strength, signature_or_function="float64(float64)")
