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

The others form when the measure last falls to half-way between its values in the first
and the last frame, interpolated linearly between frames. A run in which a structure has not
formed, or that has diverged, is censored at its last frame; that of a run that has
stopped at a condition is where it stopped. Time is normalised: 0 at
the first frame of the trajectory, 1 at its last. A single frame has no times. All
values are dimensionless."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.structures.circles_and_grids import (
    FEWEST_TOKENS,
    count_imperfections,
    is_circle,
    norm_ratio,
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
from dynamics.progress import progress_bar
from dynamics.randomness import random_stream
from dynamics.trajectory.diverged import (
    not_diverged,
    stopped_runs,
    valid_frames,
)
from dynamics.trajectory.schema import adds_numbers, numbers_modulo
from dynamics.trajectory.selection import Selection

RENAMINGS = 99
"""Random renamings of the tokens of an embedding: a measure without structure is more
extreme than in all of them with probability 1/100."""

MOST_EXTREME: Mapping[str, Callable[[np.ndarray], np.floating]] = {
    "imperfections": np.min,
    "circle_distance": np.min,
    "grid_distance": np.min,
    "perfect_distance": np.min,
    "dominant_fraction": np.max,
}
"""The most extreme of the values with renamed tokens, of the measures that depend on
which number a token represents; only these have chance levels."""

_RUNS_PER_BLOCK = 10

STRUCTURE_MEASURES: Mapping[str, str] = {
    "circle": "whether it is a circle",
    "norm_ratio": "largest norm over smallest norm",
    "imperfections": "grid imperfections",
    "circle_distance": "distance from the nearest perfect circle",
    "grid_distance": "distance from the nearest grid",
    "perfect_distance": "distance from the nearest perfect grid",
    "dominant_fraction": "fraction of the dominant frequency",
}

# ------------------------------------------------------------------------------- arrays


