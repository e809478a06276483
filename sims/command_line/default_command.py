"""A default command line, for systems without a command of their own such as
`docs/momentum.py`."""

import dataclasses
import sys
from typing import Any

from analysis.command_line.help_texts import docstring_summary
from analysis.command_line.parsing import exit_on_settings_error, run_command
from dynamics.settings import Settings
from sims import command_line
from sims.command_line.ensemble_options import (
    EnsembleOptions,
    OriginOptions,
    branch_defaults,
    duration_option,
    ensemble_options,
)


def system_options(settings: type[Settings]) -> Any:
    """The class of options: the settings of the system, the length of the runs, the
    ensemble, and its origin."""
    unit, text = duration_option(settings)
    ensemble = ensemble_options(settings)
    options = dataclasses.make_dataclass(
        "Options",
        [
            ("settings", settings, dataclasses.field(default_factory=settings)),
            (
                unit,
                int | None,
                dataclasses.field(default=None, metadata={"help": text}),
            ),
            ("ensemble", ensemble, dataclasses.field(default_factory=ensemble)),
            ("origin", OriginOptions, dataclasses.field(default_factory=OriginOptions)),
        ],
        frozen=True,
    )
    options.__doc__ = docstring_summary(settings)
    return options


def system_command(settings: type[Settings], program: str) -> None:
    """Parse the command line of `python -m program`, and simulate the ensemble or read
    it from disk."""
    with exit_on_settings_error():
        options = system_options(settings)
        unit, _ = duration_option(settings)

    def repeat(settings: Settings, ensemble: EnsembleOptions) -> Any:
        return options(
            settings=settings, ensemble=type(options().ensemble)(**vars(ensemble))
        )

    def main(chosen: Any) -> None:
        _, trajectory = command_line.run_ensemble(
            chosen.settings,
            getattr(chosen, unit),
            chosen.ensemble,
            chosen.origin,
            sys.stdout,
        )
        command_line.print_diverged(
            trajectory, "they keep their last finite state", sys.stdout
        )

    run_command(main, options, program, branch_defaults(repeat, settings.system))
