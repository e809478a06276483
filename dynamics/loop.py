"""The simulation loop: start or resume a run, advance it, and record its frames.

SIGINT and SIGTERM take effect between two steps, so that no state is lost."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import xarray as xr
from tqdm import tqdm

from dynamics.errors import Interrupted, TrajectoryError
from dynamics.progress import progress_bar
from dynamics.system import Arrays, State, System
from dynamics.trajectory.description import RecordingSchedule
from dynamics.trajectory.recorder import MemoryRecorder


def record_run(
    system: System,
    recorder: MemoryRecorder,
    first_state: Callable[[list[int]], State],
    progress: bool,
) -> xr.Dataset:
    """Advance a system from the last state on disk, or from its first state, to the end
    of the recorder's schedule.

    first_state: returns the first state; called with the list to which signals are
    appended when they arrive."""
    schedule = recorder.schedule
    pacer = StepPacer()
    with deferred_signals() as received, recorder:
        state = _resume_or_begin(system, recorder, lambda: first_state(received))
        with _progress_bar(state.step, schedule.steps, progress) as bar:
            while not (is_over := _is_over(system, state, schedule)) and not received:
                stop = schedule.next_stop(state.step)
                with pacer.measure(stop - state.step) as steps:
                    state = system.advance(state, steps)
                bar.update(steps)
                if state.step == stop:
                    recorder.add(state, system)
                if recorder.part_is_due():
                    recorder.close_part(state, system)
        if is_over:
            if state.step < schedule.steps:
                recorder.end_at(state.step)
            trajectory = recorder.finish(state, system)
        else:
            recorder.close_part(state, system)
    if received:
        raise Interrupted(received[0], recorder.path, state.step, schedule.steps)
    return trajectory


def _resume_or_begin(
    system: System, recorder: MemoryRecorder, first_state: Callable[[], State]
) -> State:
    """The state from which the run continues, or its first state; its frame is recorded
    if that is still missing."""
    arrays = recorder.resume()
    if arrays is None:
        state = first_state()
        recorder.discard_existing()
    else:
        state = restore_state(system, arrays)
    if arrays is None or recorder.lacks_frame(state.step):
        recorder.add(state, system)
    return state


def restore_state(system: System, arrays: Arrays) -> State:
    """The state from the arrays of a file. Raises TrajectoryError if one is missing."""
    try:
        return system.restore(arrays)
    except KeyError as missing:
        message = (
            f"the restart state has no {missing}: it was written by another version of"
            " this program"
        )
        raise TrajectoryError(message) from None


def _is_over(system: System, state: State, schedule: RecordingSchedule) -> bool:
    """Whether a run has all its steps, or ends before at a condition."""
    if state.step == schedule.steps:
        return True
    has_ended = getattr(system, "has_ended", None)  # of a `StoppingSystem`
    return has_ended is not None and has_ended(state)


def _progress_bar(step: int, steps: int, progress: bool) -> tqdm:
    return progress_bar(
        total=steps,
        initial=step,
        unit="step",
        quiet=not progress,
    )


# ------------------------------------------------------------------------------ signals

SIGNAL_SECONDS = 0.5
"""Longest time between a signal and its effect, unless a single step takes longer."""


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Collect the first SIGINT or SIGTERM in a list instead of raising; a second one
    has its usual effect.

    Outside the main thread, where Python delivers no signals, the list stays empty.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def handle(signum: int, frame: object) -> None:
        received.append(signum)
        restore_handlers()

    def restore_handlers() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    before = {
        number: signal.signal(number, handle)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        restore_handlers()


class StepPacer:
    """Chooses how many steps to take at once, so that they take at most about
    `SIGNAL_SECONDS`."""

    def __init__(self) -> None:
        self.seconds_per_step = SIGNAL_SECONDS

    @contextmanager
    def measure(self, remaining: int) -> Iterator[int]:
        """Yield a number of steps, at most `remaining`, and measure the time of the `with`
        block that takes them."""
        number = max(1, min(remaining, int(SIGNAL_SECONDS / self.seconds_per_step)))
        begin = time.perf_counter()
        yield number
        self.seconds_per_step = max(1e-9, (time.perf_counter() - begin) / number)
