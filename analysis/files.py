"""Files that analyses write: whole or not at all."""

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynamics.settings import SettingsError


def beside(paths: Sequence[Path], word: str, suffix: str) -> Path:
    """Where something made of several files lives, beside them: its name is a hash over theirs."""
    names = "\n".join(path.name for path in paths)
    return paths[0].with_name(f"{word}-{hashlib.sha256(names.encode()).hexdigest()[:12]}{suffix}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, which takes that name when it has been written. Raises RecordingError."""
    from dynamics.storage import RecordingError

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise RecordingError(f"{path}: could not be written ({error.strerror or error})") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_csv(options: Any) -> None:
    """See, before any work is done, that a command's --csv names a CSV file, and none that it reads.

    Raises SettingsError.
    """
    csv = getattr(options, "csv", None)
    if csv is None or str(csv) == "-":
        return
    if csv.suffix != ".csv" or csv.is_dir():
        raise SettingsError("csv", csv, "the name of a file that ends in .csv, or -")
    if any(csv.absolute() == Path(other).absolute() for other in _paths(options) if other is not csv):
        raise SettingsError("csv", csv, "another file than those that are read")


def _paths(options: Any) -> Iterator[str | Path]:
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            yield from _paths(value)
        elif isinstance(value, str | Path):
            yield value
