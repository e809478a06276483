"""The command line of a system that has none of its own: an ensemble is simulated, branched off another, or found.

`docs/momentum.py` has one.
"""

import dataclasses
import sys
from typing import Annotated, Any

import tyro

from analysis.command_line.parsing import command, refusing
from dynamics.settings import Settings
from sims.command_line.amount import Amount
from sims.command_line.ensemble import made
from sims.command_line.origin import Origin, inherited
from sims.sweep import length_of


def options_of(settings: type[Settings]) -> Any:
    """The options: the settings of the system, how long, how much, and from where."""
    unit, long = length_of(settings)
    length = Annotated[int | None, tyro.conf.arg(help=f"{long} More than before go on with the run.")]
    amount = amount_of(settings)
    options = dataclasses.make_dataclass(
        "Options",
        [
            ("settings", settings, dataclasses.field(default_factory=settings)),
            (unit, length, dataclasses.field(default=None)),
            ("amount", amount, dataclasses.field(default_factory=amount)),
            ("origin", Origin, dataclasses.field(default_factory=Origin)),
        ],
        frozen=True,
    )
    options.__doc__ = settings.__doc__
    return options


def amount_of(settings: type[Settings]) -> type[Amount]:
    """`Amount`, with a help for `every` that says what it is of this system."""
    words = "Steps between recorded frames; the first and the last are always recorded. None is "
    every = Annotated[int | None, tyro.conf.arg(help=f"{words}{settings().default_every}.")]
    field = ("every", every, dataclasses.field(default=None))
    return dataclasses.make_dataclass("Amount", [field], bases=(Amount,), frozen=True)


def system_command(settings: type[Settings], program: str) -> None:
    """Parse the command line of `python -m program` and run, or find, the ensemble that it asks for."""
    with refusing():
        options, unit = options_of(settings), length_of(settings)[0]

    def again(settings: Settings, amount: Amount) -> Any:
        return options(settings=settings, amount=type(options().amount)(**vars(amount)))

    def main(chosen: Any) -> None:
        from dynamics.trajectory.reader import DIVERGED

        trajectory = made(chosen.settings, getattr(chosen, unit), chosen.amount, chosen.origin, sys.stdout, unit)[1]
        diverged = int((trajectory["status"] == DIVERGED).sum())
        if diverged:
            print(f"diverged    {diverged} runs, which stand still since")

    command(main, options, program, inherited(again, settings.system))
