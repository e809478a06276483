"""Sealed NetCDF-4 files, which are written completely or not at all, by one process at
a time.

A file is written under a temporary name, read back and compared, sealed, fsynced and
only then renamed: under its final name a file is complete. The seal is its last line,
the SHA-256 of all bytes before it. HDF5 ignores bytes after the end of its data, so any
program can read the file. `open_group` verifies the seal before it parses the file, and
raises an error if the file was cut short or a single bit has changed.

The process that writes NAME holds a lock of the operating system on a file .NAME.lock
in the same folder. The lock is released when the process ends or is killed; only a
killed process leaves the file."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import netCDF4
import numpy as np
import xarray as xr
from filelock import FileLock, Timeout
from xarray.backends import CachingFileManager, NetCDF4DataStore

from dynamics.errors import (
    FileBeingWritten,
    RecordingError,
    SettingsError,
    TrajectoryError,
)
from dynamics.folders import expand_home, full_disk_reason
from dynamics.trajectory.schema import must_be_finite


class _NetCDFLock:
    """A re-entrant lock, one per process. A dataset that is pickled uses the lock of
    the process that unpickles it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> str:
        return "NETCDF_LOCK"


NETCDF_LOCK = _NetCDFLock()
"""Lock for netCDF-C, which only one thread may call at a time. xarray also holds it
while it reads these files."""

READ_ERRORS = (OSError, ValueError, RuntimeError)
"""What xarray raises for a damaged file, or for one that is not NetCDF."""

CHUNK_STEPS = 256
"""Steps of one run in one chunk."""
BLOCK_BYTES = 32 << 20
"""Size of the blocks that are copied from parts to the merged file."""


def resolve_link(path: str | Path) -> Path:
    """The file that a symbolic link points to; any other path as it is, with the home
    folder in place of ``~``. Raises SettingsError."""
    path = expand_home(path)
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def check_backslash(path: Path) -> None:
    """Raise SettingsError if a path has a backslash that does not separate folders:
    netCDF does not open it."""
    if "\\" in str(path) and os.sep != "\\":
        allowed = "a path without a backslash, which netCDF does not open"
        raise SettingsError("out", path, allowed)


def check_trajectory_path(out: str | Path) -> Path:
    """Check the path of a trajectory to be written; return it, or the target of a
    symbolic link.

    Raises SettingsError.
    """
    allowed = "the name of a file that ends in .nc and is no longer than 180 bytes"
    text = str(out)
    out = expand_home(out, "out")
    if text.endswith(os.sep):
        raise SettingsError("out", text, f"{allowed}; / ends the name of a folder")
    check_backslash(out)
    try:
        path = resolve_link(out)
        short = (
            len(path.name.encode()) <= 180
        )  # the limit is 255; temporary files have longer names
        named = (
            path.suffix == ".nc"
            and "\0" not in str(path)
            and not path.is_symlink()  # a loop
        )
        if path.exists() and not path.is_file():
            allowed = f"a file; this is a {'folder' if path.is_dir() else 'device'}"
        elif short and named:
            return path
    except (OSError, ValueError):
        pass
    raise SettingsError("out", out, allowed)


# ----------------------------------------------------------------------------- the seal

_SEAL = re.compile(rb"\nsha256:([0-9a-f]{64})\n")
_SEAL_LENGTH = 73


def _digest(path: Path, length: int) -> bytes:
    """SHA-256, in hexadecimal, of the first `length` bytes of a file."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while length > 0 and (block := file.read(min(length, 1 << 20))):
            total.update(block)
            length -= len(block)
    return total.hexdigest().encode()


def seal_file(path: Path) -> None:
    """Append the digest of its bytes to a complete file."""
    line = b"\nsha256:" + _digest(path, path.stat().st_size) + b"\n"
    with path.open("ab") as file:
        file.write(line)


def check_seal(path: Path, thoroughly: bool = True) -> None:
    """Raise TrajectoryError unless the file ends in the digest of all bytes before it.

    If `thoroughly` is false, only check that there is a digest, which is fast.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - _SEAL_LENGTH))
            seal = _SEAL.fullmatch(file.read())
        complete = seal is not None and (
            not thoroughly or seal[1] == _digest(path, size - _SEAL_LENGTH)
        )
    except OSError as error:
        raise TrajectoryError(f"{path}: cannot be read ({error.strerror})") from None
    if seal is None:
        raise TrajectoryError(f"{path}: {_describe_unsealed(path)}")
    if not complete:
        raise TrajectoryError(
            f"{path}: damaged, its bytes do not match the SHA-256 at its end"
        )


