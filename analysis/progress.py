"""Progress measures of grokking: restricted and excluded loss, key frequencies,
gradient symmetricity, phases, delay.

python -m analysis.progress RUN.nc
"""

from __future__ import annotations

import dataclasses

from analysis import output, plots, progress_measures
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import (
    TrajectoryOptions,
    open_input,
    write_result_and_picture,
)
from dynamics.settings import check_real

PRINTED_RUNS = 40
"""Runs in the table on the terminal; the CSV has all."""


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Measure how networks that add two numbers modulo N come to generalise: Fourier
    norms and key frequencies, Gini coefficients, restricted and excluded loss (Nanda et
    al., arXiv 2301.05217), gradient symmetricity, distance irrelevance and circularity
    (Zhong et al., arXiv 2306.17844), the phases of training, and the delay between
    memorisation and generalisation."""

    frames: int = 101
    """Number of frames that are measured, evenly spaced, with the first and the
    last."""
    key_fraction: float = 0.02
    """Power of a key frequency in the last logits, as a fraction of the largest
    power."""


def main(options: Options) -> None:
    """Measure the trajectory; print the table, write the result, draw the figure."""
    threshold = check_real("key_fraction", options.key_fraction, positive=True, up_to=1)
    trajectory, out = open_input(options, "progress")
    result = progress_measures.measure_progress(trajectory, options.frames, threshold)
    table = output.make_table(progress_measures.progress_rows(result))
    output.output_table(
        table, progress_measures.PROGRESS_COLUMNS, options.csv, slice(PRINTED_RUNS)
    )
    print("\n" + progress_measures.describe_progress(result), file=options.log)
    write_result_and_picture(
        options,
        "progress",
        "Progress measures",
        result,
        plots.plot_progress(trajectory, result),
        out,
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.progress")
