"""Results of analyses: their variables, computations that SIGINT ends early, and NetCDF
files, written completely or not at all. NaN means a missing value."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import xarray as xr

from analysis.output.files import replace_file
from dynamics.settings import SettingsError
from dynamics.trajectory.netcdf import NETCDF_LOCK, READ_ERRORS, check_trajectory_path
from dynamics.trajectory.schema import CONVENTIONS, describe_variables
from dynamics.version import VERSION

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def dimensionless(long_name: str) -> dict[str, str]:
    """Attributes of a dimensionless variable."""
    return {"long_name": long_name, "units": "1"}


def labelled(
    dims: str | tuple[str, ...], **variables: tuple[Any, str]
) -> dict[str, tuple]:
    """Dimensionless variables of a dataset with the same dimensions, from the values
    and the long name of each."""
    return {
        name: (dims, values, dimensionless(long_name))
        for name, (values, long_name) in variables.items()
    }


def with_comments(result: xr.Dataset, comments: Mapping[str, str]) -> xr.Dataset:
    """A copy of a result with comments, given by the names of variables, and with what
    else `describe_variables` adds."""
    result = result.copy()
    for name, comment in comments.items():
        if name in result.variables:
            result[name].attrs["comment"] = comment
    return describe_variables(result)


JOINED = "joined"
"""Attribute of joined results: the prefix, the variables and the attributes of each, as
JSON."""


def join_results(results: Sequence[xr.Dataset]) -> xr.Dataset:
    """Results of several trajectories as one dataset, which `split_results` takes
    apart.

    Names and dimensions of the second result begin with `other_`, those of the third
    with `other2_`, and so on.

    Examples
    --------
    >>> import xarray as xr
    >>> first = xr.Dataset({"escape": ("run", [3.0, 5.0])}, attrs={"trajectory": "a.nc"})
    >>> second = xr.Dataset({"escape": ("run", [4.0])}, attrs={"trajectory": "b.nc"})
    >>> joined = join_results([first, second])
    >>> sorted(joined.data_vars)
    ['escape', 'other_escape']
    >>> split_results(joined)[1].identical(second)
    True
    """
    first, *others = results
    if not others:
        return first
    parts: list[xr.Dataset] = []
    origins = []
    for number, result in enumerate(results):
        names = [str(name) for name in {*result.variables, *result.dims}]
        prefix = ("", "other_")[number] if number < 2 else f"other{number}_"
        taken = {name for part in parts for name in (*part.variables, *part.dims)}
        while any(prefix + name in taken for name in names):
            prefix = f"other_{prefix}"
        parts.append(result.rename({name: prefix + name for name in names}))
        origin = {"prefix": prefix, "variables": list(map(str, result.variables))}
        origins.append({**origin, "attributes": result.attrs})
    joined = xr.merge(parts, join="exact", combine_attrs="override")
    text = json.dumps(origins, default=lambda value: value.tolist())
    return joined.assign_attrs({JOINED: text})


def split_results(joined: xr.Dataset) -> list[xr.Dataset]:
    """The results of which `join_results` made one; a result of one trajectory is the
    only one."""
    if JOINED not in joined.attrs:
        return [joined]
    results = []
    for origin in json.loads(joined.attrs[JOINED]):
        prefix = origin["prefix"]
        own = {prefix + name for name in origin["variables"]}
        part = joined.drop_vars([name for name in joined.variables if name not in own])
        names = [str(name) for name in {*part.variables, *part.dims}]
        part = part.rename({name: name.removeprefix(prefix) for name in names})
        part.attrs = origin["attributes"]
        results.append(part)
    return results


def results_until_interrupted(
    measure: Callable[[_Job], _Result], jobs: Iterable[_Job]
) -> list[_Result]:
    """What `measure` returns for each job. SIGINT after the first one ends the
    computation: the list is shorter."""
    results: list[_Result] = []
    try:
        for job in jobs:
            results.append(measure(job))
    except KeyboardInterrupt:
        if not results:
            raise
    return results


def check_result_path(out: Path, what: Mapping[str, str]) -> Path:
    """The path for a result. Raises SettingsError if the file exists and lacks the
    attributes `what`."""
    out = check_trajectory_path(out)
    if out.exists():
        try:
            with NETCDF_LOCK, xr.open_dataset(out) as there:
                same = all(
                    there.attrs.get(name) == value for name, value in what.items()
                )
        except READ_ERRORS:
            same = False
        if not same:
            raise SettingsError(
                "out",
                f"{out}, which is another file or damaged",
                "a new file, or an earlier result of the same",
            )
    return out


def write_result(result: xr.Dataset, path: Path) -> None:
    """Write the dataset, whose variables get their descriptions. Raises
    RecordingError."""
    result = describe_variables(result.copy())
    result.attrs = {
        "title": f"Result of {result.attrs.get('result_of', 'an analysis')}",
        "Conventions": CONVENTIONS,
        "history": f"written by training-dynamics {VERSION}",
        **result.attrs,
    }
    # by the CF conventions, coordinates have no missing values
    unfilled = {name: {"_FillValue": None} for name in result.coords}
    with replace_file(path) as temporary, NETCDF_LOCK:
        result.to_netcdf(temporary, engine="netcdf4", encoding=unfilled)
