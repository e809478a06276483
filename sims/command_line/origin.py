"""Runs that go on from another: the options that name it, and the defaults that come with it."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dynamics.settings import SettingsError
from sims.command_line.amount import EnsembleOptions

if TYPE_CHECKING:
    import xarray as xr

Options = TypeVar("Options")


@dataclasses.dataclass(frozen=True)
class OriginOptions:
    """The exact state of another run."""

    branch: Path | None = None
    """Trajectory of which to take the exact state at --step and go on from there: what would have happened had the
    settings changed that are given here. All others, and how much is run, are its own."""
    step: int | None = None
    """Step at which to leave the trajectory."""


def option_value(option: str, arguments: Sequence[str]) -> str | None:
    """What a command line gives for an option, before it is parsed; "" for one that stands alone."""
    found = None
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == f"--{option}":
            after = next(iter(arguments[at + 1 :]), "")
            found = value if equals else "" if after.startswith("--") else after
    return None if found == "None" else found


def flag_is_set(option: str, arguments: Sequence[str]) -> bool:
    """Whether a command line sets a flag, before it is parsed."""
    names = [argument.replace("_", "-") for argument in arguments]
    last = [name for name in names if name in (f"--{option}", f"--no-{option}")][-1:]
    return last == [f"--{option}"]


def branch_defaults(options: Callable[..., Options], system: str) -> Callable[[Sequence[str]], Options | None]:
    """What gives the defaults of a command line with --branch: those of the trajectory, which is of `system`."""

    def defaults(arguments: Sequence[str]) -> Options | None:
        name = option_value("branch", arguments)
        return options_from_trajectory(options, open_origin(name, system, "branch")) if name else None

    return defaults


def open_origin(name: str, system: str, option: str) -> "xr.Dataset":
    """The trajectory that an option names, if it is of the command's system."""
    from dynamics.trajectory.reader import open_trajectory

    trajectory = open_trajectory(name)
    found = trajectory.attrs["system"]
    if found != system:
        raise SettingsError(option, f"{name} of the system {found}", f"a trajectory of {system}")
    return trajectory


def options_from_trajectory(options: Callable[..., Options], trajectory: "xr.Dataset", **changes: Any) -> Options:
    """Options that repeat a trajectory, but for some settings."""
    from dynamics.trajectory.schema import read_settings

    settings = dataclasses.replace(read_settings(trajectory), **changes)
    attrs = trajectory.attrs
    amount = EnsembleOptions(int(attrs["runs"]), int(attrs["seed"]), record=attrs["record"], device=attrs["device"])
    return options(settings=settings, amount=amount)
