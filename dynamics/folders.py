"""Paths that users give, and the folder of the user in which the package keeps what it
can make again. This module imports only the standard library."""

import errno
import os
import stat
import tempfile
from pathlib import Path

from dynamics.errors import SettingsError


def expand_home(path: str | Path, field: str = "path") -> Path:
    """A path with the home folder in place of ``~``, which a shell leaves where it
    stands after ``--out=``. Raises SettingsError if it is no path, or if there is no
    home folder."""
    if not isinstance(path, str | os.PathLike):
        allowed = "a path, as text or as pathlib.Path"
        raise SettingsError(field, f"{type(path).__name__} {path!r}", allowed)
    path = Path(path)
    if path.parts[:1] != ("~",):
        return path
    try:
        return path.expanduser()
    except RuntimeError:
        allowed = "a path without ~, as the user has no home folder"
        raise SettingsError(field, path, allowed) from None


def existing_folder(path: Path, field: str = "out") -> Path:
    """The folder of a file to be written, or its nearest existing parent. Raises
    SettingsError if it is read-only."""
    folder = expand_home(path, field).absolute().parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        allowed = f"a file in a folder that can be written ({folder}: {error.strerror})"
        raise SettingsError(field, path, allowed) from None


def check_plain_file(path: Path) -> None:
    """Raise OSError unless a path is a regular file. Opening a named pipe blocks until
    another program opens it for writing."""
    if not stat.S_ISREG(path.stat().st_mode):
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise OSError(errno.EINVAL, f"it is {kind}", str(path))


def read_plain_file(path: Path) -> bytes:
    """The content of a file. Raises OSError, also for a pipe."""
    check_plain_file(path)
    return path.read_bytes()


def full_disk_reason(path: Path) -> str:
    """Why no MiB can be added to a file, if the disk is full or a limit is reached;
    otherwise empty. The file is removed by the caller.

    Libraries that write files, such as HDF5, do not distinguish a full disk from other
    errors."""
    try:
        with path.open("ab") as file:
            file.write(bytes(1 << 20))
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            return "no space left on the disk"
        if problem.errno == errno.EFBIG:
            return "a limit on file size is reached"
    return ""


def absolute_folder(path: str | None) -> Path | None:
    """A folder that a setting names, with the home folder in place of ``~``; None if it
    is not set or not absolute, as without a home folder."""
    folder = Path(os.path.expanduser(path or ""))
    return folder if folder.is_absolute() else None


def user_cache_folder() -> Path | None:
    """The folder ``training-dynamics`` in the user's cache: `XDG_CACHE_HOME`, or
    ``~/.cache``. None for a user without a home folder."""
    cache = absolute_folder(os.environ.get("XDG_CACHE_HOME"))
    cache = cache or absolute_folder("~/.cache")
    return cache and cache / "training-dynamics"
