"""Expressions of one variable, such as the strength of a force as a function of the
distance r.

An expression is text of a closed grammar: numbers, the variable, pi, + - * / **,
comparisons (< <= > >=, with the value 1 or 0), where(condition, a, b), exp, log, sqrt,
abs, min, max (of two numbers), and interp(x, [x0, x1, ...], [y0, y1, ...]), which is
linear between its points and constant outside. It is parsed into a tree of four kinds
of nodes and never executed as Python.

A tree is evaluated by `Expression.evaluate`, which replaces every node by a function
from a table of operations: on floats, on arrays, or on source text of another language.

This module imports only the standard library."""

from __future__ import annotations

import ast
import functools
import itertools
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dynamics.errors import SettingsError

MAX_CHARACTERS = 300_000
"""Longest text; an interp with 5,000 points has at most 260,000 characters."""
SMALLEST_INTERVAL = 1e-300
"""Smallest difference of two points of an interp."""
MAX_OPERATIONS = 200
MAX_DEPTH = 50
"""Largest number of operations inside each other, also of terms of one sum."""
SHOWN_CHARACTERS = 60
"""Number of characters of a text that an error shows."""


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Operation:
    """An operation and its arguments. It has the name of the function of NumPy; the
    number pi is the operation "pi" without arguments."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Table:
    """A function given by numbers, of `argument`.

    "interp": linear between the points (x, y), constant outside. "steps": y[i] where
    x[i] <= argument < x[i + 1], and 0 outside; y has one number fewer than x. Only
    derivatives of "interp" contain "steps"."""

    name: str
    argument: Node
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class OwnFunction:
    """A function of the user, or its derivative of some order; see
    `dynamics.own_functions`."""

    name: str
    digest: str
    argument: Node
    order: int = 0


Node = Number | Variable | Operation | Table | OwnFunction

OWN_FUNCTION = re.compile(r"([A-Za-z_]\w*)@([0-9a-f]{12})\((\w+)\)")
"""The text of a function of the user: its name, digest and variable."""

FUNCTIONS = {
    "where": ("where", 3),
    "exp": ("exp", 1),
    "log": ("log", 1),
    "sqrt": ("sqrt", 1),
    "abs": ("absolute", 1),
    "min": ("minimum", 2),
    "max": ("maximum", 2),
}
"""Functions of the grammar: operation and number of arguments."""
_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}


@dataclass(frozen=True)
class Expression:
    """A function of one variable, from `parse_expression`. Two expressions with the same
    text are equal."""

    root: Node
    variable: str

    def __str__(self) -> str:
        return self.text

    @functools.cached_property
    def text(self) -> str:
        """The expression in the grammar, with the fewest parentheses. Parsing it gives
        the same expression, unless it is a derivative with a table of steps."""
        return _text(self.root)[0]

    def derivative(self) -> Expression:
        """The derivative. Comparisons have the derivative 0, and where, abs, min and
        max that of the branch that is taken."""
        derivative = _derivative(self.root, Variable(self.variable))
        return Expression(derivative, self.variable)

    def evaluate(self, value: Any, operations: Mapping[str, Callable[..., Any]]) -> Any:
        """The value of the expression, computed by a table of operations.

        value: what the variable stands for. operations: a function for each of the
        names ``number`` (of a float), ``negative``, ``add``, ``subtract``,
        ``multiply``, ``divide``, ``power`` (whose exponent is a float), ``less``,
        ``less_equal``, ``greater``, ``greater_equal``, ``where``, ``exp``, ``log``,
        ``sqrt``, ``absolute``, ``minimum``, ``maximum``, and ``interp`` and ``steps``
        (of a value and two tuples of floats, see `Table`). Comparisons give 1 or 0;
        where takes its second argument if the first is not 0. A power whose exponent
        is not constant is computed as exp(exponent log(base)). A function of the user
        is ``own`` (of the value and its `OwnFunction`). Another variable
        is the value of the operation of its name, without arguments."""

        def fold(node: Node) -> Any:
            match node:
                case Number(number):
                    return operations["number"](number)
                case Variable(name):
                    return value if name == self.variable else operations[name]()
                case Table(name, argument, x, y):
                    return operations[name](fold(argument), x, y)
                case OwnFunction(argument=argument):
                    return operations["own"](fold(argument), node)
                case Operation("pi"):
                    return operations["number"](math.pi)
                case Operation("power", (base, exponent)):
                    constant = _constant(exponent)
                    if constant is not None:
                        return operations["power"](fold(base), constant)
                    logarithm = operations["log"](fold(base))
                    return operations["exp"](
                        operations["multiply"](fold(exponent), logarithm)
                    )
                case Operation(name, arguments):
                    return operations[name](*map(fold, arguments))

        return fold(self.root)

    def monomial(self) -> tuple[float, int] | None:
        """(coefficient, power) if the expression is coefficient * variable**power with
        a whole power, else None."""
        return _monomial(self.root)


class PowerProduct(NamedTuple):
    """r**(power - 1) and r**power as products of one base, which is computed from r²
    with one division or square root, or one of each."""

    of_square: bool
    """Whether the base is r² or 1 / r²; otherwise it is r or 1 / r. Then r**power has a
    further factor, the square root of the base."""
    of_inverse: bool
    factors: int
    """Number of bases in r**(power - 1)."""
    sizes: int
    """Number of bases in r**power."""


def power_product(power: int) -> PowerProduct:
    """The products for a whole power of r."""
    if power % 2:
        return PowerProduct(True, power < 0, abs(power - 1) // 2, (abs(power) - 1) // 2)
    return PowerProduct(False, power <= 0, abs(power - 1), abs(power))


def parse_expression(text: str, variable: str, field: str = "expression") -> Expression:
    """Read an expression of one variable.

    Parameters
    ----------
    text : str
        The expression: numbers, the variable, ``pi``, ``+ - * / **``, comparisons
        ``< <= > >=`` (1 if true, else 0), ``where(condition, a, b)``, ``exp``, ``log``,
        ``sqrt``, ``abs``, ``min``, ``max``, and ``interp(x, [x0, x1, ...], [y0, y1,
        ...])``, which is linear between its points and constant outside.
    variable : str
        Name of the variable.
    field : str, optional
        Name of the setting that has this text, for errors.

    Returns
    -------
    Expression
        With ``text``, ``derivative()``, ``evaluate(value, operations)`` and
        ``monomial()``.

    Raises
    ------
    SettingsError
        If the text is not an expression of this grammar, is too long or too deeply
        nested, or contains a number that is not finite.

    Notes
    -----
    The text is parsed, and never executed as Python. A chained comparison such as ``1 <
    r < 2`` is refused; it is the product ``(1 < r)*(r < 2)``.

    Examples
    --------
    >>> strength = parse_expression("exp(-r)/r", "r")
    >>> strength.derivative().text
    '(-exp(-r) - exp(-r)/r)/r'
    >>> parse_expression("1/r**3", "r").monomial()
    (1.0, -3)
    >>> parse_expression("1/x", "r", "repulsion")
    Traceback (most recent call last):
        ...
    dynamics.errors.SettingsError: repulsion: found '1/x' (the name x), allowed is an \
