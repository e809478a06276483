"""A default command line, for systems without a command of their own such as
`docs/momentum.py`."""

import dataclasses
from pathlib import Path
from typing import Any

import xarray as xr

import dynamics
from analysis import output, structures
from analysis.command_line.help_texts import docstring_summary
from analysis.command_line.options import PictureOptions
from analysis.command_line.parsing import exit_on_settings_error, run_command
from dynamics.errors import TrajectoryError
from dynamics.settings import Settings, SettingsError
from sims import command_line
from sims.command_line.ensemble_options import (
    EndPictureOptions,
    EnsembleOptions,
    OriginOptions,
    branch_defaults,
    duration_option,
    ensemble_options,
)


def system_options(settings: type[Settings]) -> Any:
    """The class of options: the settings of the system, the length of the runs, the
    ensemble, its origin, and those of the table and the picture."""
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
        bases=(EndPictureOptions,),
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
        path, trajectory = command_line.run_ensemble(
            chosen.settings,
            getattr(chosen, unit),
            chosen.ensemble,
            chosen.origin,
            chosen.log,
        )
        command_line.print_diverged(
            trajectory, "they keep their last finite state", chosen.log
        )
        _show_structures(chosen, path, trajectory)

    run_command(main, options, program, branch_defaults(repeat, settings.system))


def _show_structures(
    options: PictureOptions, path: Path, trajectory: xr.Dataset
) -> None:
    """Draw the embeddings at the end and print a table of their structures, if the
    tokens of the system are the numbers modulo their number. Raises SettingsError if a
    table is asked for that there is not."""
    try:
        ends = structures.final_numbers(trajectory)
    except TrajectoryError as error:
        if options.csv:
            raise SettingsError(
                "csv", options.csv, f"no value here, there is no table: {error}"
            ) from None
        return
    settings = dynamics.read_settings(trajectory)
    steps = int(trajectory["step"][-1])
    command_line.draw_ends(ends, settings, steps, options, path)
    table = output.make_table([structures.structure_columns(ends.values)])
    output.output_table(table, structures.END_COLUMNS, options.csv)
    if str(options.csv) != "-":
        print(structures.END_LEGEND)
