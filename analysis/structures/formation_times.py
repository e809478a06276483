"""When the structure of an embedding forms: for each run a moment, or that it has not formed.

Measures of each frame are those of `analysis.structures.circles_and_grids`, `analysis.structures.nearest_structures`
and `analysis.structures.fourier`. By chance, of one
random embedding in a hundred, standard normal as both systems begin, a measure is beyond its `chance`. What has formed
by the last frame, and since when:

    circle         the embedding is a circle by CA algorithm 1: since the first frame from which it always is
    polygon        its distance from the nearest perfect circle is below chance
    grid           its distance from the nearest grid, which may have holes, is below chance
    perfect grid   its distance from the nearest perfect grid is below chance
    imperfections  there are fewer imperfections than by chance
    structure      it is a circle, or else its distance from a grid is below chance: by the distance from that
    frequency      the largest share of a frequency is above chance: since that frequency always is the largest, and
                   its share always above chance

Those in between: since the measure last went half-way from what it was in the first frame to what it is in the last,
linear between frames. What is recorded tells moments by frames no better than to the frame. A run in which something
has not formed, or that has diverged, is censored at its last frame. Time is normalised, from 0 at the first frame of
the trajectory to 1 at its last. All values are dimensionless.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.statistics.intervals import Interval, binomial_interval, mean_interval
from analysis.structures.circles_and_grids import circularity, count_imperfections, is_circle
from analysis.structures.fourier import embedding_spectrum
from analysis.structures.lattices import MAX_GRID_TOKENS, perfect_grids
from analysis.structures.nearest_structures import nearest_circle, nearest_grid, nearest_perfect_grid
from dynamics.errors import TrajectoryError
from dynamics.randomness import normal_samples
from dynamics.trajectory.diverged import valid_frames

FEWEST_TOKENS = 5
"""Fewer have no structure that chance would not give."""

RANDOM_EMBEDDINGS = 1000
RARE = 0.01

RUNS_AT_ONCE = 10

STRUCTURE_MEASURES: Mapping[str, str] = {
    "circle": "whether it is a circle",
    "circularity": "largest norm over smallest norm",
    "imperfections": "grid imperfections",
    "circle_distance": "distance from the nearest perfect circle",
    "grid_distance": "distance from the nearest grid",
    "perfect_distance": "distance from the nearest perfect grid",
    "dominant_share": "share of the dominant frequency",
}

FORMATION_EVENTS: Mapping[str, str] = {
    "structure": "",
    "circle": "circle",
    "polygon": "circle_distance",
    "grid": "grid_distance",
    "perfect grid": "perfect_distance",
    "imperfections": "imperfections",
    "frequency": "dominant_share",
}
"""What forms, and the measure that tells it."""


# --------------------------------------------------------------------------------------------------- arrays


def persistent_onset(there: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """The moment (step,) of the first frame from which something is always `there` (..., step): (...).

    inf where it is not there in the last frame.
    """
    there, moments = np.asarray(there, bool), np.asarray(moments, np.float64)
    missing = ~there
    first = np.where(missing.any(axis=-1), there.shape[-1] - missing[..., ::-1].argmax(axis=-1), 0)
    return np.append(moments, np.inf)[first]


def halfway_time(values: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """When a quantity last goes half-way down from its first value to its last: (..., step), (step,) -> (...).

    Linear between frames. The first moment where it ends no lower than it began. Raises ValueError for values that
    are not finite.
    """
    values, moments = np.asarray(values, np.float64), np.asarray(moments, np.float64)
    if not np.isfinite(values).all() or values.shape[-1] != len(moments):
        raise ValueError(f"values: found shape {values.shape}, expected (..., {len(moments)}) of finite numbers")
    half = (values[..., :1] + values[..., -1:]) / 2
    above = (values > half) & (values[..., -1:] < values[..., :1])
    last = above.shape[-1] - 1 - above[..., ::-1].argmax(axis=-1)
    last = np.where(above.any(axis=-1), last, 0)[..., None]
    after = np.minimum(last + 1, len(moments) - 1)
    high, low = (np.take_along_axis(values, at, axis=-1) for at in (last, after))
    part = np.divide(high - half, high - low, out=np.zeros_like(half), where=above.any(axis=-1, keepdims=True))
    return (moments[last] + part * (moments[after] - moments[last]))[..., 0]


# ------------------------------------------------------------------------------------------------- labelled


def structure_measures(trajectory: xr.Dataset, every: int = 1) -> xr.Dataset:
    """`MEASURES` of every so-manieth recorded frame, by run and step, with what `spectrum` has, and `grid_lines`.

    NaN in frames after a run diverged. Without distances from a grid beyond 23 tokens. By measure also `chance` and
    `expected`, what a random embedding has in the mean; and `moment` (step), the normalised time. Raises
    TrajectoryError.
    """
    embedding = embedding_of_numbers(trajectory)
    steps = np.unique(np.append(np.arange(0, embedding.sizes["step"], every), embedding.sizes["step"] - 1))
    embedding = embedding.isel(step=steps).transpose("run", "step", "token", "axis")
    valid = valid_frames(trajectory.isel(step=steps))
    time = trajectory["time"].values[steps]
    parts = []
    chunks = range(0, embedding.sizes["run"], RUNS_AT_ONCE)
    for start in tqdm(chunks, desc="measures", unit="ten runs", disable=None, leave=False):
        parts.append(_of_frames(embedding.isel(run=slice(start, start + RUNS_AT_ONCE)).values))
    found = embedding_spectrum(xr.Dataset({"embedding": embedding, "last_step": trajectory["last_step"]}))
    for name in parts[0]:
        values = np.concatenate([part[name] for part in parts])
        attrs = {"long_name": STRUCTURE_MEASURES.get(name, "lines of the nearest perfect grid"), "units": "1"}
        found[name] = (("run", "step"), np.where(valid, values, np.nan), attrs)
    found["dominant_share"].attrs["long_name"] = STRUCTURE_MEASURES["dominant_share"]
    names = [name for name in STRUCTURE_MEASURES if name in found]
    chance, expected = _by_chance(embedding.sizes["token"], embedding.sizes["axis"], names)
    moment = (time - time[0]) / (time[-1] - time[0])
    number = {"units": "1"}
    return found.assign_coords(
        step=embedding["step"], seed=("run", trajectory["seed"].values),
        moment=("step", moment, {"long_name": "time from first to last frame", **number}),
    ).assign(
        chance=("measure", chance, {"long_name": "beyond which one random embedding in a hundred is", **number}),
        expected=("measure", expected, {"long_name": "mean of random embeddings", **number}),
        measure=names,
    )  # fmt: skip


def find_formation_times(found: xr.Dataset) -> xr.Dataset:
    """When each of `EVENTS` has happened in each run of what was `measured`.

    `onset` (event, run), for runs in which it has not the moment until which they were watched; `formed` (event, run).
    """
    alive = np.isfinite(found["circularity"].values)
    moments = found["moment"].values
    watched = moments[alive.shape[1] - 1 - alive[:, ::-1].argmax(axis=1)]
    whole = alive[:, -1]
    events = [name for name, measure in FORMATION_EVENTS.items() if not measure or measure in found]
    times, formed = np.tile(watched, (len(events), 1)), np.zeros((len(events), len(watched)), bool)
    if whole.any():
        for place, event in enumerate(events):
            when, has = _onset(found.isel(run=whole), event)
            formed[place, whole] = has
            times[place, whole] = np.where(has, when, watched[whole])
    dims = ("event", "run")
    return xr.Dataset(
        {
            "onset": (dims, times, {"long_name": "normalised time of formation, or until which watched", "units": "1"}),
            "formed": (dims, formed.astype(np.int8), {"long_name": "whether it has formed", "units": "1"}),
        },
        {"event": events, "seed": ("run", found["seed"].values)},
    )


def embedding_of_numbers(trajectory: xr.Dataset) -> xr.DataArray:
    """The embedding of the numbers modulo N. Raises TrajectoryError."""
    if "embedding" not in trajectory:
        raise TrajectoryError("variable embedding: missing; a run with record=metrics has no structure to look at")
    if trajectory.sizes["step"] < 2:
        raise TrajectoryError("dimension step: found a single frame, expected at least two")
    n = trajectory.attrs["modulus"]
    if n < FEWEST_TOKENS:
        raise TrajectoryError(f"attribute modulus: found {n}, structures are told from chance from {FEWEST_TOKENS} on")
    if trajectory.sizes["token"] < n:
        raise TrajectoryError(f"dimension token: found {trajectory.sizes['token']}, expected the numbers modulo {n}")
    embedding = trajectory["embedding"].isel(token=slice(n))  # a table may have more rows than there are numbers
    if not math.isfinite(float(np.abs(embedding).max())):
        raise TrajectoryError("variable embedding: found a value that is not finite")
    return embedding


def mean_measure(found: xr.Dataset, measure: str, at: int) -> Interval:
    """The mean over runs of a measure of what was `measured`, in a frame, with its interval, within what it can be.

    Of circles it is their share, with the exact one.
    """
    values = found[measure].transpose("step", "run").values[at]
    values = values[np.isfinite(values)]
    if measure == "circle":
        return binomial_interval(int(values.sum()), len(values))
    most = np.inf if measure in ("imperfections", "circularity") else 1.0
    return Interval(*(float(np.clip(value, 0.0, most)) for value in mean_interval(values)))


# ---------------------------------------------------------------------------------------------------- parts


class _FormationTime(NamedTuple):
    """When something forms in each run (run,), where it `has` (run,)."""

    when: np.ndarray
    has: np.ndarray


def _onset(found: xr.Dataset, event: str) -> _FormationTime:
    moments = found["moment"].values
    circle = found["circle"].values == 1
    if event == "circle":
        return _FormationTime(persistent_onset(circle, moments), circle[:, -1])
    if event == "frequency":
        frequency = found["dominant_frequency"].values
        above = found["dominant_share"].values > _chance(found, "dominant_share")
        return _FormationTime(persistent_onset((frequency == frequency[:, -1:]) & above, moments), above[:, -1])
    if event == "structure":
        polygon = _onset(found, "polygon")
        grid = (
            _onset(found, "grid")
            if "grid_distance" in found
            else _FormationTime(polygon.when, np.zeros_like(polygon.has))
        )
        return _FormationTime(np.where(circle[:, -1], polygon.when, grid.when), circle[:, -1] | grid.has)
    values = found[FORMATION_EVENTS[event]].values
    return _FormationTime(halfway_time(values, moments), values[:, -1] < _chance(found, FORMATION_EVENTS[event]))


def _chance(found: xr.Dataset, measure: str) -> float:
    return float(found["chance"].sel(measure=measure))


def _of_frames(x: np.ndarray) -> dict[str, np.ndarray]:
    """Measures that need no neighbours, each (run, step), of an embedding (run, step, token, axis)."""
    n = x.shape[-2]
    found = {
        "circle": is_circle(x).astype(np.float64),
        "circularity": np.minimum(circularity(x), np.finfo(np.float64).max),
        "imperfections": count_imperfections(x),
        "circle_distance": nearest_circle(x).distance,
    }
    if n <= MAX_GRID_TOKENS:
        grid = nearest_grid(x)
        perfect = nearest_perfect_grid(x)
        found |= {"grid_distance": grid.distance, "perfect_distance": perfect.distance}
        found["grid_lines"] = perfect_grids(n).lines[perfect.which]
    return found


def _by_chance(n: int, dim: int, names: list[str]) -> tuple[list[float], list[float]]:
    """What one random embedding in a hundred is beyond, and the mean, of each measure."""
    x = normal_samples(np.arange(RANDOM_EMBEDDINGS), "formation/chance", (n, dim))
    values = _of_frames(x)
    frames = xr.Dataset(
        {"embedding": (("run", "step", "token", "axis"), x[:, None]), "last_step": ("run", np.zeros(len(x)))},
        {"step": [0]},
    )
    values["dominant_share"] = embedding_spectrum(frames)["dominant_share"].values[:, 0]
    level = {name: 1 - RARE if name in ("dominant_share", "circle") else RARE for name in names}
    return [float(np.quantile(values[k], level[k])) for k in names], [float(np.mean(values[k])) for k in names]
