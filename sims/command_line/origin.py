"""Runs that go on from another: the options that name it, and the defaults that come with it."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dynamics.settings import SettingsError
from sims.command_line.amount import Amount

if TYPE_CHECKING:
    import xarray as xr

Options = TypeVar("Options")


@dataclasses.dataclass(frozen=True)
class Origin:
    """The exact state of another run."""

    branch: Path | None = None
    """Trajectory of which to take the exact state at --step and go on from there: what would have happened had the
    settings changed that are given here. All others, and how much is run, are its own."""
    step: int | None = None
    """Step at which to leave the trajectory."""


def value_of(option: str, arguments: Sequence[str]) -> str | None:
    """What a command line gives for an option, before it is parsed; "" for one that stands alone."""
    found = None
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == f"--{option}":
            after = next(iter(arguments[at + 1 :]), "")
            found = value if equals else "" if after.startswith("--") else after
    return None if found == "None" else found


def is_set(option: str, arguments: Sequence[str]) -> bool:
    """Whether a command line sets a flag, before it is parsed."""
    names = [argument.replace("_", "-") for argument in arguments]
    last = [name for name in names if name in (f"--{option}", f"--no-{option}")][-1:]
    return last == [f"--{option}"]


def inherited(options: Callable[..., Options], system: str) -> Callable[[Sequence[str]], Options | None]:
    """What gives the defaults of a command line with --branch: those of the trajectory, which is of `system`."""

    def defaults(arguments: Sequence[str]) -> Options | None:
        name = value_of("branch", arguments)
        return as_in(options, opened(name, system, "branch")) if name else None

    return defaults


def opened(name: str, system: str, option: str) -> "xr.Dataset":
    """The trajectory that an option names, if it is of the command's system."""
    from dynamics.trajectory.reader import open_trajectory

    trajectory = open_trajectory(name)
    found = trajectory.attrs["system"]
    if found != system:
        raise SettingsError(option, f"{name} of the system {found}", f"a trajectory of {system}")
    return trajectory


def as_in(options: Callable[..., Options], trajectory: "xr.Dataset", **changes: Any) -> Options:
    """Options that repeat a trajectory, but for some settings."""
    from dynamics.trajectory.reader import settings_of

    settings = dataclasses.replace(settings_of(trajectory), **changes)
    attrs = trajectory.attrs
    amount = Amount(int(attrs["runs"]), int(attrs["seed"]), record=attrs["record"], device=attrs["device"])
    return options(settings=settings, amount=amount)
