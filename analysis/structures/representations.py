"""Recorded activations along training: their dimension, and how similar they are between
frames and between runs."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
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
    "cka_between_runs": "mean linear CKA with the other runs at the same step",
}


def representation_measures(
    trajectory: xr.Dataset, frames: Sequence[int]
) -> xr.Dataset:
    """Dimension and similarity of all recorded activations at some frames.

    Parameters
    ----------
    trajectory : xr.Dataset
        Recorded by ``dynamics.record(..., activations=..., probe=...)``, of several runs
        with the same probe.
    frames : sequence of int
        Indices along `step`.

    Returns
    -------
    xr.Dataset
        `participation_ratio`, `cka_to_last`, `cka_step`, `procrustes_to_last` and
        `cka_between_runs` (run, step, layer), dimensionless; the first axis of an
        activation is that of examples. NaN where a run has diverged, and where there is
        no frame before or no other run.

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
    frames = list(frames)
    valid = valid_frames(trajectory).values[:, frames]
    runs = len(valid)
    layers = []
    for name in names:
        values = trajectory[name].transpose("run", "step", ...).isel(step=frames).values
        x = values.reshape(*values.shape[:3], -1)
        before, between = np.full((2, *valid.shape), np.nan)
        before[:, 1:] = linear_cka(x[:, 1:], x[:, :-1])
        if runs > 1:
            total = np.zeros(valid.shape)
            for one, other in combinations(range(runs), 2):
                similarity = linear_cka(x[one], x[other])
                total[[one, other]] += similarity
            between = total / (runs - 1)
        last = x[:, -1:]
        measures = (
            participation_ratio(x),
            linear_cka(x, last),
            before,
            procrustes_distance(x, last),
            between,
        )
        layers.append(np.where(valid, measures, np.nan))
    stacked = np.stack(layers, axis=-1)
    data = {
        name: (("run", "step", "layer"), array, dimensionless(meaning))
        for array, (name, meaning) in zip(stacked, _MEANINGS.items(), strict=True)
    }
    coords = {
        "step": trajectory["step"].values[frames],
        "seed": ("run", trajectory["seed"].values),
        "layer": [name.removeprefix(ACTIVATION) for name in names],
    }
    return xr.Dataset(data, coords, {"system": trajectory.attrs["system"]})
