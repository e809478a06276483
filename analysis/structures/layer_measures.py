"""Measures of each layer at frames of a trajectory: one loop over frames, which can be
interrupted, and one layout of the result."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless, results_until_interrupted
from dynamics.progress import progress_bar
from dynamics.trajectory.diverged import valid_frames


def measure_layers(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    layers: Sequence[str],
    meanings: Mapping[str, str],
    measure: Callable[[int], np.ndarray],
) -> xr.Dataset:
    """The values that `measure` returns for a place in `frames`, (measure, run, layer),
    as a variable (run, step, layer) for each name in `meanings`; further ones as
    `further` (further, run, step, layer).

    NaN where a run has diverged. SIGINT after the first frame ends the computation;
    `frames_left` is the number of frames that are left."""
    places = progress_bar(range(len(frames)), unit="frame")
    results = results_until_interrupted(measure, places)
    left = len(frames) - len(results)
    results += [np.full_like(results[0], np.nan)] * left
    valid = valid_frames(trajectory, frames).values[..., None]
    stacked = np.where(valid, np.stack(results, axis=2), np.nan)
    dims = ("run", "step", "layer")
    data: dict[str, tuple] = {
        name: (dims, values, dimensionless(meaning))
        for values, (name, meaning) in zip(stacked, meanings.items(), strict=False)
    }
    data["further"] = (("further", *dims), stacked[len(meanings) :])
    coords = {
        "step": trajectory["step"].values[list(frames)],
        "seed": ("run", trajectory["seed"].values),
        "layer": list(layers),
    }
    attributes = {"system": trajectory.attrs["system"], "frames_left": left}
    return xr.Dataset(data, coords, attributes)
