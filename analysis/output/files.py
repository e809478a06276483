"""Output files of analyses, written completely or not at all."""

import dataclasses
import glob
import hashlib
import os
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dynamics.errors import RecordingError, SettingsError
from dynamics.folders import existing_folder, expand_home, full_disk_reason


def plain_stem(path: Path) -> str:
    """The name of a trajectory without its suffix and wildcards, with which the names
    of its results begin.

    Of a pattern such as ``seed-*.nc`` these are the words beside its wildcards and
    within brackets, or the name of the folder."""
    words = re.split(r"[*?\[\]]+", path.stem)
    if len(words) > 1 and not path.exists():
        words = [word.strip("-_. ") for word in words]
    return "-".join(filter(None, words)) or path.absolute().parent.name


def combined_path(paths: Sequence[Path], word: str, suffix: str) -> Path:
    """A path beside the first of several files, WORD-HASH.SUFFIX, with a hash of the
    names of all of them."""
    names = "\n".join(path.name for path in paths)
    return paths[0].parent / (
        f"{word}-{hashlib.sha256(os.fsencode(names)).hexdigest()[:12]}{suffix}"
    )


HDF5_SIGNATURE = b"\x89HDF"
"""First bytes of a NetCDF-4 file."""

PRINTED_SUFFIXES = (".tex", ".md")
"""Endings of the names of files that have a table as it is printed."""

STALE_SECONDS = 3600
"""Age in seconds at which a temporary file of a killed process is removed by the next
writer of the same file."""


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, renamed to `path` once it has been written.
    Raises RecordingError.

    If `path` is a symbolic link, its target is replaced. Other files do not replace a
    NetCDF file."""
    path = Path(os.path.realpath(expand_home(path)))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise RecordingError(
                f"{path}: is a folder or a device, not a file that can be written"
            )
        if (
            path.suffix != ".nc"
            and path.is_file()
            and path.open("rb").read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
        ):
            raise RecordingError(
                f"{path}: is a NetCDF file, which {path.suffix or 'this'} would"
                " replace; use another"
            )
        _clear(path)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        reason = full_disk_reason(temporary) or error.strerror or error
        raise RecordingError(f"{path}: could not be written ({reason})") from None
    except (RuntimeError, zlib.error):  # of libraries that write to a full disk
        if reason := full_disk_reason(temporary):
            raise RecordingError(f"{path}: could not be written ({reason})") from None
        raise
    finally:
        with suppress(OSError):
            os.truncate(temporary, 0)  # HDF5 keeps a file open that it could not close
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _clear(path: Path) -> None:
    """Remove old temporary files of the same path."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                left.unlink()


def check_paths(options: Any) -> None:
    """Check, before any work is done, that no option names a pipe or a device, that
    --out and --csv can be written, and that --csv names a file of a table.

    Raises SettingsError.
    """
    paths = list(_paths(options))
    for name, path in paths:
        path = expand_home(path, name)
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            raise SettingsError(name, path, "a file; this is a pipe or a device")
    out = getattr(options, "out", None)
    csv = getattr(options, "csv", None)
    if out is not None:
        existing_folder(Path(out))
    if csv is None or str(csv) == "-":
        return
    existing_folder(csv, "csv")
    suffixes = (".csv", *PRINTED_SUFFIXES)
    if csv.suffix not in suffixes or csv.is_dir():
        allowed = f"the name of a file that ends in {' or '.join(suffixes)}, or -"
        raise SettingsError("csv", csv, allowed)
    others = [Path(path) for name, path in paths if name != "csv"]
    if csv.absolute() in map(Path.absolute, others):
        raise SettingsError("csv", csv, "a file that the command does not read")


def _paths(options: Any) -> Iterator[tuple[str, str | Path]]:
    """The name and the value of each option that may be a path."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            yield from _paths(value)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, str | Path):
                yield field.name, item
