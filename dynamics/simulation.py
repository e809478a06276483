"""The simulation loop: start or resume a run, advance it, record its frames, and write
the trajectory."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from tqdm import tqdm

from dynamics.errors import Interrupted, TrajectoryError
from dynamics.initial_conditions import start_file
from dynamics.interruption import StepPacer, deferred_signals
from dynamics.provenance import run_identity
from dynamics.run_checks import (
    backend_to_continue,
    check_differs_from_source,
    check_ensemble,
    check_resources,
    check_schedule,
    check_trajectory_path,
    find_finished_run,
)
from dynamics.settings import RecordMode, Settings
from dynamics.system import Arrays, State, System
from dynamics.system_checks import check_external_system, create_system
from dynamics.trajectory.description import describe_run
from dynamics.trajectory.recorder import MemoryRecorder, create_recorder


def simulate(
    settings: Settings,
    runs: int = 100,
    seed: int = 0,
    steps: int | None = None,
    every: int | None = None,
    record: RecordMode = "all",
    device: str = "auto",
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    progress: bool = True,
    backend: str = "auto",
) -> xr.Dataset:
    """Simulate an ensemble of runs and return its trajectory.

    Parameters
    ----------
    settings : Settings
        Physics or optimisation of the runs: ParticleSettings, ModularSettings,
        SparseSettings, TransformerSettings, or those of a registered system.
    runs : int
        Number of runs. Run r has seed ``seed + r`` and does not depend on the other
        runs.
    seed : int
        Seed of the first run.
    steps : int, optional
        Number of steps. Default: ``settings.default_steps``.
    every : int, optional
        Steps between recorded frames; the first and the last step are always recorded.
        Default: ``settings.default_every``.
    record : {"all", "metrics"}
        "metrics" records only norms, losses and accuracies, without the embedding and
        the weights.
    device : {"auto", "cpu", "cuda"}
        Where to compute.
    out : str or Path, optional
        File to write, NAME.nc; by default nothing is written. If the file already
        contains the same run, the run is read from it, continued if it was interrupted,
        or extended if `steps` is larger.
    overwrite : bool
        Compute the run again, even if `out` exists.
    progress : bool
        Show a progress bar, if the output is a terminal.
    backend : {"auto", "simd", "blas"}
        How the constant-attention network is computed on a CPU: runs on SIMD lanes, or
        matrix products of each run. "auto" is the backend of the run in `out`, if there
        is one, otherwise the faster one by a fixed cost model of the sizes and the
        number of runs. The last bits of a run depend on the backend.

    Returns
    -------
    xarray.Dataset
        The trajectory, with dimensions (run, step, ...);
        docs/guides/trajectory-format.md describes it.

    Raises
    ------
    SettingsError
        If an argument is not valid, the run does not fit into memory, or `out` contains
        a different run.
    RecordingError, TrajectoryError
        If `out` cannot be written, or is damaged.
    Interrupted
        On SIGINT or SIGTERM; the same call then continues from the state on disk.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5, fa=2.0), runs=3, steps=20)
    >>> dict(trajectory["embedding"].sizes)
    {'run': 3, 'step': 21, 'token': 5, 'axis': 2}
    """
    runs, seed = check_ensemble(runs, seed, record)
    system = create_system(settings, device, runs=runs, backend=backend)
    schedule, seeds = check_schedule(settings, steps, every), seed + np.arange(runs)
    path = None if out is None else check_trajectory_path(out)
    if backend == "auto" and not overwrite:
        system.backend_name = backend_to_continue(path, system)
    identity = run_identity(system, runs, seed, schedule.every, record)
    if path is not None:
        check_differs_from_source(path, start_file(settings))
        if (
            not overwrite
            and (finished_run := find_finished_run(path, identity, schedule.steps))
            is not None
        ):
            return finished_run
    check_resources(system, runs, schedule, record, path)
    check_external_system(settings, device, seeds)
    recorder = create_recorder(
        path,
        describe_run(system, identity, schedule.steps),
        schedule,
        identity,
        overwrite,
    )
    return record_run(
        system, recorder, lambda received: system.initial(seeds), progress
    )


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
