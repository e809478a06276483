"""Which trajectory a result is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

CREATED = "trajectory_created_at"
"""Attribute of a result: when its trajectory was created."""


def origin_of_result(trajectory: xr.Dataset) -> dict[str, str]:
    """The attribute by which a result is known to be of this trajectory, and not of an
    earlier one in the same file: the time at which the trajectory was created."""
    return {CREATED: str(trajectory.attrs.get("created_at", ""))}


def is_result_of(result: xr.Dataset, trajectory: xr.Dataset, name: str) -> bool:
    """Whether a stored result is of the trajectory in the file of this name. A result
    without the time of its trajectory counts if it has the name of the file."""
    created = origin_of_result(trajectory)[CREATED]
    same_file = result.attrs.get("trajectory") == name
    return same_file and result.attrs.get(CREATED, created) == created
