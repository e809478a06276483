"""Functions for Numba kernels of float64 `Scalars` (eight lanes), and in the same way of
one float64: exp, log, powers, comparisons and tables.

Every function consists of IEEE operations and explicit fused products, without a
library of mathematical functions, so its bits are the same on every processor, in every
lane and for one float64.
NaN in an argument gives NaN, except in comparisons."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dynamics.kernels.compiling import kernel_function, variant_function
from dynamics.kernels.simd import LANES_64, ScalarsType, _broadcast, _intrinsic

# ---------------------------------------------------------------------- code generation


class _Instructions:
    """LLVM instructions on eight float64 in lanes, or on one float64."""

    def __init__(self, builder: Any, kind: Any) -> None:
        self.builder = builder
        self.count = kind.width if isinstance(kind, ScalarsType) else 0
        self.floats = self._of(ir.DoubleType())
        self.integers = self._of(ir.IntType(64))
        self.short_integers = self._of(ir.IntType(32))

    def _of(self, element: Any) -> Any:
        return ir.VectorType(element, self.count) if self.count else element

    def number(self, value: float) -> Any:
        """A constant in every lane."""
        return ir.Constant(self.floats, [value] * self.count if self.count else value)

    def integer(self, value: int) -> Any:
        """A constant 64-bit integer in every lane."""
        return ir.Constant(self.integers, [value] * self.count if self.count else value)

    def call(self, name: str, *args: Any) -> Any:
        """The LLVM intrinsic function of this name."""
        name = f"llvm.{name}.{f'v{self.count}' if self.count else ''}f64"
        function_type = ir.FunctionType(self.floats, [self.floats] * len(args))
        function = cgutils.get_or_insert_function(
            self.builder.module, function_type, name
        )
        return self.builder.call(function, args)

    def fused(self, left: Any, right: Any, added: Any) -> Any:
        """left * right + added with one rounding."""
        return self.call("fma", left, right, added)

    def polynomial(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """The polynomial with these coefficients, that of the highest power first."""
        value = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.fused(value, x, self.number(coefficient))
        return value

    def bits(self, x: Any) -> Any:
        return self.builder.bitcast(x, self.integers)

    def from_bits(self, bits: Any) -> Any:
        return self.builder.bitcast(bits, self.floats)

    def choose(self, comparison: str, left: Any, right: Any, a: Any, b: Any) -> Any:
        """`a` where left and right compare so (not where one is NaN), else `b`."""
        tested = self.builder.fcmp_ordered(comparison, left, right)
        return self.builder.select(tested, a, b)

    def nan_or(self, x: Any, value: Any) -> Any:
        """`x` where it is NaN, else `value`."""
        tested = self.builder.fcmp_unordered("uno", x, x)
        return self.builder.select(tested, x, value)


def _is_number(kind: Any) -> bool:
    lanes = isinstance(kind, ScalarsType) and kind.element == types.float64
    return lanes or kind == types.float64


def _lane_function(generate: Callable[..., Any]) -> Any:
    """A function for kernels from `generate(instructions, *lanes)`, of arguments of one
    type."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return generate(_Instructions(builder, signature.return_type), *args)

    def typed(*kinds: Any) -> Any:
        same = all(kind == kinds[0] for kind in kinds) and _is_number(kinds[0])
        return (kinds[0](*kinds), lower) if same else None

    def one(context, a):
        return typed(a)

    def two(context, a, b):
        return typed(a, b)

    def three(context, a, b, c):
        return typed(a, b, c)

    describe = {2: one, 3: two, 4: three}[generate.__code__.co_argcount]
    describe.__name__ = generate.__name__
    describe.__doc__ = generate.__doc__
    return intrinsic(describe)


# -------------------------------------------------------------------------- elementary


@_intrinsic
def number_as(context, like, value):
    """A float64, in every lane if `like` is `Scalars`."""

    def generate(context, builder, signature, args):
        if not isinstance(like, ScalarsType):
            return args[1]
        return _broadcast(builder, like, args[1])

    return (like(like, types.float64), generate) if _is_number(like) else None


@_lane_function
def negative(lanes, x):
    """-x."""
    return lanes.builder.fneg(x)


@_lane_function
def absolute(lanes, x):
    """The absolute value."""
    return lanes.call("fabs", x)


@_lane_function
def root(lanes, x):
    """The square root, correctly rounded."""
    return lanes.call("sqrt", x)


@_lane_function
def less(lanes, a, b):
    """1 where a < b, else 0."""
    return lanes.choose("<", a, b, lanes.number(1.0), lanes.number(0.0))


@_lane_function
def less_equal(lanes, a, b):
    """1 where a <= b, else 0."""
    return lanes.choose("<=", a, b, lanes.number(1.0), lanes.number(0.0))


