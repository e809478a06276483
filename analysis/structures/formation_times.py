"""Formation of structure: whether and when circles, grids and frequencies form in each
run.

The measures of each frame are those of `analysis.structures`. A measure is beyond its
chance level in one of a hundred random embeddings, which are standard normal like the
initial embeddings of both systems. A structure has formed if the following holds in the
last frame:

    circle         the embedding is a circle by CA algorithm 1; it forms at the first frame from which it stays one
    polygon        its distance from the nearest perfect circle is below the chance level
    grid           its distance from the nearest grid, which may have holes, is below the chance level
    perfect grid   its distance from the nearest perfect grid is below the chance level
    imperfections  the number of imperfections is below the chance level
    structure      the embedding is a circle, with the formation time of a polygon, or else a grid
    frequency      the fraction of the dominant frequency is above the chance level; it forms at the first frame from
                   which that frequency stays dominant and above the chance level

The others form when the measure is last half-way between its values in the first and
the last frame, interpolated linearly between frames. A run in which a structure has not
formed, or that has diverged, is censored at its last frame. Time is normalised: 0 at
the first frame of the trajectory, 1 at its last. All values are dimensionless."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.output.results import dimensionless
from analysis.structures.circles_and_grids import (
    circularity,
    count_imperfections,
    is_circle,
)
from analysis.structures.embedding_arrays import embedding_variable
from analysis.structures.fourier import embedding_spectrum, power_fractions
from analysis.structures.lattices import MAX_GRID_TOKENS, perfect_grids
from analysis.structures.nearest_structures import (
    nearest_circle,
    nearest_grid,
    nearest_perfect_grid,
)
from dynamics.errors import TrajectoryError
from dynamics.randomness import normal_samples
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import numbers_modulo
from dynamics.trajectory.selection import Selection

FEWEST_TOKENS = 5
"""Smallest number of tokens; random embeddings of fewer have structure by chance."""

RANDOM_EMBEDDINGS = 1000
MANY_TOKENS = 200
"""From this number of tokens on, a tenth of the random embeddings is measured: with 997
each takes half a second."""
RARE = 0.01

_RUNS_PER_BLOCK = 10

STRUCTURE_MEASURES: Mapping[str, str] = {
    "circle": "whether it is a circle",
    "circularity": "largest norm over smallest norm",
    "imperfections": "grid imperfections",
    "circle_distance": "distance from the nearest perfect circle",
    "grid_distance": "distance from the nearest grid",
    "perfect_distance": "distance from the nearest perfect grid",
    "dominant_fraction": "fraction of the dominant frequency",
}

FORMATION_EVENTS: Mapping[str, str] = {
    "structure": "",
    "circle": "circle",
    "polygon": "circle_distance",
    "grid": "grid_distance",
    "perfect grid": "perfect_distance",
    "imperfections": "imperfections",
    "frequency": "dominant_fraction",
}
"""The measure that determines each event; none for "structure"."""


# ------------------------------------------------------------------------------- arrays


def persistent_onset(present: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """The moment of the first frame from which `present` stays true: (..., step),
    (step,) -> (...).

    inf if it is false in the last frame.
    """
    present, moments = np.asarray(present, bool), np.asarray(moments, np.float64)
    missing = ~present
    first = np.where(
        missing.any(axis=-1), present.shape[-1] - missing[..., ::-1].argmax(axis=-1), 0
    )
    return np.append(moments, np.inf)[first]


def halfway_time(values: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """When a quantity last falls to half-way between its first and last value: (...,
    step), (step,) -> (...).

    Interpolated linearly between frames; the first moment if the last value is not
    below the first. Raises ValueError for values that are not finite."""
    values, moments = np.asarray(values, np.float64), np.asarray(moments, np.float64)
    if not np.isfinite(values).all() or values.shape[-1] != len(moments):
        raise ValueError(
            f"values: found shape {values.shape}, expected (..., {len(moments)}) of"
            " finite numbers"
        )
    half = (values[..., :1] + values[..., -1:]) / 2
    above = (values > half) & (values[..., -1:] < values[..., :1])
    last = above.shape[-1] - 1 - above[..., ::-1].argmax(axis=-1)
    last = np.where(above.any(axis=-1), last, 0)[..., None]
    after = np.minimum(last + 1, len(moments) - 1)
    high, low = (np.take_along_axis(values, at, axis=-1) for at in (last, after))
    part = np.divide(
        high - half,
        high - low,
        out=np.zeros_like(half),
        where=above.any(axis=-1, keepdims=True),
    )
    return (moments[last] + part * (moments[after] - moments[last]))[..., 0]


# ----------------------------------------------------------------------------- labelled


def structure_measures(
    trajectory: xr.Dataset, every: int | Selection = 1
) -> xr.Dataset:
    """Measures of the structure of the embedding in the frames of a trajectory.

    Parameters
    ----------
    trajectory : xarray.Dataset
        With at least two frames and five numbers modulo N.
    every : int or Selection
        Use every `every`-th recorded frame and the last, or the selected frames.

    Returns
    -------
    xarray.Dataset
        By run and step: `circle`, `circularity`, `imperfections`, `circle_distance`, up
        to 23 tokens also `grid_distance`, `perfect_distance` and `grid_lines`, and the
        variables of `embedding_spectrum`; NaN in the frames after a run diverged. By
        measure: `chance`, the level that one random embedding in a hundred is beyond,
        and `expected`, the mean of random embeddings. Coordinate `moment` (step) is the
        normalised time.

    Raises
    ------
    TrajectoryError
        If the trajectory has too few frames, or no embedding of enough numbers modulo
        N.

    Examples
    --------
    >>> from analysis import find_formation_times, structure_measures
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=29), runs=2, steps=4, progress=False)
    >>> find_formation_times(structure_measures(trajectory))["formed"].sel(event="circle").values
    array([0, 0], dtype=int8)
    """
    embedding = modular_embedding(trajectory)
    selection = every if isinstance(every, Selection) else Selection(every=every)
    steps = selection.frame_indices(trajectory)
    embedding = embedding.isel(step=steps).transpose("run", "step", "token", "axis")
    valid = valid_frames(trajectory.isel(step=steps))
    starts = range(0, embedding.sizes["run"], _RUNS_PER_BLOCK)
    blocks = [
        _measure_frames(
            embedding.isel(run=slice(start, start + _RUNS_PER_BLOCK)).values
        )
        for start in tqdm(
            starts, desc="measures", unit="ten runs", disable=None, leave=False
        )
    ]
    result = embedding_spectrum(
        xr.Dataset({"embedding": embedding, "last_step": trajectory["last_step"]})
    )
    for name in blocks[0]:
        values = np.concatenate([block[name] for block in blocks])
        about = STRUCTURE_MEASURES.get(name, "lines of the nearest perfect grid")
        result[name] = (
            ("run", "step"),
            np.where(valid, values, np.nan),
            dimensionless(about),
        )
    names = [name for name in STRUCTURE_MEASURES if name in result]
    chance, expected = _random_levels(
        embedding.sizes["token"], embedding.sizes["axis"], names
    )
    time = trajectory["time"].values[steps]
    coords = {
        "step": embedding["step"],
        "seed": ("run", trajectory["seed"].values),
        "moment": (
            "step",
            (time - time[0]) / (time[-1] - time[0]),
            dimensionless("normalised time"),
        ),
        "measure": names,
    }
    return result.assign_coords(coords).assign(
        chance=(
            "measure",
            chance,
            dimensionless("level that one random embedding in a hundred is beyond"),
        ),
        expected=("measure", expected, dimensionless("mean of random embeddings")),
    )


def find_formation_times(measures: xr.Dataset) -> xr.Dataset:
    """When structures have formed in each run.

    Parameters
    ----------
    measures : xarray.Dataset
        From `structure_measures`.

    Returns
    -------
    xarray.Dataset
        By event and run: `formed`, 1 or 0, and `onset`, the normalised time of
        formation, or, if it has not formed, the time until which the run was observed.
        The events are described in the module's documentation.

    Examples
    --------
    >>> from analysis import find_formation_times, structure_measures
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=25), runs=2, steps=9, progress=False)
    >>> find_formation_times(structure_measures(trajectory))["event"].values
    array(['structure', 'circle', 'polygon', 'imperfections', 'frequency'], dtype='<U13')
    """
    valid = np.isfinite(measures["circularity"].values)
    moments = measures["moment"].values
    observed = moments[valid.shape[1] - 1 - valid[:, ::-1].argmax(axis=1)]
    whole = valid[:, -1]
    events = [
        name
        for name, measure in FORMATION_EVENTS.items()
        if not measure or measure in measures
    ]
    times = np.tile(observed, (len(events), 1))
    formed = np.zeros((len(events), len(observed)), bool)
    if whole.any():
        for at, event in enumerate(events):
            when, has = _formation(measures.isel(run=whole), event)
            formed[at, whole] = has
            times[at, whole] = np.where(has, when, observed[whole])
    dims = ("event", "run")
    about = dimensionless(
        "normalised time of formation, or until which the run was observed"
    )
    data = {
        "onset": (dims, times, about),
        "formed": (
            dims,
            formed.astype(np.int8),
            dimensionless("whether it has formed"),
        ),
    }
    return xr.Dataset(data, {"event": events, "seed": ("run", measures["seed"].values)})


def modular_embedding(trajectory: xr.Dataset) -> xr.DataArray:
    """The embedding of the numbers modulo N. Raises TrajectoryError for too few numbers
    or frames."""
    embedding = embedding_variable(trajectory, "nearest_circle")
    if trajectory.sizes["step"] < 2:
        raise TrajectoryError(
            "dimension step: found a single frame, expected at least two"
        )
    n = numbers_modulo(trajectory)
    if n < FEWEST_TOKENS:
        allowed = f"at least {FEWEST_TOKENS}, as fewer have structure by chance"
        raise TrajectoryError(f"attribute modulus: found {n}, expected {allowed}")
    if trajectory.sizes["token"] < n:
        raise TrajectoryError(
            f"dimension token: found {trajectory.sizes['token']}, expected the numbers"
            f" modulo {n}"
        )
    embedding = embedding.isel(
        token=slice(n)
    )  # a table may have more rows than there are numbers
    if not math.isfinite(float(np.abs(embedding).max())):
        raise TrajectoryError("variable embedding: found a value that is not finite")
    return embedding


def _formation(measures: xr.Dataset, event: str) -> tuple[np.ndarray, np.ndarray]:
    """Time of an event in each run, (run,), and whether it has happened, (run,)."""
    moments = measures["moment"].values
    circle = measures["circle"].values == 1
    if event == "circle":
        return persistent_onset(circle, moments), circle[:, -1]
    if event == "frequency":
        frequency = measures["dominant_frequency"].values
        above = measures["dominant_fraction"].values > chance_level(
            measures, "dominant_fraction"
        )
        return (
            persistent_onset((frequency == frequency[:, -1:]) & above, moments),
            above[:, -1],
        )
    if event == "structure":
        polygon, _ = _formation(measures, "polygon")
        if "grid_distance" not in measures:
            return polygon, circle[:, -1]
        grid, is_grid = _formation(measures, "grid")
        return np.where(circle[:, -1], polygon, grid), circle[:, -1] | is_grid
    values = measures[FORMATION_EVENTS[event]].values
    return halfway_time(values, moments), values[:, -1] < chance_level(
        measures, FORMATION_EVENTS[event]
    )


def chance_level(measures: xr.Dataset, name: str) -> float:
    return float(measures["chance"].sel(measure=name))


def _measure_frames(x: np.ndarray) -> dict[str, np.ndarray]:
    """Measures of an embedding (..., token, axis) except those of its spectrum, each
    (...)."""
    n = x.shape[-2]
    measures = {
        "circle": is_circle(x).astype(np.float64),
        "circularity": np.minimum(circularity(x), np.finfo(np.float64).max),
        "imperfections": count_imperfections(x),
        "circle_distance": nearest_circle(x).distance,
    }
    if n <= MAX_GRID_TOKENS:
        perfect = nearest_perfect_grid(x)
        measures |= {
            "grid_distance": nearest_grid(x).distance,
            "perfect_distance": perfect.distance,
        }
        measures["grid_lines"] = perfect_grids(n).lines[perfect.which]
    return measures


def _random_levels(
    n: int, dim: int, names: Sequence[str]
) -> tuple[list[float], list[float]]:
    """The chance level and the mean of each measure over random embeddings."""
    number = RANDOM_EMBEDDINGS if n < MANY_TOKENS else RANDOM_EMBEDDINGS // 10
    x = normal_samples(np.arange(number), "formation/chance", (n, dim))
    values = _measure_frames(x) | {"dominant_fraction": power_fractions(x).max(axis=-1)}
    levels = {
        name: 1 - RARE if name in ("dominant_fraction", "circle") else RARE
        for name in names
    }
    return [float(np.quantile(values[k], levels[k])) for k in names], [
        float(np.mean(values[k])) for k in names
    ]
