"""Results of analyses: their variables, computations that SIGINT ends early, and NetCDF
files, written completely or not at all. NaN means a missing value."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import xarray as xr

from analysis.output.files import replace_file
from dynamics.settings import SettingsError
from dynamics.trajectory.netcdf import NETCDF_LOCK, READ_ERRORS, check_trajectory_path

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
    """Write the dataset. Raises RecordingError."""
    with replace_file(path) as temporary, NETCDF_LOCK:
        result.to_netcdf(temporary, engine="netcdf4")