@_lane_function
def where(lanes, condition, a, b):
    """`b` where `condition` is 0, else `a`."""
    return lanes.choose("==", condition, lanes.number(0.0), b, a)


@_lane_function
def smaller(lanes, a, b):
    """The smaller number; NaN if one is."""
    return lanes.nan_or(a, lanes.choose("<", a, b, a, b))


@_lane_function
def larger(lanes, a, b):
    """The larger number; NaN if one is."""
    return lanes.nan_or(a, lanes.choose(">", a, b, a, b))


# -------------------------------------------------------------- exponential, logarithm

_LOG_2 = 0.6931471805599453
_LOG_2_REST = 2.3190468138462996e-17
"""log 2 - _LOG_2."""
_ROUNDED_TO_WHOLE = 1.5 * 2.0**52
"""Added to a number below 2^51, it rounds to a whole number, which is in the last bits
of the sum."""
_EXPONENTIAL = (
    2.5110069618193047e-08,
    2.7620089041160327e-07,
    2.7557242286307117e-06,
    2.4801521294484073e-05,
    0.00019841269886632798,
    0.0013888888917214875,
    0.008333333333322195,
    0.04166666666662412,
    0.16666666666666674,
    0.5000000000000001,
)
"""(exp(x) - 1 - x) / x² for |x| <= log(2) / 2, with an error below 2e-16."""


@_lane_function
def exponential(lanes, x):
    """exp(x) to 1 unit in the last place, also where it is subnormal; 0 and infinity
    outside of the range.

    The argument is split as n log 2 + r, with log 2 in two parts; exp(r) is a
    polynomial of degree 11, and is multiplied by 2^n in two steps."""
    builder = lanes.builder
    whole = lanes.number(_ROUNDED_TO_WHOLE)
    least, most = lanes.number(-746.0), lanes.number(710.0)
    x = lanes.choose("<", x, least, least, x)
    x = lanes.choose(">", x, most, most, x)
    n = builder.fsub(lanes.fused(x, lanes.number(1 / math.log(2)), whole), whole)
    r = lanes.fused(n, lanes.number(-_LOG_2), x)
    r = lanes.fused(n, lanes.number(-_LOG_2_REST), r)
    rest = lanes.fused(lanes.polynomial(r, _EXPONENTIAL), builder.fmul(r, r), r)
    power = builder.fadd(rest, lanes.number(1.0))
    half = lanes.fused(n, lanes.number(0.5), whole)
    other = builder.fadd(builder.fsub(n, builder.fsub(half, whole)), whole)
    for shifted in (half, other):
        exponent = builder.shl(lanes.bits(shifted), lanes.integer(52))
        scale = builder.add(exponent, lanes.integer(1023 << 52))
        power = builder.fmul(power, lanes.from_bits(scale))
    return power


_ROOT_HALF = 0x3FE6A09E00000000
"""Bits of sqrt(1/2)."""
_LOGARITHM = (
    1.479819860511658591e-01,
    1.531383769920937332e-01,
    1.818357216161805012e-01,
    2.222219843214978396e-01,
    2.857142874366239149e-01,
    3.999999999940941908e-01,
    6.666666666666735130e-01,
)
_LOG_2_HIGH = 6.93147180369123816490e-01
_LOG_2_LOW = 1.90821492927058770002e-10
"""log 2 in two parts, of which n times the first is exact."""


@_lane_function
def logarithm(lanes, x):
    """log(x) to 1 unit in the last place; log(0) = -inf, and NaN below 0.

    The argument is split as m 2^n with m near 1; with s = (m - 1) / (m + 1), log m is an
    odd polynomial in s (FreeBSD's log)."""
    builder = lanes.builder
    one = lanes.number(1.0)
    is_subnormal = builder.fcmp_ordered("<", x, lanes.number(2.0**-1022))
    normal = builder.select(is_subnormal, builder.fmul(x, lanes.number(2.0**54)), x)
    shift = builder.select(is_subnormal, lanes.number(54.0), lanes.number(0.0))
    bits = builder.add(lanes.bits(normal), lanes.integer((1023 << 52) - _ROOT_HALF))
    # the exponent as a number: its bits are the last ones of 2^52 + exponent
    exponent = builder.or_(
        builder.lshr(bits, lanes.integer(52)), lanes.integer((1023 + 52) << 52)
    )
    n = builder.fsub(lanes.from_bits(exponent), lanes.number(2.0**52 + 1023))
    n = builder.fsub(n, shift)
    digits = builder.and_(bits, lanes.integer((1 << 52) - 1))
    m = lanes.from_bits(builder.add(digits, lanes.integer(_ROOT_HALF)))
    f = builder.fsub(m, one)
    s = builder.fdiv(f, builder.fadd(f, lanes.number(2.0)))
    square = builder.fmul(s, s)
    rest = builder.fmul(lanes.polynomial(square, _LOGARITHM), square)
    half_square = builder.fmul(lanes.number(0.5), builder.fmul(f, f))
    change = lanes.fused(
        s, builder.fadd(half_square, rest), builder.fmul(n, lanes.number(_LOG_2_LOW))
    )
    change = builder.fsub(builder.fsub(half_square, change), f)
    value = builder.fsub(builder.fmul(n, lanes.number(_LOG_2_HIGH)), change)
    zero, infinity = lanes.number(0.0), lanes.number(math.inf)
    value = lanes.choose("<", x, infinity, value, x)
    value = lanes.choose("<", x, zero, lanes.number(math.nan), value)
    return lanes.choose("==", x, zero, lanes.number(-math.inf), value)


