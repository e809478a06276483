"""Checks that external systems provide what the simulation loop and the format need.

External systems are those that are not built in. A failed check raises a SettingsError,
whose message of one line names the class, what was found and what is allowed. Before an
ensemble is simulated, its first two runs are advanced by one step, to detect an
incomplete restart state."""

import dataclasses
import json
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from dynamics.external_systems import LAST_FINITE_STEP
from dynamics.settings import SettingsError
from dynamics.settings_checks import SETTINGS_NUMBERS, check_settings_class
from dynamics.system import Arrays, State
from dynamics.trajectory.schema import NORM_VARIABLES, VARIABLES

CHECKED_RUNS = 2
"""Number of runs of an ensemble that are checked."""

RESERVED_NAMES = (
    "run",
    "step",
    "time",
    "epoch",
    "seed",
    "status",
    "last_step",
    "checkpoint",
)
"""Names of dimensions and variables that are added when a file is written."""

_SYSTEM_ATTRIBUTES = (
    "settings",
    "variables",
    "device",
    "ensemble_width",
    "numerics_version",
)
_COMPLETE = "a class with all methods of a system"
_SYSTEM_METHODS = (
    "coords",
    "working_bytes",
    "initial",
    "advance",
    "observe",
    "checkpoint",
    "restore",
)


# ----------------------------------------------------------------------------- settings


def check_settings_instance(settings: Any) -> None:
    """Check that settings have all attributes, and that they can be stored in a file.
    Raises SettingsError."""
    kind = type(settings)
    check_settings_class(kind)
    for name, (least, sort, words) in SETTINGS_NUMBERS.items():
        value = getattr(settings, name)
        is_number = isinstance(value, sort) and not isinstance(value, bool)
        if not is_number or not least <= value < np.inf:
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


# --------------------------------------------------------------- attributes and methods


def _require(condition: object, where: str, result: str, allowed: str) -> None:
    if not condition:
        raise SettingsError(where, result, allowed)


def check_system_class(factory: Callable[..., Any]) -> None:
    """Check that a class implements all methods of a system. Raises SettingsError."""
    missing = sorted(getattr(factory, "__abstractmethods__", ()))
    name = getattr(factory, "__name__", "the system")
    _require(not missing, name, "no " + ", no ".join(missing), _COMPLETE)


def check_system(system: Any, name: str) -> None:
    """Check that the system of a class `name` has all attributes and methods, and that
    they have the right types. Raises SettingsError."""
    missing = [item for item in _SYSTEM_ATTRIBUTES if not hasattr(system, item)]
    allowed = (
        "settings and variables set by __init__, the others inherited from"
        " dynamics.System"
    )
    _require(not missing, name, "no " + ", no ".join(missing), allowed)
    missing = [
        method
        for method in _SYSTEM_METHODS
        if not callable(getattr(system, method, None))
    ]
    _require(not missing, name, "no " + ", no ".join(missing), _COMPLETE)
    needed = system.working_bytes(1)
    _require(
        isinstance(needed, numbers.Real),
        f"{name}.working_bytes",
        repr(needed),
        "a number of bytes",
    )
    _check_variables(system)


def _check_variables(system: Any) -> None:
    """Check that `variables` and `coords` agree with each other and with the format."""
    name, variables, coords = type(system).__name__, system.variables, system.coords()
    where = f"{name}.variables"
    is_dict = isinstance(variables, Mapping)
    _require(
        is_dict,
        where,
        type(variables).__name__,
        'a dict such as {"velocity": ("token", "axis")}',
    )
    _check_coordinates(f"{name}.coords", coords)
    for norm in NORM_VARIABLES:
        allowed = f'{", ".join(NORM_VARIABLES)}, each over ("layer",), and others'
        _require(norm in variables, where, f"no {norm}", allowed)
    for variable, dims in variables.items():
        reserved = (*RESERVED_NAMES, *coords)
        is_free = isinstance(variable, str) and variable not in reserved
        _require(
            is_free,
            where,
            f"a variable named {variable!r}",
            "names other than " + ", ".join(reserved),
        )
        are_names = isinstance(dims, tuple) and all(
            isinstance(dim, str) for dim in dims
        )
        _require(
            are_names,
            where,
            f"{variable}: {dims!r}",
            'a tuple of dimensions, such as ("layer",) or ()',
        )
        expected = VARIABLES[variable].dims[2:] if variable in VARIABLES else dims
        allowed = f"{expected} after run and step"
        _require(
            sorted(dims) == sorted(expected), where, f"{variable} over {dims}", allowed
        )
        _require(
            len(set(dims)) == len(dims),
            where,
            f"{variable} over {dims}",
            "each dimension once",
        )
        for dim in dims:
            allowed = (
                f"one entry for each dimension of variables, and {variable} is over"
                f" {dims}"
            )
            _require(dim in coords, f"{name}.coords", f"no {dim}", allowed)


