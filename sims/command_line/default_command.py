"""The command line of a system that has none of its own: an ensemble is simulated, branched off another, or found.

`docs/momentum.py` has one.
"""

import dataclasses
import sys
from typing import Annotated, Any

import tyro

from analysis.command_line.help_texts import docstring_summary
from analysis.command_line.parsing import exit_on_settings_error, run_command
from dynamics.settings import Settings
from sims.command_line.amount import EnsembleOptions
from sims.command_line.ensemble import run_ensemble
from sims.command_line.origin import OriginOptions, branch_defaults
from sims.sweep import duration_option


def system_options(settings: type[Settings]) -> Any:
    """The options: the settings of the system, how long, how much, and from where."""
    unit, long = duration_option(settings)
    length = Annotated[int | None, tyro.conf.arg(help=f"{long} More than before go on with the run.")]
    amount = _ensemble_options_for(settings)
    options = dataclasses.make_dataclass(
        "Options",
        [
            ("settings", settings, dataclasses.field(default_factory=settings)),
            (unit, length, dataclasses.field(default=None)),
            ("amount", amount, dataclasses.field(default_factory=amount)),
            ("origin", OriginOptions, dataclasses.field(default_factory=OriginOptions)),
        ],
        frozen=True,
    )
    options.__doc__ = docstring_summary(settings)
    return options


def _ensemble_options_for(settings: type[Settings]) -> type[EnsembleOptions]:
    """`Amount`, with a help for `every` that says what it is of this system."""
    words = "Steps between recorded frames; the first and the last are always recorded. None is "
    every = Annotated[int | None, tyro.conf.arg(help=f"{words}{settings().default_every}.")]
    field = ("every", every, dataclasses.field(default=None))
    return dataclasses.make_dataclass("Amount", [field], bases=(EnsembleOptions,), frozen=True)


def system_command(settings: type[Settings], program: str) -> None:
    """Parse the command line of `python -m program` and run, or find, the ensemble that it asks for."""
    with exit_on_settings_error():
        options, unit = system_options(settings), duration_option(settings)[0]

    def again(settings: Settings, amount: EnsembleOptions) -> Any:
        return options(settings=settings, amount=type(options().amount)(**vars(amount)))

    def main(chosen: Any) -> None:
        from dynamics.trajectory.schema import DIVERGED

        trajectory = run_ensemble(
            chosen.settings, getattr(chosen, unit), chosen.amount, chosen.origin, sys.stdout, unit
        )[1]
        diverged = int((trajectory["status"] == DIVERGED).sum())
        if diverged:
            print(f"diverged    {diverged} runs, which stand still since")

    run_command(main, options, program, branch_defaults(again, settings.system))
