"""Results of single frames of runs, as variables of one dataset."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import read_settings

Variables = Mapping[str, str | tuple[tuple[str, ...], str]]
"""The meaning of each variable, with its dimensions after (run, step) if it has any."""


def valid_jobs(trajectory: xr.Dataset, frames: Sequence[int]) -> list[tuple[int, int]]:
    """The run and the place in `frames` of each frame in which its run has not
    diverged."""
    valid = valid_frames(trajectory, frames).values
    return [(run, place) for run, place in np.argwhere(valid).tolist()]


def frame_dataset(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    variables: Variables,
    sizes: Mapping[str, int],
    jobs: Sequence[tuple[int, int]],
    results: Sequence[Mapping[str, Any] | None],
) -> xr.Dataset:
    """Variables (run, step, ...) from the results of single frames.

    sizes: of the further dimensions; jobs: run and place of each frame, of which the
    first have results. Frames without a result are NaN, and shorter arrays are padded
    with NaN at the end."""
    sizes = {"run": trajectory.sizes["run"], "step": len(frames), **sizes}
    data = {}
    for name, variable in variables.items():
        rest, meaning = ((), variable) if isinstance(variable, str) else variable
        dims = ("run", "step", *rest)
        values = np.full([sizes[dim] for dim in dims], np.nan)
        for job, result in zip(jobs, results, strict=False):
            if result is not None:
                index: Any = (*job, *map(slice, np.shape(result[name])))
                values[index] = result[name]
        data[name] = (dims, values, dimensionless(meaning))
    coords = {
        "step": trajectory["step"].values[list(frames)],
        "seed": ("run", trajectory["seed"].values),
    }
    return xr.Dataset(data, coords)


def model_attributes(trajectory: xr.Dataset) -> dict[str, str]:
    """The system of a trajectory, and the name of a recorded model."""
    settings = read_settings(trajectory)
    model = getattr(settings, "model", settings.system)
    return {"system": settings.system, "model": model}
