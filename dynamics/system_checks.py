"""Creating systems, and checks of those that are not built in: do they provide what the loop and the format need?

Each failure is a SettingsError of one line, which names the class, what was found and what is allowed. Before a run
begins, the first two runs of its ensemble are advanced by one step, so that an incomplete restart state is noticed.
"""

import dataclasses
import json
import numbers
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from dynamics.divergence import LAST_FINITE_STEP, DivergenceGuard
from dynamics.settings import Settings, SettingsError
from dynamics.settings_checks import SETTINGS_NUMBERS, check_settings_class
from dynamics.system import BUILT_IN_SYSTEMS, Arrays, EpochClock, State, System, system_class
from dynamics.trajectory.schema import VARIABLES

CHECKED_RUNS = 2
"""Number of runs of an ensemble that are checked."""

NORM_VARIABLES = ("gradient_norm", "update_norm")
"""Variables that every file has and that only the system can provide."""

RESERVED_NAMES = ("run", "step", "time", "epoch", "seed", "status", "last_step", "checkpoint")
"""Dimensions and variables that the format adds itself."""

_SYSTEM_ATTRIBUTES = ("settings", "variables", "device", "ensemble_width", "numerics_version")
_SYSTEM_METHODS = ("coords", "working_bytes", "initial", "advance", "observe", "checkpoint", "restore")


def create_system(
    settings: Settings, device: str = "auto", ensemble_width: int | None = None, clock: EpochClock | None = None
) -> System:
    """The system of these settings; one that is not built in is checked, and guarded against values not finite.

    ensemble_width, clock: those of a recorded run that is replayed or branched. Raises SettingsError, MissingPackage.
    """
    if settings.system in BUILT_IN_SYSTEMS:
        system = system_class(settings.system)(settings, device)
    else:
        system = _create_external_system(settings, device)
    if ensemble_width is not None:
        system.ensemble_width = ensemble_width
    if clock is not None:
        system.clock = clock
    return system if settings.system in BUILT_IN_SYSTEMS else DivergenceGuard(system)  # type: ignore[return-value]


def check_external_system(settings: Settings, device: str, seeds: np.ndarray) -> None:
    """Check that a system, unless it is built in, begins, advances and restores two runs as it should.

    A system of its own is created for this. Raises SettingsError, and what the code of the system raises.
    """
    if settings.system not in BUILT_IN_SYSTEMS:
        _check_first_step(_create_external_system(settings, device), seeds[:CHECKED_RUNS])


# ----------------------------------------------------------------------------------------------- settings


def check_settings_instance(settings: Any) -> None:
    """Check that settings have all members, and that a file can keep their values. Raises SettingsError."""
    kind = type(settings)
    check_settings_class(kind)
    for name, (least, sort, words) in SETTINGS_NUMBERS.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, sort) or not least <= value < np.inf:  # type: ignore[operator]
            raise SettingsError(f"{kind.__name__}.{name}", repr(value), words)
    values = dataclasses.asdict(settings)
    allowed = "numbers, strings, booleans and tuples of them, of the declared types"
    try:
        text = json.dumps(values, allow_nan=False)
        again = msgspec.convert(json.loads(text), kind, strict=True)
        same = json.loads(json.dumps(dataclasses.asdict(again))) == json.loads(text)
    except (TypeError, ValueError) as error:
        raise SettingsError(kind.__name__, f"fields that a file cannot keep ({error})", allowed) from error
    if not same:
        raise SettingsError(kind.__name__, "fields that a file does not give back as they were", allowed)


# ---------------------------------------------------------------------------------- attributes and methods


def _create_external_system(settings: Any, device: str) -> System:
    """A system that is not built in, if it has all attributes and methods. Raises SettingsError."""
    factory = system_class(settings.system)
    check_settings_instance(settings)
    name = getattr(factory, "__name__", "the system")
    _refuse_missing(name, sorted(getattr(factory, "__abstractmethods__", ())), "a class with all methods of a system")
    system = factory(settings, device)
    missing = [each for each in _SYSTEM_ATTRIBUTES if not hasattr(system, each)]
    _refuse_missing(name, missing, "settings and variables set by __init__, the others inherited from dynamics.System")
    missing = [each for each in _SYSTEM_METHODS if not callable(getattr(system, each, None))]
    _refuse_missing(name, missing, "a class with all methods of a system")
    if not isinstance(needed := system.working_bytes(1), numbers.Real):
        raise SettingsError(f"{name}.working_bytes", repr(needed), "a number of bytes")
    _check_variables(system)
    return system


