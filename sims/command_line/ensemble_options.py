"""Options that the simulation commands share: size of the ensemble, the run to continue
from, and the picture of the ends of the runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import tyro

from analysis.command_line.help_texts import field_descriptions
from analysis.command_line.options import PictureOptions
from analysis.panels import figure_panels
from dynamics.pair_lists import FIELD as PAIR_LIST
from dynamics.settings import EnsembleArguments, Settings
from dynamics.settings_checks import check_settings_class
from dynamics.system import SYSTEM_KINDS
from sims import command_line

Options = TypeVar("Options")


@dataclasses.dataclass(frozen=True)
class EndPictureOptions(PictureOptions):
    """The table of the runs and their picture, which has no panels to choose from."""

    def names_of_panels(self) -> tuple[str, ...]:
        return figure_panels.NONE


@dataclasses.dataclass(frozen=True)
class SizeOptions(EnsembleArguments):
    """The arguments of an ensemble that are options by these names."""

    settings: tyro.conf.Suppress[None] = None  # type: ignore[assignment]
    steps: tyro.conf.Suppress[None] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    backend: Literal["auto", "simd", "blas", "blocks", "torch"] = "auto"

    def arguments(self) -> dict[str, Any]:
        """The arguments by name, without settings and steps."""
        names = (field.name for field in dataclasses.fields(SizeOptions))
        return {name: getattr(self, name) for name in names if name not in _APART}


_APART = ("settings", "steps")
"""Arguments that the options of a command give by other names."""


@dataclasses.dataclass(frozen=True)
class EnsembleOptions(SizeOptions):
    """Size of the ensemble, what is recorded, and where the trajectory is written."""

    out: Path | None = None
    """Trajectory file to write. Default: runs/SYSTEM-HASH.nc, where HASH is computed
    from settings and options."""
    overwrite: bool = False
    """Compute all runs again and replace the file, if it exists."""


@dataclasses.dataclass(frozen=True)
class OriginOptions:
    """Continue from the exact state of another run."""

    branch: Path | None = None
    """Trajectory to branch off from at --step. Settings given on the command line are
    changed; all other settings and options are those of the trajectory. Default: start
    new runs."""
    step: int | None = None
    """Step at which to branch off; required with --branch."""


def ensemble_options(settings: type[Settings]) -> type[EnsembleOptions]:
    """`EnsembleOptions` whose help names the default of `every` for a system, and
    offers only the choices that the system has."""
    plain = settings()
    epoch = " (one epoch)" if plain.default_every == plain.epoch_steps > 1 else ""
    text = field_descriptions(EnsembleOptions)["every"]
    described = {"help": f"{text} Default: {plain.default_every}{epoch}."}
    every = ("every", int | None, dataclasses.field(default=None, metadata=described))
    kind = dataclasses.make_dataclass(
        "EnsembleOptions",
        [every, *system_choices(settings.system)],
        bases=(EnsembleOptions,),
        frozen=True,
    )
    kind.__doc__ = EnsembleOptions.__doc__
    return kind


def system_choices(system: str) -> list[tuple[str, Any, str]]:
    """The option `backend` with the choices that a built-in system has; without a choice
    it does not exist."""
    if system not in SYSTEM_KINDS:
        return []
    kind = SYSTEM_KINDS[system]
    choices: Any = ("auto", *kind.backends, *kind.cuda_backends)
    backend: Any = Literal[choices]
    if choices == ("auto",):
        backend = tyro.conf.Suppress[backend]  # type: ignore[misc]
    return [("backend", backend, "auto")]


def duration_option(settings: type[Settings]) -> tuple[str, str]:
    """The name of the option for the length of runs, and its help. Raises SettingsError
    for an incomplete class."""
    check_settings_class(settings)
    plain = settings()
    if plain.epoch_steps:
        unit = "epochs"
        default = plain.default_steps // plain.epoch_steps
    else:
        unit = "steps"
        default = plain.default_steps
    return (
        unit,
        f"Number of {unit}. A larger number extends existing runs. Default: {default}.",
    )


# ------------------------------------------------------- options before they are parsed


def option_value(option: str, arguments: Sequence[str]) -> str | None:
    """The value of an option in the arguments of a command; "" for an option without a
    value."""
    given = None
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") != f"--{option}":
            continue
        following = next(iter(arguments[index + 1 :]), "")
        if equals:
            given = value
        elif following.startswith("--"):
            given = ""
        else:
            given = following
    return None if given == "None" else given


def flag_is_set(option: str, arguments: Sequence[str]) -> bool:
    """Whether the arguments of a command set a flag."""
    names = [argument.replace("_", "-") for argument in arguments]
    last = [name for name in names if name in (f"--{option}", f"--no-{option}")][-1:]
    return last == [f"--{option}"]


def pair_list_changes(arguments: Sequence[str]) -> dict[str, None]:
    """What the arguments of a command change in the settings that their options start
    from: a list of training pairs replaces their list or share."""
    option = PAIR_LIST.replace("_", "-")
    return {} if option_value(option, arguments) is None else {PAIR_LIST: None}


def branch_defaults(
    options: Callable[..., Options], system: str
) -> Callable[[Sequence[str]], Options | None]:
    """A function of a command's arguments that returns the defaults for --branch: those
    of the trajectory."""

    def defaults(arguments: Sequence[str]) -> Options | None:
        name = option_value("branch", arguments)
        if not name:
            return None
        origin = command_line.open_origin(name, system, "branch")
        listed = pair_list_changes(arguments)
        return command_line.options_from_trajectory(options, origin, **listed)

    return defaults
