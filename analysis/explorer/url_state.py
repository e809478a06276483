"""Settings of a view in the page's address, such as `?tab=particles&fa=2&n=17`, so that
a view can be shared.

A `param.Parameterized` declares the settings: numbers with bounds, choices, lists of
choices, texts. An address is untrusted input: a value that is not allowed is refused
with a message, and the default is used."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import param
from param.parameterized import batch_call_watchers

from dynamics.settings import SettingsError

_MAX_QUOTED = 60
"""Maximum length of a rejected value in a message, in characters."""
_COMMA = ","


def read_url_state(
    arguments: Mapping[str, Sequence[bytes]],
    settings: param.Parameterized,
    also: Sequence[str] = (),
) -> list[SettingsError]:
    """Set the settings from the arguments of an address, name -> values; return errors
    for rejected values.

    also: names in the address that other code reads.
    """
    refused: list[SettingsError] = []
    names = url_setting_names(settings)
    with batch_call_watchers(settings):  # watchers are called once for all changes
        for name, values in arguments.items():
            if name in also:
                continue
            try:
                if name not in names:
                    raise SettingsError(
                        printable_text(name),
                        "an unknown setting",
                        ", ".join((*also, *names)),
                    )
                setattr(
                    settings,
                    name,
                    _parse(settings.param[name], single_argument(name, values)),
                )
            except SettingsError as error:
                refused.append(error)
            except ValueError:  # refused by the parameter itself
                refused.append(
                    SettingsError(
                        name,
                        printable_text(_decode(values[0])),
                        _allowed_values(settings.param[name]),
                    )
                )
    return refused


def url_query(settings: param.Parameterized, first: Mapping[str, str]) -> str:
    """The query string of an address: `first`, then all settings that have a value."""
    words = dict(first)
    for name in url_setting_names(settings):
        value = getattr(settings, name)
        if isinstance(value, list | tuple):
            words[name] = _COMMA.join(map(_as_text, value))
        elif value is not None:
            words[name] = _as_text(value)
    return urlencode(words, safe=_COMMA)


def _as_text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def url_setting_names(settings: param.Parameterized) -> list[str]:
    """Names of the settings in an address, in order; settings with negative precedence
    are private."""
    result = [
        (settings.param[name].precedence or 0, name)
        for name in settings.param
        if name != "name"
    ]
    return [name for precedence, name in result if precedence >= 0]


def single_argument(name: str, values: Sequence[bytes]) -> str:
    """The single value of an argument. Raises SettingsError."""
    if len(values) != 1:
        raise SettingsError(name, f"{len(values)} values", "one value")
    return _decode(values[0])


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def printable_text(text: str) -> str:
    """A text that can be quoted in a message: shortened, with unprintable characters
    replaced."""
    plain = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )
    return plain if len(plain) <= _MAX_QUOTED else plain[: _MAX_QUOTED - 1] + "…"


def _parse(parameter: param.Parameter, text: str) -> Any:
    """The value of a parameter from its text. Raises SettingsError."""
    if isinstance(parameter, param.ListSelector):
        return [
            _parse_choice(parameter, word, text) for word in text.split(_COMMA) if word
        ]
    if isinstance(parameter, param.Selector):
        return _parse_choice(parameter, text, text)
    if isinstance(parameter, param.Boolean):
        if text not in ("True", "False"):
            raise SettingsError(
                str(parameter.name), printable_text(text), "True or False"
            )
        return text == "True"
    if isinstance(parameter, param.Number):
        return _parse_number(parameter, text)
    return text


def _parse_number(parameter: param.Number, text: str) -> float | int:
    """A finite number within the parameter's bounds; an integer for an integer
    parameter. Raises SettingsError."""
    refusal = SettingsError(
        str(parameter.name),
        printable_text(text) or "nothing",
        _allowed_values(parameter),
    )
    try:
        value = int(text) if isinstance(parameter, param.Integer) else float(text)
    except ValueError:
        raise refusal from None
    low, high = (
        parameter.get_soft_bounds() if parameter.bounds is None else parameter.bounds
    )
    if (
        not math.isfinite(value)
        or (low is not None and value < low)
        or (high is not None and value > high)
    ):
        raise refusal
    return value


def _parse_choice(parameter: param.Selector, word: str, text: str) -> Any:
    """The object of a selector from its text. Raises SettingsError."""
    for value in parameter.objects:
        if word == _as_text(value):
            return value
    raise SettingsError(
        str(parameter.name),
        printable_text(text) or "nothing",
        _allowed_values(parameter),
    )


def _allowed_values(parameter: param.Parameter) -> str:
    """The allowed values of a setting, as text."""
    if isinstance(parameter, param.Selector):
        words = [_as_text(value) for value in parameter.objects]
        many = words if len(words) <= 12 else [*words[:10], "…", words[-1]]
        return (
            "one or more of "
            if isinstance(parameter, param.ListSelector)
            else "one of "
        ) + ", ".join(many)
    if isinstance(parameter, param.Number):
        kind = "a whole number" if isinstance(parameter, param.Integer) else "a number"
        low, high = parameter.bounds or (None, None)
        return (
            kind
            + (f" from {low:g}" if low is not None else "")
            + (f" to {high:g}" if high is not None else "")
        )
    return "a word"