def _refuse_missing(name: str, missing: list[str], allowed: str) -> None:
    if missing:
        raise SettingsError(name, "no " + ", no ".join(missing), allowed)


def _check_variables(system: Any) -> None:
    """Check that `variables` and `coords` agree with each other and with the format."""
    where, variables = f"{type(system).__name__}.variables", system.variables
    if not isinstance(variables, Mapping):
        raise SettingsError(where, type(variables).__name__, 'a dict such as {"velocity": ("token", "axis")}')
    coords = _coordinates(system)
    for name in NORM_VARIABLES:
        if name not in variables:
            raise SettingsError(where, f"no {name}", f'{", ".join(NORM_VARIABLES)}, each over ("layer",), and others')
    for name, dims in variables.items():
        if not isinstance(name, str) or name in RESERVED_NAMES or name in coords:
            allowed = "names other than " + ", ".join((*RESERVED_NAMES, *coords))
            raise SettingsError(where, f"a variable named {name!r}", allowed)
        if not isinstance(dims, tuple) or not all(isinstance(dim, str) for dim in dims):
            raise SettingsError(where, f"{name}: {dims!r}", 'a tuple of dimensions, such as ("layer",) or ()')
        if name in VARIABLES and sorted(dims) != sorted(VARIABLES[name].dims[2:]):
            raise SettingsError(where, f"{name} over {dims}", f"{VARIABLES[name].dims[2:]} after run and step")
        if len(set(dims)) < len(dims):
            raise SettingsError(where, f"{name} over {dims}", "each dimension once")
        for dim in dims:
            if dim not in coords:
                allowed = f"one entry for each dimension of variables, and {name} is over {dims}"
                raise SettingsError(f"{type(system).__name__}.coords", f"no {dim}", allowed)


def _coordinates(system: Any) -> dict[str, np.ndarray]:
    where, found = f"{type(system).__name__}.coords", system.coords()
    if not isinstance(found, Mapping):
        raise SettingsError(where, f"a {type(found).__name__}", "a dict: dimension -> array of its coordinates")
    for dim, values in found.items():
        if dim in RESERVED_NAMES:
            raise SettingsError(where, dim, "dimensions other than " + ", ".join(RESERVED_NAMES))
        if not isinstance(values, np.ndarray) or values.ndim != 1 or not values.size or values.dtype.kind not in "iufU":
            allowed = "an array (size of the dimension,) of numbers or strings"
            raise SettingsError(where, f"{dim}: {values!r}", allowed)
    return dict(found)


# ---------------------------------------------------------------------------------- the first step, by trial


def _check_first_step(system: Any, seeds: np.ndarray) -> None:
    """Check that runs with these seeds begin, are observed, saved, restored and advanced as they should be."""
    name, runs = type(system).__name__, len(seeds)
    first = system.initial(seeds)
    frame = _checked_frame(system, first, 0, runs, "initial")
    saved = _checked_checkpoint(system, first, runs)
    again = _restore(system, saved)
    exactly = "the state that was saved, exactly"
    _check_equal(f"{name}.restore", saved, _checked_checkpoint(system, again, runs), exactly)
    _check_equal(f"{name}.restore", frame, _checked_frame(system, again, 0, runs, "restore"), exactly)
    before = {each: np.array(values) for each, values in saved.items()}
    after, repeated = system.advance(first, 1), system.advance(again, 1)
    for state in (after, repeated):
        _checked_frame(system, state, 1, runs, "advance")
    unchanged = "no change of the state that is given to it"
    _check_equal(f"{name}.advance", before, _checked_checkpoint(system, first, runs), unchanged)
    alike = "the same result from the same state: random numbers, too, must follow from what checkpoint returns"
    after, repeated = (_checked_checkpoint(system, state, runs) for state in (after, repeated))
    _check_equal(f"{name}.advance", after, repeated, alike)


