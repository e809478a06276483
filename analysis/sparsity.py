"""Sparsity of hidden activations in successful and failed runs of VC's network (VC
figures 17 and 20).

python -m analysis.sparsity RUN.nc [MORE.nc ...]

`analysis/clustering_heads/activation_sparsity.py` defines the quantities and the tests.
"""

import dataclasses
from pathlib import Path

import tyro

import dynamics
from analysis import clustering_heads, output, plots
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import (
    TrajectoryOptions,
    open_input,
    write_result_and_picture,
)
from dynamics.settings import SettingsError


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Reproduce figures 17 and 20 of VC: sparsity of the hidden activations of VC's
    network against the threshold, for successful and failed runs."""

    more: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Further trajectories; each has its own row of panels."""
    step: int | None = None
    """Recorded step to analyse. Default: the last step of each trajectory."""
    runs: int | None = None
    """Number of runs of each trajectory, starting with the first; the paper uses 20.
    Default: all."""


def main(options: Options) -> None:
    """Measure and compare the sparsity of each trajectory; print the table, write the
    result, draw the figure."""
    paths = [options.trajectory, *options.more]
    if options.runs is not None and options.runs < 1:
        raise SettingsError("runs", options.runs, "a whole number from 1")
    if options.more and options.out is None:
        options = dataclasses.replace(
            options, out=output.combined_path(paths, "sparsity", ".nc")
        )
    first, out = open_input(options, "sparsity")
    trajectories = [first, *(dynamics.open_trajectory(path) for path in options.more)]
    clustering_heads.check_activation_files(trajectories, paths, options.step)
    results = []
    for trajectory, path in zip(trajectories, paths, strict=True):
        sparsity = clustering_heads.measure_sparsity(
            trajectory.isel(run=slice(options.runs)), options.step
        )
        if diverged := int(sparsity["success"].isnull().sum()):
            print(
                f"{path.name}: {diverged} runs have diverged and are left out",
                file=options.log,
            )
        results.append(clustering_heads.compare_successes(sparsity))
    labels = clustering_heads.trajectory_labels(trajectories, paths)
    table = clustering_heads.sparsity_table(results, labels)
    output.output_table(table, clustering_heads.SPARSITY_COLUMNS, options.csv)
    print(clustering_heads.SPARSITY_LEGEND, file=options.log)
    combined = clustering_heads.combine_sparsity(results, labels, paths)
    figure = plots.plot_sparsity(results, labels)
    write_result_and_picture(
        options, "sparsity", "Sparsity of hidden activations", combined, figure, out
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.sparsity")