expression of r with numbers, pi, + - * / **, < <= > >=, where(condition, a, b), exp, \
log, sqrt, abs, min, max, interp(x, [x0, x1, ...], [y0, y1, ...])
    """
    own = OWN_FUNCTION.fullmatch(text) if isinstance(text, str) else None
    if own is not None and own[3] == variable:
        return Expression(OwnFunction(own[1], own[2], Variable(variable)), variable)
    try:
        return Expression(_Reader(variable).read(text), variable)
    except _Refusal as refusal:
        functions = ", ".join(list(FUNCTIONS)[1:])
        raise SettingsError(
            field,
            f"{_shown(repr(text))} ({refusal})",
            f"an expression of {variable} with numbers, pi, + - * / **, < <= > >=,"
            f" where(condition, a, b), {functions},"
            " interp(x, [x0, x1, ...], [y0, y1, ...])",
        ) from None


# ------------------------------------------------------------------------------ parsing


class _Refusal(Exception):
    """The part of a text that is not in the grammar."""


def _shown(text: str) -> str:
    """The first characters of a text."""
    whole = len(text) <= SHOWN_CHARACTERS
    return text if whole else f"{text[:SHOWN_CHARACTERS]}..."


class _Reader:
    """Makes the tree of one text."""

    def __init__(self, variable: str) -> None:
        self.variable = variable
        self.text = ""
        self.operations = 0

    def read(self, text: str) -> Node:
        """The tree of a text; _Refusal if it is not in the grammar."""
        if not isinstance(text, str):
            raise _Refusal("not a text")
        if len(text) > MAX_CHARACTERS:
            raise _Refusal(f"more than {MAX_CHARACTERS} characters")
        foreign = re.search(r"[^\w\s.,+\-*/()\[\]<>=]", text, re.ASCII)
        if foreign is not None:
            raise _Refusal(f"the character {foreign[0]!r}")
        self.text = " ".join(text.split())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as a name right after a number
                tree = ast.parse(self.text, mode="eval")
        except (SyntaxError, ValueError):
            raise _Refusal("its syntax is wrong") from None
        except (MemoryError, RecursionError):
            raise _Refusal("too deeply nested") from None
        return self.node(tree.body, 1)

    def node(self, tree: ast.expr, depth: int) -> Node:
        if not isinstance(tree, ast.Constant | ast.Name):
            self.operations += 1
        if depth > MAX_DEPTH:
            raise _Refusal(f"more than {MAX_DEPTH} operations inside each other")
        if self.operations > MAX_OPERATIONS:
            raise _Refusal(f"more than {MAX_OPERATIONS} operations")
        match tree:
            case ast.Constant():
                return Number(_number(tree))
            case ast.Name(self.variable):
                return Variable(self.variable)
            case ast.Name("pi"):
                return Operation("pi", ())
            case ast.Name(name):
                raise _Refusal(f"the name {name}")
            case ast.UnaryOp(ast.UAdd(), operand):
                return self.node(operand, depth + 1)
            case ast.UnaryOp(ast.USub(), operand):
                argument = self.node(operand, depth + 1)
                if isinstance(argument, Number):
                    return Number(-argument.value)
                return Operation("negative", (argument,))
            case ast.BinOp(left, operator, right) if type(operator) in _BINARY:
                return self.operation(_BINARY[type(operator)], [left, right], depth)
            case ast.Compare(left, [operator], [right]) if type(operator) in _BINARY:
                return self.operation(_BINARY[type(operator)], [left, right], depth)
            case ast.Compare():
                raise _Refusal(
                    "comparisons are < <= > >= between two numbers; a product joins two"
                )
            case ast.Call(ast.Name(name), arguments, []):
                return self.call(name, arguments, depth)
        raise _Refusal(_shown(ast.get_source_segment(self.text, tree) or ""))

    def operation(self, name: str, arguments: list[ast.expr], depth: int) -> Node:
        return Operation(
            name, tuple(self.node(argument, depth + 1) for argument in arguments)
        )

    def call(self, name: str, arguments: list[ast.expr], depth: int) -> Node:
        if name == "interp":
            match arguments:
                case [argument, ast.List(x), ast.List(y)]:
                    return self.table(argument, x, y, depth)
            raise _Refusal("interp takes a number and two lists of numbers in [ ]")
        if name not in FUNCTIONS:
            raise _Refusal(f"the function {name}")
        operation, count = FUNCTIONS[name]
        if len(arguments) != count:
            raise _Refusal(f"{name} with {len(arguments)} arguments, not {count}")
        return self.operation(operation, arguments, depth)

    def table(
        self, argument: ast.expr, x: list[ast.expr], y: list[ast.expr], depth: int
    ) -> Table:
        points = tuple(map(_number, x))
        values = tuple(map(_number, y))
        if len(points) != len(values):
            raise _Refusal(f"interp of {len(points)} and {len(values)} numbers")
        if len(points) < 2:
            raise _Refusal("interp of fewer than two points")
        intervals = [right - left for left, right in itertools.pairwise(points)]
        if min(intervals) < SMALLEST_INTERVAL:
            raise _Refusal("interp of points that do not increase")
        if not all(
            map(math.isfinite, (points[-1] - points[0], *_slopes(points, values)))
        ):
            raise _Refusal("interp with a slope that is not finite")
        return Table("interp", self.node(argument, depth + 1), points, values)


def _number(tree: ast.expr) -> float:
    """The value of a literal number, which may have a sign."""
    match tree:
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if not math.isfinite(number):
                raise _Refusal("a number that is too large")
            return number
        case ast.UnaryOp(ast.USub(), ast.Constant() as operand):
            return -_number(operand)
        case ast.UnaryOp(ast.UAdd(), ast.Constant() as operand):
            return _number(operand)
        case ast.Constant(value):
            raise _Refusal(f"{value!r}")
    raise _Refusal("a list with something that is not a number")


def _slopes(x: tuple[float, ...], y: tuple[float, ...]) -> tuple[float, ...]:
    """Slopes between successive points."""
    steps = zip(itertools.pairwise(x), itertools.pairwise(y), strict=True)
    return tuple((high - low) / (right - left) for (left, right), (low, high) in steps)


# --------------------------------------------------------------------------------- text

_COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(6)
"""How closely the last operation of a text binds, as in Python."""
_INFIX = {
    "less": (" < ", _COMPARISON, _SUM, _SUM),
    "less_equal": (" <= ", _COMPARISON, _SUM, _SUM),
    "greater": (" > ", _COMPARISON, _SUM, _SUM),
    "greater_equal": (" >= ", _COMPARISON, _SUM, _SUM),
    "add": (" + ", _SUM, _SUM, _PRODUCT),
    "subtract": (" - ", _SUM, _SUM, _PRODUCT),
    "multiply": ("*", _PRODUCT, _PRODUCT, _SIGN),
    "divide": ("/", _PRODUCT, _PRODUCT, _SIGN),
    "power": ("**", _POWER, _ATOM, _SIGN),
}
"""Operations between two numbers: symbol, binding, and the weakest binding of the left
and right side that needs no parentheses."""
_WORDS = {operation: word for word, (operation, _) in FUNCTIONS.items()}


def number_text(value: float) -> str:
    """The shortest decimal number that is exactly this float."""
    text = repr(value)
    return text.removesuffix(".0")


def _text(node: Node) -> tuple[str, int]:
    """The text of a node and how closely its last operation binds."""

    def side(argument: Node, weakest: int) -> str:
        text, binding = _text(argument)
        return text if binding >= weakest else f"({text})"

    match node:
        case Number(value):
            negative = math.copysign(1.0, value) < 0
            return number_text(value), _SIGN if negative else _ATOM
        case Variable(name):
            return name, _ATOM
        case Table(name, argument, x, y):
            lists = [", ".join(map(number_text, numbers)) for numbers in (x, y)]
            return f"{name}({_text(argument)[0]}, [{lists[0]}], [{lists[1]}])", _ATOM
        case OwnFunction(name, digest, argument, order):
            primes = "'" * order
            return f"{name}@{digest}{primes}({_text(argument)[0]})", _ATOM
        case Operation("pi"):
            return "pi", _ATOM
        case Operation("negative", (argument,)):
            return f"-{side(argument, _SIGN)}", _SIGN
        case Operation(name, (left, right)) if name in _INFIX:
            symbol, binding, left_weakest, right_weakest = _INFIX[name]
            sides = [side(left, left_weakest), side(right, right_weakest)]
            return symbol.join(sides), binding
        case Operation(name, arguments):
            listed = ", ".join(_text(argument)[0] for argument in arguments)
            return f"{_WORDS[name]}({listed})", _ATOM


# -------------------------------------------------------- constants and simplification


def _monomial(node: Node) -> tuple[float, int] | None:
    """(coefficient, power) of a node, or None."""
    match node:
        case Number(value):
            return value, 0
        case Variable():
            return 1.0, 1
        case Table() | OwnFunction():
            return None
        case Operation("pi"):
            return math.pi, 0
        case Operation(name, arguments):
            parts = [part for part in map(_monomial, arguments) if part is not None]
            if len(parts) < len(arguments):
                return None
            try:
                coefficient, power = _monomial_of(name, parts)
            except (ArithmeticError, ValueError):
                return None
            if not math.isfinite(coefficient):
                return None
            return coefficient, power if coefficient else 0


def _monomial_of(name: str, parts: list[tuple[float, int]]) -> tuple[float, int]:
    """The monomial of an operation on monomials; ValueError if it is none."""
    coefficients = [coefficient for coefficient, _ in parts]
    powers = [power for _, power in parts]
    value = _FLOATS[name](*coefficients)
    match name:
        case "negative":
            return value, powers[0]
        case "multiply":
            return value, powers[0] + powers[1]
        case "divide":
            return value, powers[0] - powers[1]
        case "power" if powers[1] == 0 and coefficients[1].is_integer():
            return value, powers[0] * int(coefficients[1])
        case "add" | "subtract" if powers[0] == powers[1]:
            return value, powers[0]
    if any(powers):
        raise ValueError(name)
    return value, 0


_FLOATS: dict[str, Callable[..., float]] = {
    "negative": lambda a: -a,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": math.pow,
    "less": lambda a, b: float(a < b),
    "less_equal": lambda a, b: float(a <= b),
    "greater": lambda a, b: float(a > b),
    "greater_equal": lambda a, b: float(a >= b),
    "where": lambda condition, a, b: a if condition != 0 else b,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "absolute": abs,
    "minimum": min,
    "maximum": max,
}
"""The operations on constants."""


def _constant(node: Node) -> float | None:
    """The value of a node that does not depend on the variable, if it is finite."""
    monomial = _monomial(node)
    return monomial[0] if monomial is not None and monomial[1] == 0 else None


def _simplified(name: str, *arguments: Node) -> Node:
    """An operation of arithmetic, without terms 0, factors 1 and operations on two
    numbers."""
    if all(isinstance(argument, Number) for argument in arguments):
        value = _constant(Operation(name, arguments))
        if value is not None:
            return Number(value + 0.0)  # 0 has no sign
    match name, arguments:
        case "negative", (Operation("negative", (a,)),):
            return a
        case ("add", (Number(0.0), a)) | ("add" | "subtract", (a, Number(0.0))):
            return a
        case "subtract", (Number(0.0), a):
            return _simplified("negative", a)
        case (("multiply" | "divide"), (Number(0.0), _)):
            return Number(0.0)
        case "multiply", (Number(1.0), a):
            return a
        case "multiply", (Number(-1.0), a):
            return _simplified("negative", a)
        case "multiply", (a, Number() as b):
            return _simplified("multiply", b, a)
        case (("divide" | "power"), (a, Number(1.0))):
            return a
        case "power", (_, Number(0.0)):
            return Number(1.0)
        case "where", (_, a, b) if a == b:
            return a
    return Operation(name, arguments)


# --------------------------------------------------------------------------- derivative


def _derivative(node: Node, variable: Variable) -> Node:
    """The derivative of a node."""
    monomial = _monomial(node)
    if monomial is not None:
        coefficient, power = monomial
        return _monomial_tree(coefficient * power, power - 1, variable)
    match node:
        case OwnFunction(name, digest, argument, order):
            return OwnFunction(name, digest, argument, order + 1)
        case Table("interp", argument, x, y):
            slopes = Table("steps", argument, x, _slopes(x, y))
            return _product(slopes, _derivative(argument, variable))
        case Operation(name, arguments):
            slopes_of_arguments = [_derivative(part, variable) for part in arguments]
            return _operation_derivative(node, name, arguments, slopes_of_arguments)
    return Number(0.0)


def _monomial_tree(coefficient: float, power: int, variable: Variable) -> Node:
    """coefficient * variable**power."""
    factor = _simplified("power", variable, Number(float(abs(power))))
    name = "multiply" if power >= 0 else "divide"
    return _simplified(name, Number(coefficient), factor)


_product = functools.partial(_simplified, "multiply")
_quotient = functools.partial(_simplified, "divide")


def _operation_derivative(
    node: Node, name: str, arguments: tuple[Node, ...], derivatives: list[Node]
) -> Node:
    """The derivative of an operation, from those of its arguments."""
    match name, arguments, derivatives:
        case "negative", _, [da]:
            return _simplified("negative", da)
        case (("add" | "subtract"), _, [da, db]):
            return _simplified(name, da, db)
        case "multiply", (a, b), [da, db]:
            return _simplified("add", _product(da, b), _product(a, db))
        case "divide", (a, b), [da, db]:
            change = _product(_quotient(a, b), db)
            return _quotient(_simplified("subtract", da, change), b)
        case "power", (a, b), [da, db]:
            exponent = _constant(b)
            if exponent is not None:
                lower = _simplified("power", a, Number(exponent - 1.0))
                return _product(_product(Number(exponent), lower), da)
            logarithm = Operation("log", (a,))
            change = _product(b, _quotient(da, a))
            return _product(node, _simplified("add", _product(db, logarithm), change))
        case "where", (condition, _, _), [_, da, db]:
            return _simplified("where", condition, da, db)
        case "exp", _, [da]:
            return _product(node, da)
        case "log", (a,), [da]:
            return _quotient(da, a)
        case "sqrt", _, [da]:
            return _quotient(da, _product(Number(2.0), node))
        case "absolute", (a,), [da]:
            is_negative = Operation("less", (a, Number(0.0)))
            return _simplified("where", is_negative, _simplified("negative", da), da)
        case "minimum", (a, b), [da, db]:
            return _simplified("where", Operation("less", (a, b)), da, db)
        case "maximum", (a, b), [da, db]:
            return _simplified("where", Operation("greater", (a, b)), da, db)
    return Number(0.0)  # comparisons


# --------------------------------------------------------------------------- JavaScript

_JAVASCRIPT_TABLES = """\
const lastPoint = (x, points) => {
  let first = 0, end = points.length
  while (end - first > 1) {
    const middle = (first + end) >> 1
    if (points[middle] <= x) first = middle
    else end = middle
  }
  return first
}
const interp = (x, points, values) => {
  const last = points.length - 1
  if (x <= points[0]) return values[0]
  if (x >= points[last]) return values[last]
  const i = lastPoint(x, points)
  const slope = (values[i + 1] - values[i]) / (points[i + 1] - points[i])
  return values[i] + slope * (x - points[i])
}
const steps = (x, points, values) => {
  if (x < points[0] || x >= points[points.length - 1]) return 0
  return x === x ? values[lastPoint(x, points)] : x
}
"""
_JAVASCRIPT = {
    "number": "({})",
    "negative": "(-{})",
    "add": "({} + {})",
    "subtract": "({} - {})",
    "multiply": "({} * {})",
    "divide": "({} / {})",
    "power": "Math.pow({}, {})",
    "less": "Number({} < {})",
    "less_equal": "Number({} <= {})",
    "greater": "Number({} > {})",
    "greater_equal": "Number({} >= {})",
    "where": "({} !== 0 ? {} : {})",
    "exp": "Math.exp({})",
    "log": "Math.log({})",
    "sqrt": "Math.sqrt({})",
    "absolute": "Math.abs({})",
    "minimum": "Math.min({}, {})",
    "maximum": "Math.max({}, {})",
}
"""The text of every operation on numbers."""


def javascript(expression: Expression) -> str:
    """JavaScript source text of the expression: a function of one number. Raises
    SettingsError for a function of the user."""
    tables: list[str] = []

    def own(x: str, function: OwnFunction) -> str:
        raise SettingsError("strength", expression.text, "an expression, in a browser")

    def listed(numbers: tuple[float, ...]) -> str:
        """The name of a constant list."""
        tables.append(f"const list{len(tables)} = {list(numbers)}\n")
        return f"list{len(tables) - 1}"

    def table(name: str, x: str, points: tuple[float, ...], values: Any) -> str:
        return f"{name}({x}, {listed(points)}, {listed(values)})"

    value = expression.evaluate(
        expression.variable,
        {
            **{name: text.format for name, text in _JAVASCRIPT.items()},
            "interp": functools.partial(table, "interp"),
            "steps": functools.partial(table, "steps"),
            "own": own,
        },
    )
    function = f"({expression.variable}) => {value}"
    if not tables:
        return function
    return f"(() => {{\n{_JAVASCRIPT_TABLES}{''.join(tables)}return {function}\n}})()"
