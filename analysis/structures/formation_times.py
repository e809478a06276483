"""Formation of structure: whether and when circles, grids and frequencies form in each
run.

The measures of each frame are those of `analysis.structures`. The chance levels of a run
are those of its own last embedding with randomly renamed tokens: renaming keeps the
shape of the cloud of points, however many axes it has and however unequal they are, and
removes every relation between the points and the numbers. A measure is beyond its chance
level if it is more extreme than in all of 99 renamings; without structure this happens
in one run of a hundred. A structure has formed if the following holds in the last frame:

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
the first frame of the trajectory, 1 at its last. A single frame has no times. All
values are dimensionless."""

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
from analysis.structures.embedding_arrays import (
    embedding_variable,
)
from analysis.structures.fourier import embedding_spectrum, power_fractions
from analysis.structures.lattices import MAX_GRID_TOKENS, perfect_grids
from analysis.structures.nearest_structures import (
    nearest_circle,
    nearest_grid,
    nearest_perfect_grid,
)
from dynamics.errors import TrajectoryError
from dynamics.randomness import random_stream
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import adds_numbers, numbers_modulo
from dynamics.trajectory.selection import Selection

FEWEST_TOKENS = 5
"""Smallest number of tokens; random embeddings of fewer have structure by chance."""

RENAMINGS = 99
"""Random renamings of the tokens of an embedding: a measure without structure is more
extreme than in all of them with probability 1/100."""

LABELLED_MEASURES = (
    "imperfections",
    "circle_distance",
    "grid_distance",
    "perfect_distance",
    "dominant_fraction",
)
"""Measures that depend on which number a token represents; only these have chance
levels."""

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
    present = np.asarray(present, bool)
    moments = np.asarray(moments, np.float64)
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
    values = np.asarray(values, np.float64)
    moments = np.asarray(moments, np.float64)
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
        With at least five numbers modulo N.
    every : int or Selection
        Use every `every`-th recorded frame and the last, or the selected frames.

    Returns
    -------
    xarray.Dataset
        By run and step: `circle`, `circularity`, `imperfections`, `circle_distance`, up
        to 23 tokens also `grid_distance`, `perfect_distance` and `grid_lines`, and the
        variables of `embedding_spectrum`; NaN in the frames after a run diverged. By
        run and measure, of the last embedding of the run with renamed tokens: `chance`,
        the most extreme value, and `expected`, the mean; NaN for `circle` and
        `circularity`, which do not depend on names. Coordinate `moment` (step) is the
        normalised time, NaN for a single frame.

    Raises
    ------
    TrajectoryError
        If the trajectory has no embedding of enough numbers modulo N.

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
    if not adds_numbers(trajectory):
        result = result.drop_vars("imperfections")
    names = [name for name in STRUCTURE_MEASURES if name in result]
    last = np.array([np.flatnonzero(frames)[-1] for frames in valid.values])
    ends = embedding.values[np.arange(len(last)), last]
    chance, expected = _chance_levels(ends, names)
    time = trajectory["time"].values[steps]
    coords = {
        "step": embedding["step"],
        "seed": ("run", trajectory["seed"].values),
        "moment": (
            "step",
            (time - time[0]) / ((time[-1] - time[0]) or np.nan),
            dimensionless("normalised time"),
        ),
        "measure": names,
    }
    return result.assign_coords(coords).assign(
        chance=(
            ("run", "measure"),
            chance,
            dimensionless("most extreme value with renamed tokens"),
        ),
        expected=(
            ("run", "measure"),
            expected,
            dimensionless("mean with renamed tokens"),
        ),
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
        formation, or, if it has not formed, the time until which the run was observed;
        NaN for a single frame. The events are described in the module's documentation.

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
    """The embedding of the numbers modulo N. Raises TrajectoryError for too few
    numbers."""
    embedding = embedding_variable(trajectory, "nearest_circle")
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
        chance = chance_levels(measures, "dominant_fraction")
        above = measures["dominant_fraction"].values > chance[:, None]
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
    chance = chance_levels(measures, FORMATION_EVENTS[event])
    return halfway_time(values, moments), values[:, -1] < chance


def has_times(measures: xr.Dataset) -> bool:
    """Whether more than one frame was measured."""
    return measures.sizes["step"] > 1


def chance_levels(measures: xr.Dataset, name: str) -> np.ndarray:
    """The chance level of a measure in each run, (run,)."""
    return measures["chance"].sel(measure=name).values


def _measure_frames(x: np.ndarray) -> dict[str, np.ndarray]:
    """Measures of an embedding (..., token, axis) except those of its spectrum, each
    (...)."""
    return {
        "circle": is_circle(x).astype(np.float64),
        "circularity": np.minimum(circularity(x), np.finfo(np.float64).max),
        "imperfections": count_imperfections(x),
        **_label_distances(x),
    }


def _label_distances(x: np.ndarray) -> dict[str, np.ndarray]:
    """Distances of an embedding (..., token, axis) from labelled circles and grids, and
    the lines of the nearest perfect grid, each (...)."""
    n = x.shape[-2]
    circle_distance = nearest_circle(x).distance
    if n > MAX_GRID_TOKENS:
        return {"circle_distance": circle_distance}
    perfect = nearest_perfect_grid(x)
    return {
        "circle_distance": circle_distance,
        "grid_distance": nearest_grid(x).distance,
        "perfect_distance": perfect.distance,
        "grid_lines": perfect_grids(n).lines[perfect.which],
    }


def _chance_levels(
    ends: np.ndarray, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The most extreme value and the mean of each measure over renamings of the tokens
    of embeddings (run, token, axis), (run, measure) each."""
    n = ends.shape[1]
    generator = random_stream(0, "formation/renamings")
    renamings = np.stack([generator.permutation(n) for _ in range(RENAMINGS)])
    extreme = np.full((len(ends), len(names)), np.nan)
    mean = np.full((len(ends), len(names)), np.nan)
    runs = tqdm(ends, desc="chance levels", unit="run", disable=None, leave=False)
    for run, embedding in enumerate(runs):
        renamed = embedding[renamings]
        values = _label_distances(renamed)
        values["imperfections"] = count_imperfections(renamed)
        values["dominant_fraction"] = power_fractions(renamed).max(axis=-1)
        for at, name in enumerate(names):
            if name in values:
                largest = name == "dominant_fraction"
                extreme[run, at] = (np.max if largest else np.min)(values[name])
                mean[run, at] = np.mean(values[name])
    return extreme, mean
