"""A user's own quantities of a frame, which are recorded with the run.

An observer is a function of a frame. Its values become a variable (run, step, ...) of
the trajectory, whose further dimensions are NAME_0, NAME_1, ..."""

import contextlib
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from dynamics.settings import SettingsError
from dynamics.system import Arrays, State, System
from dynamics.trajectory.schema import RESERVED_NAMES, VARIABLES

Observer = Callable[[Arrays], np.ndarray]
"""A function of one frame, name -> array (run, ...), that returns an array
(run, ...)."""

CHECKED_RUNS = 2
"""Runs on whose first frame the observers are tried."""

_RETURN = "an array of finite numbers whose first axis is run"


def source_digests(observe: Mapping[str, Observer]) -> str:
    """The name of each observer and the SHA-256 of its source with what it takes from
    outside, as JSON. Raises SettingsError."""
    if not isinstance(observe, Mapping):
        allowed = "a dict: name -> function of a frame"
        raise SettingsError("observe", f"a {type(observe).__name__}", allowed)
    digests = {}
    for name, function in observe.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name):
            allowed = "a name of letters, digits and _, a letter first"
            raise SettingsError("observe", f"the name {name!r}", allowed)
        if not callable(function):
            allowed = "a function of a frame"
            raise SettingsError(f"observer {name}", repr(function), allowed)
        try:
            source = _full_source(function, set())
        except (OSError, TypeError):
            allowed = "a function defined in a file or a notebook"
            unreadable = f"{function!r}, whose source cannot be read"
            raise SettingsError(f"observer {name}", unreadable, allowed) from None
        digests[name] = hashlib.sha256(source.encode()).hexdigest()
    return json.dumps(digests, sort_keys=True)


def _full_source(function: Callable, seen: set[Callable]) -> str:
    """The source of a function, followed by what it takes from outside: numbers, strings,
    lists and arrays as lines NAME = VALUE, and the sources of other functions of its
    module. Raises OSError, TypeError."""
    seen.add(function)
    outer = inspect.getclosurevars(function)
    parameters = inspect.signature(function).parameters.items()
    defaults = {name: parameter.default for name, parameter in parameters}
    parts = [inspect.getsource(function).strip()]
    for name, value in sorted({**outer.globals, **outer.nonlocals, **defaults}.items()):
        if inspect.isfunction(value) and value.__module__ == function.__module__:
            parts += [] if value in seen else [_full_source(value, seen)]
            continue
        is_array = isinstance(value, np.ndarray | np.generic)
        with contextlib.suppress(TypeError):  # of other types
            plain = json.dumps(value.tolist() if is_array else value, sort_keys=True)
            parts.append(f"{name} = {plain}")
    return "\n".join(parts)


class ObservedSystem:
    """A `System` whose frames contain the values of observers, too.

    The observers are checked on the frame at step 0 of the first runs. Raises
    SettingsError."""

    def __init__(
        self, system: System, observe: Mapping[str, Observer], seeds: np.ndarray
    ) -> None:
        self.system = system
        self.observers = dict(observe)
        self._check_names()
        state = system.initial(seeds[:CHECKED_RUNS])
        values = self._observed(system.observe(state), len(seeds[:CHECKED_RUNS]))
        self._types = {name: array.dtype for name, array in values.items()}
        self._shapes = {name: array.shape[1:] for name, array in values.items()}
        dims = {
            name: tuple(f"{name}_{axis}" for axis in range(len(shape)))
            for name, shape in self._shapes.items()
        }
        for name in dims:
            if any(name in other for other in dims.values()):
                allowed = "a name that is no dimension of another observer"
                raise SettingsError("observe", f"the name {name!r}", allowed)
        self.variables = {**system.variables, **dims}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system, name)

    def _check_names(self) -> None:
        coords = self.system.coords()
        used = {*RESERVED_NAMES, *VARIABLES, *self.system.variables, *coords}
        for name in self.observers:
            if name in {*used, "layer", "split"}:
                allowed = "a name that the format and the system do not use"
                raise SettingsError("observe", f"the name {name!r}", allowed)

    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the dimensions in `variables`; those of observers are
        numbered."""
        sizes = {
            f"{name}_{axis}": np.arange(size)
            for name, shape in self._shapes.items()
            for axis, size in enumerate(shape)
        }
        return {**self.system.coords(), **sizes}

    def observe(self, state: State) -> Arrays:
        """One frame of the system, and the values of the observers. Raises
        SettingsError if an observer returns another shape or type than at first."""
        frame = self.system.observe(state)
        values = self._observed(frame, len(state.last_step))
        for name, array in values.items():
            expected = (len(state.last_step), *self._shapes[name])
            if array.shape != expected or array.dtype != self._types[name]:
                changed = f"{array.dtype} of shape {array.shape} at step {state.step}"
                allowed = f"{self._types[name]} of shape {expected}, as at first"
                raise SettingsError(f"observer {name}", changed, allowed)
        return {**frame, **values}

    def _observed(self, frame: Arrays, runs: int) -> dict[str, np.ndarray]:
        """The values of all observers for a frame, which they cannot change."""
        views = {name: array.view() for name, array in frame.items()}
        for view in views.values():
            view.flags.writeable = False
        values_of = {}
        for name, function in self.observers.items():
            where = f"observer {name}"
            try:
                values = function(MappingProxyType(views))
            except Exception as error:
                mistake = f"{type(error).__name__}: {error}"
                raise SettingsError(where, mistake, _RETURN) from error
            if not isinstance(values, np.ndarray):
                raise SettingsError(where, f"a {type(values).__name__}", _RETURN)
            if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
                raise SettingsError(where, f"an array of {values.dtype}", _RETURN)
            if values.shape[:1] != (runs,) or 0 in values.shape:
                mistake = f"an array of shape {values.shape}"
                allowed = f"shape ({runs}, ...): run first, no axis of size 0"
                raise SettingsError(where, mistake, allowed)
            if not np.isfinite(values).all():
                raise SettingsError(where, "a value that is not finite", _RETURN)
            if values.dtype.kind == "b":
                values = values.astype(np.int8)
            elif values.dtype == np.float16:
                values = values.astype(np.float32)
            values_of[name] = np.array(values)
        return values_of
