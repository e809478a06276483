"""How the decisions of runs relate to other events of the same runs."""

from __future__ import annotations

import numpy as np
import xarray as xr

from analysis.committors.decision import last_onset
from analysis.structures.circles_and_grids import is_circle
from analysis.transitions import loss_events
from analysis.transitions.detection import MIN_WINDOW_FRAMES
from analysis.transitions.gradient_peaks import find_norm_peaks
from dynamics.trajectory.diverged import valid_frames

EVENTS = {
    "escape": "their {scalar} leaves its first level",
    "norm peak": "the highest peak of their gradient norm",
    "circle": "their circle forms",
    "rest": "their last growing mode disappears",
}
"""Events in words."""


def add_events(trajectory: xr.Dataset, result: xr.Dataset) -> xr.Dataset:
    """The steps of events of the runs whose committors were measured.

    Parameters
    ----------
    trajectory : xarray.Dataset
        The trajectory of these runs, with all recorded frames.
    result : xarray.Dataset
        From `committor`, or from `count_growing_modes`.

    Returns
    -------
    xarray.Dataset
        The result with `event_step` (run, event), NaN for a run without the event, and
        the attribute `scalar`, force or loss. Events:

        - "escape": the loss, or the force of particles, leaves its first level
          (`plateau_escape_times`)
        - "norm peak": the highest peak of the gradient norm of networks
          (`find_norm_peaks`)
        - "circle": the recorded step from which on the run is a circle, if that is the
          outcome
        - "rest": the measured step from which on no mode grows, if modes are counted

        The first three need enough recorded frames, and are otherwise absent.

    Raises
    ------
    TrajectoryError

    Examples
    --------
    >>> from analysis import committor
    >>> from analysis.committors import add_events
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(fa=2.0), runs=3, progress=False)
    >>> result = committor(trajectory, "circle", steps=[0, 50], copies=5)
    >>> add_events(trajectory, result)["event_step"].sel(event="circle").values
    array([nan, 98., 92.])
    """
    steps: dict[str, np.ndarray] = {}
    scalar = loss_events.default_scalar_name(trajectory)
    if trajectory.sizes["step"] > MIN_WINDOW_FRAMES:
        values = loss_events.trajectory_scalar(trajectory, scalar)
        escapes = loss_events.plateau_escape_times(values)
        steps["escape"] = escapes["escape"].where(escapes["escaped"]).values
        if scalar == "loss" and "gradient_norm" in trajectory:
            steps["norm peak"] = _highest_peaks(trajectory)
        if result.attrs["outcome"] == "circle" and "embedding" in trajectory:
            embedding = trajectory["embedding"].transpose(
                "run", "step", "token", "axis"
            )
            circles = is_circle(embedding.values)
            recorded = trajectory["step"].values
            steps["circle"] = np.array([_onset(recorded, row) for row in circles])
    if "growing_modes" in result:
        counts = result["growing_modes"].values
        measured = result["step"].values
        counted = np.isfinite(counts)
        steps["rest"] = np.array(
            [
                _onset(measured[there], row[there] == 0)
                for row, there in zip(counts, counted, strict=True)
            ]
        )
    columns = np.reshape(list(steps.values()), (len(steps), result.sizes["run"]))
    return (
        result.assign_coords(event=np.array(list(steps), str))
        .assign(event_step=(("run", "event"), columns.T))
        .assign_attrs(scalar=scalar)
    )


def _onset(steps: np.ndarray, holds: np.ndarray) -> float:
    """The first of the steps (step,) from which on all values (step,) are true; NaN if
    the last is not."""
    at = last_onset(holds)
    return float(steps[at]) if at < len(steps) else np.nan


def _highest_peaks(trajectory: xr.Dataset) -> np.ndarray:
    """The step of the highest peak of the norm of the whole gradient, (run,)."""
    norms = trajectory["gradient_norm"].transpose("run", "step", "layer").values
    highest = np.full(len(norms), np.nan)
    whole = np.linalg.norm(norms.astype(np.float64), axis=-1)
    for run, valid in enumerate(valid_frames(trajectory).values):
        peaks = find_norm_peaks(whole[run, valid])
        if peaks.frame.size:
            place = peaks.frame[peaks.height.argmax()]
            highest[run] = trajectory["step"].values[place]
    return highest


def describe_events(result: xr.Dataset) -> str:
    """Text that says for each event of `add_events` how many runs are decided before
    it, and how many modes grow in the first state, at the decision and in the last
    state. Each line begins with a line break."""
    decided = result["decision_step"].values
    lines = []
    for event in result["event"].values.tolist():
        steps = result["event_step"].sel(event=event).values
        both = np.isfinite(steps) & np.isfinite(decided)
        before = int((decided < steps)[both].sum())
        if both.any():
            words = EVENTS[event].format(scalar=result.attrs["scalar"])
            median = float(np.median(steps[both]))
            lines.append(
                f"{before} of {int(both.sum())} runs are decided before {words} (median:"
                f" step {median:.0f})"
            )
    if "growing_modes" in result and result["growing_modes"].notnull().any():
        lines.append(_describe_modes(result))
    return "".join(f"\n{line}" for line in lines)


def _describe_modes(result: xr.Dataset) -> str:
    """The median number of growing modes in the first and the last measured state of
    each run, and at the decision of the runs that are decided after the first."""
    firsts = []
    decisions = []
    lasts = []
    for run, decided in enumerate(result["decision_step"].values):
        counts = result["growing_modes"].isel(run=run).dropna("step")
        if not counts.size:
            continue
        firsts.append(counts.values[0])
        lasts.append(counts.values[-1])
        if decided > counts["step"].values[0]:
            decisions.append(counts.sel(step=decided, method="nearest").item())
    words = f"growing modes (median): {np.median(firsts):g} in the first measured state"
    if decisions:
        words += (
            f", {np.median(decisions):g} next to later decisions ({len(decisions)} of"
            f" {len(firsts)} runs)"
        )
    return f"{words}, {np.median(lasts):g} in the last"
