"""Systems that are not built in: how one is created, checked before it runs, and guarded
against values that are not finite.

The built-in systems detect divergence themselves. `DivergenceGuard` does it for every
other system: from the first step at which a variable or an array of the restart state
contains a NaN or an infinity, the run keeps its last finite state and counts as
diverged. The other runs continue."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from dynamics.settings import SettingsError
from dynamics.settings_checks import check_settings_instance
from dynamics.system import Arrays, State, System, system_class

_MEMBERS = (
    *("settings", "variables", "device", "ensemble_width", "numerics_version"),
    *sorted(System.__abstractmethods__),
)
"""Attributes and methods that the loop and the format use."""


def create_external_system(settings: Any, device: str) -> System:
    """An external system, after a check that it has all attributes and methods. Raises
    SettingsError."""
    factory = system_class(settings.system)
    check_settings_instance(settings)
    name = getattr(factory, "__name__", "the system")
    allowed = "a class with all members of a system, most inherited from System"
    if abstract := getattr(factory, "__abstractmethods__", ()):
        raise SettingsError(name, "no " + ", no ".join(sorted(abstract)), allowed)
    system = factory(settings, device)
    if missing := [member for member in _MEMBERS if not hasattr(system, member)]:
        raise SettingsError(name, "no " + ", no ".join(missing), allowed)
    dims = {dim for dims in system.variables.values() for dim in dims}
    if missing := sorted(dims - set(system.coords())):
        allowed = "an entry for each dimension of variables"
        raise SettingsError(f"{name}.coords", "no " + ", no ".join(missing), allowed)
    if not hasattr(system, "backends"):
        # a class that does not inherit from System may have been written before these
        system.backends = ()
        system.backend_name = ""
    return system


def check_first_step(system: System, seeds: np.ndarray) -> None:
    """Check the frame at step 0 of runs with these seeds, and that they continue from a
    restored state as from the state itself. Raises SettingsError.

    `dynamics.testing.check_system`, for authors of systems, checks more."""
    name = type(system).__name__
    hint = (
        f"dynamics.testing.check_system({type(system.settings).__name__}()) says more"
    )
    state = system.initial(seeds)
    frame = system.observe(state)
    sizes = {dim: np.size(values) for dim, values in system.coords().items()}
    for variable, dims in system.variables.items():
        shape = frame[variable].shape if variable in frame else ()
        expected = (len(seeds), *(sizes[dim] for dim in dims))
        if shape != expected:
            wrong = f"{variable} of shape {shape}"
            raise SettingsError(f"{name}.observe", wrong, f"{expected}; {hint}")
    restored = system.restore(dict(system.checkpoint(state)))
    after = system.checkpoint(system.advance(state, 1))
    repeated = system.checkpoint(system.advance(restored, 1))
    for array, values in after.items():
        if np.asarray(values).tobytes() != np.asarray(repeated[array]).tobytes():
            wrong = f"a step after which {array} differs if the state is restored first"
            raise SettingsError(name, wrong, f"the same result; {hint}")


# --------------------------------------------------------------------------- divergence

LAST_FINITE_STEP = "last_finite_step"
"""Array (run,) that the guard adds to restart states: the step of the last finite state
of each run."""


@dataclasses.dataclass(frozen=True)
class GuardedState:
    """A state of the guarded system, with its recorded values: for a diverged run the
    last finite ones."""

    inner: State
    last_step: np.ndarray  # (run,)
    frame: Arrays
    arrays: Arrays  # of the restart state

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return self.inner.step


class DivergenceGuard:
    """A `System` that wraps another one, and marks runs with values that are not finite
    as diverged."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.keeps_last_step = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system, name)

    def initial(self, seeds: np.ndarray) -> GuardedState:
        """The state at step 0. Raises SettingsError if it contains a value that is not
        finite."""
        state = self._read(self.system.initial(seeds))
        for run in np.flatnonzero(_not_finite(state)).tolist():
            where = f"{type(self.system).__name__}.initial"
            found = (
                f"{_first_bad_name(state, run)} of run {run} (seed {seeds[run]}) at"
                " step 0 is not finite"
            )
            raise SettingsError(where, found, "finite values at step 0")
        return state

    def advance(self, state: GuardedState, steps: int) -> GuardedState:
        """The state `steps` steps later; runs that have diverged keep their last finite
        values."""
        after = self._read(self.system.advance(state.inner, steps))
        held = state.last_step < state.step
        bad = _not_finite(after) & ~held
        if (
            bad.any() and steps > 1
        ):  # repeat in single steps to find the step of divergence
            for _ in range(steps):
                state = self.advance(state, 1)
            return state
        for run in np.flatnonzero(bad).tolist():
            warnings.warn(
                f"{self.settings.system}: {_first_bad_name(after, run)} of run {run} is"
                f" not finite at step {after.step}; the run is marked as diverged, its"
                f" frames up to step {state.step} are kept",
                stacklevel=2,
            )
        held |= bad
        return GuardedState(
            after.inner,
            np.where(held, state.last_step, after.last_step),
            {
                name: choose_rows(held, state.frame[name], values)
                for name, values in after.frame.items()
            },
            {
                name: choose_rows(held, state.arrays[name], values)
                for name, values in after.arrays.items()
            },
        )

    def observe(self, state: GuardedState) -> Arrays:
        """One frame."""
        return state.frame

    def checkpoint(self, state: GuardedState) -> Arrays:
        """The restart state of the system, and the last finite step of each run."""
        added = (
            {LAST_FINITE_STEP: np.asarray(state.last_step, np.int64)}
            if self.keeps_last_step
            else {}
        )
        return {**state.arrays, **added}

    def restore(self, arrays: Arrays) -> GuardedState:
        """The state from the arrays of `checkpoint`; files of earlier versions lack the
        last finite step."""
        self.keeps_last_step = LAST_FINITE_STEP in arrays
        own = {
            name: values for name, values in arrays.items() if name != LAST_FINITE_STEP
        }
        state = self._read(self.system.restore(own))
        last_step = arrays.get(LAST_FINITE_STEP, state.last_step)
        return dataclasses.replace(state, last_step=np.asarray(last_step))

    def _read(self, inner: State) -> GuardedState:
        frame = self.system.observe(inner)
        arrays = self.system.checkpoint(inner)
        return GuardedState(
            inner,
            inner.last_step,
            {name: frame[name] for name in self.system.variables},
            {name: np.asarray(values) for name, values in arrays.items()},
        )


def choose_rows(held: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Rows of `old` where `held` (run,) is true, rows of `new` elsewhere; `new` if it
    has no run axis."""
    return (
        np.where(held.reshape(-1, *[1] * (new.ndim - 1)), old, new)
        if new.ndim and held.any()
        else new
    )


def _not_finite(state: GuardedState) -> np.ndarray:
    """Which runs have a value that is not finite, (run,) bool."""
    arrays = [
        values
        for values in (*state.frame.values(), *state.arrays.values())
        if values.ndim
    ]
    runs = len(state.last_step)
    return np.any(
        [~np.isfinite(values.reshape(runs, -1)).all(axis=1) for values in arrays],
        axis=0,
    )


def _first_bad_name(state: GuardedState, run: int) -> str:
    """Name of the first array with a value that is not finite in this run."""
    named = (*state.frame.items(), *state.arrays.items())
    return next(
        name
        for name, values in named
        if values.ndim and not np.isfinite(values[run]).all()
    )
