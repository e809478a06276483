"""Warnings that the step size of particles is too large for structures to form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import xarray as xr

from analysis.structures import last_step_movements
from dynamics import open_trajectory
from dynamics.settings import ParticleSettings, scaled_step_size
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import read_settings

MOST_MOVEMENT = 0.2
"""Movement in a step, relative to the embedding, from which on the step size and not the
forces decides what forms. Of 17 particles with the default step size, those that are no
circles move by 0.1; 59 particles move by 0.7 and form nothing."""


def last_movement(trajectory: xr.Dataset) -> float:
    """The median over runs of `last_step_movements`; NaN for other systems than
    particles, with noise, which moves them as well, and if their size is not known."""
    settings = read_settings(trajectory)
    if not isinstance(settings, ParticleSettings) or settings.temperature:
        return np.nan
    if "embedding" in trajectory:
        moved = last_step_movements(trajectory)
    elif settings.variance != "none":  # each coordinate has the variance 1
        norms = trajectory["update_norm"].isel(step=-1, layer=0).values
        size = np.sqrt(settings.n * settings.dim)
        moved = np.where(not_diverged(trajectory), norms / size, np.nan)
    else:
        return np.nan
    moved = moved[np.isfinite(moved)]
    return float(np.median(moved)) if moved.size else np.nan


def print_large_steps(trajectory: xr.Dataset, log: TextIO) -> None:
    """Print a warning that names a smaller step size, if the last step has moved
    particles by more than `MOST_MOVEMENT`."""
    moved = last_movement(trajectory)
    if not moved > MOST_MOVEMENT:
        return
    settings: Any = read_settings(trajectory)
    usual = scaled_step_size(ParticleSettings.step_size, settings.n)
    smaller = min(usual, settings.step_size / 2)
    print(
        f"step size   {settings.step_size:g} is large: the last step moved particles by"
        f" {100 * moved:.0f}% of their distance\n            from the origin (median)"
        f" and decides what forms; try --step-size {smaller:.2g}",
        file=log,
    )


def print_points_with_large_steps(files: Sequence[Path], log: TextIO) -> None:
    """Print a warning with the number of points of a sweep whose last steps are so large."""
    large = 0
    for file in files:
        with open_trajectory(file) as trajectory:
            large += last_movement(trajectory) > MOST_MOVEMENT
    if large:
        print(
            f"step size   is large at {large} of {len(files)} points: the last step moved"
            f" particles by more than\n            {100 * MOST_MOVEMENT:g}% of their"
            " distance from the origin (median) and decides what forms",
            file=log,
        )