# ------------------------------------------------------------------------------- powers


@intrinsic(prefer_literal=True)
def half_integer_power(context, x, halves):
    """x**(halves / 2), for a literal integer, by products and at most one square root
    and one division."""

    def generate(context, builder, signature, args):
        lanes = _Instructions(builder, x)
        count = abs(halves.literal_value)
        value = lanes.call("sqrt", args[0]) if count % 2 else None
        square = args[0]
        for digit in reversed(bin(count // 2)[2:]):
            if digit == "1":
                value = square if value is None else builder.fmul(value, square)
            square = builder.fmul(square, square)
        if value is None:
            return lanes.number(1.0)
        if halves.literal_value < 0:
            value = builder.fdiv(lanes.number(1.0), value)
        return value

    fits = _is_number(x) and isinstance(halves, types.IntegerLiteral)
    return (x(x, halves), generate) if fits else None


@kernel_function
def positive_power(x, exponent):
    """x**exponent for x >= 0, with a relative error of |exponent log x| units in the
    last place."""
    return exponential(exponent * logarithm(x))


@kernel_function
def odd_power(x, exponent):
    """x**exponent for an odd whole exponent, by the power of |x|."""
    power = positive_power(absolute(x), exponent)
    return where(less(x, number_as(x, 0.0)), negative(power), power)


# ------------------------------------------------------------------------------- tables


class LaneTable(NamedTuple):
    """A table of points for `interpolate` and `steps`, from `lane_table`.

    A point is found in two stages: x is in one of equal cells, whose first point is
    known, and a binary search finds the last one that is not after x."""

    first: float
    last: float
    cells_per_length: float
    first_step: float
    """Number of points by which the search in a cell goes on first, a power of 2, half
    as many each time; 0 if the points are equidistant and the cells are their
    intervals."""
    starts: np.ndarray
    """The last point not after the start of each cell (cell)."""
    points: np.ndarray
    """(point), and `first_step` times infinity, which the search does not pass."""
    values: np.ndarray
    changes: np.ndarray
    """Slope from each point to the next, or the difference of values if the points are
    equidistant; 0 for the last (point)."""


MAX_ROUNDING = 4 * np.finfo(float).eps
MAX_SHIFT = 1e-9
"""Largest distance of points that count as equidistant from their places, relative to
the largest place and to their intervals."""
CELLS_PER_POINT = 8
SHORT_TABLE = 24
"""Number of points up to which comparison with every point is faster than a search."""


def lane_table(x: np.ndarray, y: np.ndarray, is_linear: bool) -> LaneTable:
    """The table of values y at increasing points x (point). If not `is_linear`, it is
    for `steps`, and y[i] is the value from point i to the next, the last one 0."""
    count = len(x)
    places = np.linspace(x[0], x[-1], count)
    tolerance = min(
        MAX_ROUNDING * np.abs(x).max(), MAX_SHIFT * (x[-1] - x[0]) / (count - 1)
    )
    is_even = is_linear and bool((np.abs(places - x) <= tolerance).all())
    cells_per_length = (count - 1 if is_even else CELLS_PER_POINT * count) / (
        x[-1] - x[0]
    )
    cell_of_point = ((x - x[0]) * cells_per_length).astype(np.int64)
    cells = np.arange(cell_of_point[-1] + 1)
    starts = np.maximum(np.searchsorted(cell_of_point, cells) - 1, 0)
    ends = np.searchsorted(cell_of_point, cells, "right") - 1
    most_in_cell = int((ends - starts).max())
    first_step = 0 if is_even else 2 ** (most_in_cell.bit_length() - 1)
    changes = np.diff(y, append=y[-1])
    if not is_even:
        changes[:-1] /= np.diff(x)
    return LaneTable(
        float(x[0]),
        float(x[-1]),
        float(cells_per_length),
        float(first_step),
        starts.astype(np.float64),
        np.append(x, np.full(first_step, np.inf)),
        y,
        changes,
    )


@_intrinsic
def _gather(context, array, position):
    """array[position] in every lane, for a position from 0 whose fraction is dropped."""

    def generate(context, builder, signature, args):
        data = context.make_array(array)(context, builder, args[0]).data
        lanes = _Instructions(builder, position)

        def load(index):
            return builder.load(builder.gep(data, [index]))

        whole = builder.fptosi(args[1], lanes.short_integers)
        if not lanes.count:
            return load(builder.zext(whole, ir.IntType(64)))
        value = ir.Constant(lanes.floats, ir.Undefined)
        for lane in range(lanes.count):
            place = ir.Constant(ir.IntType(32), lane)
            index = builder.zext(builder.extract_element(whole, place), ir.IntType(64))
            value = builder.insert_element(value, load(index), place)
        return value

    fits = isinstance(array, types.Array) and array.dtype == types.float64
    return (
        (position(array, position), generate) if fits and _is_number(position) else None
    )


@_lane_function
def _whole(lanes, x):
    """The whole part of a number from 0."""
    whole = lanes.builder.fptosi(x, lanes.short_integers)
    return lanes.builder.sitofp(whole, lanes.floats)


@_lane_function
def _between(lanes, x, least, most):
    """`x`, but `least` where it is below or NaN, and `most` where it is above."""
    x = lanes.choose(">", x, least, x, least)
    return lanes.choose("<", x, most, x, most)


@_lane_function
def _nan_or(lanes, x, value):
    """`x` where it is NaN, else `value`."""
    return lanes.nan_or(x, value)


@kernel_function
def _last_point(x, table):
    """The number of the last point not after x, which is within the table."""
    cell = (x - number_as(x, table.first)) * number_as(x, table.cells_per_length)
    point = _gather(table.starts, cell)
    step = table.first_step
    while step >= 1.0:
        next_point = point + number_as(x, step)
        is_before = less_equal(_gather(table.points, next_point), x)
        point = where(is_before, next_point, point)
        step *= 0.5
    return point


@kernel_function
def interpolate(x, table):
    """Linear interpolation in a table; constant outside."""
    inside = _between(x, number_as(x, table.first), number_as(x, table.last))
    if table.first_step == 0.0:
        cell = (inside - number_as(x, table.first)) * number_as(
            x, table.cells_per_length
        )
        point = _whole(cell)
        distance = cell - point
        value = _gather(table.values, point)
        change = _gather(table.changes, point)
    elif len(table.values) <= SHORT_TABLE:
        start = number_as(x, table.points[0])
        value = number_as(x, table.values[0])
        change = number_as(x, table.changes[0])
        for number in range(1, len(table.values)):
            next_start = number_as(x, table.points[number])
            is_after = less_equal(next_start, inside)
            start = where(is_after, next_start, start)
            value = where(is_after, number_as(x, table.values[number]), value)
            change = where(is_after, number_as(x, table.changes[number]), change)
        distance = inside - start
    else:
        point = _last_point(inside, table)
        distance = inside - _gather(table.points, point)
        value = _gather(table.values, point)
        change = _gather(table.changes, point)
    return _nan_or(x, value + change * distance)


@kernel_function
def steps(x, table):
    """The value of the last point not after x; 0 outside of the table."""
    first = number_as(x, table.first)
    last = number_as(x, table.last)
    value = _gather(table.values, _last_point(_between(x, first, last), table))
    is_inside = less_equal(first, x) * less(x, last)
    return _nan_or(x, where(is_inside, value, number_as(x, 0.0)))


# ---------------------------------------------------------------- functions of one number


@_intrinsic
def _lane(context, x, number):
    """The number in one lane of `Scalars`."""

    def generate(context, builder, signature, args):
        place = builder.trunc(args[1], ir.IntType(32))
        return builder.extract_element(args[0], place)

    is_lanes = isinstance(x, ScalarsType)
    return (x.element(x, types.intp), generate) if is_lanes else None


@_intrinsic
def _with_lane(context, x, number, value):
    """`Scalars` with another number in one lane."""

    def generate(context, builder, signature, args):
        place = builder.trunc(args[1], ir.IntType(32))
        return builder.insert_element(args[0], args[2], place)

    is_lanes = isinstance(x, ScalarsType)
    return (x(x, types.intp, x.element), generate) if is_lanes else None


def on_lanes(function: Callable[[float], float], variant: str) -> Callable[..., Any]:
    """A compiled function of one float64, which the text `variant` determines, in every
    lane of `Scalars`."""

    @variant_function(variant)
    def of_lanes(x):
        result = x
        for lane in range(LANES_64):
            result = _with_lane(result, lane, function(_lane(x, lane)))
        return result

    return of_lanes
