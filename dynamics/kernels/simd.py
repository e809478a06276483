"""SIMD types for Numba kernels: 64 bytes of numbers that are computed together, each in
its own lane.

In a compiled kernel a `Scalars` value holds eight float64 or sixteen float32 numbers,
one per lane. A `Vectors` value holds one point with D axes per lane, as D `Scalars`.
Each operation acts on every lane separately in IEEE arithmetic, without contraction
(except `multiply_add` and `dot_add`) and without reordering. So the bits of a lane
depend neither on the other lanes nor on the vector width of the processor. In the force
kernels lanes are runs of an ensemble or pair sums of one run; in the gradient kernels
lanes are runs.

These types are needed because LLVM's loop vectoriser, on which plain Numba loops
depend, does not vectorise a symmetric sum over pairs: it cannot prove that the two
elements of a pair are at different addresses.

In memory a group of lanes is contiguous: `Scalars` (lane), `Vectors` (axis, lane).
Arrays are flat, and their dtype determines the number of lanes. `axes` is the tuple
``tuple(range(D))``: its length is part of its type, so loops over axes are unrolled.
"""

import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import (
    intrinsic,
    lower_builtin,
    models,
    register_model,
    type_callable,
)

from dynamics.kernels.compiling import kernel_function

REGISTER_BITS = 512
LANES_64 = REGISTER_BITS // 64
"""Number of float64 lanes, 8."""
LANES_32 = REGISTER_BITS // 32
"""Number of float32 lanes, 16."""


def to_lanes(rows: np.ndarray) -> np.ndarray:
    """Rearrange (run, number) to (block, number x lane) float32: sixteen runs per
    block, missing runs zero."""
    runs, size = rows.shape
    blocks = -(-runs // LANES_32)
    padded = np.zeros((blocks * LANES_32, size), np.float32)
    padded[:runs] = rows
    return np.ascontiguousarray(
        padded.reshape(blocks, LANES_32, size).swapaxes(1, 2)
    ).reshape(blocks, -1)


def from_lanes(blocks: np.ndarray, runs: int) -> np.ndarray:
    """The inverse of `to_lanes`."""
    size = blocks.shape[1] // LANES_32
    return np.ascontiguousarray(
        blocks.reshape(-1, size, LANES_32).swapaxes(1, 2)
    ).reshape(-1, size)[:runs]


class ScalarsType(types.Type):
    """Numba type of eight float64 or sixteen float32 numbers, one per lane."""

    def __init__(self, element: types.Float) -> None:
        self.element = element
        self.width = REGISTER_BITS // element.bitwidth
        super().__init__(name=f"Scalars[{element}, {self.width}]")

    @property
    def lanes(self) -> ir.VectorType:
        """The LLVM vector type."""
        return ir.VectorType(
            ir.DoubleType() if self.element == types.float64 else ir.FloatType(),
            self.width,
        )


class VectorsType(types.Type):
    """Numba type of one point with `dim` axes per lane."""

    def __init__(self, scalars: ScalarsType, dim: int) -> None:
        self.scalars = scalars
        self.dim = dim
        super().__init__(name=f"Vectors[{scalars.element}, {scalars.width}, {dim}]")

    @property
    def lanes(self) -> ir.VectorType:
        """The LLVM vector type of one axis."""
        return self.scalars.lanes


@register_model(ScalarsType)
class _ScalarsModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, kind.lanes)


@register_model(VectorsType)
class _VectorsModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.ArrayType(kind.lanes, kind.dim))


# ---------------------------------------------------------------------- code generation


def _broadcast(builder, kind, value):
    """The same number in every lane."""
    undefined = ir.Constant(kind.lanes, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        first, undefined, ir.Constant(_integer_lanes(kind), [0] * kind.lanes.count)
    )


def _integer_lanes(kind):
    """The LLVM vector type with a 32-bit integer per lane."""
    return ir.VectorType(ir.IntType(32), kind.lanes.count)


def _constant(kind, value):
    """A compile-time constant in every lane."""
    return ir.Constant(kind.lanes, [float(value)] * kind.lanes.count)


def _each_axis(builder, kind, component):
    """A `Scalars` or `Vectors` value from a function that returns the lanes of one
    axis."""
    if isinstance(kind, ScalarsType):
        return component(0)
    value = ir.Constant(ir.ArrayType(kind.lanes, kind.dim), ir.Undefined)
    for axis in range(kind.dim):
        value = builder.insert_value(value, component(axis), axis)
    return value


def _axis(builder, kind, value, axis):
    """The lanes of one axis. `Scalars` are the same along every axis."""
    return (
        value if isinstance(kind, ScalarsType) else builder.extract_value(value, axis)
    )


