"""Trajectories made of checkpoints or logs of other programs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dynamics.settings import RecordedSettings
from dynamics.trajectory.description import (
    RunDescription,
    describe_origin,
    final_variables,
    identity_of,
)


def imported_trajectory(
    frames: Mapping[int, Mapping[str, np.ndarray]],
    dims: Mapping[str, tuple[str, ...]],
    coords: Mapping[str, np.ndarray],
    settings: RecordedSettings,
    seeds: np.ndarray,
    source: str,
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """The trajectory of frames (run, ...) by their steps, of runs with these seeds
    (run,), derived from a source such as checkpoints."""
    frames = {step: frames[step] for step in sorted(frames)}
    steps = list(frames)
    every = int(np.gcd.reduce(np.diff(steps))) if len(steps) > 1 else 1
    identity = identity_of(settings, len(seeds), int(seeds[0]), every)
    origin = describe_origin(settings, identity, steps[-1], 1, 1)
    attrs = {**origin, "derived": source, **attributes}
    if steps[0] > 0:
        attrs |= {"branched_at": steps[0], "branch_of": source}
    description = RunDescription(dims, {}, coords, seeds, 1.0, 0, attrs)
    last_steps = np.full(len(seeds), steps[-1])
    ends = final_variables(steps[-1], last_steps, done=True)
    return description.dataset(frames, ends)
