"""Progress measures of grokking: restricted and excluded loss, key frequencies, gradient symmetricity, phases, delay.

python -m analysis.progress RUN.nc
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from analysis import output, plots, progress_measures, statistics
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions, open_input, write_result_and_picture
from analysis.output.tables import format_interval
from dynamics.settings import check_real

if TYPE_CHECKING:
    import xarray as xr

PRINTED_RUNS = 40
"""Runs in the table on the terminal; the CSV has all."""


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Measure how networks that add two numbers modulo N come to generalise: Fourier norms and key frequencies, Gini
    coefficients, restricted and excluded loss (Nanda et al., arXiv 2301.05217), gradient symmetricity, distance
    irrelevance and circularity (Zhong et al., arXiv 2306.17844), the phases of training, and the delay between
    memorisation and generalisation."""

    frames: int = 101
    """Number of frames that are measured, evenly spaced, with the first and the last."""
    key_fraction: float = 0.1
    """Power of a key frequency in the last logits, as a fraction of the largest power."""


def main(options: Options) -> None:
    """Measure the trajectory; print the table, write the result, draw the figure."""
    threshold = check_real("key_fraction", options.key_fraction, positive=True, up_to=1)
    trajectory, out = open_input(options, "progress")
    result = progress_measures.measure_progress(trajectory, options.frames, threshold)
    table = output.make_table(progress_measures.progress_rows(result))
    output.output_table(table, progress_measures.PROGRESS_COLUMNS, options.csv, slice(PRINTED_RUNS))
    print("\n" + _describe_ensemble(result), file=options.log)
    write_result_and_picture(
        options, "progress", "Progress measures", result, plots.plot_progress(trajectory, result), out
    )


def _describe_ensemble(result: xr.Dataset) -> str:
    """How many runs memorise and generalise, the median delay, and the changes of losses in circuit formation."""
    unit, word = result.attrs["unit"], result.attrs["unit_of_time"]
    delay, observed = result["delay"].values / unit, result["observed"].values
    known, runs = np.isfinite(delay), result.sizes["run"]
    lines = [f"{known.sum()} of {runs} runs memorise, {observed[known].sum()} of these generalise"]
    if known.any():
        median = statistics.kaplan_meier(delay[known], observed[known]).median
        reached = format_interval(median) if math.isfinite(median.value) else f"more than {delay[known].max():.0f}"
        lines.append(f"median delay: {reached} {word}s (Kaplan-Meier, 95%)")
    for name in ("restricted", "excluded"):
        changes = result[f"{name}_change"].values
        if np.isfinite(changes).any():
            median = statistics.median_interval(changes[np.isfinite(changes)])
            lines.append(f"{name} loss during circuit formation: {format_interval(median, 2)} (median, 95%)")
    return "\n".join(lines)


if __name__ == "__main__":
    run_command(main, Options, "analysis.progress")