def _describe_unsealed(path: Path) -> str:
    """What a file without a digest at its end is."""
    with path.open("rb") as file:
        if not file.read(4).startswith((b"\x89HDF", b"CDF")):
            return "not a NetCDF file, so no trajectory (no checksum at its end)"
    try:
        with NETCDF_LOCK, xr.open_dataset(path) as there:
            attrs = there.attrs
    except READ_ERRORS:
        return "cut short (no checksum at its end, and its data are not complete)"
    if "schema_version" in attrs:
        return (
            "cut short, or written by another program (no checksum at its end;"
            " dynamics.save_trajectory writes one)"
        )
    if {"title", "result_of"} & set(attrs):
        return (
            "a result of sims.sweep or of an analysis, no trajectory"
            " (xarray.open_dataset reads it)"
        )
    return (
        "no checksum at its end, so it is no trajectory of this program"
        " (xarray.open_dataset reads any NetCDF file unchecked;"
        " dynamics.save_trajectory writes a checksum)"
    )


# ------------------------------------------------------------------------------ reading


def open_group(
    path: Path, group: str | None = None, thoroughly: bool = True
) -> xr.Dataset:
    """Open one group of a sealed file; its values are loaded lazily. Raises
    TrajectoryError."""
    check_seal(path, thoroughly)
    try:
        with NETCDF_LOCK:
            manager = CachingFileManager(
                _open_unchanged,
                str(path.absolute()),
                mode="r",
                kwargs={"state": _file_state(path)},
                lock=NETCDF_LOCK,
            )
            dataset = xr.open_dataset(
                NetCDF4DataStore(manager, group=group, mode="r", lock=NETCDF_LOCK)
            )
        dataset.encoding["source"] = str(path.absolute())
        return dataset
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError) as error:
        reason = "its path has a backslash" if "\\" in str(path) else error
        raise TrajectoryError(
            f"{path}: cannot be read as NetCDF-4 ({reason})"
        ) from None


def _file_state(path: str | Path) -> tuple[int, ...]:
    now = os.stat(path)
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def _open_unchanged(path: str, mode: Literal["r"], state: tuple[int, ...]) -> Any:
    """Open a file if it has not changed: xarray closes files and later opens them again
    by name."""
    if _file_state(path) != state:
        raise TrajectoryError(f"{path}: has been overwritten since it was opened")
    return netCDF4.Dataset(path, mode=mode)


# ------------------------------------------------------------------------------ writing


