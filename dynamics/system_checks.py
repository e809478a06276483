"""Systems from outside: whether they are what the loop and the format need, before anything is computed.

Each failure is one line that names the class, what was found and what is allowed. The first members of an ensemble
are advanced by one step, so that what is not kept in a restart state is noticed at step 0 and not when it is needed.
"""

import dataclasses
import json
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from dynamics.settings import SettingsError
from dynamics.settings_checks import SETTINGS_NUMBERS, check_settings_class
from dynamics.trajectory.reader import VARIABLES

CHECKED_RUNS = 2
"""How many runs of an ensemble are looked at."""

NORM_VARIABLES = ("gradient_norm", "update_norm")
"""Variables that every file has and that only the system can know."""

RESERVED_NAMES = ("run", "step", "time", "epoch", "seed", "status", "last_step", "checkpoint")
"""Names of dimensions and variables that the format gives itself."""

_SYSTEM_ATTRIBUTES = ("settings", "variables", "device", "ensemble_width", "numerics_version")
_SYSTEM_METHODS = ("coords", "working_bytes", "initial", "advance", "observe", "checkpoint", "restore")


# ----------------------------------------------------------------------------------------------- settings


def check_settings_instance(settings: Any) -> None:
    """See that settings have their members, and are the same when they are read from a file. Raises SettingsError."""
    kind = type(settings)
    check_settings_class(kind)
    for name, (least, sort, words) in SETTINGS_NUMBERS.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, sort) or not least <= value < np.inf:  # type: ignore[operator]
            raise SettingsError(f"{kind.__name__}.{name}", repr(value), words)
    values = dataclasses.asdict(settings)
    try:
        text = json.dumps(values, allow_nan=False)
        again = msgspec.convert(json.loads(text), kind, strict=True)
        same = json.loads(json.dumps(dataclasses.asdict(again))) == json.loads(text)
    except (TypeError, ValueError) as error:
        raise SettingsError(kind.__name__, f"fields that no file can keep ({error})", _KEPT) from error
    if not same:
        raise SettingsError(kind.__name__, "fields that a file gives back as others", _KEPT)


_KEPT = "numbers, words, truth values and tuples of them, of the types that are declared"


# ------------------------------------------------------------------------------------------- how it is made


def create_external_system(factory: Callable[..., Any], settings: Any, device: str) -> Any:
    """The system of settings, if it has all that a system has. Raises SettingsError, and what its own code raises."""
    check_settings_instance(settings)
    name = getattr(factory, "__name__", "the system")
    if missing := sorted(getattr(factory, "__abstractmethods__", ())):
        raise SettingsError(name, "no " + ", no ".join(missing), "a class with all methods of a system")
    system = factory(settings, device)
    lacking = [each for each in _SYSTEM_ATTRIBUTES if not hasattr(system, each)]
    if lacking:
        allowed = "settings and variables set by __init__, and the rest inherited from dynamics.simulation.System"
        raise SettingsError(name, "no " + ", no ".join(lacking), allowed)
    if missing := [each for each in _SYSTEM_METHODS if not callable(getattr(system, each, None))]:
        raise SettingsError(name, "no " + ", no ".join(missing), "a class with all methods of a system")
    if not isinstance(needed := system.working_bytes(1), numbers.Real):
        raise SettingsError(f"{name}.working_bytes", repr(needed), "a number of bytes")
    _check_variables(system)
    return system


def _check_variables(system: Any) -> None:
    """See that `variables` and `coords` fit each other and the format."""
    where, variables = f"{type(system).__name__}.variables", system.variables
    if not isinstance(variables, Mapping):
        raise SettingsError(where, type(variables).__name__, 'a dict such as {"velocity": ("token", "axis")}')
    coords = _coordinates(system)
    for name in NORM_VARIABLES:
        if name not in variables:
            raise SettingsError(where, f"no {name}", f'{", ".join(NORM_VARIABLES)}, each over ("layer",), and others')
    for name, dims in variables.items():
        if not isinstance(name, str) or name in RESERVED_NAMES or name in coords:
            raise SettingsError(
                where, f"one named {name!r}", "names other than " + ", ".join((*RESERVED_NAMES, *coords))
            )
        if not isinstance(dims, tuple) or not all(isinstance(dim, str) for dim in dims):
            raise SettingsError(where, f"{name}: {dims!r}", 'a tuple of dimensions, such as ("layer",) or ()')
        if name in VARIABLES and sorted(dims) != sorted(VARIABLES[name].dims[2:]):
            raise SettingsError(where, f"{name} over {dims}", f"{VARIABLES[name].dims[2:]} after run and step")
        if len(set(dims)) < len(dims):
            raise SettingsError(where, f"{name} over {dims}", "each dimension once")
        for dim in dims:
            if dim not in coords:
                found, allowed = f"no {dim}", f"one for each dimension of variables, and {name} is over {dims}"
                raise SettingsError(f"{type(system).__name__}.coords", found, allowed)


def _coordinates(system: Any) -> dict[str, np.ndarray]:
    where, found = f"{type(system).__name__}.coords", system.coords()
    if not isinstance(found, Mapping):
        raise SettingsError(where, f"a {type(found).__name__}", "a dict: dimension -> array of its coordinates")
    for dim, values in found.items():
        if dim in RESERVED_NAMES:
            raise SettingsError(where, dim, "dimensions beside " + ", ".join(RESERVED_NAMES))
        if not isinstance(values, np.ndarray) or values.ndim != 1 or not values.size or values.dtype.kind not in "iufU":
            raise SettingsError(where, f"{dim}: {values!r}", "an array (size of the dimension,) of numbers or names")
    return dict(found)


# --------------------------------------------------------------------------------------------- what it does


