"""Sealed NetCDF-4 files, written whole or not at all.

A file is written under a temporary name, read back and compared, sealed, fsynced and only then renamed: a
file under its real name is whole. The seal is its last line, the SHA-256 of all bytes before it. HDF5
ignores what follows its own end, so any program reads the file as it is; `read_group` checks the seal
first, and so refuses a file that was cut short or in which a single bit has changed, before any of it is
parsed.
"""

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
from xarray.backends import CachingFileManager, NetCDF4DataStore

from dynamics.errors import RecordingError, TrajectoryError


class _NetCDFLock:
    """One re-entrant lock a process, which a dataset that is sent to another process leaves behind."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Callable[[], "_NetCDFLock"], tuple[()]]:
        return _the_lock, ()


def _the_lock() -> _NetCDFLock:
    return NETCDF_LOCK


NETCDF_LOCK = _NetCDFLock()
"""netCDF-C may be called from one thread at a time; xarray holds this too while it reads our files."""

CHUNK_STEPS = 256
"""Steps of one run in one compressed chunk."""
BLOCK_BYTES = 32 << 20
"""Memory for what is copied at a time from parts to the merged file."""


def resolve_link(path: str | Path) -> Path:
    """The file that a symbolic link points to; any other path as it is."""
    path = Path(path)
    return path.resolve() if path.is_symlink() else path


# ----------------------------------------------------------------------------------------------- the seal

_SEAL = re.compile(rb"\nsha256:([0-9a-f]{64})\n")
_SEAL_LENGTH = 73


def _digest(path: Path, length: int) -> bytes:
    """SHA-256, in hexadecimal, of a file's first `length` bytes."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while length > 0:
            block = file.read(min(length, 1 << 20))
            if not block:
                break
            total.update(block)
            length -= len(block)
    return total.hexdigest().encode()


def seal_file(path: Path) -> None:
    """Append to a finished file the digest of its bytes."""
    line = b"\nsha256:" + _digest(path, path.stat().st_size) + b"\n"
    with path.open("ab") as file:
        file.write(line)


def check_seal(path: Path, thoroughly: bool = True) -> None:
    """Raise TrajectoryError unless the file ends in the digest of all that stands before.

    If not thoroughly, only that there is a digest: quick, and enough to list what is there.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - _SEAL_LENGTH))
            found = _SEAL.fullmatch(file.read())
        whole = found is not None and (not thoroughly or found[1] == _digest(path, size - _SEAL_LENGTH))
    except OSError as error:
        raise TrajectoryError(f"{path}: cannot be read ({error.strerror})") from None
    if found is None:
        raise TrajectoryError(
            f"{path}: no seal at its end, so it was cut short or is no trajectory of this program "
            "(xarray.open_dataset reads any NetCDF file unchecked; "
            "dynamics.trajectory.recorder.save_trajectory writes a sealed one)"
        )
    if not whole:
        raise TrajectoryError(f"{path}: damaged, its bytes do not match the SHA-256 at its end")


# ----------------------------------------------------------------------------------------------- reading


def open_group(path: Path, group: str | None = None, thoroughly: bool = True) -> xr.Dataset:
    """One group of a sealed file, lazily. Raises TrajectoryError."""
    check_seal(path, thoroughly)
    try:
        with NETCDF_LOCK:
            manager = CachingFileManager(
                _open_unchanged, str(path.absolute()), mode="r", kwargs={"state": _state_of(path)}, lock=NETCDF_LOCK
            )
            dataset = xr.open_dataset(NetCDF4DataStore(manager, group=group, mode="r", lock=NETCDF_LOCK))
        dataset.encoding["source"] = str(path.absolute())
        return dataset
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError) as error:
        raise TrajectoryError(f"{path}: cannot be read as NetCDF-4 ({error})") from None


def _state_of(path: str | Path) -> tuple[int, ...]:
    now = os.stat(path)
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def _open_unchanged(path: str, mode: Literal["r"], state: tuple[int, ...]) -> Any:
    """xarray closes and reopens files as it sees fit, by name; another file may have taken the name by then."""
    if _state_of(path) != state:
        raise TrajectoryError(f"{path}: has been written anew since it was opened")
    return netCDF4.Dataset(path, mode=mode)


# ----------------------------------------------------------------------------------------------- writing


class StackedDatasets:
    """Datasets laid end to end along one dimension, some of their entries kept; read one block of runs at a time."""

    def __init__(self, pieces: list[tuple[xr.Dataset, np.ndarray]], along: str) -> None:
        self.pieces = [(piece, keep) for piece, keep in pieces if len(keep)]
        self.along = along
        self.template = self.pieces[-1][0]

    @property
    def length(self) -> int:
        return sum(len(keep) for _, keep in self.pieces)

    def shape(self, name: str) -> tuple[int, ...]:
        variable = self.template[name]
        return tuple(
            self.length if dim == self.along else size for dim, size in zip(variable.dims, variable.shape, strict=True)
        )

    def read(self, name: str, runs: slice) -> np.ndarray:
        """Values of a variable for a block of runs."""
        variable = self.template[name]
        selection = {"run": runs} if "run" in variable.dims else {}
        if self.along not in variable.dims:
            return variable.isel(selection).values
        blocks = [piece[name].isel({**selection, self.along: keep}).values for piece, keep in self.pieces]
        return np.concatenate(blocks, axis=variable.dims.index(self.along))


def write_sealed_file(
    path: Path,
    groups: Mapping[str, StackedDatasets],
    attrs: Mapping[str, object],
    check: Callable[[Path], None] = lambda path: None,
) -> None:
    """Write groups ("" is the root) to `path` whole or not at all.

    check: called on the sealed file before it takes its name; what it raises leaves `path` as it was.
    Raises RecordingError.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
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
    except (OSError, RuntimeError, TypeError, ValueError) as error:  # netCDF4 tells its troubles as any of these
        raise RecordingError(f"{path}: could not be written ({_why(error, temporary)})") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_groups(path: Path, groups: Mapping[str, StackedDatasets], attrs: Mapping[str, object]) -> None:
    with NETCDF_LOCK:
        file = netCDF4.Dataset(path, "w", format="NETCDF4")
    try:
        with NETCDF_LOCK:
            file.setncatts(dict(attrs))
        for group, stack in groups.items():
            with NETCDF_LOCK:
                target = file.createGroup(group) if group else file
            _write_group(target, stack)
    finally:
        with NETCDF_LOCK:
            file.close()


