"""Paths that users give."""

import tempfile
from pathlib import Path

from dynamics.errors import SettingsError


def expand_home(path: str | Path, field: str = "path") -> Path:
    """A path with the home folder in place of ``~``, which a shell leaves where it
    stands after ``--out=``. Raises SettingsError if there is no home folder."""
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
