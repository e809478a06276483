"""Functions of the user, such as strengths of forces, and their identity.

A function is identified by its name and a digest of its source and of the numbers that
it refers to. Files contain this identity; the function itself is in the process that
has created it. What is compiled is a copy that keeps these numbers."""

import hashlib
import inspect
import numbers
import textwrap
import types
from collections.abc import Callable, Sequence
from typing import Any

from dynamics.errors import SettingsError

MODULES = ("math", "numpy")
"""Modules that functions may refer to."""

_FUNCTIONS: dict[tuple[str, str], Any] = {}


def own_function_text(function: Callable[[float], float], variable: str) -> str:
    """The text of a function as a strength, such as "far@0a1b2c3d4e5f(r)". Raises
    SettingsError for a function of other than one number, and as `source_digest`."""
    function = getattr(function, "py_func", function)
    digest = source_digest(function, "strength")
    name = function.__name__
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].default is not inspect.Parameter.empty:
        raise SettingsError("strength", name, "a function of one number")
    _FUNCTIONS[name, digest] = frozen_copy(function)
    return f"{name}@{digest}({variable})"


def source_digest(
    function: Callable[..., Any],
    field: str,
    helpers: Sequence[Callable[..., Any]] = (),
    further: Any = None,
) -> str:
    """A digest of the source of a function, of the numbers that it refers to, and of
    `further`.

    field: what it is in error messages. helpers: functions that it may refer to. Raises
    SettingsError for a function that is not made by def, contains functions or
    comprehensions, or refers to anything but these, numbers, math and numpy.
    """
    name = getattr(function, "__name__", "")
    if not name.isidentifier() or not isinstance(function, types.FunctionType):
        raise SettingsError(field, name or function, "a function made by def")
    if any(isinstance(item, types.CodeType) for item in function.__code__.co_consts):
        allowed = "a function without functions or comprehensions inside it"
        raise SettingsError(field, name, allowed)
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        raise SettingsError(field, name, "a function with source code") from None
    numbers_used = {
        key: _checked_number(field, f"{name}, which refers to {key}", value, helpers)
        for key, value in sorted(_references(function).items())
        if not _is_constant(value) and not any(value is helper for helper in helpers)
    }
    identity = f"{source}{numbers_used}{function.__defaults__}"
    if further:
        identity += repr(further)
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


def _references(function: types.FunctionType) -> dict[str, Any]:
    """What a function refers to by its name."""
    references = inspect.getclosurevars(function)
    return {**references.globals, **references.nonlocals}


def _is_constant(value: Any) -> bool:
    """Whether a value is a module or a function that stays the same."""
    is_module = isinstance(value, types.ModuleType) and value.__name__ in MODULES
    return is_module or inspect.isbuiltin(value)


def _checked_number(
    field: str, found: str, value: Any, helpers: Sequence[Callable[..., Any]]
) -> float:
    if isinstance(value, numbers.Real):
        return float(value)
    names = [*MODULES, *(helper.__name__ for helper in helpers)]
    allowed = f"a function that refers to numbers, {', '.join(names)}"
    raise SettingsError(field, found, allowed)


def frozen_copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a function that keeps what it refers to now."""
    assert isinstance(function, types.FunctionType)
    cells = [types.CellType(cell.cell_contents) for cell in function.__closure__ or ()]
    copy = types.FunctionType(
        function.__code__,
        {"__name__": function.__module__, **inspect.getclosurevars(function).globals},
        function.__name__,
        function.__defaults__,
        tuple(cells),
    )
    copy.__qualname__ = function.__qualname__
    return copy


def find_own_function(name: str, digest: str) -> Any:
    """The function of a name and digest. Raises SettingsError if this process has not
    created it."""
    if (name, digest) not in _FUNCTIONS:
        raise SettingsError(
            "strength",
            f"{name}@{digest}",
            "a function of this process: create its Force(..., strength=function)"
            " first, with the same source",
        )
    return _FUNCTIONS[name, digest]
