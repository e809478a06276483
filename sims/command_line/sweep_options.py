"""Options of `sims.sweep`: a subcommand for each system, whose settings take several
values."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import tyro

from analysis.command_line.help_texts import docstring_summary, field_descriptions
from analysis.command_line.options import PictureOptions
from dynamics import sweeps
from dynamics.settings import (
    SETTINGS_CLASSES,
    SYSTEM_MODULES_VARIABLE,
    Settings,
    SettingsError,
)
from sims.command_line.ensemble_options import (
    SizeOptions,
    duration_option,
    system_choices,
)


@dataclasses.dataclass(frozen=True)
class SweepOptions(PictureOptions, SizeOptions):
    """Size of the ensemble at each point of the sweep, recorded variables, device and
    output files."""

    every: int | None = None
    """Epochs between recorded frames, or steps for a system without epochs. Default:
    the default of the system."""
    record: Literal["all", "metrics"] = "metrics"
    """Record only metrics, or also embeddings and weights, which take much more disk
    space. With both, the results of at least five numbers modulo N contain the
    percentage of circles (CA algorithm 1) and the mean number of grid imperfections of
    the other runs (CA algorithm 2) at the end."""
    folder: str = "runs"
    """Folder for the trajectories of the points, SYSTEM-HASH.nc; existing ones are not
    computed again."""
    out: Path | None = None
    """File for the combined results. Default: FOLDER/sweep-SYSTEM-HASH.nc, with a hash
    of all points."""
    scheduler: str | None = None
    """Address of a dask scheduler on whose workers to compute, as tcp://127.0.0.1:8786.
    Default: use this process."""
    part: str | None = None
    """Compute a part of the points only, as 3/10 for the third of ten parts; for jobs
    that share the folder. The one that finishes the last point combines all."""


def is_swept(kind: object) -> bool:
    """Whether a setting of this type can take several values: numbers and strings can,
    tuples cannot."""
    return kind in (int, float, bool, str) or get_origin(kind) is Literal


def sweep_options(settings: type[Settings]) -> type:
    """The class of options of a system: one or more values of each setting, and length
    and size of the ensembles."""
    unit, text = duration_option(settings)
    kinds = get_type_hints(settings)
    texts = field_descriptions(settings)
    fields = []
    for field in dataclasses.fields(settings):
        kind = kinds[field.name]
        default = getattr(settings(), field.name)
        if is_swept(kind):
            kind, default = tuple[kind, ...], (default,)  # type: ignore[valid-type]
        described = dataclasses.field(
            default=default, metadata={"help": texts.get(field.name, "")}
        )
        fields.append((field.name, kind, described))
    values = dataclasses.make_dataclass("Settings", fields, frozen=True)
    values.__doc__ = (
        "Settings with several values are swept; settings with a single value are the"
        " same at all points."
    )
    ensembles = dataclasses.make_dataclass(
        "SweepOptions",
        system_choices(settings.system),
        bases=(SweepOptions,),
        frozen=True,
    )
    ensembles.__doc__ = SweepOptions.__doc__
    options = dataclasses.make_dataclass(
        settings.__name__,
        [
            ("settings", values, dataclasses.field(default_factory=values)),
            (
                unit,
                int | None,
                dataclasses.field(default=None, metadata={"help": text}),
            ),
            (
                "ensembles",
                ensembles,
                dataclasses.field(default_factory=ensembles),
            ),
        ],
        frozen=True,
        namespace={"of": settings},
    )
    options.__doc__ = docstring_summary(settings)
    return options


def sweep_command_options(systems: Mapping[str, type]) -> Any:
    """The class of options of `sims.sweep`: a subcommand for each system, given by name
    and settings class."""
    annotated: Any = (
        Annotated[sweep_options(kind), tyro.conf.subcommand(name)]
        for name, kind in systems.items()
    )
    one: Any = Annotated[
        functools.reduce(operator.or_, annotated), tyro.conf.OmitSubcommandPrefixes
    ]
    options = dataclasses.make_dataclass("Options", [("system", one)], frozen=True)
    options.__doc__ = """Simulate or train an ensemble for every combination of the
    settings for which several values are given, and combine the final metrics in one
    file, one table and one picture. Existing points are not computed again.
    SYSTEM --help lists the settings of a system."""
    return options


@dataclasses.dataclass(frozen=True)
class ScriptSweepOptions(PictureOptions):
    """Number of trainings at each point of the sweep, and output files."""

    runs: int = 3
    """Number of trainings at each point, with the seeds SEED, SEED + 1 and so on."""
    seed: int = 0
    """Seed of the first training at each point."""
    folder: str = "runs"
    """Folder for the trajectories, SCRIPT-HASH-SEED.nc; finished ones are not trained
    again unless the script has changed."""
    out: Path | None = None
    """File for the combined results. Default: FOLDER/sweep-SCRIPT-HASH.nc."""
    scheduler: str | None = None
    """Address of a dask scheduler on whose workers to train, as tcp://127.0.0.1:8786.
    Default: use this process."""
    part: str | None = None
    """Train a part of the points only, as 3/10 for the third of ten parts; for jobs
    that share the folder. The one that finishes the last training combines all."""


def script_sweep_options(script: sweeps.Script) -> Any:
    """The class of options of `sims.sweep SCRIPT.py`: one or more values of each
    setting of the script. Raises SettingsError for a setting without a default
    value."""
    kinds = get_type_hints(script.settings)
    texts = field_descriptions(script.settings)
    fields: list[Any] = [("script", tyro.conf.Positional[Path])]
    for field in dataclasses.fields(script.settings):
        name = field.name
        kind = kinds[field.name]
        default = getattr(script.settings(), name)
        if not is_swept(kind):
            allowed = "numbers, flags, strings and Literal types"
            raise SettingsError(f"Settings.{name}", kind, allowed)
        described = dataclasses.field(
            default=(default,), metadata={"help": texts.get(name, "")}
        )
        fields.append((name, tuple[kind, ...], described))  # type: ignore[valid-type]
    sizes = dataclasses.field(default_factory=ScriptSweepOptions)
    fields.append(("trainings", ScriptSweepOptions, sizes))
    options = dataclasses.make_dataclass("Options", fields, frozen=True)
    options.__doc__ = (
        f"Train {script.path.name} for every combination of the settings for which"
        " several values are given, and combine the final metrics in one file, one"
        " table and one picture."
    )
    return options


def design_from_script(script: sweeps.Script, chosen: Any) -> sweeps.ScriptDesign:
    """The sweep over the settings of a script that have several values. Raises
    SettingsError."""
    first, axes = {}, {}
    for field in dataclasses.fields(script.settings):
        values = getattr(chosen, field.name)
        if not values:
            raise SettingsError(field.name, "no value", "one or more values")
        first[field.name] = values[0]
        if len(values) > 1:
            axes[field.name] = values
    e = chosen.trainings
    return sweeps.script_design(
        script, script.settings(**first), axes, e.runs, e.seed, e.folder
    )


def check_sweep_system(arguments: Sequence[str]) -> None:
    """Check that the first argument names a registered system, or asks for help. Raises
    SettingsError."""
    name = next(iter(arguments), "none")
    if name not in ("-h", "--help", *SETTINGS_CLASSES):
        how = (
            f"others if {SYSTEM_MODULES_VARIABLE} names the module that registers them,"
            " see docs/guides/own-system.md"
        )
        systems = ", ".join(SETTINGS_CLASSES)
        allowed = f"one of {systems}, as first word ({how})"
        raise SettingsError("name of the system", name, allowed)


def design_from_options(chosen: Any) -> sweeps.SweepDesign:
    """The sweep over the settings that have several values. Raises SettingsError."""
    kinds = get_type_hints(chosen.of)
    first = {}
    axes = {}
    for name, given in vars(chosen.settings).items():
        if not is_swept(kinds[name]):
            first[name] = given
            continue
        if not given:
            raise SettingsError(name, "no value", "one or more values")
        first[name] = given[0]
        if len(given) > 1:
            axes[name] = given
    e = chosen.ensembles
    unit = duration_option(chosen.of)[0]
    return sweeps.sweep_design(
        chosen.of(**first),
        axes,
        folder=e.folder,
        **e.arguments(),
        **{unit: getattr(chosen, unit)},
    )
