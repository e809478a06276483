"""Sixty-four bytes of numbers side by side: the arithmetic in which the hot kernels are written.

Inside a compiled kernel a `Scalars` value is eight float64 or sixteen float32, and a `Vectors` value is so
many points of D axes, held as D `Scalars`. Each operation acts on every lane by itself in IEEE arithmetic,
without contraction (but where `multiply_add` asks for it) or reordering, so a lane's bits do not depend on
what its neighbours hold, nor on whether the processor does them all at once, in pairs or one by one. In the
force kernels the lanes are runs of an ensemble, or pair sums of one run, and the pair laws read the same for
both; in the gradient kernels they are runs.

Numba's own loops reach this code only through LLVM's loop vectoriser, which gives up on a symmetric sum
over pairs (it cannot prove that both ends are different memory); hence a type.

In memory a group of lanes is contiguous: `Scalars` (lane,), `Vectors` (axis, lane). `axes` is the tuple
``tuple(range(D))``: its length is part of its type, so every loop over axes is unrolled. Arrays are flat, and
their dtype says which lanes are loaded.
"""

import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

REGISTER_BITS = 512
LANES_64 = REGISTER_BITS // 64
"""Lanes of float64."""
LANES_32 = REGISTER_BITS // 32
"""Lanes of float32."""


def to_lanes(rows: np.ndarray) -> np.ndarray:
    """(run, number) -> (block, number x lane) float32, sixteen runs a block, missing runs zero."""
    runs, size = rows.shape
    blocks = -(-runs // LANES_32)
    padded = np.zeros((blocks * LANES_32, size), np.float32)
    padded[:runs] = rows
    return np.ascontiguousarray(padded.reshape(blocks, LANES_32, size).swapaxes(1, 2)).reshape(blocks, -1)


def from_lanes(blocks: np.ndarray, runs: int) -> np.ndarray:
    """The inverse of `to_lanes`."""
    size = blocks.shape[1] // LANES_32
    return np.ascontiguousarray(blocks.reshape(-1, size, LANES_32).swapaxes(1, 2)).reshape(-1, size)[:runs]


class ScalarsType(types.Type):
    """Numba type of eight float64 or sixteen float32."""

    def __init__(self, element: types.Float) -> None:
        self.element, self.width = element, REGISTER_BITS // element.bitwidth
        super().__init__(name=f"Scalars[{element}, {self.width}]")

    @property
    def lanes(self) -> ir.VectorType:
        """LLVM's type."""
        return ir.VectorType(ir.DoubleType() if self.element == types.float64 else ir.FloatType(), self.width)


class VectorsType(types.Type):
    """Numba type of so many points of `dim` axes."""

    def __init__(self, scalars: ScalarsType, dim: int) -> None:
        self.scalars, self.dim = scalars, dim
        super().__init__(name=f"Vectors[{scalars.element}, {scalars.width}, {dim}]")

    @property
    def lanes(self) -> ir.VectorType:
        """LLVM's type of one axis."""
        return self.scalars.lanes


@register_model(ScalarsType)
class _ScalarsModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, kind.lanes)


@register_model(VectorsType)
class _VectorsModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.ArrayType(kind.lanes, kind.dim))


# ------------------------------------------------------------------------------------- code generation


def _spread(builder, kind, value):
    """One number in every lane."""
    undefined = ir.Constant(kind.lanes, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_whole(kind), [0] * kind.lanes.count))


def _whole(kind):
    """As many 32-bit integers as there are lanes."""
    return ir.VectorType(ir.IntType(32), kind.lanes.count)


def _constant(kind, value):
    """A number known at compile time, in every lane."""
    return ir.Constant(kind.lanes, [float(value)] * kind.lanes.count)


def _each_axis(builder, kind, component):
    """A value of `Scalars`, or `Vectors`, from a function that gives the lanes of one axis."""
    if isinstance(kind, ScalarsType):
        return component(0)
    value = ir.Constant(ir.ArrayType(kind.lanes, kind.dim), ir.Undefined)
    for axis in range(kind.dim):
        value = builder.insert_value(value, component(axis), axis)
    return value


def _axis(builder, kind, value, axis):
    """The lanes of one axis; `Scalars` are the same along every axis."""
    return value if isinstance(kind, ScalarsType) else builder.extract_value(value, axis)


def _address(context, builder, kind, array, offset):
    """Pointer to a group of lanes, `offset` numbers from the start of a flat array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), ScalarsType(kind.dtype).lanes.as_pointer())


def _aligned(instruction, kind):
    instruction.align = kind.dtype.bitwidth // 8  # NumPy promises no more than the alignment of one number
    return instruction


def _is_flat(kind):
    floating = isinstance(kind, types.Array) and kind.dtype in (types.float64, types.float32)
    return floating and kind.ndim == 1 and kind.layout == "C"


def _call(builder, name, kind, args):
    """LLVM's own function of lanes."""
    lanes = kind.lanes
    bits = 64 if lanes.element == ir.DoubleType() else 32
    function_type = ir.FunctionType(lanes, [lanes] * len(args))
    name = f"llvm.{name}.v{lanes.count}f{bits}"
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), args)


