"""Checks of the settings of registered systems. This module imports no large package, so
that --help is fast."""

import dataclasses
import json
import math
import numbers
import re
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from dynamics.settings import SettingsError


def check_system_name(settings: type, registered: Mapping[str, type]) -> None:
    """Raise SettingsError if `settings.system` is not a valid name, or is the name of
    another class in `registered`."""
    name = getattr(settings, "system", None)
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w-]*", name):
        raise SettingsError(
            f"{_full(settings)}.system",
            repr(name),
            "a name of letters, digits, _ and -",
        )
    if (other := registered.get(name)) is not None and not _same(other, settings):
        allowed = f"another name: {name} is already used by {_full(other)}"
        raise SettingsError(f"{_full(settings)}.system", repr(name), allowed)


def _full(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _same(one: type, other: type) -> bool:
    """Whether two classes come from the same definition, executed twice (in a notebook,
    or as program and import)."""
    files = [
        getattr(sys.modules.get(item.__module__), "__file__", None) or item.__module__
        for item in (one, other)
    ]
    return one.__qualname__ == other.__qualname__ and (
        one.__module__ == other.__module__ or files[0] == files[1]
    )


def check_says_its_system(settings: Any, registered: type) -> None:
    """Raise SettingsError for settings of a subclass of `registered`, the class of a
    built-in system, that define a member of it anew without a system of their own: the
    file would not say it."""
    own = [kind for kind in type(settings).__mro__ if kind not in registered.__mro__]
    fields = {field.name for field in dataclasses.fields(registered)}
    changed = [
        name
        for kind in own
        for name in vars(kind)
        if name[0] != "_" and name not in fields and hasattr(registered, name)
    ]
    if changed:
        allowed = (
            "a name of its own, registered with dynamics.register:"
            f" {type(settings).__name__} defines {', '.join(sorted(set(changed)))} anew"
        )
        name = f"{_full(type(settings))}.system"
        raise SettingsError(name, repr(settings.system), allowed)


SETTINGS_NUMBERS = {
    "default_steps": (0, numbers.Integral, "a whole number from 0"),
    "default_every": (1, numbers.Integral, "a whole number from 1"),
    "epoch_steps": (
        0,
        numbers.Integral,
        "a whole number from 0, which means no epochs",
    ),
    "modulus": (0, numbers.Integral, "a whole number from 0"),
    "time_step": (0, numbers.Real, "a number from 0"),
}
"""Attributes of settings besides `system` and the fields: smallest value, type, and a
description of both."""


def check_settings_class(kind: type) -> None:
    """Raise SettingsError if a settings class lacks an attribute, or a field has no
    default."""
    frozen = getattr(kind, "__dataclass_params__", None)
    if frozen is None or not frozen.frozen:
        raise SettingsError(
            kind.__name__, "a class", "a frozen dataclass: @dataclass(frozen=True)"
        )
    names = {field.name for field in dataclasses.fields(kind)}
    missing = [
        name
        for name in SETTINGS_NUMBERS
        if name not in names and not hasattr(kind, name)
    ]
    if missing:
        allowed = "a ClassVar or a property for each of " + ", ".join(SETTINGS_NUMBERS)
        raise SettingsError(kind.__name__, "no " + ", no ".join(missing), allowed)
    for field in dataclasses.fields(kind):
        if (
            field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ):
            raise SettingsError(
                f"{kind.__name__}.{field.name}",
                "no default",
                "a default for each field",
            )


def check_settings_instance(settings: Any) -> None:
    """Check that settings have all attributes, and that they can be stored in a file.
    Raises SettingsError."""
    kind = type(settings)
    check_settings_class(kind)
    for name, (least, sort, words) in SETTINGS_NUMBERS.items():
        value = getattr(settings, name)
        is_number = isinstance(value, sort) and not isinstance(value, bool)
        if not is_number or not least <= value < math.inf:
            raise SettingsError(f"{kind.__name__}.{name}", repr(value), words)
    values = dataclasses.asdict(settings)
    allowed = "numbers, strings, booleans and tuples of them, of the declared types"
    try:
        text = json.dumps(values, allow_nan=False)
        again = msgspec.convert(json.loads(text), kind, strict=True)
        same = json.loads(json.dumps(dataclasses.asdict(again))) == json.loads(text)
    except (TypeError, ValueError) as error:
        raise SettingsError(
            kind.__name__, f"fields that cannot be stored in a file ({error})", allowed
        ) from error
    if not same:
        raise SettingsError(
            kind.__name__,
            "fields that change when they are stored in a file and read again",
            allowed,
        )