def _check_coordinates(where: str, coords: object) -> None:
    is_dict = isinstance(coords, Mapping)
    _require(
        is_dict,
        where,
        f"a {type(coords).__name__}",
        "a dict: dimension -> array of its coordinates",
    )
    for dim, values in coords.items():  # type: ignore[attr-defined]
        _require(
            dim not in RESERVED_NAMES,
            where,
            dim,
            "dimensions other than " + ", ".join(RESERVED_NAMES),
        )
        is_axis = (
            isinstance(values, np.ndarray)
            and values.ndim == 1
            and values.size
            and values.dtype.kind in "iufU"
        )
        _require(
            is_axis,
            where,
            f"{dim}: {values!r}",
            "an array (size of the dimension,) of numbers or strings",
        )


# -------------------------------------------------------------- trial of the first step


def check_first_step(system: Any, seeds: np.ndarray) -> None:
    """Check that the first runs with these seeds are initialised, observed, saved,
    restored and advanced correctly. Raises SettingsError, and the errors of the
    system's own code."""
    seeds = seeds[:CHECKED_RUNS]
    name = type(system).__name__
    runs = len(seeds)
    first = system.initial(seeds)
    frame = _checked_frame(system, first, 0, runs, "initial")
    saved = _checked_checkpoint(system, first, runs)
    again = _restore(system, saved)
    exactly = "the state that was saved, exactly"
    _check_equal(
        f"{name}.restore", saved, _checked_checkpoint(system, again, runs), exactly
    )
    _check_equal(
        f"{name}.restore",
        frame,
        _checked_frame(system, again, 0, runs, "restore"),
        exactly,
    )
    before = {value: np.array(values) for value, values in saved.items()}
    after, repeated = system.advance(first, 1), system.advance(again, 1)
    for state in (after, repeated):
        _checked_frame(system, state, 1, runs, "advance")
    unchanged = "no change of the state that is given to it"
    _check_equal(
        f"{name}.advance", before, _checked_checkpoint(system, first, runs), unchanged
    )
    alike = (
        "the same result from the same state; random numbers, too, may depend only on"
        " what checkpoint returns"
    )
    after, repeated = (
        _checked_checkpoint(system, state, runs) for state in (after, repeated)
    )
    _check_equal(f"{name}.advance", after, repeated, alike)


def _checked_frame(
    system: Any, state: Any, step: int, runs: int, method: str
) -> Arrays:
    """Check the state that a method returned after `step` steps, and return its
    frame."""
    where = f"{type(system).__name__}.{method}"
    has_steps = hasattr(state, "step") and hasattr(state, "last_step")
    _require(
        has_steps, where, f"a {type(state).__name__}", "a state with step and last_step"
    )
    is_step = isinstance(state.step, numbers.Integral) and state.step == step
    _require(is_step, where, f"a state whose step is {state.step!r}", f"the int {step}")
    last: Any = state.last_step
    are_steps = (
        isinstance(last, np.ndarray)
        and last.shape == (runs,)
        and last.dtype.kind in "iu"
    )
    result = f"a state whose last_step is {_describe_shape(last)}"
    _require(are_steps, where, result, f"integers of shape ({runs},): run")
    result = f"a state at step {step} whose last_step is {last}"
    _require(
        ((last >= 0) & (last <= step)).all(), where, result, f"steps from 0 to {step}"
    )
    return _observe(system, state, runs)


