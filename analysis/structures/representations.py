"""Recorded activations along training: their dimension, and how similar they are between
frames and between runs."""

import functools
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr

from analysis.structures.layer_measures import measure_layers
from analysis.structures.procrustes import procrustes_distance
from analysis.structures.similarity import linear_cka, participation_ratio
from dynamics.errors import TrajectoryError
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import ACTIVATION

_MEANINGS = {
    "participation_ratio": "effective number of directions of the activations",
    "cka_to_last": "linear CKA with the run's last frame",
    "cka_step": "linear CKA with the frame before",
    "procrustes_to_last": "Procrustes distance from the run's last frame",
    "cka_between_runs": "mean linear CKA with the other runs that have not diverged at the same step",
}


def representation_measures(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    log: Callable[[str], Any] | None = None,
) -> xr.Dataset:
    """Dimension and similarity of all recorded activations at some frames.

    Parameters
    ----------
    trajectory : xr.Dataset
        Recorded by ``dynamics.record(..., activations=..., probe=...)``, of several runs
        with the same probe.
    frames : sequence of int
        Indices along `step`.
    log : callable, optional
        Called with a line of text about the cost.

    Returns
    -------
    xr.Dataset
        `participation_ratio`, `cka_to_last`, `cka_step`, `procrustes_to_last` and
        `cka_between_runs` (run, step, layer), dimensionless; the first axis of an
        activation is that of examples. NaN where a run has diverged, and where there is
        no frame before or no other run. SIGINT after the first frame leaves NaN in the
        others, whose number is the attribute `frames_left`.

    Raises
    ------
    TrajectoryError
        If no activations are recorded.

    Examples
    --------
    >>> import torch
    >>> from dynamics import open_trajectory, record
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> probe = torch.eye(4)
    >>> with record(model, optimizer, "probed.nc", activations={"out": "0"}, probe=probe) as recording:
    ...     model(probe).square().mean().backward()
    ...     optimizer.step()
    ...     recording.step()
    >>> measures = representation_measures(open_trajectory("probed.nc"), [0, 1])
    >>> measures["cka_to_last"].sel(layer="out").values[0, 1].round(6).item()
    1.0
    """
    names = [
        str(name) for name in trajectory.data_vars if str(name).startswith(ACTIVATION)
    ]
    if not names:
        how = "dynamics.record(..., activations=..., probe=...) records them"
        raise TrajectoryError(f"variables {ACTIVATION}NAME: missing; {how}")
    runs = trajectory.sizes["run"]
    if log is not None:
        log(f"cost        {len(frames)} frames of {len(names)} layers, each with")
        log(
            f"            {3 * runs + runs * (runs - 1) // 2} comparisons of activations"
        )

    valid = valid_frames(trajectory, frames).values

    @functools.lru_cache(maxsize=2)
    def activations(index: int) -> list[np.ndarray]:
        layers = []
        for name in names:
            x = trajectory[name].isel(step=index).transpose("run", ...).values
            x = x.reshape(*x.shape[:2], -1)
            finite = np.isfinite(x).all(axis=(1, 2), keepdims=True)
            layers.append(np.where(finite, x, np.nan))
        return layers

    last = activations(-1)

    def measure(place: int) -> np.ndarray:
        layers = []
        others = np.flatnonzero(valid[:, place])
        for layer, x in enumerate(activations(frames[place])):
            before, between = np.full((2, runs), np.nan)
            if place:
                before = linear_cka(x, activations(frames[place - 1])[layer])
            # CKA is not defined for a run whose activations are all equal.
            sums, counts = np.zeros((2, runs))
            for one, other in combinations(others, 2):
                similarity = linear_cka(x[one], x[other])
                if np.isfinite(similarity):
                    sums[[one, other]] += similarity
                    counts[[one, other]] += 1
            np.divide(sums, counts, out=between, where=counts > 0)
            layers.append(
                np.stack(
                    [
                        participation_ratio(x),
                        linear_cka(x, last[layer]),
                        before,
                        _procrustes_distances(x, last[layer]),
                        between,
                    ]
                )
            )
        return np.stack(layers, axis=-1)

    layers = [name.removeprefix(ACTIVATION) for name in names]
    result = measure_layers(trajectory, frames, layers, _MEANINGS, measure)
    return result.drop_dims("further")


def _procrustes_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The Procrustes distance of each run, (run,), between two arrays of activations (run,
    example, feature); NaN for a run with activations that are not finite."""
    finite = np.isfinite(x).all(axis=(1, 2)) & np.isfinite(y).all(axis=(1, 2))
    result = np.full(len(x), np.nan)
    if finite.any():
        result[finite] = procrustes_distance(x[finite], y[finite])
    return result
