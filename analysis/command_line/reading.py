"""What commands share that read one trajectory: its options, where their result lies, and how they end."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import tyro

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class TrajectoryOptions:
    """Options of a command that reads a trajectory and writes a result and a picture."""

    trajectory: tyro.conf.Positional[Path]
    """A trajectory, finished or still running."""
    out: Path | None = None
    """File for the result; the picture lies beside it. None is TRAJECTORY-ANALYSIS.nc beside the trajectory."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""

    @property
    def say(self) -> TextIO:
        """Where a person is told things: not among the numbers, where these go to the terminal."""
        return sys.stderr if str(self.csv) == "-" else sys.stdout


def open_input(options: TrajectoryOptions, analysis: str) -> "tuple[xr.Dataset, Path]":
    """The trajectory of a command, and the path of its result, seen to before any work is done.

    analysis: the command's name without its package. Raises TrajectoryError, SettingsError.
    """
    from analysis.output.results import check_result_path
    from dynamics.trajectory.reader import open_trajectory

    path = options.trajectory
    out = check_result_path(options.out or path.with_name(f"{path.stem}-{analysis}.nc"), _what(options, analysis))
    trajectory = open_trajectory(path)
    system, runs, frames = trajectory.attrs["system"], trajectory.sizes["run"], trajectory.sizes["step"]
    print(f"trajectory  {path}  ({system}: {runs} runs, {frames} frames)", file=options.say)
    return trajectory, out


def write_result_and_picture(
    options: TrajectoryOptions, analysis: str, title: str, found: "xr.Dataset", picture: "Figure", out: Path
) -> None:
    """Write the result with its title, and the picture beside it. Raises RecordingError."""
    from analysis.output.results import write_result
    from analysis.plots.figure_files import save_figure

    write_result(found.assign_attrs(title=title, **_what(options, analysis)), out)
    save_figure(picture, out.with_suffix(".png"))
    print(f"result      {out}\npicture     {out.with_suffix('.png')}", file=options.say)


def _what(options: TrajectoryOptions, analysis: str) -> dict[str, str]:
    return {"result_of": f"analysis.{analysis}", "trajectory": options.trajectory.name}
