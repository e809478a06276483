"""Functions of the user as strengths of forces, and their identity.

A function is identified by its name and a digest of its source and of the numbers that
it refers to. Files contain this identity; the function itself is in the process that
has created it."""

import hashlib
import inspect
import numbers
import textwrap
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from dynamics.errors import SettingsError

_FUNCTIONS: dict[tuple[str, str], Any] = {}


def own_function_text(function: Callable[[float], float], variable: str) -> str:
    """The text of a function as a strength, such as "far@0a1b2c3d4e5f(r)".

    Raises SettingsError for a function without source or name, or one that refers to
    anything but numbers, modules and built-in functions.
    """
    function = getattr(function, "py_func", function)
    digest = source_digest(function, "strength")
    name = function.__name__
    _FUNCTIONS[name, digest] = function
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
    SettingsError for a function without source or name, or one that refers to anything
    but these, numbers, modules and built-in functions.
    """
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise SettingsError(field, name or function, "a function with a name")
    try:
        source = textwrap.dedent(inspect.getsource(function))
        references = inspect.getclosurevars(function)
    except (OSError, TypeError):
        raise SettingsError(field, name, "a function with source code") from None
    values = {**references.globals, **references.nonlocals}
    numbers_used = {
        key: _checked_number(field, f"{name}, which refers to {key}", value, helpers)
        for key, value in sorted(values.items())
        if not isinstance(value, ModuleType)
        and not inspect.isbuiltin(value)
        and not any(value is helper for helper in helpers)
    }
    identity = f"{source}{numbers_used}{function.__defaults__}"
    if further:
        identity += repr(further)
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


def _checked_number(
    field: str, found: str, value: Any, helpers: Sequence[Callable[..., Any]]
) -> float:
    if isinstance(value, numbers.Real):
        return float(value)
    allowed = "a function of one number that refers to numbers and modules"
    if helpers:
        names = ", ".join(helper.__name__ for helper in helpers)
        allowed = f"a function that refers to numbers, modules, {names}"
    raise SettingsError(field, found, allowed)


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
