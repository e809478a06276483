"""When the fate of a run is decided, by its committor along the run.

The agreement of a state is the probability that its copies end as the run itself does:
the committor p if the run has the outcome, otherwise 1 - p."""

from __future__ import annotations

import numpy as np
import xarray as xr

from analysis.committors.growing_modes import exact_states
from analysis.statistics.intervals import Interval
from analysis.statistics.resampling import jackknife_runs
from dynamics.settings import SettingsError

_FEWEST_RUNS = 10
"""With fewer runs the explained variance has no bounds, since their coverage would be
below 92%."""

FIRM, UNLIKELY = 0.9, 0.1
"""Agreement from which on an end is firm, and up to which it is unlikely."""


def last_onset(holds: np.ndarray) -> int:
    """The first index from which on all values (step,) are true; their number if the
    last is not."""
    return len(holds) - int(np.argmin([*holds[::-1], False]))


def crossing_step(
    steps: np.ndarray, values: np.ndarray, level: float, reached: bool = False
) -> float:
    """The step (step,) from which on values lie above a level, or if `reached` at it or
    above, interpolated; the first step if they never lie below."""
    at = last_onset(values >= level if reached else values > level)
    if at in (0, len(steps)):
        return float(steps[min(at, len(steps) - 1)])
    return float(np.interp(level, values[at - 1 : at + 1], steps[at - 1 : at + 1]))


def add_decisions(result: xr.Dataset) -> xr.Dataset:
    """The result of `committor` with the variables of its runs.

    - `decision_step`, `decision_step_low`, `decision_step_high`: where the agreement of
      the smallest displacement passes one half for the last time, interpolated between
      measured steps; low and high by the intervals of the agreement
    - `decision_duration`: steps from the last agreement of at most .1 to the step from which on
      it is at least .9; NaN if the agreement is never that low
    - `firmness` (run, step): the largest displacement up to which the agreement is at
      least .9, interpolated in the logarithm of the displacement; infinite if it is so
      for all sizes, 0 for none

    NaN where too little is measured."""
    sizes = result["displacement"].values
    runs = result.sizes["run"]
    has_outcome = result["outcome"].values
    names = ("committor_low", "committor", "committor_high")
    p = np.stack([result[name].values for name in names])
    agreement = np.where(has_outcome[:, None, None] == 1, p, 1 - p[::-1])
    agreement[:, np.isnan(has_outcome)] = np.nan
    low, middle, high = agreement
    decision = np.full((3, runs), np.nan)
    decision_duration = np.full(runs, np.nan)
    for run in range(runs):
        at = np.flatnonzero(np.isfinite(middle[run, :, 0]))
        if not at.size:
            continue
        steps = np.append(result["step"].values[at], result.attrs["until"])
        bounds = [np.append(side[run, at, 0], 1.0) for side in (high, middle, low)]
        decision[:, run] = [crossing_step(steps, side, 0.5) for side in bounds]
        unlikely = np.flatnonzero(bounds[1] <= UNLIKELY)
        if unlikely.size:
            firm = crossing_step(steps, bounds[1], FIRM, reached=True)
            decision_duration[run] = firm - steps[unlikely[-1]]
    firmness = np.full(middle.shape[:2], np.nan)
    for place in np.argwhere(np.isfinite(middle).all(axis=-1)):
        firmness[tuple(place)] = basin_radius(sizes, middle[tuple(place)])
    return result.assign(
        decision_step_low=("run", decision[0]),
        decision_step=("run", decision[1]),
        decision_step_high=("run", decision[2]),
        decision_duration=("run", decision_duration),
        firmness=(("run", "step"), firmness),
    )


def basin_radius(sizes: np.ndarray, agreement: np.ndarray) -> float:
    """The displacement (size,), in increasing order and positive, at which the
    agreement first leaves FIRM."""
    if agreement[0] < FIRM:
        return 0.0
    leaves = np.flatnonzero(agreement < FIRM)
    if not leaves.size:
        return np.inf
    ends = slice(leaves[0] - 1, leaves[0] + 1)
    fraction = (agreement[ends][0] - FIRM) / -np.diff(agreement[ends])[0]
    return float(
        np.exp(np.log(sizes[ends][0]) + fraction * np.diff(np.log(sizes[ends]))[0])
    )


def explained_variance(result: xr.Dataset, step: int = 0) -> Interval:
    """The fraction of the variance of the outcome, over runs and copies, that the state
    at a measured step (its index) explains, for the smallest displacement; an interval
    over runs (jackknife).

    Over K copies the variance of the outcome within a state is p (1 - p) K / (K - 1). The
    variance of committors over runs contains a K-th of it, which is subtracted; the
    explained fraction is the rest over the sum of both variances. The interval is that
    of this ratio, which may be negative by chance; value and bounds are then limited to
    0..1. The bounds are NaN for fewer than ten runs."""
    at = result.isel(step=step, displacement=0)
    trials = at["trials"].values
    p = at["committor"].values[trials > 1]
    count = trials[trials > 1]

    def explained(runs: np.ndarray) -> float:
        return _variance_ratio(p[runs], count[runs])

    interval = Interval(*np.clip(jackknife_runs(explained, len(p)), 0, 1).tolist())
    if len(p) < _FEWEST_RUNS:
        interval = interval._replace(low=np.nan, high=np.nan)
    return interval


def explained_fraction(committors: np.ndarray, trials: np.ndarray) -> float:
    """The fraction of the variance of the outcome that states explain, from their
    committors (run,) and numbers of copies (run,) above 1; NaN for fewer than two runs
    and if all copies end alike."""
    return float(np.clip(_variance_ratio(committors, trials), 0, 1))


def _variance_ratio(committors: np.ndarray, trials: np.ndarray) -> float:
    """The explained fraction before it is limited to 0..1."""
    if len(committors) < 2:
        return np.nan
    mean = committors.mean()
    if mean * (1 - mean) == 0:
        return np.nan
    within = committors * (1 - committors) * trials / (trials - 1)
    between = committors.var(ddof=1) - (within / trials).mean()
    return float(between / (between + within.mean()))


def transition_states(trajectory: xr.Dataset, result: xr.Dataset) -> xr.Dataset:
    """The states of the runs at the moment of decision, of those runs that are not
    decided in the first measured state.

    Parameters
    ----------
    trajectory : xarray.Dataset
        The trajectory whose committors were measured.
    result : xarray.Dataset
        From `committor`.

    Returns
    -------
    xarray.Dataset
        A trajectory of one frame, with the seeds of the runs and the coordinates
        `of_run` and `from_step` (run): the exact state at the recorded or unrecorded
        step next to `decision_step`.

    Raises
    ------
    SettingsError
        If all runs are decided in the first state.
    TrajectoryError
        As `dynamics.branch_copies`.

    Examples
    --------
    >>> from analysis import committor
    >>> from analysis.committors import transition_states
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(fa=2.0), runs=3, progress=False)
    >>> result = committor(trajectory, "circle", steps=[0, 20, 40], copies=20)
    >>> transition_states(trajectory, result)["of_run"].values
    array([2])
    """
    decided = np.round(result["decision_step"].values)
    late = np.flatnonzero(decided > float(result["step"][0]))
    if not late.size:
        raise SettingsError("result", "runs decided in the first state", "a later one")
    return exact_states(trajectory, {int(run): int(decided[run]) for run in late})
