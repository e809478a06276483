"""The linearised flow of networks and particles along a run: curvature, sharpness, saddles, distances to the origin.

python -m analysis.curvature RUN.nc
"""

from __future__ import annotations

import dataclasses

from analysis import linearization, output, plots
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions, open_input, write_result_and_picture
from dynamics.settings import SettingsError


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Compute the Hessian of a network's training loss, or the Jacobian of the motion of particles, at frames along a
    run: its spectrum, growing modes, sharpness relative to 2/lr, and movement along directions of negative curvature.
    For the network of VC, also compute the distances from the origin of the vectors that it normalises."""

    steps: int | None = None
    """Number of evenly spaced recorded frames, including the first and the last. Default: 20, or 10 for a network with
    more than 400 parameters."""
    at: tuple[int, ...] = ()
    """Recorded steps to use instead of evenly spaced frames. Default: see --steps."""
    runs: int | None = None
    """Number of runs to use, starting with the first. Default: all."""


def main(options: Options) -> None:
    """Linearise the flow of a trajectory, print the table and draw the figure."""
    trajectory, out = open_input(options, "curvature")
    frames = linearization.frame_indices(trajectory, options.steps, options.at)
    if options.runs is not None:
        if not 1 <= options.runs <= trajectory.sizes["run"]:
            raise SettingsError("runs", options.runs, f"a whole number from 1 to {trajectory.sizes['run']}")
        trajectory = trajectory.isel(run=slice(options.runs))
    found = linearization.linearize_trajectory(trajectory, frames)
    table, columns = linearization.tabulate_curvature(found), linearization.curvature_columns(found)
    output.output_table(table, columns, options.csv)
    texts = (linearization.escape_summary(found), linearization.curvature_legend(found))
    print("\n" + "\n\n".join(filter(None, texts)), file=options.log)
    figure = plots.plot_curvature(found)
    write_result_and_picture(options, "curvature", "Linearised flow along a run", found, figure, out)


if __name__ == "__main__":
    run_command(main, Options, "analysis.curvature")
