"""Summaries of trajectories for sweeps: final and extreme values of each metric."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from dynamics.trajectory.description import METRIC_VARIABLES
from dynamics.trajectory.schema import (
    MAX_LABEL,
    VARIABLES,
    axis_label,
    describe_variables,
)

_POINT_COMMENTS = {
    "steps": "number of steps of the runs of the point",
    "epochs": "number of epochs of the runs of the point",
    "file": "name of the trajectory of the point, in the folder of the sweep",
}


def summarise_trajectory(trajectory: xr.Dataset) -> xr.Dataset:
    """``final_NAME``, ``peak_NAME`` and ``lowest_NAME`` of each metric and of each other
    variable (run, step), and ``status`` and ``last_step``."""
    names = [
        str(name)
        for name, variable in trajectory.data_vars.items()
        if name in METRIC_VARIABLES or set(variable.dims) == {"run", "step"}
    ]
    frames = trajectory[names].load()
    ends = trajectory[["status", "last_step"]].load()
    valid = frames["step"] <= ends["last_step"]
    variables: dict[str, xr.DataArray] = {}
    for name in names:
        values = frames[name]
        counted = valid
        if name == "update_norm":
            later = valid & (frames["step"] > 0)
            counted = valid & ((frames["step"] > 0) | ~later.any("step"))
        known = VARIABLES.get(name)
        label = known.long_name if known else axis_label(name)
        meaning = known.comment if known else values.attrs.get("comment", label)
        extremes = {
            "final": (values.isel(step=-1), "at the last step"),
            "peak": (values.where(counted, -np.inf).max("step"), "largest value"),
            "lowest": (values.where(counted, np.inf).min("step"), "smallest value"),
        }
        for kind, (extreme, words) in extremes.items():
            plain = extreme.transpose("run", ...).drop_vars(
                ("step", "time", "epoch"), errors="ignore"
            )
            attributes = {
                "long_name": f"{kind} {label}"[:MAX_LABEL],
                "units": "1",
                "comment": f"{meaning}: {words}",
            }
            variables[f"{kind}_{name}"] = plain.astype(values.dtype).assign_attrs(
                attributes
            )
    variables |= {str(name): values for name, values in ends.data_vars.items()}
    return xr.Dataset(variables)


def combine_summaries(
    summaries: Sequence[xr.Dataset],
    axes: Mapping[str, Sequence[Any]],
    seeds: np.ndarray,
    attrs: Mapping[str, Any],
) -> xr.Dataset:
    """One dataset of the summaries of all points, with a dimension for each swept
    setting. What not all points have is omitted; the attribute `left_out` lists it.

    summaries: of the points, the last axis fastest; seeds: (run,)."""
    common, omitted = {}, {}
    for dim in ("split", "layer"):
        if dim in summaries[0]:
            first, *others = [summary[dim].values.tolist() for summary in summaries]
            shared = set(first).intersection(*others)
            common[dim] = [name for name in first if name in shared]
            omitted[dim] = sorted(set(first).union(*others) - shared)
    summaries = [summary.sel(common) for summary in summaries]
    names = set(summaries[0].data_vars).intersection(*summaries)
    omitted["variable"] = sorted(
        set().union(*summaries) - set().union(*[s.coords for s in summaries]) - names
    )
    shape = tuple(len(values) for values in axes.values())
    variables = {}
    for name, first in summaries[0].data_vars.items():
        if name not in names:
            continue
        values = np.stack([summary[name].values for summary in summaries])
        variables[name] = (
            (*axes, *first.dims),
            values.reshape((*shape, *first.shape)),
            first.attrs,
        )
    coords = {
        name: (name, np.array(values)) for name, values in {**axes, **common}.items()
    }
    result = xr.Dataset(variables, coords, attrs)
    result = result.assign_coords(seed=("run", seeds.astype(np.int64)))
    for name, meaning in _POINT_COMMENTS.items():
        if name in result:
            result[name].attrs["comment"] = meaning
    for name in axes:
        result[name].attrs["comment"] = f"the setting {name}, which is swept"
    describe_variables(result)
    if any(omitted.values()):
        result.attrs["left_out"] = "; ".join(
            f"{dim} {', '.join(value)}" for dim, value in omitted.items() if value
        )
    return result