def persistent_onset(present: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The time of the first frame from which `present` stays true: (..., step),
    (step,) -> (...).

    inf if it is false in the last frame.
    """
    present = np.asarray(present, bool)
    times = np.asarray(times, np.float64)
    missing = ~present
    first = np.where(
        missing.any(axis=-1), present.shape[-1] - missing[..., ::-1].argmax(axis=-1), 0
    )
    return np.append(times, np.inf)[first]


def halfway_time(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """When a quantity last falls to half-way between its first and last value: (...,
    step), (step,) -> (...).

    Interpolated linearly between frames; the first time if the last value is not
    below the first. Raises ValueError for values that are not finite."""
    values = np.asarray(values, np.float64)
    times = np.asarray(times, np.float64)
    if not np.isfinite(values).all() or values.shape[-1] != len(times):
        raise ValueError(
            f"values: found shape {values.shape}, expected (..., {len(times)}) of"
            " finite numbers"
        )
    half = (values[..., :1] + values[..., -1:]) / 2
    above = (values > half) & (values[..., -1:] < values[..., :1])
    last = above.shape[-1] - 1 - above[..., ::-1].argmax(axis=-1)
    last = np.where(above.any(axis=-1), last, 0)[..., None]
    after = np.minimum(last + 1, len(times) - 1)
    high = np.take_along_axis(values, last, axis=-1)
    low = np.take_along_axis(values, after, axis=-1)
    part = np.divide(
        high - half,
        high - low,
        out=np.zeros_like(half),
        where=above.any(axis=-1, keepdims=True),
    )
    return (times[last] + part * (times[after] - times[last]))[..., 0]


# ----------------------------------------------------------------------------- labelled


def structure_measures(
    trajectory: xr.Dataset, selection: int | Selection = 1, every: int | None = None
) -> xr.Dataset:
    """Measures of the structure of the embedding in the frames of a trajectory.

    Parameters
    ----------
    trajectory : xarray.Dataset
        With at least five numbers modulo N.
    selection : Selection or int
        Frames to use; an integer k stands for every k-th recorded frame and the last.
    every : int, optional
        The same as an integer `selection`.

    Returns
    -------
    xarray.Dataset
        By run and step: `circle`, `norm_ratio`, `imperfections` if the task is
        addition, `circle_distance`, up to 23 tokens also `grid_distance`,
        `perfect_distance` and `grid_lines`, and the variables of `embedding_spectrum`;
        NaN in the frames after a run diverged. By
        run and measure, of the last embedding of the run with renamed tokens: `chance`,
        the most extreme value, and `expected`, the mean; NaN for `circle` and
        `norm_ratio`, which do not depend on names. Coordinate `moment` (step) is the
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
    if every is not None:
        selection = every
    if not isinstance(selection, Selection):
        selection = Selection(every=selection)
    frames = selection.frame_indices(trajectory)
    embedding = embedding.isel(step=frames).transpose("run", "step", "token", "axis")
    valid = _frames_to_the_end(trajectory, frames)
    lasts = valid.shape[1] - 1 - valid[:, ::-1].argmax(axis=1)
    steps = trajectory["step"].values
    starts = range(0, embedding.sizes["run"], _RUNS_PER_BLOCK)
    blocks = [
        _measure_frames(
            embedding.isel(run=slice(start, start + _RUNS_PER_BLOCK)).values
        )
        for start in progress_bar(starts, desc="measures", unit="ten runs")
    ]
    result = embedding_spectrum(
        xr.Dataset({"embedding": embedding, "last_step": ("run", steps[frames[lasts]])})
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
    ends = embedding.values[np.arange(len(lasts)), lasts]
    chance, expected = _chance_levels(ends, names)
    time = trajectory["time"].values[frames]
    duration = time[-1] - time[0]
    normalised_time = (time - time[0]) / (duration or np.nan)
    last_frames = valid_frames(trajectory).values.sum(axis=1) - 1
    end_frames = np.minimum(frames[lasts], np.maximum(last_frames, 0))
    end_time = (trajectory["time"].values[end_frames] - time[0]) / (duration or np.nan)
    coords = {
        "step": embedding["step"],
        "seed": ("run", trajectory["seed"].values),
        "moment": ("step", normalised_time, dimensionless("normalised time")),
        "end": ("run", end_time, dimensionless("normalised time of the run's end")),
        "diverged": ("run", ~not_diverged(trajectory)),
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
    observed_time = measures["end"].values
    whole = ~measures["diverged"].values
    until_the_end = _with_ends_repeated(measures)
    events = [
        name
        for name, event in FORMATION_EVENTS.items()
        if not event.measure or event.measure in measures
    ]
    formation_time = np.tile(observed_time, (len(events), 1))
    formed = np.zeros((len(events), len(whole)), bool)
    if whole.any():
        for row, name in enumerate(events):
            event = FORMATION_EVENTS[name]
            formation = event.find(until_the_end.isel(run=whole), event.measure)
            formed[row, whole] = formation.formed
            formation_time[row, whole] = np.where(
                formation.formed,
                np.minimum(formation.time, observed_time[whole]),
                observed_time[whole],
            )
    dims = ("event", "run")
    about = dimensionless(
        "normalised time of formation, or until which the run was observed"
    )
    data = {
        "onset": (dims, formation_time, about),
        "formed": (
            dims,
            formed.astype(np.int8),
            dimensionless("whether it has formed"),
        ),
    }
    return xr.Dataset(data, {"event": events, "seed": ("run", measures["seed"].values)})


def _frames_to_the_end(trajectory: xr.Dataset, frames: np.ndarray) -> np.ndarray:
    """Which of some frames belong to each run, (run, frame) bool.

    A run that has stopped at a condition includes the first frame after its end, which
    repeats the frame where it stopped."""
    valid = valid_frames(trajectory, frames).values
    later = np.pad(valid, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
    stopped = stopped_runs(trajectory).values
    at_end = (
        trajectory["step"].values[frames] == trajectory["last_step"].values[:, None]
    )
    repeats = later & ~valid & ~at_end.any(axis=1)[:, None]
    result: np.ndarray = valid | (repeats & stopped[:, None])
    return result


def _with_ends_repeated(measures: xr.Dataset) -> xr.Dataset:
    """The measures of runs, with the last ones in all frames after a run has ended."""
    valid = np.isfinite(measures["norm_ratio"].values)
    last = valid.shape[1] - 1 - valid[:, ::-1].argmax(axis=1)
    frames = np.minimum(np.arange(valid.shape[1]), last[:, None])
    result = measures.copy()
    for name, values in measures.data_vars.items():
        if values.dims[:2] == ("run", "step"):
            index = frames.reshape(*frames.shape, *[1] * (values.ndim - 2))
            repeated = np.take_along_axis(values.values, index, axis=1)
            result[name] = values.copy(data=repeated)
    return result


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


class Formation(NamedTuple):
    """Formation of a structure in runs."""

    time: np.ndarray
    """(run,) normalised"""
    formed: np.ndarray
    """(run,) bool; without it the time means nothing"""


def _circle_formation(measures: xr.Dataset, measure: str) -> Formation:
    """From the first frame from which the embedding stays a circle."""
    circle = measures[measure].values == 1
    return Formation(persistent_onset(circle, measures["moment"].values), circle[:, -1])


def _frequency_formation(measures: xr.Dataset, measure: str) -> Formation:
    """From the first frame from which the last dominant frequency stays dominant and
    above its chance level."""
    frequency = measures["dominant_frequency"].values
    above = measures[measure].values > chance_levels(measures, measure)[:, None]
    present = (frequency == frequency[:, -1:]) & above
    return Formation(persistent_onset(present, measures["moment"].values), above[:, -1])


def _low_value_formation(measures: xr.Dataset, measure: str) -> Formation:
    """When a measure that ends below its chance level last falls to half-way."""
    values = measures[measure].values
    return Formation(
        halfway_time(values, measures["moment"].values),
        values[:, -1] < chance_levels(measures, measure),
    )


def _circle_or_grid_formation(measures: xr.Dataset, measure: str) -> Formation:
    """That of a polygon for runs that end as circles, or else that of a grid."""
    ends_as_circle = measures["circle"].values[:, -1] == 1
    polygon = _low_value_formation(measures, "circle_distance")
    if "grid_distance" not in measures:
        return Formation(polygon.time, ends_as_circle)
    grid = _low_value_formation(measures, "grid_distance")
    return Formation(
        np.where(ends_as_circle, polygon.time, grid.time),
        ends_as_circle | grid.formed,
    )


class FormationEvent(NamedTuple):
    """A structure that can form."""

    measure: str
    """The measure that determines it, or empty if there are several"""
    find: Callable[[xr.Dataset, str], Formation]
    """Formation in runs, from the measures and the name of this measure"""


FORMATION_EVENTS: Mapping[str, FormationEvent] = {
    "structure": FormationEvent("", _circle_or_grid_formation),
    "circle": FormationEvent("circle", _circle_formation),
    "polygon": FormationEvent("circle_distance", _low_value_formation),
    "grid": FormationEvent("grid_distance", _low_value_formation),
    "perfect grid": FormationEvent("perfect_distance", _low_value_formation),
    "imperfections": FormationEvent("imperfections", _low_value_formation),
    "frequency": FormationEvent("dominant_fraction", _frequency_formation),
}


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
        "norm_ratio": np.minimum(norm_ratio(x), np.finfo(np.float64).max),
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
    runs = progress_bar(ends, desc="chance levels", unit="run")
    for run, embedding in enumerate(runs):
        renamed = embedding[renamings]
        values = _label_distances(renamed)
        values["imperfections"] = count_imperfections(renamed)
        values["dominant_fraction"] = power_fractions(renamed).max(axis=-1)
        for column, name in enumerate(names):
            if name in MOST_EXTREME:
                extreme[run, column] = MOST_EXTREME[name](values[name])
                mean[run, column] = np.mean(values[name])
    return extreme, mean
