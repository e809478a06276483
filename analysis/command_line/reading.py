"""Common parts of the commands that read one trajectory: options, and output of the
result and the picture."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

import dynamics
from analysis import output, plots
from analysis.command_line.options import PictureOptions

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class TrajectoryOptions(PictureOptions):
    """Options of a command that reads a trajectory and writes a result and a
    picture."""

    trajectory: tyro.conf.Positional[Path]
    """Trajectory file; its runs may still be in progress. A pattern in quotes, such as
    "seed*.nc", opens several files with the same settings as one ensemble."""
    out: Path | None = None
    """NetCDF file for the result; the picture is saved beside it. Default:
    TRAJECTORY-COMMAND.nc in the folder of the trajectory."""


def open_input(options: TrajectoryOptions, command: str) -> tuple[xr.Dataset, Path]:
    """The trajectory, and the path for the result, checked before any work is done.

    command: name of the command without its package. Raises TrajectoryError,
    SettingsError."""
    path = options.trajectory
    out = options.out or path.with_name(f"{output.plain_stem(path)}-{command}.nc")
    out = output.check_result_path(out, _result_attributes(options, command))
    trajectory = dynamics.open_trajectory(path)
    system, runs, frames = (
        trajectory.attrs["system"],
        trajectory.sizes["run"],
        trajectory.sizes["step"],
    )
    print(
        f"trajectory  {path}  ({system}: {runs} runs, {frames} frames)",
        file=options.log,
    )
    return trajectory, out


def write_result_and_picture(
    options: TrajectoryOptions,
    command: str,
    title: str,
    result: xr.Dataset,
    picture: Figure,
    out: Path,
) -> None:
    """Write the result with its title to `out`, and the picture beside it. Raises
    RecordingError."""
    output.write_result(
        result.assign_attrs(title=title, **_result_attributes(options, command)), out
    )
    path = options.picture_path(out)
    plots.save_figure(picture, path)
    print(f"result      {out}\npicture     {path}", file=options.log)


def _result_attributes(options: TrajectoryOptions, command: str) -> dict[str, str]:
    return {"result_of": f"analysis.{command}", "trajectory": options.trajectory.name}