def _observe(system: Any, state: State, runs: int) -> Arrays:
    """The frame of a state, after a check that it agrees with `variables` and `coords`
    and is finite at step 0."""
    where = f"{type(system).__name__}.observe"
    frame = system.observe(state)
    coords = system.coords()
    _require(
        isinstance(frame, Mapping),
        where,
        f"a {type(frame).__name__}",
        "a dict: name of a variable -> array",
    )
    for name, dims in system.variables.items():
        _require(
            name in frame,
            where,
            f"no {name}",
            "all of variables: " + ", ".join(system.variables),
        )
        values, shape = frame[name], (runs, *(len(coords[dim]) for dim in dims))
        fits = isinstance(values, np.ndarray) and values.shape == shape
        _require(
            fits,
            where,
            f"{name}: {_describe_shape(values)}",
            f"{shape}: {', '.join(('run', *dims))}",
        )
        types = VARIABLES[name].dtypes if name in VARIABLES else ()
        is_real = values.dtype.kind in "biuf" and (
            not types or values.dtype.name in types
        )
        _require(
            is_real,
            where,
            f"{name}: {values.dtype}",
            " or ".join(types) or "real numbers",
        )
        finite = np.isfinite(values).reshape(runs, -1).all(axis=1)
        result = f"{name} of run {np.argmin(finite)} at step 0 is not finite"
        _require(
            state.step > 0 or finite.all(), where, result, "finite values at step 0"
        )
    return {name: frame[name] for name in system.variables}


def _checked_checkpoint(system: Any, state: State, runs: int) -> Arrays:
    """The restart state, after a check that it can be stored in a file."""
    where, saved = f"{type(system).__name__}.checkpoint", system.checkpoint(state)
    _require(
        isinstance(saved, Mapping),
        where,
        f"a {type(saved).__name__}",
        "a dict: name -> array",
    )
    arrays = {str(name): np.asarray(values) for name, values in saved.items()}
    step = arrays.get("step", np.empty(1))
    is_step = step.shape == () and int(step) == state.step
    result = f"step: {_describe_shape(saved.get('step'))}"
    _require(is_step, where, result, f"the step of the state, here {state.step}")
    for name, values in arrays.items():
        fits = name == "step" or (
            values.shape[:1] == (runs,) and values.dtype.kind in "biuf"
        )
        result = f"{name}: {_describe_shape(saved[name])} of {values.dtype}"
        _require(fits, where, result, f"numbers of shape ({runs}, ...): run first")
        is_free = name not in ("seed", "run", "checkpoint", LAST_FINITE_STEP)
        _require(
            is_free,
            where,
            f"an array named {name}",
            "names other than those that the file format adds",
        )
    _require(
        len(arrays) > 1, where, "step alone", "step, and arrays with the runs first"
    )
    return arrays


def _restore(system: Any, saved: Arrays) -> State:
    try:
        return system.restore(dict(saved))
    except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
        result = f"{type(error).__name__}: {error}"
        allowed = f"the state, from what checkpoint returns: {', '.join(saved)}"
        raise SettingsError(
            f"{type(system).__name__}.restore", result, allowed
        ) from error


def _check_equal(where: str, expected: Arrays, result: Arrays, allowed: str) -> None:
    """Check that arrays are the same, bit for bit."""
    same_names = set(expected) == set(result)
    _require(
        same_names,
        where,
        "arrays " + ", ".join(result),
        "the same as before: " + ", ".join(expected),
    )
    for name, values in expected.items():
        same = values.dtype == result[name].dtype and values.shape == result[name].shape
        _require(
            same and values.tobytes() == result[name].tobytes(),
            where,
            f"a different {name}",
            allowed,
        )


def _describe_shape(values: object) -> str:
    return (
        f"shape {values.shape}"
        if isinstance(values, np.ndarray)
        else f"a {type(values).__name__}"
    )
