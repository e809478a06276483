"""The structures in which the runs of a sweep end, beside their settings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xarray as xr

from analysis.structures.circles_and_grids import (
    FEWEST_TOKENS,
    count_imperfections,
    is_circle,
)
from dynamics.branching import final_embedding
from dynamics.ensemble import RUNS_FOLDER
from dynamics.errors import TrajectoryError
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.reader import open_trajectory, truncate_trajectory

SWEEP_STRUCTURES = {
    "circles": (
        "circles",
        "1 for a run that ends as a circle (CA algorithm 1), else 0; NaN for a run that"
        " has diverged, and without an embedding of at least five numbers modulo N",
    ),
    "imperfections": (
        "grid imperfections",
        "grid imperfections at the end (CA algorithm 2) of a run that is no circle, NaN"
        " for others",
    ),
}
"""The variables that `add_structures` adds: the label of an axis, and the meaning, of
each."""


def add_structures(result: xr.Dataset, folder: str | Path = RUNS_FOLDER) -> xr.Dataset:
    """The combined result of a sweep with the structures in which its runs end.

    Embeddings that are not recorded, as in sweeps with ``record="metrics"``, are taken
    from the exact states in the files.

    Parameters
    ----------
    result : xarray.Dataset
        From `dynamics.sweep`.
    folder : path-like
        Folder of the files that the variable `file` names.

    Returns
    -------
    xarray.Dataset
        With the variables `circles`, 1 or 0, and `imperfections`, of the runs that are
        no circles, along the swept settings and `run`, as floats whose missing values
        are NaN. A mean over `run` is the fraction of circles, or the mean number of
        imperfections of the others. Unchanged if no point has an embedding of at least
        five numbers modulo N.

    Raises
    ------
    TrajectoryError
        If a file is missing or damaged.

    Examples
    --------
    >>> from analysis.structures import add_structures
    >>> from dynamics import ParticleSettings, sweep
    >>> axes = {"fa": [0.5, 2.0], "dim": [2, 3]}
    >>> result = sweep(ParticleSettings(n=7), axes, runs=4, steps=50, progress=False)
    >>> add_structures(result)["circles"].mean("run").dims
    ('fa', 'dim')
    """
    axes = json.loads(result.attrs["swept"])
    folder = Path(folder)
    shape = tuple(result.sizes[name] for name in (*axes, "run"))
    structures = {name: np.full(shape, np.nan) for name in SWEEP_STRUCTURES}
    for index in np.ndindex(shape[:-1]):
        point = result.isel(dict(zip(axes, index, strict=True)))
        first = 0
        for file in _point_files(folder, point):
            runs, ends = _final_embedding(file, int(point["steps"]))
            here = first + np.flatnonzero(runs)
            first += len(runs)
            circle = is_circle(ends)
            structures["circles"][index][here] = circle
            others = count_imperfections(ends[~circle])
            structures["imperfections"][index][here[~circle]] = others
    if np.isnan(structures["circles"]).all():
        return result
    variables = {
        name: (
            (*axes, "run"),
            structures[name].astype(np.float32),
            {"long_name": long_name, "units": "1", "comment": comment},
        )
        for name, (long_name, comment) in SWEEP_STRUCTURES.items()
    }
    return result.assign(variables)


def _final_embedding(file: Path, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Which runs of a file are measured (run,), and the numbers (measured run, token,
    axis) at their end: those that have not diverged, or none if the tokens are no numbers
    modulo N, or too few."""
    with open_trajectory(file) as trajectory:
        n = trajectory.attrs["modulus"]
        none = np.zeros(trajectory.sizes["run"], bool), np.empty((0, FEWEST_TOKENS, 1))
        if n < FEWEST_TOKENS:
            return none
        if int(trajectory["step"][-1]) > steps:
            trajectory = truncate_trajectory(trajectory, steps)
        try:
            ends = final_embedding(trajectory)
        except TrajectoryError:  # a recorded model may have none
            return none
        if ends.sizes["token"] < n:
            return none
        return not_diverged(trajectory), ends.values[:, :n]


def _point_files(folder: Path, point: xr.Dataset) -> list[Path]:
    """The file of a point, or that of each of its runs, whose seed takes the place of
    the asterisk in the name; other files of that name belong to other sweeps."""
    name = str(point["file"].values)
    if "*" not in name:
        return [folder / name]
    return [folder / name.replace("*", str(seed)) for seed in point["seed"].values]
