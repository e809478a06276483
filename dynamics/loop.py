"""The simulation loop: start or resume a run, advance it, and record its frames."""

from collections.abc import Callable

import xarray as xr
from tqdm import tqdm

from dynamics.errors import Interrupted, TrajectoryError
from dynamics.interruption import StepPacer, deferred_signals
from dynamics.system import Arrays, State, System
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
    schedule, pacer = recorder.schedule, StepPacer()
    with deferred_signals() as received, recorder:
        state = _resume_or_begin(system, recorder, lambda: first_state(received))
        with _progress_bar(state.step, schedule.steps, progress) as bar:
            while state.step < schedule.steps and not received:
                stop = schedule.next_stop(state.step)
                with pacer.measure(stop - state.step) as steps:
                    state = system.advance(state, steps)
                bar.update(steps)
                if state.step == stop:
                    recorder.add(state, system)
                if recorder.part_is_due():
                    recorder.close_part(state, system)
        if state.step == schedule.steps:
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


def _progress_bar(step: int, steps: int, progress: bool) -> tqdm:
    return tqdm(
        total=steps,
        initial=step,
        unit="step",
        disable=None if progress else True,
        leave=False,
    )
