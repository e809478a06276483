"""A check of a system for its author: `check_system(settings)` in a test of one's
own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from dynamics.external_systems import LAST_FINITE_STEP
from dynamics.settings import Settings
from dynamics.system import Arrays, State, System, system_class
from dynamics.trajectory.schema import NORM_VARIABLES, RESERVED_NAMES, VARIABLES

__all__ = ["check_system"]


def check_system(settings: Settings, seeds: Sequence[int] = (0, 1)) -> None:
    """Check that a registered system does what the loop, the format and the analyses
    expect.

    Runs are initialised, observed, saved, restored and advanced by one step. A state
    that is restored must be the saved one bit for bit, and a step from it must give the
    same result again.

    Parameters
    ----------
    settings : Settings
        Settings of the system, small enough for a test.
    seeds : sequence of int, optional
        Seeds of the runs.

    Raises
    ------
    AssertionError
        If the system does not follow the interface. The message names the method.

    Examples
    --------
    >>> from dynamics import ParticleSettings
    >>> from dynamics.testing import check_system
    >>> check_system(ParticleSettings(n=5))
    """
    system = system_class(settings.system)(settings, "auto")
    runs = len(seeds)
    _check_variables(system)
    state = system.initial(np.array(seeds))
    frame = _checked_frame(system, state, 0, runs, "initial")
    for name, values in frame.items():
        _expect(np.isfinite(values).all(), f"initial: {name} is finite at step 0")
    saved = _checked_arrays(system, state, runs)
    copies = {name: values.copy() for name, values in saved.items()}
    restored = system.restore(dict(saved))
    exactly = "restore: the state is the saved one, exactly"
    _expect_equal(_checked_arrays(system, restored, runs), copies, exactly)
    _expect_equal(_checked_frame(system, restored, 0, runs, "restore"), frame, exactly)
    after = system.advance(state, 1)
    unchanged = "advance: the state that is given to it does not change"
    _expect_equal(_checked_arrays(system, state, runs), copies, unchanged)
    repeated = system.advance(restored, 1)
    _checked_frame(system, after, 1, runs, "advance")
    alike = (
        "advance: the same state gives the same result; random numbers, too, depend only"
        " on what checkpoint returns"
    )
    after_arrays = _checked_arrays(system, after, runs)
    _expect_equal(_checked_arrays(system, repeated, runs), after_arrays, alike)
    _expect(system.working_bytes(runs) >= 0, "working_bytes: a number of bytes")


def _expect(condition: object, rule: str) -> None:
    if not condition:
        raise AssertionError(rule)


def _expect_equal(arrays: Arrays, expected: Arrays, rule: str) -> None:
    """Check that arrays are the same, bit for bit."""
    _expect(set(arrays) == set(expected), f"{rule}: {set(arrays) ^ set(expected)}")
    for name, values in expected.items():
        _expect(arrays[name].dtype == values.dtype, f"{rule}: type of {name}")
        assert_array_equal(arrays[name], values, f"{rule}: {name}")


def _check_variables(system: System) -> None:
    """Check that `variables` and `coords` agree with each other and with the format."""
    variables = system.variables
    coords = system.coords()
    for dim, values in coords.items():
        _expect(dim not in RESERVED_NAMES, f"coords: {dim} is a name of the format")
        is_axis = isinstance(values, np.ndarray) and values.ndim == 1 and values.size
        _expect(is_axis, f"coords: {dim} is an array (size of the dimension,)")
    for name in NORM_VARIABLES:
        _expect(name in variables, f"variables: {name} over ('layer',) is among them")
    for name, dims in variables.items():
        is_free = name not in (*RESERVED_NAMES, *coords)
        _expect(is_free, f"variables: {name} is a name of the format or of a dimension")
        _expect(isinstance(dims, tuple), f"variables: {name} has a tuple of dimensions")
        _expect(
            set(dims) <= set(coords), f"coords: one entry for each of {name}: {dims}"
        )
        if name in VARIABLES:
            expected = VARIABLES[name].dims[2:]
            is_known = sorted(dims) == sorted(expected)
            _expect(is_known, f"variables: {name} is over {expected}")


def _checked_frame(
    system: System, state: State, step: int, runs: int, method: str
) -> dict[str, np.ndarray]:
    """The frame of the state that a method returned after `step` steps, checked."""
    is_step = isinstance(state.step, int | np.integer) and state.step == step
    _expect(is_step, f"{method}: the step of the state is the int {step}")
    last: Any = state.last_step
    are_steps = np.shape(last) == (runs,) and np.asarray(last).dtype.kind in "iu"
    _expect(are_steps, f"{method}: last_step of the state is integers (run,)")
    within = (last >= 0) & (last <= step)
    _expect(within.all(), f"{method}: last_step of the state is from 0 to {step}")
    frame = system.observe(state)
    coords = system.coords()
    for name, dims in system.variables.items():
        _expect(name in frame, f"observe: {name}, one of variables, is in the frame")
        shape = (runs, *(len(coords[dim]) for dim in dims))
        has_shape = isinstance(frame[name], np.ndarray) and frame[name].shape == shape
        _expect(has_shape, f"observe: {name} is an array {shape}: run, {dims}")
        types = VARIABLES[name].dtypes if name in VARIABLES else ()
        dtype = frame[name].dtype
        is_real = dtype.name in types if types else dtype.kind in "biuf"
        _expect(
            is_real, f"observe: {name} is of {' or '.join(types) or 'real numbers'}"
        )
    return {name: frame[name] for name in system.variables}


def _checked_arrays(system: System, state: State, runs: int) -> dict[str, np.ndarray]:
    """The restart state, after a check that it can be stored in a file."""
    saved = system.checkpoint(state)
    _expect(isinstance(saved, Mapping), "checkpoint: a dict, name -> array")
    _expect("step" in saved, "checkpoint: the step is among the arrays")
    arrays = {name: np.asarray(values) for name, values in saved.items()}
    _expect(arrays["step"] == state.step, "checkpoint: step is that of the state")
    _expect(len(arrays) > 1, "checkpoint: step, and arrays whose first axis is the run")
    for name, values in arrays.items():
        is_free = name not in ("seed", "run", "checkpoint", LAST_FINITE_STEP)
        _expect(is_free, f"checkpoint: {name} is a name that the format adds")
        runs_first = values.shape[:1] == (runs,) and values.dtype.kind in "biuf"
        is_stored = name == "step" or runs_first
        _expect(is_stored, f"checkpoint: {name} is of numbers (run, ...)")
    return arrays