def _compare_groups(path: Path, groups: Mapping[str, StackedDatasets], attrs: Mapping[str, object]) -> None:
    """Read back what was just written: a full disk can leave a file that opens and is wrong."""
    with NETCDF_LOCK:
        file = netCDF4.Dataset(path)
    try:
        with NETCDF_LOCK:
            found = {name: file.getncattr(name) for name in attrs}
        if not all(bool(np.all(found[name] == value)) for name, value in attrs.items()):
            raise OSError(errno.EIO, "attributes read back differently")
        for group, stack in groups.items():
            with NETCDF_LOCK:
                written = file[group] if group else file
            _compare_group(written, stack)
    finally:
        with NETCDF_LOCK:
            file.close()


def _why(error: Exception, temporary: Path) -> str:
    """The reason in words: HDF5 does not tell a full disk from other errors, so try to write a little more."""
    try:
        with temporary.open("ab") as file:
            file.write(bytes(1 << 20))
    except OSError as found:
        if found.errno in (errno.ENOSPC, errno.EDQUOT):
            return "no space left on the disk"
        if found.errno == errno.EFBIG:
            return "a limit on file size is reached"
    return str(error)


def _blocks(stack: StackedDatasets, name: str) -> Iterator[slice]:
    variable = stack.template[name]
    if "run" not in variable.dims:
        yield slice(None)
        return
    runs = variable.sizes["run"]
    bytes_each = max(1, int(np.prod(stack.shape(name))) * variable.dtype.itemsize // runs)
    for start in range(0, runs, max(1, BLOCK_BYTES // bytes_each)):
        yield slice(start, min(runs, start + max(1, BLOCK_BYTES // bytes_each)))


def _write_group(group: netCDF4.Dataset, stack: StackedDatasets) -> None:
    beside = [str(name) for name in stack.template.coords if name not in stack.template.dims]
    with NETCDF_LOCK:
        if beside:
            group.setncattr("coordinates", " ".join(beside))  # by which xarray knows them
    for key in stack.template.variables:
        name, variable, shape = str(key), stack.template[key], stack.shape(str(key))
        if variable.dtype.kind in "OU":
            _write_text(group, name, variable)
            continue
        dims = tuple(map(str, variable.dims))
        target = _create(group, name, variable.dtype, dims, shape, stack.along)
        with NETCDF_LOCK:
            target.setncatts(variable.attrs)
        for runs in _blocks(stack, name):
            values = stack.read(name, runs)
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise RecordingError(f"variable {name}: a value is not finite")
            with NETCDF_LOCK:
                target[tuple(runs if dim == "run" else slice(None) for dim in dims)] = values


def _create(
    group: netCDF4.Dataset, name: str, kind: Any, dims: tuple[str, ...], shape: tuple[int, ...], along: str
) -> netCDF4.Variable:
    """A variable in compressed chunks of one run and some hundred steps."""
    chunks = tuple(
        1 if dim == "run" and len(shape) > 1 else min(size, CHUNK_STEPS) if dim == along else size
        for dim, size in zip(dims, shape, strict=True)
    )
    packed: Any = {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": chunks} if shape else {}
    with NETCDF_LOCK:
        for dim, size in zip(dims, shape, strict=True):
            if dim not in group.dimensions:
                group.createDimension(dim, size)
        return group.createVariable(name, kind, dims, fill_value=False, **packed)


def _write_text(group: netCDF4.Dataset, name: str, variable: xr.DataArray) -> None:
    """Text as arrays of characters: netCDF-C crashes on its own string type where a file is open twice."""
    text = variable.values.astype(str)
    width = max(1, np.char.encode(text, "utf-8").dtype.itemsize)
    dims, shape = (*map(str, variable.dims), f"{name}_length"), (*variable.shape, width)
    with NETCDF_LOCK:
        for dim, size in zip(dims, shape, strict=True):
            if dim not in group.dimensions:
                group.createDimension(dim, size)
        target = group.createVariable(name, "S1", dims)
        target.setncatts({**variable.attrs, "_Encoding": "utf-8"})
        target[:] = text.astype(f"U{width}")


def _compare_group(group: netCDF4.Dataset, stack: StackedDatasets) -> None:
    for key in stack.template.variables:
        name, dims = str(key), stack.template[key].dims
        with NETCDF_LOCK:
            written = group[name]
            written.set_auto_maskandscale(False)
        for runs in _blocks(stack, name):
            expected = stack.read(name, runs)
            with NETCDF_LOCK:
                found = written[tuple(runs if dim == "run" else slice(None) for dim in dims)]
            if not np.array_equal(found, expected):
                raise OSError(errno.EIO, f"variable {name} reads back differently")


def fsync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
