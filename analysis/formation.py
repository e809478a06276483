"""When circles, grids and frequencies form in an embedding, in networks and in
particles.

python -m analysis.formation RUN.nc [OTHER.nc]
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

import dynamics
from analysis import output, plots, structures
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import (
    TrajectoryOptions,
    open_input,
    write_result_and_picture,
)
from dynamics.settings import SettingsError

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Measure when circles, grids and dominant frequencies form in the embeddings of
    one or two trajectories of any system. Circles and grids are defined as in CA
    appendix A."""

    other: tyro.conf.Positional[Path | None] = None
    """Second trajectory, compared with the first."""
    every: int = 1
    """Interval between the analysed frames, in recorded frames; the last frame is
    always included."""
    run: int = 0
    """Index of the run whose frequencies are drawn."""
    clock: Literal["normalised", "step"] = "normalised"
    """Unit in which times are compared and printed: fractions of the trajectory
    (normalised), or steps."""


def main(options: Options) -> None:
    """Measure the trajectories; print, draw and write when structures form."""
    if options.every < 1:
        raise SettingsError("every", options.every, "a whole number from 1")
    paths = [options.trajectory, *([options.other] if options.other else [])]
    if options.other and options.out is None:
        options = dataclasses.replace(
            options, out=output.combined_path(paths, "formation", ".nc")
        )
    first, out = open_input(options, "formation")
    trajectories = [first, *map(dynamics.open_trajectory, paths[1:])]
    fewest = min(item.sizes["run"] for item in trajectories)
    if not 0 <= options.run < fewest:
        raise SettingsError("run", options.run, f"a run index from 0 to {fewest - 1}")
    for trajectory, path in zip(trajectories, paths, strict=True):
        _check(trajectory, path)  # all of them before any is measured
    names = [item.attrs["system"] for item in trajectories]
    names = names if len(set(names)) == len(names) else [path.stem for path in paths]
    results = [
        _measure(*item, options)
        for item in zip(trajectories, paths, names, strict=True)
    ]
    table = output.make_table(structures.formation_rows(results, options.clock))
    output.output_table(table, structures.FORMATION_COLUMNS, options.csv)
    print(structures.formation_legend(results, options.clock), file=options.log)
    picture = plots.plot_formation(results, options.run)
    title = "Structure over time, and when it forms"
    write_result_and_picture(
        options, "formation", title, structures.merge_formation(results), picture, out
    )


def _check(trajectory: "xr.Dataset", path: Path) -> None:
    """Raise TrajectoryError with the file's name unless the trajectory has structure to
    look at."""
    try:
        structures.modular_embedding(trajectory)
    except dynamics.TrajectoryError as error:
        raise dynamics.TrajectoryError(f"{path}: {error}") from None


def _measure(
    trajectory: "xr.Dataset", path: Path, name: str, options: Options
) -> "structures.FormationResult":
    measures = structures.structure_measures(trajectory, options.every)
    if diverged := dynamics.count_diverged(trajectory):
        print(
            f"{path.name}: {diverged} runs diverged and are censored there",
            file=options.log,
        )
    if "grid_distance" not in measures:
        n = trajectory.attrs["modulus"]
        reason = (
            f"with {n} tokens there are too many grids to compare with (the limit is"
            f" {structures.MAX_GRID_TOKENS})"
        )
        print(
            f"{path.name}: distances from grids are not computed, because {reason}",
            file=options.log,
        )
    onsets = structures.find_formation_times(measures)
    return structures.FormationResult(
        name, trajectory.attrs["system"], measures, onsets
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.formation")
