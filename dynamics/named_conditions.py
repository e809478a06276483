"""Conditions at which runs end that have a name, such as a formed circle.

This module imports only the standard library, so that --help is fast."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from dynamics.errors import SettingsError
from dynamics.settings import Settings

FrameTest = Callable[[Mapping[str, Any]], Any]
"""A function of one frame, name -> array (run, ...), that returns booleans (run,)."""

REGISTERED: dict[str, str | Callable[[Settings], FrameTest]] = {}
"""Registered conditions, or their import paths, by name: functions of the settings that
return a `FrameTest`."""


def register_condition(
    name: str, create: str | Callable[[Settings], FrameTest]
) -> None:
    """Register a condition by name, so that ``simulate(..., until=name)`` and the option
    --until know it.

    Parameters
    ----------
    name : str
        An identifier.
    create : callable, or its import path
        Function of the settings that returns a function of a frame, a mapping from the
        name of a variable to its array (run, ...), which returns booleans (run,).

    Raises
    ------
    SettingsError
        If the name is not an identifier.

    Examples
    --------
    >>> import numpy as np
    >>> from dynamics import ParticleSettings, register_condition, simulate
    >>> def is_slow(settings):
    ...     return lambda frame: frame["update_norm"][:, 0] < 0.1 * settings.step_size
    >>> register_condition("slow", is_slow)
    >>> trajectory = simulate(ParticleSettings(n=5), runs=2, steps=3, until="slow")
    >>> trajectory.attrs["until"].split("@")[0], trajectory["last_step"].values
    ('slow', array([0, 0]))
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name):
        allowed = "a name of letters, digits and _, a letter first"
        raise SettingsError("condition", name, allowed)
    REGISTERED[name] = create