class StackedDatasets:
    """Datasets joined along one dimension, of which only some entries are kept. They
    are read in blocks of runs."""

    def __init__(self, pieces: list[tuple[xr.Dataset, np.ndarray]], along: str) -> None:
        self.pieces = [(piece, keep) for piece, keep in pieces if len(keep)]
        self.along = along
        self.template = pieces[-1][0]

    @property
    def length(self) -> int:
        """Number of entries that are kept."""
        return sum(len(keep) for _, keep in self.pieces)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a variable."""
        sizes = self.template[name].sizes
        return tuple(
            self.length if dim == self.along else size for dim, size in sizes.items()
        )

    def read(self, name: str, runs: slice) -> np.ndarray:
        """Values of a variable for a block of runs."""
        variable = self.template[name]
        selection = {"run": runs} if "run" in variable.dims else {}
        if self.along not in variable.dims:
            return variable.isel(selection).values
        blocks = [
            piece[name].isel({**selection, self.along: keep}).values
            for piece, keep in self.pieces
        ]
        return np.concatenate(blocks, axis=variable.dims.index(self.along))

    def blocks(self, name: str) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        """Values of a variable, a block of runs at a time, and the slices that select
        them."""
        variable = self.template[name]
        shape = self.shape(name)
        runs = variable.sizes.get("run", 1)
        run_bytes = max(1, int(np.prod(shape)) * variable.dtype.itemsize // runs)
        step = max(1, BLOCK_BYTES // run_bytes)
        for start in range(0, runs, step):
            block = slice(start, min(runs, start + step))
            yield (
                tuple(block if dim == "run" else slice(None) for dim in variable.dims),
                self.read(name, block),
            )


Groups = Mapping[str, StackedDatasets]
"""Contents of a file by the names of its groups; "" is the root."""


def write_sealed_file(
    path: Path,
    groups: Groups,
    attrs: Mapping[str, object],
    check: Callable[[Path], None] = lambda path: None,
) -> None:
    """Write groups to `path`, completely or not at all.

    check: called on the sealed file before it is renamed to `path`; if it raises,
    `path` is unchanged. Raises RecordingError."""
    temporary = path.with_name(
        f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp"
    )
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
            fsync_path(path.parent.parent)
        _write_groups(temporary, groups, attrs)
        _compare_groups(temporary, groups, attrs)
        seal_file(temporary)
        check(temporary)
        fsync_path(temporary)
        os.replace(temporary, path)
        fsync_path(path.parent)
    except (
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # netCDF4 raises any of these
        reason = full_disk_reason(temporary) or str(error)
        raise RecordingError(f"{path}: could not be written ({reason})") from error
    finally:
        with contextlib.suppress(OSError):
            os.truncate(temporary, 0)  # HDF5 keeps a file open that it could not close
            temporary.unlink()


def _write_groups(path: Path, groups: Groups, attrs: Mapping[str, object]) -> None:
    with (
        NETCDF_LOCK,
        contextlib.closing(netCDF4.Dataset(path, "w", format="NETCDF4")) as file,
    ):
        file.setncatts(dict(attrs))
        for group, stack in groups.items():
            target = file.createGroup(group) if group else file
            _write_group(target, stack, attrs.get("system"))


def _compare_groups(path: Path, groups: Groups, attrs: Mapping[str, object]) -> None:
    """Compare the file with what was written: on a full disk a file may open but
    contain other values."""
    with NETCDF_LOCK, contextlib.closing(netCDF4.Dataset(path)) as file:
        if not all(
            bool(np.all(file.getncattr(name) == value)) for name, value in attrs.items()
        ):
            raise OSError(errno.EIO, "attributes read back differently")
        for group, stack in groups.items():
            written = file[group] if group else file
            written.set_auto_maskandscale(False)
            for name in map(str, stack.template.variables):
                for block, expected in stack.blocks(name):
                    floating = expected.dtype.kind == "f"
                    if not np.array_equal(written[name][block], expected, floating):
                        raise OSError(
                            errno.EIO, f"variable {name} reads back differently"
                        )


def _write_group(
    group: netCDF4.Dataset, stack: StackedDatasets, system: object
) -> None:
    auxiliary = [
        str(name) for name in stack.template.coords if name not in stack.template.dims
    ]
    if auxiliary:
        group.setncattr(
            "coordinates", " ".join(auxiliary)
        )  # xarray reads these as coordinates
    for name in map(str, stack.template.variables):
        variable = stack.template[name]
        if variable.dtype.kind in "OU":
            _write_text(group, name, variable)
            continue
        target = _create_variable(group, name, variable, stack)
        target.setncatts(variable.attrs)
        for block, values in stack.blocks(name):
            finite = values.dtype.kind != "f" or np.isfinite(values).all()
            if not finite and must_be_finite(name, system):
                raise RecordingError(f"variable {name}: a value is not finite")
            target[block] = values


def _create_variable(
    group: netCDF4.Dataset, name: str, variable: xr.DataArray, stack: StackedDatasets
) -> netCDF4.Variable:
    """A variable in chunks of one run and some hundred steps. Integers are compressed.
    Floats and the bytes of restart states are not: their last bits are noise, which
    takes most of the time of writing and becomes a sixth smaller."""
    dims = tuple(map(str, variable.dims))
    shape = stack.shape(name)
    largest = {stack.along: CHUNK_STEPS}
    if len(shape) > 1:
        largest["run"] = 1
    chunks = tuple(
        min(size, largest.get(dim, size)) for dim, size in zip(dims, shape, strict=True)
    )
    storage: Any = {"chunksizes": chunks} if shape else {}
    if shape and variable.dtype.kind != "f" and variable.dtype != np.uint8:
        storage |= {"zlib": True, "complevel": 1, "shuffle": True}
    _create_dimensions(group, dims, shape)
    return group.createVariable(name, variable.dtype, dims, fill_value=False, **storage)


def _write_text(group: netCDF4.Dataset, name: str, variable: xr.DataArray) -> None:
    """Strings as arrays of characters: netCDF-C crashes on its own string type if a
    file is open twice."""
    encoded = np.char.encode(variable.values.astype(str), "utf-8")
    width = max(1, encoded.dtype.itemsize)
    dims = (*map(str, variable.dims), f"{name}_length")
    _create_dimensions(group, dims, (*variable.shape, width))
    target = group.createVariable(name, "S1", dims)
    target.setncatts({**variable.attrs, "_Encoding": "utf-8"})
    target.set_auto_chartostring(False)
    target[:] = encoded.astype(f"S{width}")[..., None].view("S1")


def _create_dimensions(
    group: netCDF4.Dataset, dims: tuple[str, ...], shape: tuple[int, ...]
) -> None:
    for dim, size in zip(dims, shape, strict=True):
        if dim not in group.dimensions:
            group.createDimension(dim, size)


def fsync_path(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ----------------------------------------------------------------------------- the lock


def trajectory_lock(path: Path) -> FileLock:
    """The lock that a process holds while it writes to `path`."""
    path = resolve_link(path)
    return FileLock(path.with_name(f".{path.name}.lock"))


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of `path`, or raise RecordingError. Its file is removed at the
    end, while the lock is held; a process that waits for it then makes a new one."""
    lock = trajectory_lock(path)
    try:
        lock.acquire(
            timeout=1, poll_interval=0.05
        )  # a listing of runs may hold it for a moment
    except Timeout:
        if not Path(lock.lock_file).exists():  # the lock file cannot be created
            raise RecordingError(f"{path}: cannot be written") from None
        raise FileBeingWritten(f"{path}: another process is writing it") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process is writing to `path`; False if the lock cannot be tested."""
    lock = trajectory_lock(path)
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False
