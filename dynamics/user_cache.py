"""The folder of the user in which the package keeps what it can make again. This module
imports only the standard library."""

import os
from pathlib import Path


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
