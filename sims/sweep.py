"""Ensembles over a grid of settings: missing points are computed, and all are combined
in one file.

python -m sims.sweep modular --weight-decay 0.3 0.6 1.0 --lr 0.003 0.01
python -m sims.sweep particles --fa 0.5 1 2 --record all
"""

import sys
from typing import Any

from analysis import output, plots
from analysis.command_line.parsing import exit_on_settings_error, run_command
from analysis.output.files import check_output_paths
from analysis.panels.style import style_in_use
from dynamics import sweeps
from dynamics.settings import SETTINGS_CLASSES, import_external_systems
from sims import command_line
from sims.command_line.sweep_options import (
    check_sweep_system,
    design_from_options,
    sweep_command_options,
)

Options: Any = sweep_command_options(SETTINGS_CLASSES)


def main(options: Any) -> None:
    """Compute the missing points; combine all of them, print a row for each and draw
    them."""
    ensembles = options.system.ensembles
    check_output_paths(ensembles)
    design = design_from_options(options.system)
    out = command_line.sweep_path(design, ensembles.out)
    computed = sweeps.compute_missing_points(design, ensembles.scheduler)
    result = sweeps.combine_points(design)
    output.write_result(result, out)
    files = len({point.path for point in design.points})
    counts = f"({computed} computed, {files - computed} found)"
    print(
        f"points      {len(design.points)} in {design.points[0].path.parent} {counts}",
        file=ensembles.log,
    )
    print(f"sweep       {out}", file=ensembles.log)
    table = output.make_table(
        command_line.sweep_rows(result, design.points[0].path.parent)
    )
    columns = command_line.sweep_table_columns(result, table)
    if design.axes:
        with style_in_use(ensembles.style, ensembles.column):
            plots.save_figure(
                plots.plot_sweep(table, list(design.axes), columns),
                ensembles.picture_path(out),
            )
        print(f"picture     {ensembles.picture_path(out)}", file=ensembles.log)
    printed = slice(command_line.MAX_PRINTED_POINTS)
    output.output_table(table, columns, ensembles.csv, printed)
    if more := len(table) - len(table[printed]):
        print(f"and {more} more points; --csv FILE.csv writes all", file=ensembles.log)
    if "imperfections" in table:
        print("imperfections: mean of the runs that are no circle", file=ensembles.log)


if __name__ == "__main__":
    with exit_on_settings_error():
        import_external_systems()
        check_sweep_system(sys.argv[1:])
        Options = sweep_command_options(SETTINGS_CLASSES)
    run_command(main, Options, "sims.sweep")
