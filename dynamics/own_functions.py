"""Functions of the user, such as strengths of forces, their identity, and values that
contain such functions.

A function is identified by its name and a digest of its source and of the numbers that
it refers to. Files contain this identity; the function itself is in the process that
has created it. What is compiled is a copy that keeps these numbers."""

import hashlib
import inspect
import numbers
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

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


def frozen_copy(
    function: Callable[..., Any],
    replaced: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """A copy of a function that keeps what it refers to now; functions among the keys
    of `replaced` are replaced by its values. It belongs to this module, which every
    process can import that loads its compiled code from a cache."""
    assert isinstance(function, types.FunctionType)
    substitutes = replaced or {}

    def kept(value: Any) -> Any:
        return substitutes[value] if callable(value) and value in substitutes else value

    references = inspect.getclosurevars(function).globals
    cells = [
        types.CellType(kept(cell.cell_contents)) for cell in function.__closure__ or ()
    ]
    copy = types.FunctionType(
        function.__code__,
        {
            "__name__": __name__,
            **{name: kept(value) for name, value in references.items()},
        },
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


# ---------------------------------------------------------- values that contain functions


class RegisteredValue(Protocol):
    """A value that settings name, such as an optimizer."""

    @property
    def name(self) -> str: ...


Value = TypeVar("Value", bound=RegisteredValue)


class Registry(Generic[Value]):
    """The built-in values of one kind, and those that users have registered.

    Files contain the identity of a value: the name of a built-in one, and the name and
    a digest, NAME@DIGEST, of a registered one."""

    def __init__(self, kind: str, built_in: Sequence[Value]) -> None:
        self.kind = kind
        self.built_in = {value.name: value for value in built_in}
        self.registered: dict[str, Value] = {}

    def check_name(self, name: str) -> None:
        """Raise SettingsError for the name of a built-in value."""
        if name in self.built_in:
            allowed = f"another name than {', '.join(self.built_in)}"
            raise SettingsError(f"name of {self.kind}", name, allowed)

    def add(self, value: Value, digest: str) -> None:
        """Register a value; new settings that give its name mean this one."""
        identity = f"{value.name}@{digest}"
        self.registered.pop(identity, None)
        self.registered[identity] = value

    def identity(self, name: str) -> str | None:
        """The identity of a value that is given by its name or identity; None if there
        is none."""
        if name in self.built_in or name in self.registered:
            return name
        same = [one for one, item in self.registered.items() if item.name == name]
        return same[-1] if same else None

    def find(self, identity: str) -> Value | None:
        """The value of an identity, or None."""
        return self.built_in.get(identity) or self.registered.get(identity)

    @property
    def values(self) -> list[Value]:
        """All values."""
        return [*self.built_in.values(), *self.registered.values()]
