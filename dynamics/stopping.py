"""Runs that end before the others: at a recorded frame at which a condition holds, or at
steps that are known.

A run that has stopped keeps its state, as one that has diverged does. The condition is
tested at the steps that `every` counts, and at the first one; whether a run has stopped
does not depend on the number of steps that are computed."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from dynamics.conditions import Condition, runs_that_hold
from dynamics.external_systems import choose_rows
from dynamics.settings import MAX_STEPS
from dynamics.system import Arrays, State, System
from dynamics.trajectory.description import RecordingSchedule
from dynamics.trajectory.reader import run_indices
from dynamics.trajectory.schema import STOPPED

STOPPED_AT = "stopped_at"
"""Array (run,) that is added to restart states: the step at which each run has
stopped."""
NEVER = MAX_STEPS + 1
"""The step at which a run has stopped that has not."""


@dataclasses.dataclass(frozen=True)
class StoppingState:
    """A state of a system, and the steps at which its runs stop."""

    inner: State
    ends: np.ndarray
    """(run,) Step at which a run stops or has stopped; NEVER if none is known."""

    @property
    def step(self) -> int:
        return self.inner.step

    @property
    def last_step(self) -> np.ndarray:
        return self.inner.last_step

    @property
    def stopped(self) -> np.ndarray:
        """(run,) Whether a run has stopped."""
        return self.ends <= self.step


class StoppingSystem:
    """A `System` whose runs stop at known steps, or where a condition holds.

    ends: (run,) known steps, or NEVER. condition: tested at frames of the schedule.
    Raises SettingsError if the system does not have what the condition names."""

    def __init__(
        self,
        system: System,
        ends: np.ndarray,
        condition: Condition | None = None,
        schedule: RecordingSchedule | None = None,
    ) -> None:
        self.system = system
        self.ends = ends
        self.schedule = schedule
        self.test = None if condition is None else condition.test_of(system)
        self._observed: tuple[State, Arrays] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system, name)

    def initial(self, seeds: np.ndarray) -> StoppingState:
        """The state at step 0."""
        return self.begin(self.system.initial(seeds))

    def begin(self, inner: State) -> StoppingState:
        """The first state, from that of the system."""
        return self._with_stops(StoppingState(inner, self.ends))

    def advance(self, state: StoppingState, steps: int) -> StoppingState:
        """The state `steps` steps later; runs that have stopped keep their state."""
        last = state.step + steps
        while state.step < last:
            pauses = state.ends[state.ends > state.step]
            pause = min([last, *pauses.tolist()])
            if self.test is not None and self.schedule is not None:
                pause = min(pause, self.schedule.next_on_grid(state.step))
            inner = self.system.advance(state.inner, pause - state.step)
            begins_to_rest = state.ends == state.step
            if begins_to_rest.any():
                inner = self._hold(begins_to_rest, state.inner, inner)
            state = self._with_stops(StoppingState(inner, state.ends))
        return state

    def _with_stops(self, state: StoppingState) -> StoppingState:
        """The state, with the runs for which the condition holds stopped."""
        if self.test is None or not self._is_tested(state.step):
            return state
        going = ~state.stopped & (state.last_step == state.step)
        holds = runs_that_hold(self.test, self.observe(state)) & going
        return StoppingState(state.inner, np.where(holds, state.step, state.ends))

    def _is_tested(self, step: int) -> bool:
        s = self.schedule
        return s is not None and (step == s.first or s.is_on_grid(step))

    def _hold(self, mask: np.ndarray, before: State, after: State) -> State:
        """The state `after`, with the arrays of `before` for the runs of a mask (run,);
        as their last step is then past, the system keeps them from now on."""
        old = self.system.checkpoint(before)
        new = self.system.checkpoint(after)
        held = {
            name: choose_rows(mask, np.asarray(old[name]), np.asarray(values))
            for name, values in new.items()
            if name != "step"
        }
        return self.system.restore({**held, "step": new["step"]})

    def has_ended(self, state: StoppingState) -> bool:
        """Whether a condition is tested, and every run has stopped or diverged."""
        if self.test is None or not self._is_tested(state.step):
            return False
        return bool((state.stopped | (state.last_step < state.step)).all())

    def observe(self, state: StoppingState) -> Arrays:
        """One frame."""
        if self._observed is None or self._observed[0] is not state.inner:
            self._observed = (state.inner, self.system.observe(state.inner))
        return self._observed[1]

    def checkpoint(self, state: StoppingState) -> Arrays:
        """The restart state of the system, and the step at which each run has
        stopped."""
        ends = np.where(state.stopped, state.ends, NEVER)
        return {**self.system.checkpoint(state.inner), STOPPED_AT: ends}

    def restore(self, arrays: Arrays) -> StoppingState:
        """The state from the arrays of `checkpoint`, or of the system alone."""
        own = {name: values for name, values in arrays.items() if name != STOPPED_AT}
        ends = np.minimum(self.ends, arrays.get(STOPPED_AT, NEVER))
        return StoppingState(self.system.restore(own), ends)


def stop_steps(trajectory: xr.Dataset, seeds: np.ndarray) -> np.ndarray:
    """The step at which each run with these seeds has stopped, (run,), or NEVER. Raises
    TrajectoryError."""
    stopped = trajectory["status"].values == STOPPED
    ends = np.where(stopped, trajectory["last_step"].values, NEVER)
    return ends[run_indices(trajectory, seeds)]


def all_running(runs: int) -> np.ndarray:
    """The `ends` of runs of which none has stopped, (run,)."""
    return np.full(runs, NEVER, np.int64)
