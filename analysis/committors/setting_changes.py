"""Changed settings of a recorded run as words of a command line, NAME=VALUE."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

import xarray as xr
from msgspec import ValidationError, convert

from dynamics.branching import changed_system
from dynamics.forces import Force
from dynamics.law_files import read_law
from dynamics.settings import SettingsError
from dynamics.trajectory.schema import read_settings

_KINDS = {int: "a whole number", float: "a number", bool: "True or False"}
"""Words for the types of single values, for messages."""


def changed_settings(trajectory: xr.Dataset, words: Sequence[str]) -> dict[str, Any]:
    """The settings that words NAME=VALUE change, for branches of a trajectory.

    Parameters
    ----------
    trajectory : xarray.Dataset
        The trajectory that is branched.
    words : sequence of str
        NAME is that of a setting of its system, with - or _ between the words of the
        name; the values of a setting with several are separated by commas.

    Returns
    -------
    dict
        Values by the names of the settings.

    Raises
    ------
    SettingsError
        Of the option --set, also for settings that a branch cannot change.

    Examples
    --------
    >>> from analysis.committors import changed_settings
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=1, steps=4, progress=False)
    >>> changed_settings(trajectory, ["fa=0.5", "step-rule=direction"])
    {'fa': 0.5, 'step_rule': 'direction'}
    """
    settings = read_settings(trajectory)
    fields = [field.name for field in dataclasses.fields(settings)]
    kinds = get_type_hints(type(settings))
    changes: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in fields:
            allowed = f"NAME=VALUE of a setting of {settings.system}"
            raise SettingsError("set", word, f"{allowed}: {', '.join(fields)}")
        if name in changes:
            raise SettingsError("set", " ".join(words), f"{name} once")
        changes[name] = _value(word, text, kinds[name])
    try:
        changed_system(trajectory, int(trajectory["step"][0]), changes)
    except SettingsError as error:
        change = f"{error.field}={error.found}"
        raise SettingsError("set", change, error.allowed) from None
    return changes


def _value(word: str, text: str, kind: Any) -> Any:
    """The value of a setting that a text describes."""
    if kind == tuple[Force, ...]:
        return read_law(text)
    parts = text.split(",") if get_origin(kind) is tuple else text
    try:
        return float(text) if kind is float else convert(parts, kind, strict=False)
    except (ValueError, ValidationError):
        allowed = _KINDS.get(kind, "whole numbers, separated by commas")
        if get_origin(kind) is Literal:
            allowed = f"one of {', '.join(get_args(kind))}"
        raise SettingsError("set", word, allowed) from None
