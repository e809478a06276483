"""Results of analyses as NetCDF files, written whole or not at all. Unlike in a trajectory, NaN means "no value"."""

import os
from pathlib import Path

import xarray as xr

from dynamics.settings import SettingsError
from dynamics.storage import LOCK, RecordingError


def check_result(out: Path) -> Path:
    """The path of a result to be written, if it can be one. Raises SettingsError."""
    if out.suffix != ".nc" or out.is_dir():
        raise SettingsError("out", out, "the name of a file that ends in .nc")
    if out.exists():
        try:
            with LOCK, xr.open_dataset(out) as there:
                trajectory = "config_json" in there.attrs
        except (OSError, ValueError):
            trajectory = True  # no file of ours
        if trajectory:
            raise SettingsError("out", out, "a new file, or an earlier result")
    return out


def write_result(result: xr.Dataset, path: Path) -> None:
    """Write the dataset. Raises RecordingError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with LOCK:
            result.to_netcdf(temporary, engine="netcdf4")
        temporary.replace(path)
    except OSError as error:
        raise RecordingError(f"{path}: could not be written ({error.strerror or error})") from None
    finally:
        temporary.unlink(missing_ok=True)
