"""The file that a run starts from, identified by a hash of its content.

This module imports only the standard library, so that naming a run is fast."""

import hashlib
import re
from pathlib import Path
from typing import Any

from dynamics.settings import SettingsError

HASH_SEPARATOR = "#sha256="
"""Separates the name of a file from the SHA-256 of its content."""


def start_file(settings: Any) -> str | None:
    """The start file of settings, without its hash; None if there is none."""
    start = getattr(settings, "start", "random")
    return None if start == "random" else start.split(HASH_SEPARATOR)[0]


def append_content_hash(start: str) -> str:
    """FILE#sha256=... for the name of a file; "random", and a name that has a hash,
    unchanged. Raises SettingsError."""
    if start == "random" or re.search(HASH_SEPARATOR + "[0-9a-f]{64}$", start):
        return start
    return f"{start}{HASH_SEPARATOR}{file_sha256(Path(start))}"


def verify_content_hash(start: str) -> Path:
    """The path of the file in FILE#sha256=.... Raises SettingsError if its content has
    another hash."""
    name, _, digest = start.rpartition(HASH_SEPARATOR)
    if file_sha256(Path(name)) != digest:
        raise SettingsError(
            "start",
            name,
            f"the file whose SHA-256 is {digest}; this one has changed since",
        )
    return Path(name)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content. Raises SettingsError."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SettingsError(
            "start", str(path), f'"random" or a readable file ({error.strerror})'
        ) from None
