"""Eight numbers side by side: the arithmetic in which the force kernels are written.

Inside a compiled kernel a `Scalars` value is eight float64 and a `Vectors` value is eight points of D
axes, held as D `Scalars`. Each operation acts on every lane by itself in IEEE double precision, without
contraction or reordering, so a lane's bits do not depend on what its neighbours hold, nor on whether the
processor does the eight at once, in pairs or one by one. The lanes are runs of an ensemble or pair sums
of one run; the pair laws read the same for both.

Numba's own loops reach this code only through LLVM's loop vectoriser, which gives up on a symmetric sum
over pairs (it cannot prove that both ends are different memory); hence a type.

In memory a group of lanes is contiguous: `Scalars` (lane,), `Vectors` (axis, lane). `axes` is the tuple
``tuple(range(D))``: its length is part of its type, so every loop over axes is unrolled.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

WIDTH = 8

_DOUBLE = ir.DoubleType()
_LANES = ir.VectorType(_DOUBLE, WIDTH)
_INDEX = ir.VectorType(ir.IntType(32), WIDTH)


class ScalarsType(types.Type):
    """Numba type of eight float64."""

    def __init__(self) -> None:
        super().__init__(name=f"Scalars[{WIDTH}]")


class VectorsType(types.Type):
    """Numba type of eight points of `dim` axes."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        super().__init__(name=f"Vectors[{WIDTH}, {dim}]")


SCALARS = ScalarsType()


@register_model(ScalarsType)
class _ScalarsModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _LANES)


@register_model(VectorsType)
class _VectorsModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.ArrayType(_LANES, kind.dim))


# ------------------------------------------------------------------------------------- code generation


def _spread(builder, value):
    """One float64 in every lane."""
    undefined = ir.Constant(_LANES, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_INDEX, [0] * WIDTH))


def _each_axis(builder, dim, component):
    """A `Vectors` value from a function that gives the lanes of one axis."""
    value = ir.Constant(ir.ArrayType(_LANES, dim), ir.Undefined)
    for axis in range(dim):
        value = builder.insert_value(value, component(axis), axis)
    return value


