"""The linearised flow of networks and particles along a run: curvature, sharpness, saddles, distances to the origin.

python -m analysis.curvature RUN.nc
"""

import dataclasses

from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions, open_input, write_result_and_picture
from dynamics.settings import SettingsError


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """The Hessian of a network's training loss, or the derivative of the particles' motion, at frames along a run: its
    spectrum, growing modes, sharpness against 2/lr, movement along directions of negative curvature, and for VC's
    network how near to the origin the points come that are normalised."""

    steps: int | None = None
    """Evenly spaced recorded frames, the first and the last among them. None is 20; 10 for a network of more than 400
    parameters, whose Hessians take long."""
    at: tuple[int, ...] = ()
    """Recorded steps instead."""
    runs: int | None = None
    """The first so many runs. None is all."""


def main(options: Options) -> None:
    """Linearise a trajectory's flow, print what was found and draw it."""
    from analysis.linearization import curvature_table
    from analysis.linearization.along_trajectory import default_frame_count, frame_indices, linearize_trajectory
    from analysis.output import tables
    from analysis.plots.curvature_figure import plot_curvature

    trajectory, out = open_input(options, "curvature")
    steps = default_frame_count(trajectory) if options.steps is None else options.steps
    places = frame_indices(trajectory, steps, options.at)
    if options.runs is not None:
        if not 1 <= options.runs <= trajectory.sizes["run"]:
            raise SettingsError("runs", options.runs, f"a whole number from 1 to {trajectory.sizes['run']}")
        trajectory = trajectory.isel(run=slice(options.runs))
    found = linearize_trajectory(trajectory, places)
    header, columns = curvature_table.curvature_header(found), curvature_table.curvature_columns(found)
    tables.print_rows(header, columns, curvature_table.curvature_rows(found), options.csv)
    said = (curvature_table.escape_summary(found), curvature_table.curvature_legend(found))
    print("\n" + "\n\n".join(part for part in said if part), file=options.say)
    write_result_and_picture(options, "curvature", "Linearised flow along a run", found, plot_curvature(found), out)


if __name__ == "__main__":
    run_command(main, Options, "analysis.curvature")