def _arithmetic(operation, instruction):
    """`operation` between two `Scalars`, between two `Vectors`, or of `Vectors` by `Scalars`."""

    @type_callable(operation)
    def type_operation(context):
        def result(left, right):
            if isinstance(left, ScalarsType | VectorsType) and left == right:
                return left
            if isinstance(left, VectorsType) and left.scalars == right:
                return left
            return None

        return result

    def lower(context, builder, signature, args):
        def component(axis):
            sides = (_axis(builder, kind, arg, axis) for kind, arg in zip(signature.args, args, strict=True))
            return getattr(builder, instruction)(*sides)

        return _each_axis(builder, signature.return_type, component)

    for left, right in ((ScalarsType, ScalarsType), (VectorsType, VectorsType), (VectorsType, ScalarsType)):
        lower_builtin(operation, left, right)(lower)


for _operation, _in_place, _instruction in (
    (operator.add, operator.iadd, "fadd"),
    (operator.sub, operator.isub, "fsub"),
    (operator.mul, operator.imul, "fmul"),
    (operator.truediv, operator.itruediv, "fdiv"),
):
    _arithmetic(_operation, _instruction)
    _arithmetic(_in_place, _instruction)


# ------------------------------------------------------------------- what kernels call (inside njit only)


def _called_in_kernels(describe: Callable[..., Any]) -> Any:
    """`intrinsic`; kernels call the result without the compiler's context, which a type checker cannot know."""
    return intrinsic(describe)


@_called_in_kernels
def scalars(context, value):
    """`value`, a float64 or float32, in every lane."""
    kind = ScalarsType(value)

    def generate(context, builder, signature, args):
        return _spread(builder, kind, args[0])

    return (kind(value), generate) if value in (types.float64, types.float32) else None


@_called_in_kernels
def load_scalars(context, array, group):
    """Lanes number `group` of a flat array."""

    def generate(context, builder, signature, args):
        offset = builder.mul(args[1], ir.Constant(args[1].type, kind.width))
        return _aligned(builder.load(_address(context, builder, array, args[0], offset)), array)

    if not _is_flat(array):
        return None
    kind = ScalarsType(array.dtype)
    return kind(array, types.intp), generate


@_called_in_kernels
def store_scalars(context, array, group, value):
    """Write lanes number `group` of a flat array."""

    def generate(context, builder, signature, args):
        offset = builder.mul(args[1], ir.Constant(args[1].type, value.width))
        _aligned(builder.store(args[2], _address(context, builder, array, args[0], offset)), array)
        return context.get_dummy_value()

    fits = _is_flat(array) and isinstance(value, ScalarsType) and value.element == array.dtype
    return (types.void(array, types.intp, value), generate) if fits else None


@_called_in_kernels
def load_vectors(context, array, group, axes):
    """Points number `group` of a flat array of (axis, lane) groups."""
    dim = len(axes)

    def generate(context, builder, signature, args):
        start = builder.mul(args[1], ir.Constant(args[1].type, dim * kind.scalars.width))

        def component(axis):
            offset = builder.add(start, ir.Constant(start.type, axis * kind.scalars.width))
            return _aligned(builder.load(_address(context, builder, array, args[0], offset)), array)

        return _each_axis(builder, kind, component)

    if not _is_flat(array):
        return None
    kind = VectorsType(ScalarsType(array.dtype), dim)
    return kind(array, types.intp, axes), generate


@_called_in_kernels
def store_vectors(context, array, group, value):
    """Write points number `group` of a flat array of (axis, lane) groups."""

    def generate(context, builder, signature, args):
        width = value.scalars.width
        start = builder.mul(args[1], ir.Constant(args[1].type, value.dim * width))
        for axis in range(value.dim):
            offset = builder.add(start, ir.Constant(start.type, axis * width))
            lanes = builder.extract_value(args[2], axis)
            _aligned(builder.store(lanes, _address(context, builder, array, args[0], offset)), array)
        return context.get_dummy_value()

    fits = _is_flat(array) and isinstance(value, VectorsType) and value.scalars.element == array.dtype
    return (types.void(array, types.intp, value), generate) if fits else None