def check_system(system: Any, seeds: np.ndarray) -> None:
    """See that the first members of an ensemble begin, are observed, kept, restored and advanced as they should be.

    system: one that `made` gave. seeds: (run,), those of the ensemble. Raises SettingsError, and what its code raises.
    """
    name, seeds = type(system).__name__, seeds[:CHECKED_RUNS]
    first = system.initial(seeds)
    frame = _checked_state(system, first, 0, len(seeds), "initial")
    kept = _kept(system, first, len(seeds))
    _check_equal(f"{name}.restore", kept, _kept(system, again := _restored(system, kept), len(seeds)))
    _check_equal(f"{name}.restore", frame, _checked_state(system, again, 0, len(seeds), "restore"))
    before = {each: np.array(values) for each, values in kept.items()}
    after, repeated = system.advance(first, 1), system.advance(again, 1)
    for state in (after, repeated):
        _checked_state(system, state, 1, len(seeds), "advance")
    _check_equal(f"{name}.advance", before, _kept(system, first, len(seeds)), "a state that it leaves as it is")
    alike = "the same from the same state: all it depends on, such as random numbers, must follow from what is kept"
    _check_equal(f"{name}.advance", _kept(system, after, len(seeds)), _kept(system, repeated, len(seeds)), alike)


def _checked_state(system: Any, state: Any, step: int, runs: int, method: str) -> dict[str, np.ndarray]:
    """The frame of a state, if both are as they should be after so many steps."""
    where = f"{type(system).__name__}.{method}"
    for name in ("step", "last_step"):
        if not hasattr(state, name):
            raise SettingsError(where, f"a {type(state).__name__} without {name}", "a state with step and last_step")
    if not isinstance(state.step, numbers.Integral) or state.step != step:
        raise SettingsError(where, f"a state whose step is {state.step!r}", f"the int {step}")
    last = state.last_step
    if not isinstance(last, np.ndarray) or last.shape != (runs,) or last.dtype.kind not in "iu":
        allowed = f"whole numbers of shape ({runs},): run"
        raise SettingsError(where, f"a state whose last_step is {_told(last)}", allowed)
    if (last > step).any() or (last < 0).any():
        raise SettingsError(where, f"a state at step {step} whose last_step is {last}", f"steps from 0 to {step}")
    return _frame(system, state, runs)


def _frame(system: Any, state: Any, runs: int) -> dict[str, np.ndarray]:
    """What is observed of a state, if it is what `variables` and `coords` say."""
    where, found = f"{type(system).__name__}.observe", system.observe(state)
    if not isinstance(found, Mapping):
        raise SettingsError(where, f"a {type(found).__name__}", "a dict: name of a variable -> array")
    coords = system.coords()
    for name, dims in system.variables.items():
        if name not in found:
            raise SettingsError(where, f"no {name}", "all of variables: " + ", ".join(system.variables))
        values, shape = found[name], (runs, *(len(coords[dim]) for dim in dims))
        if not isinstance(values, np.ndarray) or values.shape != shape:
            raise SettingsError(where, f"{name}: {_told(values)}", f"{shape}: {', '.join(('run', *dims))}")
        allowed = VARIABLES[name].dtypes if name in VARIABLES else ()
        if values.dtype.kind not in "biuf" or (allowed and values.dtype.name not in allowed):
            raise SettingsError(where, f"{name}: {values.dtype}", " or ".join(allowed) or "real numbers")
        if not np.isfinite(values).all():
            raise SettingsError(where, f"{name} with a value that is not finite", "finite values in every frame")
    return {name: found[name] for name in system.variables}


def _kept(system: Any, state: Any, runs: int) -> dict[str, np.ndarray]:
    """The restart state as a file keeps it."""
    where, found = f"{type(system).__name__}.checkpoint", system.checkpoint(state)
    if not isinstance(found, Mapping):
        raise SettingsError(where, f"a {type(found).__name__}", "a dict: name -> array")
    arrays = {str(name): np.asarray(values) for name, values in found.items()}
    if "step" not in arrays or arrays["step"].shape != () or int(arrays["step"]) != state.step:
        raise SettingsError(where, f"step: {_told(found.get('step'))}", f"the step of the state, here {state.step}")
    for name, values in arrays.items():
        if name != "step" and (values.shape[:1] != (runs,) or values.dtype.kind not in "biuf"):
            allowed = f"numbers of shape ({runs}, ...): the runs first"
            raise SettingsError(where, f"{name}: {_told(found[name])} of {values.dtype}", allowed)
        if name in ("seed", "run", "checkpoint"):
            raise SettingsError(where, f"one named {name}", "names other than those that the file gives itself")
    if len(arrays) == 1:
        raise SettingsError(where, "step alone", "step, and arrays with the runs first")
    return arrays


def _restored(system: Any, kept: Mapping[str, np.ndarray]) -> Any:
    try:
        return system.restore(dict(kept))
    except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
        found = f"{type(error).__name__}: {error}"
        allowed = f"the state, from what checkpoint gives: {', '.join(kept)}"
        raise SettingsError(f"{type(system).__name__}.restore", found, allowed) from error


def _check_equal(
    where: str, expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], allowed: str = ""
) -> None:
    """See that arrays are the same, bit for bit."""
    if set(expected) != set(found):
        raise SettingsError(where, "arrays " + ", ".join(found), "those of before: " + ", ".join(expected))
    for name, values in expected.items():
        same = values.dtype == found[name].dtype and values.shape == found[name].shape
        if not same or values.tobytes() != found[name].tobytes():
            raise SettingsError(where, f"another {name}", allowed or "the state that was kept, exactly")


def _told(values: object) -> str:
    return f"shape {values.shape}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
