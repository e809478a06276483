"""The command line of a system that has none of its own: an ensemble is simulated, branched off another, or found.

`docs/momentum.py` has one.
"""

import dataclasses
import sys
from typing import Annotated, Any

import tyro

from analysis.command import command
from dynamics.settings import Settings
from sims.amount import Amount
from sims.ensemble import made
from sims.origin import Origin, inherited
from sims.sweep import length_of


def options_of(settings: type[Settings]) -> Any:
    """The options: the settings of the system, how long, how much, and from where."""
    unit, long = length_of(settings)
    length = Annotated[int | None, tyro.conf.arg(help=f"{long} More than before go on with the run.")]
    options = dataclasses.make_dataclass(
        "Options",
        [
            ("settings", settings, dataclasses.field(default_factory=settings)),
            (unit, length, dataclasses.field(default=None)),
            ("amount", Amount, dataclasses.field(default_factory=Amount)),
            ("origin", Origin, dataclasses.field(default_factory=Origin)),
        ],
        frozen=True,
    )
    options.__doc__ = settings.__doc__
    return options


def system_command(settings: type[Settings], program: str) -> None:
    """Parse the command line of `python -m program` and run, or find, the ensemble that it asks for."""
    options, unit = options_of(settings), length_of(settings)[0]

    def main(chosen: Any) -> None:
        made(chosen.settings, getattr(chosen, unit), chosen.amount, chosen.origin, sys.stdout, unit)

    command(main, options, program, inherited(options, settings.system))
