"""The members of a settings class from outside. Standard library only, so that --help answers at once."""

import dataclasses
import numbers
import re
import sys
from collections.abc import Mapping

from dynamics.settings import SettingsError


def check_system_name(settings: type, known: Mapping[str, type]) -> None:
    """Refuse a settings class whose `system` is no name, or the name of another class. Raises SettingsError."""
    name = getattr(settings, "system", None)
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w-]*", name):
        raise SettingsError(f"{_full(settings)}.system", repr(name), "a name of letters, digits, _ and -")
    if (other := known.get(name)) is not None and not _same(other, settings):
        allowed = f"a name of its own: {name} is that of {_full(other)}"
        raise SettingsError(f"{_full(settings)}.system", repr(name), allowed)


def _full(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _same(one: type, other: type) -> bool:
    """Whether two classes are the same one, perhaps defined again, or run as a program and imported."""
    files = [getattr(sys.modules.get(each.__module__), "__file__", None) or each.__module__ for each in (one, other)]
    return one.__qualname__ == other.__qualname__ and (one.__module__ == other.__module__ or files[0] == files[1])


SETTINGS_NUMBERS = {
    "default_steps": (0, numbers.Integral, "a whole number from 0"),
    "default_every": (1, numbers.Integral, "a whole number from 1"),
    "epoch_steps": (0, numbers.Integral, "a whole number from 0, which is for no epochs"),
    "modulus": (0, numbers.Integral, "a whole number from 0"),
    "time_step": (0, numbers.Real, "a number from 0"),
}
"""What settings have beside `system` and their fields: the least, the type, and both in words."""


def check_settings_class(kind: type) -> None:
    """See that a settings class has its members, and that each field has a default. Raises SettingsError."""
    frozen = getattr(kind, "__dataclass_params__", None)
    if frozen is None or not frozen.frozen:
        raise SettingsError(kind.__name__, "a class", "a frozen dataclass: @dataclass(frozen=True)")
    known = {field.name for field in dataclasses.fields(kind)}
    lacking = [name for name in SETTINGS_NUMBERS if name not in known and not hasattr(kind, name)]
    if lacking:
        allowed = "a ClassVar or a property for each of " + ", ".join(SETTINGS_NUMBERS)
        raise SettingsError(kind.__name__, "no " + ", no ".join(lacking), allowed)
    for field in dataclasses.fields(kind):
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise SettingsError(f"{kind.__name__}.{field.name}", "no default", "a default for each field")
