"""What one pair sum does to another under a law, as device functions for CUDA.

The strengths are compiled from the same lines as those for SIMD lanes
(`dynamics.particles.force_terms`), with device functions in place of those on lanes.
Tables and directions differ: a table is a part of one array that kernels take, and
pair sums are in arrays."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from dynamics.expressions import OwnFunction
from dynamics.forces import Force
from dynamics.kernels import cuda_functions
from dynamics.kernels.cuda_launching import device_function, index
from dynamics.own_functions import find_own_function, frozen_copy
from dynamics.particles.force_terms import TINY, angular_lines, radial_lines
from dynamics.strengths import SourceText


class DeviceForces(NamedTuple):
    """The forces of a law in one dimension."""

    add_like: Any
    """Adds the forces between pairs with equal modular sums to those on a pair sum."""
    add_unlike: Any
    """The same for different modular sums."""
    tables: np.ndarray
    """The numbers of all tables of the law; at least one number."""


class _DeviceSourceText(SourceText):
    """Operations on source text of device functions. A table becomes a part of
    `numbers`."""

    def __init__(self, numbers: list[float]) -> None:
        super().__init__(
            lambda number: f"scalars({number!r})", _own_function, cuda_functions
        )
        self.numbers = numbers

    def table(
        self,
        function: str,
        x: str,
        points: tuple[float, ...],
        values: tuple[float, ...],
    ) -> str:
        begin = len(self.numbers)
        self.numbers += [*points, *values]
        return self.call(function, x, "tables", str(begin), str(len(points)))


def _own_function(function: OwnFunction) -> Any:
    """A function of the user as a device function."""
    value = frozen_copy(find_own_function(function.name, function.digest))
    value.__globals__.setdefault("__warningregistry__", {})
    compiled = device_function(value)

    @device_function
    def of_float64(x):
        return np.float64(compiled(np.float64(x)))

    return of_float64


def device_forces(
    forces: Sequence[Force], weighed: Sequence[bool], dim: int
) -> DeviceForces:
    """The device functions of a law. They add to the forces `total` (force x axis) and
    to the magnitudes `strength` (force) on a pair sum.

    weighed: whether the magnitude of each force is needed."""
    numbers: list[float] = []
    terms = [
        _force_term(force, place, weighed[place], dim, numbers)
        for place, force in enumerate(forces)
    ]

    def between(kind: Literal["like", "unlike"]) -> Any:
        chosen = [
            term
            for force, term in zip(forces, terms, strict=True)
            if force.acts_between(kind)
        ]
        return functools.reduce(_join_terms, chosen) if chosen else _no_force

    return DeviceForces(
        between("like"), between("unlike"), np.array(numbers or [0.0], np.float64)
    )


def _force_term(
    force: Force, place: int, weighed: bool, dim: int, numbers: list[float]
) -> Any:
    source = _DeviceSourceText(numbers)
    if force.is_radial:
        lines = radial_lines(force.expression, source)
        return _radial_term(
            _compile("square", lines, source.names), place, weighed, dim
        )
    lines = angular_lines(force.expression, source, cosine="cosine", both="both")
    strength = _compile("product, cosine, both", lines, source.names)
    return _angular_term(strength, place, weighed, dim)


def _compile(arguments: str, lines: Sequence[str], names: dict[str, Any]) -> Any:
    """Compile a device function from the lines of its body."""
    namespace = {**vars(cuda_functions), "TINY": TINY, **names}
    source = "\n    ".join([f"def strength({arguments}, tables):", *lines])
    exec(compile(source, "<strength of a force>", "exec"), namespace)
    return device_function(namespace["strength"])


def _radial_term(
    strength_of: Callable[..., Any], place: int, weighed: bool, dim: int
) -> Any:
    """A force along the difference of two pair sums."""

    @device_function
    def add_force(own, own_unit, sums, units, kl, is_counted, tables, total, strength):
        square = np.float64(0.0)
        for axis in range(dim):
            difference = own[axis] - sums[index(kl * dim + axis)]
            square += difference * difference
        factor, magnitude = strength_of(square, tables)
        for axis in range(dim):
            difference = own[axis] - sums[index(kl * dim + axis)]
            total[place * dim + axis] += difference * factor
        if weighed and is_counted:
            strength[place] += magnitude

    return add_force


def _angular_term(
    strength_of: Callable[..., Any], place: int, weighed: bool, dim: int
) -> Any:
    """A force along the direction of the other pair sum."""

    @device_function
    def add_force(own, own_unit, sums, units, kl, is_counted, tables, total, strength):
        product = np.float64(0.0)
        cosine = np.float64(0.0)
        own_square = np.float64(0.0)
        square = np.float64(0.0)
        for axis in range(dim):
            unit = units[index(kl * dim + axis)]
            product += own[axis] * sums[index(kl * dim + axis)]
            cosine += own_unit[axis] * unit
            own_square += own_unit[axis] * own_unit[axis]
            square += unit * unit
        value, magnitude = strength_of(product, cosine, own_square * square, tables)
        for axis in range(dim):
            total[place * dim + axis] += units[index(kl * dim + axis)] * value
        if weighed and is_counted:
            strength[place] += magnitude

    return add_force


@device_function
def _no_force(own, own_unit, sums, units, kl, is_counted, tables, total, strength):
    pass


def _join_terms(first: Any, second: Any) -> Any:
    """The forces of both terms."""

    @device_function
    def add_forces(own, own_unit, sums, units, kl, is_counted, tables, total, strength):
        first(own, own_unit, sums, units, kl, is_counted, tables, total, strength)
        second(own, own_unit, sums, units, kl, is_counted, tables, total, strength)

    return add_forces