def _address(context, builder, kind, array, offset):
    """Pointer to a group of lanes, `offset` numbers from the start of a flat array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(
        builder.gep(data, [offset]), ScalarsType(kind.dtype).lanes.as_pointer()
    )


def _aligned(instruction, kind):
    instruction.align = (
        kind.dtype.bitwidth // 8
    )  # NumPy guarantees only the alignment of a single number
    return instruction


def _is_flat(kind):
    floating = isinstance(kind, types.Array) and kind.dtype in (
        types.float64,
        types.float32,
    )
    return floating and kind.ndim == 1 and kind.layout == "C"


def _call_llvm(builder, name, kind, args):
    """Call an LLVM intrinsic function on vectors of lanes."""
    lanes = kind.lanes
    bits = 64 if lanes.element == ir.DoubleType() else 32
    function_type = ir.FunctionType(lanes, [lanes] * len(args))
    name = f"llvm.{name}.v{lanes.count}f{bits}"
    return builder.call(
        cgutils.get_or_insert_function(builder.module, function_type, name), args
    )


def _arithmetic(operation, instruction):
    """Implement `operation` for two `Scalars`, for two `Vectors`, for `Vectors` with
    `Scalars`, and for `Scalars` with a number, which is rounded to their type."""

    @type_callable(operation)
    def type_operation(context):
        def result(left, right):
            if isinstance(left, ScalarsType | VectorsType) and left == right:
                return left
            if isinstance(left, VectorsType) and left.scalars == right:
                return left
            for one, other in ((left, right), (right, left)):
                if isinstance(one, ScalarsType) and isinstance(other, types.Number):
                    return one
            return None

        return result

    def lower(context, builder, signature, args):
        def component(axis):
            sides = (
                _axis(builder, kind, arg, axis)
                for kind, arg in zip(signature.args, args, strict=True)
            )
            return getattr(builder, instruction)(*sides)

        return _each_axis(builder, signature.return_type, component)

    def lower_with_number(context, builder, signature, args):
        kind = signature.return_type
        sides = (
            lanes_of(context, builder, given, arg, kind)
            for given, arg in zip(signature.args, args, strict=True)
        )
        return getattr(builder, instruction)(*sides)

    for left, right in (
        (ScalarsType, ScalarsType),
        (VectorsType, VectorsType),
        (VectorsType, ScalarsType),
    ):
        lower_builtin(operation, left, right)(lower)
    lower_builtin(operation, ScalarsType, types.Number)(lower_with_number)
    lower_builtin(operation, types.Number, ScalarsType)(lower_with_number)


def lanes_of(context, builder, given, value, kind):
    """A value of the type `given`, `Scalars` or a number, as lanes of the type `kind`."""
    if isinstance(given, ScalarsType):
        return value
    return _broadcast(builder, kind, context.cast(builder, value, given, kind.element))


for _operation, _in_place, _instruction in (
    (operator.add, operator.iadd, "fadd"),
    (operator.sub, operator.isub, "fsub"),
    (operator.mul, operator.imul, "fmul"),
    (operator.truediv, operator.itruediv, "fdiv"),
):
    _arithmetic(_operation, _instruction)
    _arithmetic(_in_place, _instruction)


@type_callable(operator.neg)
def _type_negative(context):
    def result(value):
        return value if isinstance(value, ScalarsType) else None

    return result


@lower_builtin(operator.neg, ScalarsType)
def _negative(context, builder, signature, args):
    return builder.fneg(args[0])


# ----------------------------------------------------- functions for use inside kernels


def _intrinsic(describe: Callable[..., Any]) -> Any:
    """`numba.extending.intrinsic`, untyped, because kernels call the result without the
    argument `context`."""
    return intrinsic(describe)


@_intrinsic
def scalars(context, value):
    """`value`, a float64 or float32, in every lane."""
    kind = ScalarsType(value)

    def generate(context, builder, signature, args):
        return _broadcast(builder, kind, args[0])

    return (kind(value), generate) if value in (types.float64, types.float32) else None


@_intrinsic
def load_scalars(context, array, group):
    """Group number `group` of the lanes in a flat array."""

    def generate(context, builder, signature, args):
        offset = builder.mul(args[1], ir.Constant(args[1].type, kind.width))
        return _aligned(
            builder.load(_address(context, builder, array, args[0], offset)), array
        )

    if not _is_flat(array):
        return None
    kind = ScalarsType(array.dtype)
    return kind(array, types.intp), generate


@_intrinsic
def store_scalars(context, array, group, value):
    """Write group number `group` of the lanes in a flat array."""

    def generate(context, builder, signature, args):
        offset = builder.mul(args[1], ir.Constant(args[1].type, value.width))
        _aligned(
            builder.store(args[2], _address(context, builder, array, args[0], offset)),
            array,
        )
        return context.get_dummy_value()

    fits = (
        _is_flat(array)
        and isinstance(value, ScalarsType)
        and value.element == array.dtype
    )
    return (types.void(array, types.intp, value), generate) if fits else None


@_intrinsic
def load_scalars_at(context, array, start):
    """The lanes of a flat array from number `start` on."""

    def generate(context, builder, signature, args):
        return _aligned(builder.load(_address(context, builder, array, *args)), array)

    return (
        (ScalarsType(array.dtype)(array, types.intp), generate)
        if _is_flat(array)
        else None
    )


@_intrinsic
def store_scalars_at(context, array, start, value):
    """Write the lanes of a flat array from number `start` on."""

    def generate(context, builder, signature, args):
        _aligned(
            builder.store(args[2], _address(context, builder, array, *args[:2])), array
        )
        return context.get_dummy_value()

    fits = (
        _is_flat(array)
        and isinstance(value, ScalarsType)
        and value.element == array.dtype
    )
    return (types.void(array, types.intp, value), generate) if fits else None


@_intrinsic
def load_vectors(context, array, group, axes):
    """Group number `group` of the points in a flat array (group x axis x lane)."""
    dim = len(axes)

    def generate(context, builder, signature, args):
        start = builder.mul(
            args[1], ir.Constant(args[1].type, dim * kind.scalars.width)
        )

        def component(axis):
            offset = builder.add(
                start, ir.Constant(start.type, axis * kind.scalars.width)
            )
            return _aligned(
                builder.load(_address(context, builder, array, args[0], offset)), array
            )

        return _each_axis(builder, kind, component)

    if not _is_flat(array):
        return None
    kind = VectorsType(ScalarsType(array.dtype), dim)
    return kind(array, types.intp, axes), generate


@_intrinsic
def store_vectors(context, array, group, value):
    """Write group number `group` of the points in a flat array (group x axis x
    lane)."""

    def generate(context, builder, signature, args):
        width = value.scalars.width
        start = builder.mul(args[1], ir.Constant(args[1].type, value.dim * width))
        for axis in range(value.dim):
            offset = builder.add(start, ir.Constant(start.type, axis * width))
            lanes = builder.extract_value(args[2], axis)
            _aligned(
                builder.store(
                    lanes, _address(context, builder, array, args[0], offset)
                ),
                array,
            )
        return context.get_dummy_value()

    fits = (
        _is_flat(array)
        and isinstance(value, VectorsType)
        and value.scalars.element == array.dtype
    )
    return (types.void(array, types.intp, value), generate) if fits else None


@_intrinsic
def broadcast_vectors(context, array, point, axes):
    """Point number `point` of a flat array (point x axis), the same in every lane."""
    dim = len(axes)

    def generate(context, builder, signature, args):
        data = context.make_array(array)(context, builder, args[0]).data
        start = builder.mul(args[1], ir.Constant(args[1].type, dim))

        def component(axis):
            offset = builder.add(start, ir.Constant(start.type, axis))
            return _broadcast(builder, kind, builder.load(builder.gep(data, [offset])))

        return _each_axis(builder, kind, component)

    if not _is_flat(array):
        return None
    kind = VectorsType(ScalarsType(array.dtype), dim)
    return kind(array, types.intp, axes), generate


@_intrinsic
def repeat_axes(context, value, axes):
    """`Vectors` with the same `Scalars` along every axis."""
    kind = VectorsType(value, len(axes))

    def generate(context, builder, signature, args):
        return _each_axis(builder, kind, lambda axis: args[0])

    return (kind(value, axes), generate) if isinstance(value, ScalarsType) else None


@_intrinsic
def join_axes(context, first, second):
    """`Vectors` with the axes of the first and then those of the second."""
    kind = VectorsType(first.scalars, first.dim + second.dim)

    def generate(context, builder, signature, args):
        def component(axis):
            if axis < first.dim:
                return builder.extract_value(args[0], axis)
            return builder.extract_value(args[1], axis - first.dim)

        return _each_axis(builder, kind, component)

    return kind(first, second), generate


@_intrinsic
def sum_axes(context, value):
    """`Scalars`: the sum over the axes, in their order."""

    def generate(context, builder, signature, args):
        total = builder.extract_value(args[0], 0)
        for axis in range(1, value.dim):
            total = builder.fadd(total, builder.extract_value(args[0], axis))
        return total

    return (value.scalars(value), generate) if isinstance(value, VectorsType) else None


@_intrinsic
def lane_numbers(context):
    """The number of each lane, 0 to 7, as float64."""
    kind = ScalarsType(types.float64)

    def generate(context, builder, signature, args):
        return ir.Constant(kind.lanes, [float(lane) for lane in range(LANES_64)])

    return kind(), generate


@_intrinsic
def dot(context, left, right):
    """`Scalars`: scalar products, summed in the order of the axes."""

    def generate(context, builder, signature, args):
        products = [
            builder.fmul(
                builder.extract_value(args[0], axis),
                builder.extract_value(args[1], axis),
            )
            for axis in range(left.dim)
        ]
        total = products[0]
        for product in products[1:]:
            total = builder.fadd(total, product)
        return total

    return (
        (left.scalars(left, right), generate)
        if isinstance(left, VectorsType) and left == right
        else None
    )


@_intrinsic
def dot_add(context, left, right, added):
    """`Scalars`: scalar products added to `added`, axis after axis, with one rounding
    per axis (fused)."""

    def generate(context, builder, signature, args):
        total = args[2]
        for axis in range(left.dim):
            sides = [builder.extract_value(arg, axis) for arg in args[:2]]
            total = _call_llvm(builder, "fma", added, [*sides, total])
        return total

    fits = isinstance(left, VectorsType) and left == right and added == left.scalars
    return (added(left, right, added), generate) if fits else None


@_intrinsic
def multiply_add(context, left, right, added):
    """left * right + added with one rounding (fused). `right` may be `Scalars` if the
    others are `Vectors`."""

    def generate(context, builder, signature, args):
        def component(axis):
            sides = [
                _axis(builder, kind, arg, axis)
                for kind, arg in zip(signature.args, args, strict=True)
            ]
            return _call_llvm(builder, "fma", added, sides)

        return _each_axis(builder, added, component)

    fits = left == added and (
        right == left or (isinstance(left, VectorsType) and left.scalars == right)
    )
    return (added(left, right, added), generate) if fits else None


@_intrinsic
def maximum(context, left, right):
    """The larger of the two numbers in each lane; that of `right` if one is NaN."""

    def generate(context, builder, signature, args):
        def component(axis):
            one, other = (_axis(builder, left, arg, axis) for arg in args)
            return builder.select(builder.fcmp_ordered(">", one, other), one, other)

        return _each_axis(builder, left, component)

    return (left(left, right), generate) if left == right else None


@_intrinsic
def exponential(context, value):
    """exp(x) of float32 x <= 0 or NaN, to 2 units in the last place; exp(-87) for x <
    -87.

    The argument is split as n log 2 + r, with log 2 in two parts, and exp(r) is a
    polynomial of degree 6 (Cephes expf)."""

    def generate(context, builder, signature, args):
        def fused(left, right, added):
            return _call_llvm(builder, "fma", value, [left, right, added])

        def component(axis):
            x = _axis(builder, value, args[0], axis)
            least = _constant(value, -87.0)
            x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
            n = _call_llvm(
                builder,
                "rint",
                value,
                [builder.fmul(x, _constant(value, _INVERSE_LOG_2))],
            )
            r = fused(n, _constant(value, -_LOG_2_HIGH), x)
            r = fused(n, _constant(value, -_LOG_2_LOW), r)
            power = _constant(value, _EXPONENTIAL[0])
            for coefficient in _EXPONENTIAL[1:]:
                power = fused(power, r, _constant(value, coefficient))
            power = builder.fadd(
                fused(power, builder.fmul(r, r), r), _constant(value, 1.0)
            )
            integers = _integer_lanes(value)
            exponent = builder.add(
                builder.fptosi(n, integers),
                ir.Constant(integers, [127] * value.lanes.count),
            )
            scale = builder.shl(
                exponent, ir.Constant(integers, [23] * value.lanes.count)
            )
            scaled = builder.fmul(power, builder.bitcast(scale, value.lanes))
            return builder.select(builder.fcmp_unordered("uno", x, x), x, scaled)

        return _each_axis(builder, value, component)

    fits = (
        isinstance(value, ScalarsType | VectorsType)
        and value.lanes.element == ir.FloatType()
    )
    return (value(value), generate) if fits else None


def _float32(value: float) -> float:
    """The nearest float32; LLVM requires float constants to be exactly
    representable."""
    return struct.unpack("f", struct.pack("f", value))[0]


_INVERSE_LOG_2, _LOG_2_HIGH, _LOG_2_LOW = map(
    _float32, (1.44269504, 0.693359375, -2.12194440e-4)
)
_EXPONENTIAL = [
    _float32(value)
    for value in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
]


@_intrinsic
def log_one_plus(context, value):
    """log(1 + x) of float32 x from 0 to 1e38, to 3 units in the last place, also for
    small x.

    1 + x is split as m 2^e with m near 1, and log m is a polynomial of degree 9 (Cephes
    logf). The rounding error of 1 + x is corrected to first order."""

    def generate(context, builder, signature, args):
        def fused(left, right, added):
            return _call_llvm(builder, "fma", value, [left, right, added])

        def component(axis):
            x = _axis(builder, value, args[0], axis)
            one = _constant(value, 1.0)
            integers = _integer_lanes(value)
            u = builder.fadd(one, x)
            left = builder.fdiv(builder.fsub(x, builder.fsub(u, one)), u)
            half, digits = (
                ir.Constant(integers, [number] * value.lanes.count)
                for number in (_ROOT_HALF, 23)
            )
            bits = builder.bitcast(u, integers)
            e = builder.ashr(builder.sub(bits, half), digits)
            m = builder.bitcast(builder.sub(bits, builder.shl(e, digits)), value.lanes)
            f, e = builder.fsub(m, one), builder.sitofp(e, value.lanes)
            power = _constant(value, _LOGARITHM[0])
            for coefficient in _LOGARITHM[1:]:
                power = fused(power, f, _constant(value, coefficient))
            square = builder.fmul(f, f)
            y = fused(
                e,
                _constant(value, _LOG_2_LOW),
                builder.fmul(builder.fmul(power, f), square),
            )
            y = builder.fadd(fused(square, _constant(value, -0.5), y), f)
            return builder.fadd(left, fused(e, _constant(value, _LOG_2_HIGH), y))

        return _each_axis(builder, value, component)

    fits = (
        isinstance(value, ScalarsType | VectorsType)
        and value.lanes.element == ir.FloatType()
    )
    return (value(value), generate) if fits else None


_ROOT_HALF = 0x3F3504F3  # bits of sqrt(1/2)
_LOGARITHM = [
    _float32(value)
    for value in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
]


@_intrinsic
def square_root(context, value):
    """Square root, correctly rounded."""

    def generate(context, builder, signature, args):
        def component(axis):
            return _call_llvm(
                builder, "sqrt", value, [_axis(builder, value, args[0], axis)]
            )

        return _each_axis(builder, value, component)

    return value(value), generate


@_intrinsic
def where_equal(context, condition, number, value):
    """`value` in the lanes where `condition` (`Scalars`) equals `number`, else 0."""

    def generate(context, builder, signature, args):
        expected = _broadcast(builder, condition, args[1])
        tested = builder.fcmp_ordered("==", args[0], expected)
        nothing = ir.Constant(value.lanes, None)

        def component(axis):
            return builder.select(tested, _axis(builder, value, args[2], axis), nothing)

        return _each_axis(builder, value, component)

    return (
        (value(condition, condition.element, value), generate)
        if isinstance(condition, ScalarsType)
        else None
    )


@_intrinsic
def where_above(context, condition, threshold, value):
    """`value` in the lanes where `condition` > `threshold`, else 0 (also 0 where
    `condition` is NaN).

    A condition that is `Scalars` applies to every axis of a `Vectors` value.
    """
    element = (
        condition if isinstance(condition, ScalarsType) else condition.scalars
    ).element

    def generate(context, builder, signature, args):
        limit = _broadcast(builder, condition, args[1])
        nothing = ir.Constant(value.lanes, None)

        def component(axis):
            tested = builder.fcmp_ordered(
                ">", _axis(builder, condition, args[0], axis), limit
            )
            return builder.select(tested, _axis(builder, value, args[2], axis), nothing)

        return _each_axis(builder, value, component)

    return value(condition, element, value), generate


@kernel_function
def aligned_numbers(size):
    """A flat array (size,) of float64, not initialised, whose groups of lanes do not
    extend over two cache lines."""
    numbers = np.empty(size + LANES_64)
    start = -numbers.ctypes.data % 64 // 8
    return numbers[start : start + size]


@kernel_function
def copy_numbers(source, target):
    """Copy a flat array to another of the same size (an assignment also compiles the
    message of an error of shapes)."""
    for at in range(target.size):
        target[at] = source[at]


@kernel_function
def add_scalars(array, group, value):
    """array[group] += value."""
    store_scalars(array, group, load_scalars(array, group) + value)


@kernel_function
def add_vectors(array, group, value, axes):
    """array[group] += value."""
    store_vectors(array, group, load_vectors(array, group, axes) + value)