def _address(context, builder, kind, array, offset):
    """Pointer to eight lanes, `offset` float64 from the start of a flat array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _LANES.as_pointer())


def _aligned(instruction):
    instruction.align = 8  # NumPy promises no more than the alignment of one float64
    return instruction


def _is_flat(kind):
    return isinstance(kind, types.Array) and kind.dtype == types.float64 and kind.ndim == 1 and kind.layout == "C"


def _arithmetic(operation, instruction):
    """`operation` between two `Scalars`, between two `Vectors`, or of `Vectors` by `Scalars`."""

    @type_callable(operation)
    def type_operation(context):
        def result(left, right):
            if isinstance(left, ScalarsType | VectorsType) and left == right:
                return left
            if isinstance(left, VectorsType) and isinstance(right, ScalarsType):
                return left
            return None

        return result

    @lower_builtin(operation, ScalarsType, ScalarsType)
    def lower_scalars(context, builder, signature, args):
        return getattr(builder, instruction)(*args)

    @lower_builtin(operation, VectorsType, VectorsType)
    def lower_vectors(context, builder, signature, args):
        def component(axis):
            return getattr(builder, instruction)(*(builder.extract_value(arg, axis) for arg in args))

        return _each_axis(builder, signature.return_type.dim, component)

    @lower_builtin(operation, VectorsType, ScalarsType)
    def lower_scaled(context, builder, signature, args):
        def component(axis):
            return getattr(builder, instruction)(builder.extract_value(args[0], axis), args[1])

        return _each_axis(builder, signature.return_type.dim, component)


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
    """`value` in every lane."""

    def generate(context, builder, signature, args):
        return _spread(builder, args[0])

    return SCALARS(types.float64), generate


@_called_in_kernels
def load_scalars(context, array, group):
    """Lanes number `group` of a flat array."""

    def generate(context, builder, signature, args):
        offset = builder.mul(args[1], ir.Constant(args[1].type, WIDTH))
        return _aligned(builder.load(_address(context, builder, signature.args[0], args[0], offset)))

    return (SCALARS(array, types.intp), generate) if _is_flat(array) else None


@_called_in_kernels
def store_scalars(context, array, group, value):
    """Write lanes number `group` of a flat array."""

    def generate(context, builder, signature, args):
        offset = builder.mul(args[1], ir.Constant(args[1].type, WIDTH))
        _aligned(builder.store(args[2], _address(context, builder, signature.args[0], args[0], offset)))
        return context.get_dummy_value()

    return (types.void(array, types.intp, SCALARS), generate) if _is_flat(array) else None


@_called_in_kernels
def load_vectors(context, array, group, axes):
    """Points number `group` of a flat array of (axis, lane) groups."""
    dim = len(axes)

    def generate(context, builder, signature, args):
        start = builder.mul(args[1], ir.Constant(args[1].type, dim * WIDTH))

        def component(axis):
            offset = builder.add(start, ir.Constant(start.type, axis * WIDTH))
            return _aligned(builder.load(_address(context, builder, signature.args[0], args[0], offset)))

        return _each_axis(builder, dim, component)

    return (VectorsType(dim)(array, types.intp, axes), generate) if _is_flat(array) else None


@_called_in_kernels
def store_vectors(context, array, group, value):
    """Write points number `group` of a flat array of (axis, lane) groups."""
    dim = value.dim

    def generate(context, builder, signature, args):
        start = builder.mul(args[1], ir.Constant(args[1].type, dim * WIDTH))
        for axis in range(dim):
            offset = builder.add(start, ir.Constant(start.type, axis * WIDTH))
            address = _address(context, builder, signature.args[0], args[0], offset)
            _aligned(builder.store(builder.extract_value(args[2], axis), address))
        return context.get_dummy_value()

    return (types.void(array, types.intp, value), generate) if _is_flat(array) else None


@_called_in_kernels
def spread_vectors(context, array, point, axes):
    """Point number `point` of a flat array of (axis,) rows, in every lane."""
    dim = len(axes)

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        start = builder.mul(args[1], ir.Constant(args[1].type, dim))

        def component(axis):
            offset = builder.add(start, ir.Constant(start.type, axis))
            return _spread(builder, builder.load(builder.gep(data, [offset])))

        return _each_axis(builder, dim, component)

    return (VectorsType(dim)(array, types.intp, axes), generate) if _is_flat(array) else None


@_called_in_kernels
def lane_numbers(context):
    """0, 1, ... in the lanes."""

    def generate(context, builder, signature, args):
        return ir.Constant(_LANES, [float(lane) for lane in range(WIDTH)])

    return SCALARS(), generate


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

    return (SCALARS(left, right), generate) if left == right else None


@_called_in_kernels
def root(context, value):
    """Square root of each number, correctly rounded."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_LANES, [_LANES])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{WIDTH}f64")
        if isinstance(value, ScalarsType):
            return builder.call(function, args)
        return _each_axis(
            builder, value.dim, lambda axis: builder.call(function, [builder.extract_value(args[0], axis)])
        )

    return value(value), generate


@_called_in_kernels
def where_above(context, condition, threshold, value):
    """`value` where `condition` > `threshold`, else 0 (so 0 where it is NaN), lane by lane.

    A condition of `Scalars` holds for every axis of a `Vectors` value.
    """

    def generate(context, builder, signature, args):
        limit = _spread(builder, args[1])
        nothing = ir.Constant(_LANES, None)

        def choose(tested, chosen):
            return builder.select(builder.fcmp_ordered(">", tested, limit), chosen, nothing)

        if isinstance(value, ScalarsType):
            return choose(args[0], args[2])
        by_axis = isinstance(condition, VectorsType)
        return _each_axis(
            builder,
            value.dim,
            lambda axis: choose(
                builder.extract_value(args[0], axis) if by_axis else args[0], builder.extract_value(args[2], axis)
            ),
        )

    return value(condition, types.float64, value), generate
