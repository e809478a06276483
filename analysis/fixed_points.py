"""Ideal circuits of VC's network as fixed points of gradient descent, with and without
weight decay.

python -m analysis.fixed_points

`analysis/clustering_heads/circuit_landscape.py` and `stability.py` define the quantities.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

from analysis import clustering_heads, output, plots
from analysis.command_line.options import PictureOptions, SparseOptions
from analysis.command_line.parsing import run_command
from analysis.command_line.result_files import write_result_and_picture
from analysis.panels import figure_panels
from dynamics import trajectory
from dynamics.settings import SUCCESS_ACCURACY


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Test whether ideal circuits of VC's network, constructed by hand, are fixed
    points of gradient descent. Computes the gradient and Hessian of the loss over all
    sequences, their components that break the symmetry between positions, and gradient
    descent after small perturbations."""

    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    decay: float = 1e-4
    """Weight decay, as an L2 term of the loss, with which the circuit "settled" is
    optimised until it is stationary."""
    push: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    """Norms of the perturbations, as fractions of the norm of all parameters."""
    draws: int = 1
    """Number of random perturbations of each kind and norm."""
    steps: int = 300
    """Number of gradient descent steps after a perturbation; the learning rate is 1
    divided by the largest eigenvalue of the Hessian."""
    out: Path = Path("runs/fixed-points.nc")
    """NetCDF file for the result; the picture is saved beside it."""

    def names_of_panels(self) -> tuple[str, ...]:
        return figure_panels.FIXED_POINTS


def main(options: Options) -> None:
    """Compute the landscape; write the result, draw the figure, print the tables."""
    numbers = (options.decay, options.push, options.draws, options.steps)
    clustering_heads.check_landscape_settings(options.settings.settings, *numbers)
    given = {**dataclasses.asdict(options), "out": "", "csv": ""}
    config = json.dumps(
        {
            name: value
            for name, value in given.items()
            if name not in ("style", "column", "format")
        }
    )
    attributes = {
        "title": "The ideal circuit as a fixed point of gradient descent",
        "config_json": config,
    }
    out = output.check_result_path(options.out, attributes)
    landscape = clustering_heads.fixed_point_landscape(
        options.settings.settings, *numbers
    ).assign_attrs(attributes)
    figure = functools.partial(plots.plot_fixed_points, landscape)
    write_result_and_picture(options, landscape, figure, out)
    output.output_table(
        clustering_heads.landscape_table(landscape),
        clustering_heads.LANDSCAPE_COLUMNS,
        options.csv,
    )
    settled = landscape.sel(circuit="settled")
    gradient, accuracy = float(settled["gradient"]), float(settled["circuit_accuracy"])
    note = f"settled: stationary with weight decay {options.decay:g}"
    if gradient >= clustering_heads.REST_GRADIENT:
        note = (
            f"settled: under weight decay {options.decay:g}, not at rest: the norm of"
            f" the gradient is {gradient:.1g}"
        )
    if not trajectory.exceeds(accuracy, SUCCESS_ACCURACY):
        note += f"; it no longer solves the task: accuracy {100 * accuracy:.1f}%"
    print(f"\n{clustering_heads.LANDSCAPE_LEGEND}\n{note}", file=options.log)
    print(
        f"\n{clustering_heads.format_perturbation_table(landscape)}", file=options.log
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.fixed_points")
