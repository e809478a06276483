"""Settings of a view in the page's address, such as `?tab=particles&fa=2&n=17`, so that
a view can be shared.

A `param.Parameterized` declares the settings: numbers with bounds, choices, texts. An
address is untrusted input: a value that is not allowed is refused with a message, and
the default is used."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import param
from param.parameterized import batch_call_watchers

from dynamics.settings import SettingsError

_MAX_QUOTED = 60
"""Maximum length of a rejected value in a message, in characters."""


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
            text = values[0].decode("utf-8", "replace")
            error: tuple[str, str] | None = None
            if name not in names:
                name = printable_text(name)
                error = "an unknown setting", ", ".join((*also, *names))
            elif len(values) != 1:
                error = f"{len(values)} values", "one value"
            else:
                parameter = settings.param[name]
                try:
                    setattr(settings, name, _parse(parameter, text))
                except SettingsError as refusal:
                    error = printable_text(str(refusal.found)), refusal.allowed
                except ValueError:  # no number, or refused by the parameter itself
                    error = printable_text(text), _allowed_values(parameter)
            if error:
                refused.append(SettingsError(name, *error))
    return refused


def url_query(settings: param.Parameterized, first: Mapping[str, str]) -> str:
    """The query string of an address: `first`, then all settings that have a value,
    of parts of a law those that are not the default."""
    values = settings.param.values()
    words = {
        name: as_text(values[name])
        for name in url_setting_names(settings)
        if values[name] is not None
        and not (
            getattr(settings.param[name], "only_if_changed", False)
            and values[name] == settings.param[name].default
        )
    }
    return urlencode({**first, **words}, safe=",")


def as_text(value: Any) -> str:
    """The value of a setting in an address."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def url_setting_names(settings: param.Parameterized) -> list[str]:
    """Names of the settings in an address, in order; settings with negative precedence
    are private."""
    names = [name for name in settings.param if name != "name"]
    return [name for name in names if (settings.param[name].precedence or 0) >= 0]


def printable_text(text: str) -> str:
    """A text that can be quoted in a message: shortened, with unprintable characters
    replaced."""
    letters = (letter if letter.isprintable() else "\ufffd" for letter in text)
    plain = "".join(letters) or "nothing"
    return plain if len(plain) <= _MAX_QUOTED else plain[: _MAX_QUOTED - 1] + "…"


def _parse(parameter: param.Parameter, text: str) -> Any:
    """The value of a parameter from its text. Raises ValueError."""
    if isinstance(parameter, param.Selector):
        values = {as_text(value): value for value in parameter.objects}
        if text not in values:
            raise ValueError(text)
        return values[text]
    if isinstance(parameter, param.Integer):
        return int(text)
    if isinstance(parameter, param.Number):
        if not math.isfinite(float(text)):
            raise ValueError(text)
        return float(text)
    return text


def _allowed_values(parameter: param.Parameter) -> str:
    """The allowed values of a setting, as text."""
    if isinstance(parameter, param.Selector):
        words = [as_text(value) for value in parameter.objects]
        few = words if len(words) <= 12 else [*words[:10], "…", words[-1]]
        return "one of " + ", ".join(few)
    kind = "a whole number" if isinstance(parameter, param.Integer) else "a number"
    low, high = parameter.bounds
    return f"{kind} from {low:g}" + ("" if high is None else f" to {high:g}")
