"""Errors that a user can act on. A command prints them in one line, without a traceback. Standard library only."""

from pathlib import Path
from typing import ClassVar


class ReportedError(Exception):
    """Base class of errors whose message tells the user all that is needed."""

    exit_code: ClassVar[int] = 1


class SettingsError(ReportedError, ValueError):
    """A setting or argument outside what is allowed; names the field, what was found and what is allowed."""

    exit_code = 2

    def __init__(self, field: str, found: object, allowed: str) -> None:
        self.field, self.found, self.allowed = field, found, allowed
        super().__init__(f"{field}: found {found}, allowed is {allowed}")

    def __reduce__(self) -> tuple[type, tuple[str, object, str]]:  # for transport between processes
        return type(self), (self.field, self.found, self.allowed)


class TrajectoryError(ReportedError):
    """A file or dataset that is not a whole, valid trajectory; names the file, the variable and what was expected."""


class UnknownSystem(TrajectoryError):
    """A trajectory, possibly valid, of a system that is not registered; says how to register it."""


class RecordingError(ReportedError):
    """A file that cannot be written; says why, and what is kept."""


class MissingPackage(ReportedError):
    """A package of an optional extra is not installed; says which extra to install."""


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM arrived during a simulation.

    If `resumable`, what was computed is on disk, and the same call, without overwrite, continues from there.
    """

    def __init__(self, signum: int, path: Path | None, step: int, steps: int) -> None:
        self.signum, self.path, self.step, self.steps = signum, path, step, steps
        self.resumable = path is not None
        super().__init__(f"interrupted at step {step} of {steps}" + (f"; {path} can be resumed" if path else ""))
