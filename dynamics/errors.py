"""Errors that are reported to the user: commands print them in one line, without a
traceback.

This module imports only the standard library.
"""

from pathlib import Path
from typing import ClassVar


class ReportedError(Exception):
    """Base class of errors whose message is sufficient for the user, without a
    traceback."""

    exit_code: ClassVar[int] = 1


class SettingsError(ReportedError, ValueError):
    """A setting or argument is not valid. The message gives the field, the value found
    and the allowed values."""

    exit_code = 2

    def __init__(self, field: str, found: object, allowed: str) -> None:
        self.field = field
        self.found = found
        self.allowed = allowed
        super().__init__(f"{field}: found {found}, allowed is {allowed}")

    def __reduce__(
        self,
    ) -> tuple[type, tuple[str, object, str]]:  # so that the error can be pickled
        return type(self), (self.field, self.found, self.allowed)


class MissingFile(SettingsError):
    """A file that settings name with its hash is missing or has changed."""


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise SettingsError if the value is not one of the choices."""
    if value not in choices:
        raise SettingsError(field, value, "one of " + ", ".join(choices))


class TrajectoryError(ReportedError):
    """A file or dataset is not a complete, valid trajectory. The message gives the
    file, the variable and what was expected."""


class UnknownSystem(TrajectoryError):
    """A trajectory, possibly valid, of a system, or with an optimizer or schedule, that
    is not registered. The message explains how to register it."""


class RecordingError(ReportedError):
    """A file cannot be written. The message gives the reason."""


class FileBeingWritten(RecordingError):
    """Another process is writing a file."""


class UnrestoredRecording(RecordingError):
    """A training loop records into an unfinished recording that it has not
    restored."""


class MissingPackage(ReportedError):
    """A package of an optional extra is not installed. The message names the extra."""


class ForkedProcess(ReportedError):
    """A parallel kernel was called in a process that was forked after threads of kernels
    had started. The message says how to start processes."""


def _from_here(path: Path) -> Path:
    """A path as it is written in the working folder."""
    try:
        return path.relative_to(Path.cwd())
    except (OSError, ValueError):
        return path


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM arrived during a simulation.

    If `resumable`, the computed steps are on disk, and the same call without
    `overwrite` continues from them."""

    def __init__(
        self, signum: int, path: Path | None, step: int, steps: int | None = None
    ) -> None:
        self.signum = signum
        self.path = path
        self.step = step
        self.steps = steps
        self.resumable = path is not None
        end = "" if steps is None else f" of {steps}"
        super().__init__(
            f"interrupted at step {step}{end}"
            + (f"; {_from_here(path)} can be resumed" if path else "")
        )