@_called_in_kernels
def broadcast_vectors(context, array, point, axes):
    """Point number `point` of a flat array of (axis,) rows, in every lane."""
    dim = len(axes)

    def generate(context, builder, signature, args):
        data = context.make_array(array)(context, builder, args[0]).data
        start = builder.mul(args[1], ir.Constant(args[1].type, dim))

        def component(axis):
            offset = builder.add(start, ir.Constant(start.type, axis))
            return _spread(builder, kind, builder.load(builder.gep(data, [offset])))

        return _each_axis(builder, kind, component)

    if not _is_flat(array):
        return None
    kind = VectorsType(ScalarsType(array.dtype), dim)
    return kind(array, types.intp, axes), generate


@_called_in_kernels
def repeat_axes(context, value, axes):
    """`Vectors` with the same lanes along every axis."""
    kind = VectorsType(value, len(axes))

    def generate(context, builder, signature, args):
        return _each_axis(builder, kind, lambda axis: args[0])

    return (kind(value, axes), generate) if isinstance(value, ScalarsType) else None


@_called_in_kernels
def sum_axes(context, value):
    """The sum over the axes, (lane,), in their order."""

    def generate(context, builder, signature, args):
        total = builder.extract_value(args[0], 0)
        for axis in range(1, value.dim):
            total = builder.fadd(total, builder.extract_value(args[0], axis))
        return total

    return (value.scalars(value), generate) if isinstance(value, VectorsType) else None


@_called_in_kernels
def lane_numbers(context):
    """0, 1, ... in the lanes of float64."""
    kind = ScalarsType(types.float64)

    def generate(context, builder, signature, args):
        return ir.Constant(kind.lanes, [float(lane) for lane in range(LANES_64)])

    return kind(), generate


@_called_in_kernels
def dot(context, left, right):
    """Scalar products, (lane,), summed in the order of the axes."""

    def generate(context, builder, signature, args):
        products = [
            builder.fmul(builder.extract_value(args[0], axis), builder.extract_value(args[1], axis))
            for axis in range(left.dim)
        ]
        total = products[0]
        for product in products[1:]:
            total = builder.fadd(total, product)
        return total

    return (left.scalars(left, right), generate) if isinstance(left, VectorsType) and left == right else None


@_called_in_kernels
def dot_add(context, left, right, added):
    """Scalar products added to `added`, (lane,), axis after axis, each product and sum rounded once."""

    def generate(context, builder, signature, args):
        total = args[2]
        for axis in range(left.dim):
            sides = [builder.extract_value(arg, axis) for arg in args[:2]]
            total = _call(builder, "fma", added, [*sides, total])
        return total

    fits = isinstance(left, VectorsType) and left == right and added == left.scalars
    return (added(left, right, added), generate) if fits else None


@_called_in_kernels
def multiply_add(context, left, right, added):
    """left * right + added, rounded once. `right` may be `Scalars` where the others are `Vectors`."""

    def generate(context, builder, signature, args):
        def component(axis):
            sides = [_axis(builder, kind, arg, axis) for kind, arg in zip(signature.args, args, strict=True)]
            return _call(builder, "fma", added, sides)

        return _each_axis(builder, added, component)

    fits = left == added and (right == left or (isinstance(left, VectorsType) and left.scalars == right))
    return (added(left, right, added), generate) if fits else None


@_called_in_kernels
def maximum(context, left, right):
    """The larger of each two numbers; that of `right` where one is NaN."""

    def generate(context, builder, signature, args):
        def component(axis):
            one, other = (_axis(builder, left, arg, axis) for arg in args)
            return builder.select(builder.fcmp_ordered(">", one, other), one, other)

        return _each_axis(builder, left, component)

    return (left(left, right), generate) if left == right else None


@_called_in_kernels
def exponential(context, value):
    """e to the power of each float32, which is at most 0, or NaN: 2 units in the last place; e^-87 below -87.

    The argument is split as n log 2 + r, log 2 in two parts, and e^r is a polynomial of degree 6 (Cephes' expf).
    """

    def generate(context, builder, signature, args):
        def fused(left, right, added):
            return _call(builder, "fma", value, [left, right, added])

        def component(axis):
            x = _axis(builder, value, args[0], axis)
            least = _constant(value, -87.0)
            x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
            n = _call(builder, "rint", value, [builder.fmul(x, _constant(value, _INVERSE_LOG_2))])
            r = fused(n, _constant(value, -_LOG_2_HIGH), x)
            r = fused(n, _constant(value, -_LOG_2_LOW), r)
            power = _constant(value, _EXPONENTIAL[0])
            for coefficient in _EXPONENTIAL[1:]:
                power = fused(power, r, _constant(value, coefficient))
            power = builder.fadd(fused(power, builder.fmul(r, r), r), _constant(value, 1.0))
            whole = _whole(value)
            exponent = builder.add(builder.fptosi(n, whole), ir.Constant(whole, [127] * value.lanes.count))
            scale = builder.shl(exponent, ir.Constant(whole, [23] * value.lanes.count))
            scaled = builder.fmul(power, builder.bitcast(scale, value.lanes))
            return builder.select(builder.fcmp_unordered("uno", x, x), x, scaled)

        return _each_axis(builder, value, component)

    fits = isinstance(value, ScalarsType | VectorsType) and value.lanes.element == ir.FloatType()
    return (value(value), generate) if fits else None


