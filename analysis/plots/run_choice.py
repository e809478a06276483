"""Selection of the run that a figure shows, with a default."""

from __future__ import annotations

import xarray as xr

from analysis.statistics.run_success import success_mask
from analysis.structures.circles_and_grids import circles
from dynamics.settings import SettingsError, SparseSettings, TransformerSettings
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import DIVERGED, read_settings


def select_run(trajectory: xr.Dataset, name: str, run: int | None) -> tuple[int, str]:
    """The run index given for the option `name`, or the default one, with a remark on
    it. Raises SettingsError."""
    remark = ""
    if run is None:
        run, remark = _default_run(trajectory)
    elif not 0 <= run < trajectory.sizes["run"]:
        raise SettingsError(
            name, run, f"an index from 0 to {trajectory.sizes['run'] - 1}"
        )
    if trajectory["status"].values[run] == DIVERGED:
        remark += (
            f", which diverged after step {int(trajectory['last_step'].values[run])}"
        )
    return run, remark


def _default_run(trajectory: xr.Dataset) -> tuple[int, str]:
    """Index of the first successful run or, except for transformers, the first circle;
    otherwise 0. And the reason."""
    if isinstance(read_settings(trajectory), SparseSettings | TransformerSettings):
        good = success_mask(trajectory)
        word = "successful"
    elif "embedding" in trajectory:
        good = circles(trajectory["embedding"].isel(step=-1)).values & not_diverged(
            trajectory
        )
        word = "a circle"
    else:
        return 0, ", the first one"
    if not good.any():
        return 0, f", the first one, as none is {word}"
    return int(good.argmax()), f", the first of {len(good)} runs that is {word}"
