"""Events of a trajectory that a film shows: the highest spike, replayed at every step,
or a drop of the loss."""

from __future__ import annotations

import numpy as np
import xarray as xr

from analysis.panels.scene import EventMark
from analysis.statistics.run_success import success_mask
from analysis.transitions.loss_events import (
    default_scalar_name,
    event_table,
    trajectory_scalar,
)
from dynamics.branching import replay
from dynamics.errors import TrajectoryError


def find_event(
    trajectory: xr.Dataset, run: int | None, kind: str
) -> tuple[int, EventMark]:
    """The largest spike or drop of the loss (or force), or the first drop, and the
    index of its run.

    kind: spike, drop or first-drop. run: an index along `run`; None: all successful
    runs, or all where none is successful. Initial drops, which no plateau precedes, are
    left out. Raises TrajectoryError."""
    values = trajectory_scalar(trajectory, default_scalar_name(trajectory))
    events = event_table(values if run is None else values.isel(run=[run]))
    name = kind.removeprefix("first-")
    indices = np.flatnonzero(
        (events["kind"].values == name) & ~events["initial"].values
    )
    if run is None:
        successful = success_mask(trajectory)[events["of_run"].values[indices]]
        indices = indices[successful] if successful.any() else indices
    if not indices.size:
        where = "any run" if run is None else f"run {run}"
        raise TrajectoryError(
            f"no {name} in {where}; python -m analysis.events lists all events"
        )
    size = np.abs(events["after"].values - events["before"].values)[indices]
    event = events.isel(
        event=indices[0] if kind.startswith("first-") else indices[size.argmax()]
    )
    mark = EventMark(
        kind, *(round(float(event[time])) for time in ("begin", "middle", "end"))
    )
    return int(event["of_run"]) if run is None else run, mark


def replay_range(spike: EventMark, steps: np.ndarray) -> tuple[int, int]:
    """First and last step of a spike's replay: at least two recorded frames before its
    peak and one after it.

    steps: the recorded steps up to the last valid one.
    """
    peak, begin, end = (
        int(np.searchsorted(steps, at)) for at in (spike.middle, spike.begin, spike.end)
    )
    before, after = min(max(peak - begin + 1, 2), 4), min(max(end - peak, 1), 3)
    first = int(steps[max(0, peak - before)])
    last = int(steps[min(len(steps) - 1, peak + after)])
    margin = (
        max(0, 80 - (last - first)) // 2
    )  # where recorded frames are close together
    return max(int(steps[0]), first - margin), min(int(steps[-1]), last + margin)


def replay_spike(
    trajectory: xr.Dataset, run: int, first: int, last: int
) -> tuple[xr.Dataset, EventMark]:
    """The run from step `first` to `last`, recorded at every step, and its highest
    step. Raises Interrupted."""
    replayed = replay(trajectory, run, first, last, progress=True)
    values = trajectory_scalar(replayed, default_scalar_name(replayed)).values[0]
    peak = int(replayed["step"].values[np.nanargmax(values)])
    return replayed, EventMark("spike", peak, peak, peak)


def steps_around_drop(drop: EventMark, steps: np.ndarray) -> tuple[int, int]:
    """First and last step of a drop's film: half its length, or ten recorded frames,
    before and after it."""
    first, last = (int(np.searchsorted(steps, at)) for at in (drop.begin, drop.end))
    margin = max(10, (last - first) // 2)
    return int(steps[max(0, first - margin)]), int(
        steps[min(len(steps) - 1, last + margin)]
    )
