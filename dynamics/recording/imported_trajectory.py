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
    seeds_of,
)


def imported_trajectory(
    frames: Mapping[int, Mapping[str, np.ndarray]],
    dims: Mapping[str, tuple[str, ...]],
    coords: Mapping[str, np.ndarray],
    settings: RecordedSettings,
    runs: int,
    seed: int,
    source: str,
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """The trajectory of frames (run, ...) by their steps, derived from a source such as
    checkpoints."""
    frames = {step: frames[step] for step in sorted(frames)}
    steps = list(frames)
    every = int(np.gcd.reduce(np.diff(steps))) if len(steps) > 1 else 1
    identity = identity_of(settings, runs, seed, every)
    origin = describe_origin(settings, identity, steps[-1], 1, 1)
    attrs = {**origin, "derived": source, **attributes}
    if steps[0] > 0:
        attrs |= {"branched_at": steps[0], "branch_of": source}
    seeds = seeds_of(identity)
    description = RunDescription(dims, {}, coords, seeds, 1.0, 0, attrs)
    last_steps = np.full(runs, steps[-1])
    ends = final_variables(steps[-1], last_steps, done=True)
    return description.dataset(frames, ends)
