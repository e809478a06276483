"""Growing modes of the states from which copies are continued: their number, and
displacements along the one that grows fastest.

`analysis.linearization.state_modes` defines the modes of particles and networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.linearization.along_trajectory import state_modes
from analysis.linearization.eigenmodes import StateModes
from analysis.output.results import dimensionless
from dynamics.copies import branch_copies
from dynamics.errors import TrajectoryError
from dynamics.progress import progress_bar
from dynamics.settings import ParticleSettings, SettingsError

GROWING = "growing"
"""The direction of the fastest growing mode of each state."""


def exact_states(trajectory: xr.Dataset, starts: Mapping[int, int]) -> xr.Dataset:
    """The exact states of runs, each at its step, which need not be recorded.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory with restart states, or one that was not written to a file.
    starts : mapping of int to int
        Steps by the index of the run.

    Returns
    -------
    xarray.Dataset
        A trajectory of one frame, with the seeds of the runs and the coordinates
        `of_run` and `from_step` (run), in increasing order of the step.
    """
    steps = {run: [step] for run, step in starts.items()}
    last = max(starts.values())
    states = branch_copies(trajectory, steps, 1, 0.0, until=last).isel(step=[0])
    seeds = trajectory["seed"].values[states["of_run"].values]
    return states.assign_coords(seed=("run", seeds))


class GrowingDirections(NamedTuple):
    """Displacements along the fastest modes of states."""

    directions: dict[str, np.ndarray]
    """A displacement of each variable of a state: an array (run, ...) for all runs of
    the trajectory, 0 for runs without a growing mode."""
    modes: dict[int, StateModes]
    """Modes by the index of the run."""


def growing_directions(
    trajectory: xr.Dataset, starts: Mapping[int, Sequence[int]]
) -> GrowingDirections:
    """The directions in which small displacements of states grow fastest, one state of
    each run.

    Their length is the root mean square length of displacements in all directions whose
    size is 1, which is relative to the spread of each variable (`branch_copies`),
    before particles are normalised."""
    states = exact_states(trajectory, {run: steps[0] for run, steps in starts.items()})
    directions: dict[str, np.ndarray] = {}
    modes = dict(
        zip(states["of_run"].values.tolist(), state_modes(states), strict=True)
    )
    for row, (run, state) in enumerate(modes.items()):
        values = [states[name].isel(run=row).values for name in state.fastest]
        length = np.sqrt(sum(array.var() * array.size for array in values))
        for name, array in state.fastest.items():
            shape = (trajectory.sizes["run"], *array.shape)
            whole = directions.setdefault(name, np.zeros(shape))
            whole[run] = length * array if state.grows else 0.0
    return GrowingDirections(directions, modes)


def check_growing_direction(trajectory: xr.Dataset) -> None:
    """Raise SettingsError if the modes of a trajectory cannot be computed."""
    try:
        _check_modes(trajectory)
    except TrajectoryError as error:
        allowed = f"only where modes can be computed: {error}"
        raise SettingsError("direction", GROWING, allowed) from None


def _check_modes(trajectory: xr.Dataset) -> None:
    """Raise TrajectoryError if `state_modes` cannot compute the modes of a trajectory.
    Those of particles are not computed here."""
    state_modes(exact_states(trajectory, {0: int(trajectory["step"][0])}))


def with_growing_modes(result: xr.Dataset, counts: np.ndarray) -> xr.Dataset:
    """The result of `committor` with the numbers of growing modes (run, step) of its
    states, NaN for those that are not known."""
    meaning = dimensionless("number of growing modes")
    return result.assign(growing_modes=(("run", "step"), counts, meaning))


def count_growing_modes(
    trajectory: xr.Dataset, result: xr.Dataset, quiet: bool = False
) -> xr.Dataset:
    """The number of growing modes of the states of particles whose committor is
    measured.

    A state of 17 particles takes about 0.02 s, one of 59 particles some seconds. SIGINT
    ends the computation.

    Parameters
    ----------
    trajectory : xarray.Dataset
        The trajectory whose committors were measured.
    result : xarray.Dataset
        From `committor`.
    quiet : bool
        Show no progress bar.

    Returns
    -------
    xarray.Dataset
        The result with `growing_modes` (run, step), NaN for states that are not
        measured. The result itself for more particles than spectra are for, and for
        other systems: the Hessian of a network has negative eigenvalues in all states.

    Examples
    --------
    >>> from analysis import committor
    >>> from analysis.committors import count_growing_modes
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=2, progress=False)
    >>> result = committor(trajectory, "circle", steps=[0, 90], copies=5)
    >>> count_growing_modes(trajectory, result, quiet=True)["growing_modes"].values
    array([[3., 2.],
           [3., 1.]])
    """
    is_particles = trajectory.attrs["system"] == ParticleSettings.system
    if "growing_modes" in result or not is_particles:
        return result
    try:
        _check_modes(trajectory)
    except TrajectoryError:
        return result
    is_measured = result["trials"].isel(displacement=0).transpose("step", "run") > 0
    counts = np.full(is_measured.shape, np.nan)
    frames_left = int(result.attrs["frames_left"])
    total = int(is_measured.sum())
    with progress_bar(total=total, desc="modes", quiet=quiet) as bar:
        try:
            for place, step in enumerate(result["step"].values.tolist()):
                runs = np.flatnonzero(is_measured.values[place]).tolist()
                if not runs:
                    continue
                states = exact_states(trajectory, dict.fromkeys(runs, step))
                for run, modes in zip(runs, state_modes(states), strict=True):
                    counts[place, run] = modes.growing
                    bar.update()
        except KeyboardInterrupt:
            frames_left += total - int(np.isfinite(counts).sum())
    return with_growing_modes(result, counts.T).assign_attrs(frames_left=frames_left)