def _checked_frame(system: Any, state: Any, step: int, runs: int, method: str) -> Arrays:
    """The frame of a state that a method returned after `step` steps, if both are valid."""
    where = f"{type(system).__name__}.{method}"
    for name in ("step", "last_step"):
        if not hasattr(state, name):
            raise SettingsError(where, f"a {type(state).__name__} without {name}", "a state with step and last_step")
    if not isinstance(state.step, numbers.Integral) or state.step != step:
        raise SettingsError(where, f"a state whose step is {state.step!r}", f"the int {step}")
    last = state.last_step
    if not isinstance(last, np.ndarray) or last.shape != (runs,) or last.dtype.kind not in "iu":
        allowed = f"integers of shape ({runs},): run"
        raise SettingsError(where, f"a state whose last_step is {_describe_shape(last)}", allowed)
    if (last > step).any() or (last < 0).any():
        raise SettingsError(where, f"a state at step {step} whose last_step is {last}", f"steps from 0 to {step}")
    return _observe(system, state, runs)


def _observe(system: Any, state: State, runs: int) -> Arrays:
    """The frame of a state, if it is as `variables` and `coords` say and, at step 0, finite."""
    where, found = f"{type(system).__name__}.observe", system.observe(state)
    if not isinstance(found, Mapping):
        raise SettingsError(where, f"a {type(found).__name__}", "a dict: name of a variable -> array")
    coords = system.coords()
    for name, dims in system.variables.items():
        if name not in found:
            raise SettingsError(where, f"no {name}", "all of variables: " + ", ".join(system.variables))
        values, shape = found[name], (runs, *(len(coords[dim]) for dim in dims))
        if not isinstance(values, np.ndarray) or values.shape != shape:
            allowed = f"{shape}: {', '.join(('run', *dims))}"
            raise SettingsError(where, f"{name}: {_describe_shape(values)}", allowed)
        types = VARIABLES[name].dtypes if name in VARIABLES else ()
        if values.dtype.kind not in "biuf" or (types and values.dtype.name not in types):
            raise SettingsError(where, f"{name}: {values.dtype}", " or ".join(types) or "real numbers")
        if state.step == 0 and not np.isfinite(values).all():
            run = int(np.argmin(np.isfinite(values).reshape(runs, -1).all(axis=1)))
            raise SettingsError(where, f"{name} of run {run} at step 0 is not finite", "finite values at step 0")
    return {name: found[name] for name in system.variables}


def _checked_checkpoint(system: Any, state: State, runs: int) -> Arrays:
    """The restart state, if a file can keep it."""
    where, found = f"{type(system).__name__}.checkpoint", system.checkpoint(state)
    if not isinstance(found, Mapping):
        raise SettingsError(where, f"a {type(found).__name__}", "a dict: name -> array")
    arrays = {str(name): np.asarray(values) for name, values in found.items()}
    if "step" not in arrays or arrays["step"].shape != () or int(arrays["step"]) != state.step:
        found_step = f"step: {_describe_shape(found.get('step'))}"
        raise SettingsError(where, found_step, f"the step of the state, here {state.step}")
    for name, values in arrays.items():
        if name != "step" and (values.shape[:1] != (runs,) or values.dtype.kind not in "biuf"):
            allowed = f"numbers of shape ({runs}, ...): run first"
            raise SettingsError(where, f"{name}: {_describe_shape(found[name])} of {values.dtype}", allowed)
        if name in ("seed", "run", "checkpoint", LAST_FINITE_STEP):
            raise SettingsError(where, f"an array named {name}", "names other than those that the file adds itself")
    if len(arrays) == 1:
        raise SettingsError(where, "step alone", "step, and arrays with the runs first")
    return arrays


def _restore(system: Any, saved: Arrays) -> State:
    try:
        return system.restore(dict(saved))
    except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
        found = f"{type(error).__name__}: {error}"
        allowed = f"the state, from what checkpoint returns: {', '.join(saved)}"
        raise SettingsError(f"{type(system).__name__}.restore", found, allowed) from error


def _check_equal(where: str, expected: Arrays, found: Arrays, allowed: str) -> None:
    """Check that arrays are the same, bit for bit."""
    if set(expected) != set(found):
        raise SettingsError(where, "arrays " + ", ".join(found), "those of before: " + ", ".join(expected))
    for name, values in expected.items():
        same = values.dtype == found[name].dtype and values.shape == found[name].shape
        if not same or values.tobytes() != found[name].tobytes():
            raise SettingsError(where, f"a different {name}", allowed)


def _describe_shape(values: object) -> str:
    return f"shape {values.shape}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
