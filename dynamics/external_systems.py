"""Divergence in registered systems: a run whose values are not finite keeps its last
finite state.

The built-in systems detect divergence themselves. `DivergenceGuard` does it for every
other system: from the first step at which a variable or an array of the restart state
contains a NaN or an infinity, the run keeps its last finite state and counts as
diverged. The other runs continue."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from dynamics.settings import SettingsError
from dynamics.system import Arrays, State, System

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
        self.system, self.keeps_last_step = system, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system, name)

    def initial(self, seeds: np.ndarray) -> GuardedState:
        """The state at step 0. Raises SettingsError if it contains a value that is not
        finite."""
        state = self._read(self.system.initial(seeds))
        for run in np.flatnonzero(_not_finite(state)).tolist():
            where = f"{type(self.system).__name__}.initial"
            result = (
                f"{_first_bad_name(state, run)} of run {run} (seed {seeds[run]}) at"
                " step 0 is not finite"
            )
            raise SettingsError(where, result, "finite values at step 0")
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
                name: _choose(held, state.frame[name], values)
                for name, values in after.frame.items()
            },
            {
                name: _choose(held, state.arrays[name], values)
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
        frame, arrays = self.system.observe(inner), self.system.checkpoint(inner)
        return GuardedState(
            inner,
            inner.last_step,
            {name: frame[name] for name in self.system.variables},
            {name: np.asarray(values) for name, values in arrays.items()},
        )


def _choose(held: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
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
