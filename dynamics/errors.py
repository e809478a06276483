"""Errors that a user can act on. A command prints them in one line, without a traceback. Standard library only."""

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


class RecordingError(ReportedError):
    """A file that cannot be written; says why, and what is kept."""


class MissingPackage(ReportedError):
    """A package of an optional extra is not installed; says which extra to install."""
