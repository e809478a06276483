"""Files that commands read and write: trajectories, results and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeAlias

import dynamics
from analysis import output, plots
from analysis.command_line.options import PictureOptions
from dynamics.errors import RecordingError
from dynamics.folders import existing_folder
from dynamics.settings import SettingsError
from dynamics.settings_text import describe_settings

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

FigureSource: TypeAlias = "Callable[[], Figure | None]"
"""A function that draws a figure after the result has been written, if there is one."""


def settings_in_words(trajectory: xr.Dataset) -> str:
    """The main settings of a trajectory and up to two others, for titles and legends."""
    return describe_settings(dynamics.read_settings(trajectory), 2)


def open_input(
    path: Path, name: str, program: str, log: TextIO, out: Path | None = None
) -> tuple[xr.Dataset, Path]:
    """The trajectory, and the path for the result, checked before any work is done.

    name, program: of the command. Raises TrajectoryError, and SettingsError for a
    result that exists and is another, or whose folder is read-only."""
    out = out or path.parent / f"{output.plain_stem(path)}-{name}.nc"
    out = output.check_result_path(out, result_attributes(path, program))
    existing_folder(out)
    trajectory = dynamics.open_trajectory(path)
    sizes = f"{trajectory.sizes['run']} runs, {trajectory.sizes['step']} frames"
    print(f"trajectory  {path}  ({trajectory.attrs['system']}: {sizes})", file=log)
    return trajectory, out


class FigureError(RecordingError):
    """A figure could not be drawn. The result has been written."""


def write_result_and_picture(
    options: PictureOptions,
    result: xr.Dataset,
    figure: FigureSource | None,
    out: Path,
) -> None:
    """Write the result to `out`, and the picture beside it. Raises RecordingError,
    SettingsError for panels that the figure does not have, and FigureError for an error
    in a function that draws the figure."""
    output.write_result(result, out)
    print(f"result      {out}", file=options.log)
    if figure is not None:
        write_picture(options, figure, out)


def write_picture(options: PictureOptions, figure: FigureSource, out: Path) -> None:
    """Draw the chosen panels of a figure, and save it beside the result `out`. Raises
    as `write_result_and_picture`."""
    with plots.choose_panels(options.panels) as choice:
        try:
            drawn = figure()
        except SettingsError as error:
            error.add_note(f"the result is in {out}")
            raise
        except Exception as error:
            words = f"the figure of {out} could not be drawn"
            raise FigureError(f"{words}: {type(error).__name__}: {error}") from error
    if drawn is not None:
        choice.check()
        picture = options.picture_path(out)
        plots.save_figure(drawn, picture)
        if choice.drawn:
            print(f"panels      {choice.describe()}", file=options.log)
        print(f"picture     {picture}", file=options.log)


def result_attributes(path: Path, program: str) -> dict[str, str]:
    """Attributes of the result of a program: the program and the trajectory's file."""
    return {"result_of": program, "trajectory": path.name}
