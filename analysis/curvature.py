"""The linearised flow of networks and particles along a run: curvature, sharpness, saddles, distances to the origin.

python -m analysis.curvature RUN.nc
"""

import dataclasses

from analysis.command_line.parsing import command
from analysis.command_line.reading import Reading, finish, opened
from dynamics.settings import SettingsError


@dataclasses.dataclass(frozen=True)
class Options(Reading):
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
    from analysis.linearization.along_trajectory import linearisation, places_of, usual_steps
    from analysis.output import tables
    from analysis.plots.curvature_figure import curvature_figure

    trajectory, out = opened(options, "curvature")
    steps = usual_steps(trajectory) if options.steps is None else options.steps
    places = places_of(trajectory, steps, options.at)
    if options.runs is not None:
        if not 1 <= options.runs <= trajectory.sizes["run"]:
            raise SettingsError("runs", options.runs, f"a whole number from 1 to {trajectory.sizes['run']}")
        trajectory = trajectory.isel(run=slice(options.runs))
    found = linearisation(trajectory, places)
    header, columns = curvature_table.header(found), curvature_table.columns(found)
    tables.show(header, columns, curvature_table.rows(found), options.csv)
    said = (curvature_table.escape(found), curvature_table.legend(found))
    print("\n" + "\n\n".join(part for part in said if part), file=options.say)
    finish(options, "curvature", "Linearised flow along a run", found, curvature_figure(found), out)


if __name__ == "__main__":
    command(main, Options, "analysis.curvature")
