"""How a run ends: yes or no, by its last frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.clustering_heads.clusters import count_clusters
from analysis.statistics.run_success import evaluation_split
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics.settings import SUCCESS_ACCURACY, SettingsError
from dynamics.trajectory.success import exceeds
from dynamics.user_code import read_source, reported_errors, run_source

Outcome = Callable[[xr.Dataset], np.ndarray]
"""A function of a trajectory that returns for each run whether it ends so, (run,)
bool."""


def _embeddings(ends: xr.Dataset) -> np.ndarray:
    """The last embeddings, (run, token, axis)."""
    last = ends["embedding"].isel(step=-1)
    return last.transpose("run", "token", "axis").values


def _has_clusters(ends: xr.Dataset, level: float) -> np.ndarray:
    return np.array([count_clusters(points) for points in _embeddings(ends)]) == level


def _is_accurate(ends: xr.Dataset, level: float) -> np.ndarray:
    accuracy = ends["accuracy"].sel(split=evaluation_split(ends))
    return exceeds(accuracy.isel(step=-1).values, level)


def _has_escaped(ends: xr.Dataset, level: float) -> np.ndarray:
    return ends["loss"].isel(step=-1, split=0).values < level


class NamedOutcome(NamedTuple):
    """An outcome that is part of the package."""

    function: Callable[[xr.Dataset, float], np.ndarray]
    variable: str
    """The recorded variable that it depends on."""
    levels: str = ""
    """Description of the allowed levels for messages; empty if the outcome has no level."""
    allows: Callable[[float], bool] = math.isfinite
    """Whether a level is allowed."""
    level: float | None = None
    """Default level; None if one must be given."""


OUTCOMES = {
    "circle": NamedOutcome(lambda ends, _: is_circle(_embeddings(ends)), "embedding"),
    "grid": NamedOutcome(
        lambda ends, _: count_imperfections(_embeddings(ends)) == 0, "embedding"
    ),
    "clusters": NamedOutcome(
        _has_clusters,
        "embedding",
        "a whole number from 1 on",
        lambda level: level >= 1 and float(level).is_integer(),
    ),
    "accuracy": NamedOutcome(
        _is_accurate,
        "accuracy",
        "a number from 0 to less than 1",
        lambda level: 0 <= level < 1,
        SUCCESS_ACCURACY,
    ),
    "escape": NamedOutcome(_has_escaped, "loss", "a finite number"),
}
"""The outcomes by name: a circle (CA algorithm 1), a grid without imperfections (CA
algorithm 2), a number of clusters, an accuracy above a level, a loss below a level."""


def find_outcome(
    name: str | Outcome, level: float | None, trajectory: xr.Dataset
) -> Outcome:
    """The function of an outcome: one of `OUTCOMES`, FILE.py:FUNCTION, or the function
    itself. Raises SettingsError if the trajectory has no such outcome."""
    if callable(name) or ":" in name:
        _refuse_level("a function", level)
    if callable(name):
        return name
    path, _, function_name = name.rpartition(":")
    if path:
        return _load_outcome(Path(path), function_name)
    if name not in OUTCOMES:
        allowed = f"{', '.join(OUTCOMES)}, or FILE.py:FUNCTION"
        raise SettingsError("outcome", name, allowed)
    outcome = OUTCOMES[name]
    if outcome.variable not in trajectory:
        allowed = f"one that {trajectory.attrs['system']} has: no {outcome.variable}"
        raise SettingsError("outcome", name, allowed)
    if not outcome.levels:
        _refuse_level(name, level)
        return lambda ends: outcome.function(ends, np.nan)
    chosen = outcome.level if level is None else level
    if chosen is None or not outcome.allows(chosen):
        raise SettingsError("level", level, f"{outcome.levels} for the outcome {name}")
    return lambda ends: outcome.function(ends, chosen)


def _refuse_level(name: str, level: float | None) -> None:
    if level is not None:
        raise SettingsError("level", level, f"no value for the outcome {name}")


def _load_outcome(path: Path, name: str) -> Outcome:
    allowed = "a Python file and the name of a function in it, FILE.py:FUNCTION"
    source = read_source(path, "outcome", allowed)
    function = getattr(run_source(path, source, "outcome", allowed), name, None)
    if not callable(function):
        raise SettingsError("outcome", f"no function {name} in {path}", allowed)
    return function


def ends_so(outcome: Outcome, ends: xr.Dataset) -> np.ndarray:
    """Whether runs end with an outcome, (run,) bool. Raises SettingsError if its
    function fails or returns something else."""
    with reported_errors(None, "the function", "outcome", "one of a trajectory"):
        values = np.asarray(outcome(ends))
    if values.shape != (ends.sizes["run"],) or values.dtype.kind not in "bi":
        returned = f"a function that returns {values.dtype} of shape {values.shape}"
        allowed = f"one that returns {ends.sizes['run']} booleans"
        raise SettingsError("outcome", returned, allowed)
    return values.astype(bool)
