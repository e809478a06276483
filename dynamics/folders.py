"""Folders of output files."""

import tempfile
from pathlib import Path

from dynamics.errors import SettingsError


def existing_folder(path: Path, field: str = "out") -> Path:
    """The folder of a file to be written, or its nearest existing parent. Raises
    SettingsError if it is read-only."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        allowed = f"a file in a folder that can be written ({folder}: {error.strerror})"
        raise SettingsError(field, path, allowed) from None
