"""What one pair sum does to another under a law, as compiled functions on SIMD lanes.

`law_terms` composes the forces of a law that act between one kind of pairs (like or
unlike) into one compiled function. The loops over pairs in
`dynamics.particles.pair_forces` call it, and know nothing else of the forces.

A strength is compiled from its expression. A force along the difference d of two pair
sums is computed as strength(r) / r times d, from r², so that powers of r need few
operations: an even power of 1/r is a power of 1/r², an odd one a power of 1/sqrt(r²)."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from dynamics.expressions import (
    Expression,
    Node,
    Number,
    Operation,
    Variable,
    power_product,
)
from dynamics.forces import Force
from dynamics.kernels import lane_functions, simd
from dynamics.kernels.compiling import kernel_function, variant_function
from dynamics.kernels.simd import dot, join_axes, repeat_axes, scalars
from dynamics.strengths import SourceText, evaluate, lane_source_text

TINY = 1e-280
"""Squared lengths up to this count as zero; above it every field is finite."""

COMPARISONS = ("less", "less_equal", "greater", "greater_equal")

Term = Callable[..., Any]
"""A compiled function of x_ij, x_kl and their directions, `Vectors`, which returns the
forces on x_ij (force x axis), the forces on x_kl, and their magnitudes (force)."""


def law_terms(forces: Sequence[Force], kind: Literal["like", "unlike"]) -> Term:
    """The forces of a law between one kind of pairs, in their order; if there are none,
    a force that is zero."""
    terms = [
        (_force_term(force), f"{force.along} {force.strength}")
        for force in forces
        if force.acts_between(kind)
    ]
    return functools.reduce(_join_terms, terms)[0] if terms else _no_force


def _force_term(force: Force) -> Term:
    if force.is_radial:
        return _radial_term(force.expression)
    return _angular_term(force.expression)


def _radial_term(expression: Expression) -> Term:
    """A force along the difference of two pair sums. It is opposite and equal."""
    strength = radial_strength(expression)

    @variant_function(expression.text)
    def term(x_ij, x_kl, unit_ij, unit_kl):
        difference = x_ij - x_kl
        factor, magnitude = strength(dot(difference, difference))
        force = difference * factor
        return force, force * scalars(-1.0), repeat_axes(magnitude, (0,))

    return term


def _angular_term(expression: Expression) -> Term:
    """A force along the direction of the other pair sum."""
    strength = angular_strength(expression)

    @variant_function(expression.text)
    def term(x_ij, x_kl, unit_ij, unit_kl):
        value, magnitude = strength(dot(x_ij, x_kl), unit_ij, unit_kl)
        return unit_kl * value, unit_ij * value, repeat_axes(magnitude, (0,))

    return term


@kernel_function
def _no_force(x_ij, x_kl, unit_ij, unit_kl):
    nothing = x_ij - x_ij
    return nothing, nothing, repeat_axes(scalars(0.0), (0,))


def _join_terms(one: tuple[Term, str], other: tuple[Term, str]) -> tuple[Term, str]:
    """The forces of both terms, each with a text that determines it."""
    first, second = one[0], other[0]
    variant = f"{one[1]}; {other[1]}"

    @variant_function(variant)
    def term(x_ij, x_kl, unit_ij, unit_kl):
        on_ij, on_kl, magnitude = first(x_ij, x_kl, unit_ij, unit_kl)
        others_on_ij, others_on_kl, others = second(x_ij, x_kl, unit_ij, unit_kl)
        return (
            join_axes(on_ij, others_on_ij),
            join_axes(on_kl, others_on_kl),
            join_axes(magnitude, others),
        )

    return term, variant


# --------------------------------------------------------------------- compiled strengths


@functools.cache
def radial_strength(expression: Expression) -> Callable[..., Any]:
    """A compiled function of r² that returns strength(r) / r and the magnitude, both 0
    for coincident pair sums."""
    source = lane_source_text()
    return _compile("square", radial_lines(expression, source), source.names)


def radial_lines(expression: Expression, source: SourceText) -> list[str]:
    """The lines of a function of `square` that returns strength(r) / r and the
    magnitude."""
    monomial = expression.monomial()
    if monomial is not None:
        lines = _power_lines(*monomial)
    else:
        lines = [
            "r = square_root(square)",
            *_factor_lines(expression.root, source.operations),
            "magnitude = absolute(factor * r)",
        ]
    return [*lines, "return factor, magnitude"]


def _factor_lines(root: Node, operations: dict[str, Callable[..., str]]) -> list[str]:
    """Lines that compute strength / r with few divisions, which take the longest."""
    if isinstance(root, Operation) and root.name == "divide":
        above, below = (
            Expression(node, "r").evaluate("r", operations) for node in root.arguments
        )
        return [f"factor = where_above(square, TINY, ({above}) / (({below}) * r))"]
    strength = Expression(_multiply_by_inverses(root), "r").evaluate(
        "r", {**operations, "inverse": lambda: "inverse"}
    )
    return [
        "inverse = where_above(square, TINY, scalars(1.0) / r)",
        f"factor = ({strength}) * inverse",
    ]


def _multiply_by_inverses(node: Node) -> Node:
    """The expression with products by 1/r, the variable "inverse", instead of divisions
    by powers of r."""
    if not isinstance(node, Operation):
        return node
    arguments = tuple(map(_multiply_by_inverses, node.arguments))
    if node.name != "divide":
        return Operation(node.name, arguments)
    monomial = Expression(node.arguments[1], "r").monomial()
    if monomial is None or monomial[1] <= 0 or monomial[0] == 0:
        return Operation(node.name, arguments)
    coefficient, power = monomial
    inverse = Operation("power", (Variable("inverse"), Number(float(power))))
    above = Operation("divide", (arguments[0], Number(coefficient)))
    return Operation("multiply", (above if coefficient != 1 else arguments[0], inverse))


def _power_lines(coefficient: float, power: int) -> list[str]:
    """Lines that compute the strength coefficient * r**power."""
    product = power_product(power)
    base = "square" if product.of_square else "square_root(square)"
    if product.of_inverse:
        base = f"scalars(1.0) / {base}"
    factors = ["base"] * product.factors
    sizes = ["base"] * product.sizes
    if product.of_square:
        sizes = ["square_root(base)", *sizes]
    return [
        f"base = where_above(square, TINY, {base})",
        f"factor = {_present_product(factors, coefficient)}",
        f"magnitude = {_present_product(sizes, abs(coefficient))}",
    ]


def _present_product(factors: Sequence[str], coefficient: float) -> str:
    """The product of factors that are 0 for coincident pair sums, and of a number;
    without factors, the number, but 0 for coincident pair sums."""
    number = f"scalars({coefficient!r})"
    if not factors:
        return f"where_above(square, TINY, {number})"
    return " * ".join(factors if coefficient == 1 else [*factors, number])


@functools.cache
def angular_strength(expression: Expression) -> Callable[..., Any]:
    """A compiled function of x_ij · x_kl and both directions that returns
    strength(c) and the magnitude, both 0 if a pair sum has no direction.

    The sign of c is that of x_ij · x_kl, which needs no direction."""
    source = lane_source_text()
    lines = angular_lines(
        expression,
        source,
        cosine="dot(unit_ij, unit_kl)",
        both="dot(unit_ij, unit_ij) * dot(unit_kl, unit_kl)",
    )
    return _compile("product, unit_ij, unit_kl", lines, source.names)


def angular_lines(
    expression: Expression, source: SourceText, cosine: str, both: str
) -> list[str]:
    """The lines of a function of `product`, x_ij · x_kl, that returns strength(c) and
    the magnitude.

    cosine, both: source text of the product of the two directions, and of that of
    their squares, which is 0 if a pair sum has no direction."""
    operations = source.operations
    zero = operations["number"](0.0)

    def test_sign(compare: Callable[[str, str], str], left: str, right: str) -> str:
        if zero in (left, right):
            left, right = ("product" if side == "c" else side for side in (left, right))
        return compare(left, right)

    tests = {
        name: functools.partial(test_sign, operations[name]) for name in COMPARISONS
    }
    strength = expression.evaluate("c", operations | tests)
    lines = [
        f"c = smaller(larger({cosine}, scalars(-1.0)), scalars(1.0))",
        f"strength = {strength}",
    ]
    if evaluate(expression, np.zeros(1))[0] != 0:
        lines.append(f"both = {both}")
        lines.append("strength = where_above(both, 0.5, strength)")
    lines.append("return strength, absolute(strength)")
    return lines


def _compile(
    arguments: str, lines: Sequence[str], names: dict[str, Any]
) -> Callable[..., Any]:
    """Compile a function on lanes from the lines of its body."""
    namespace = {**vars(simd), **vars(lane_functions), "TINY": TINY, **names}
    source = "\n    ".join([f"def strength({arguments}):", *lines])
    exec(compile(source, "<strength of a force>", "exec"), namespace)
    variant = f"{source} {sorted(names)}"
    return variant_function(variant)(namespace["strength"])