def _float32(value: float) -> float:
    """The nearest float32, which LLVM wants constants of that type to be."""
    return struct.unpack("f", struct.pack("f", value))[0]


_INVERSE_LOG_2, _LOG_2_HIGH, _LOG_2_LOW = map(_float32, (1.44269504, 0.693359375, -2.12194440e-4))
_EXPONENTIAL = [
    _float32(value)
    for value in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
]


@_called_in_kernels
def log_one_plus(context, value):
    """log(1 + x) of each float32 x from 0 to 1e38: 3 units in the last place, however small x is.

    1 + x is split as m 2^e with m near 1, and log m is a polynomial of degree 9 (Cephes' logf); what rounding took
    from 1 + x is put back to first order.
    """

    def generate(context, builder, signature, args):
        def fused(left, right, added):
            return _call(builder, "fma", value, [left, right, added])

        def component(axis):
            x, one, whole = _axis(builder, value, args[0], axis), _constant(value, 1.0), _whole(value)
            u = builder.fadd(one, x)
            left = builder.fdiv(builder.fsub(x, builder.fsub(u, one)), u)
            half, digits = (ir.Constant(whole, [each] * value.lanes.count) for each in (_ROOT_HALF, 23))
            bits = builder.bitcast(u, whole)
            e = builder.ashr(builder.sub(bits, half), digits)
            m = builder.bitcast(builder.sub(bits, builder.shl(e, digits)), value.lanes)
            f, e = builder.fsub(m, one), builder.sitofp(e, value.lanes)
            power = _constant(value, _LOGARITHM[0])
            for coefficient in _LOGARITHM[1:]:
                power = fused(power, f, _constant(value, coefficient))
            square = builder.fmul(f, f)
            y = fused(e, _constant(value, _LOG_2_LOW), builder.fmul(builder.fmul(power, f), square))
            y = builder.fadd(fused(square, _constant(value, -0.5), y), f)
            return builder.fadd(left, fused(e, _constant(value, _LOG_2_HIGH), y))

        return _each_axis(builder, value, component)

    fits = isinstance(value, ScalarsType | VectorsType) and value.lanes.element == ir.FloatType()
    return (value(value), generate) if fits else None


_ROOT_HALF = 0x3F3504F3  # bits of sqrt(1/2)
_LOGARITHM = [
    _float32(value)
    for value in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )
]  # fmt: skip


@_called_in_kernels
def square_root(context, value):
    """Square root of each number, correctly rounded."""

    def generate(context, builder, signature, args):
        def component(axis):
            return _call(builder, "sqrt", value, [_axis(builder, value, args[0], axis)])

        return _each_axis(builder, value, component)

    return value(value), generate


@_called_in_kernels
def where_equal(context, condition, number, value):
    """`value` where `condition`, `Scalars`, is `number`, else 0, lane by lane."""

    def generate(context, builder, signature, args):
        wanted = _spread(builder, condition, args[1])
        tested = builder.fcmp_ordered("==", args[0], wanted)
        nothing = ir.Constant(value.lanes, None)

        def component(axis):
            return builder.select(tested, _axis(builder, value, args[2], axis), nothing)

        return _each_axis(builder, value, component)

    return (value(condition, condition.element, value), generate) if isinstance(condition, ScalarsType) else None


@_called_in_kernels
def where_above(context, condition, threshold, value):
    """`value` where `condition` > `threshold`, else 0 (so 0 where it is NaN), lane by lane.

    A condition of `Scalars` holds for every axis of a `Vectors` value.
    """
    element = (condition if isinstance(condition, ScalarsType) else condition.scalars).element

    def generate(context, builder, signature, args):
        limit = _spread(builder, condition, args[1])
        nothing = ir.Constant(value.lanes, None)

        def component(axis):
            tested = builder.fcmp_ordered(">", _axis(builder, condition, args[0], axis), limit)
            return builder.select(tested, _axis(builder, value, args[2], axis), nothing)

        return _each_axis(builder, value, component)

    return value(condition, element, value), generate


@njit(error_model="numpy")
def add_scalars(array, group, value):
    """array[group] += value."""
    store_scalars(array, group, load_scalars(array, group) + value)


@njit(error_model="numpy")
def add_vectors(array, group, value, axes):
    """array[group] += value."""
    store_vectors(array, group, load_vectors(array, group, axes) + value)
