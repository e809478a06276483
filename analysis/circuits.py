"""Circuits that runs of VC's network have learned: a label for every run, and how they
form (VC sections 3 and 4.1).

python -m analysis.circuits RUN.nc [OTHER.nc]

`analysis/clustering_heads/circuit_analysis.py` defines the quantities.
"""

from __future__ import annotations

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
from dynamics import networks


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Classify the circuit that each run of VC's network has learned, and print the
    measurements behind the label. Also report when the clusters formed and when the MLP
    separated them, how similar the attention is at the start and at the end of training
    and, with a second trajectory of the same seeds, how far the final weights differ
    when a setting is changed."""

    other: tyro.conf.Positional[Path | None] = None
    """Trajectory with the same seeds and the same initial weights, but a different
    setting."""
    frames: int = 201
    """Number of recorded frames in which clusters are detected."""


def main(options: Options) -> None:
    """Label the runs of a trajectory; print the tables, write the result and draw the
    figure."""
    if options.other is not None and _same_file(options.trajectory, options.other):
        raise dynamics.TrajectoryError(
            f"{options.other}: found the same file as the first, expected another"
        )
    trajectory, out = open_input(options, "circuits")
    ideal = clustering_heads.ideal_cluster_count(
        networks.clustering_head_of(trajectory).settings
    )
    other = None if options.other is None else dynamics.open_trajectory(options.other)
    circuits = clustering_heads.measure_circuits(trajectory, other, options.frames)
    if options.other is not None:
        circuits.attrs["other"] = options.other.name
    figure = plots.plot_circuits(circuits, trajectory)
    write_result_and_picture(
        options, "circuits", clustering_heads.CIRCUITS_TITLE, circuits, figure, out
    )
    columns = clustering_heads.circuit_columns(ideal)
    output.output_table(
        clustering_heads.circuit_table(circuits, ideal), columns, options.csv
    )
    missing = clustering_heads.format_missing_invariances(circuits)
    summary = "\n".join(clustering_heads.describe_circuits(circuits, ideal))
    legend = "\n".join(clustering_heads.circuit_legend(ideal, bool(missing)))
    for text in (summary, missing, legend):
        print(f"\n{text}" if text else "", file=options.log)


def _same_file(first: Path, second: Path) -> bool:
    return first.exists() and second.exists() and first.samefile(second)


if __name__ == "__main__":
    run_command(main, Options, "analysis.circuits")
