"""Ensembles over a grid of settings: missing points are computed, and all are combined
in one file.

python -m sims.sweep modular --weight-decay 0.3 0.6 1.0 --lr 0.003 0.01
python -m sims.sweep particles --fa 0.5 1 2 --record all
python -m sims.sweep own.py --lr 0.003 0.01 --runs 3
"""

import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import output, plots, structures
from analysis.command_line.parsing import exit_on_settings_error, run_command
from analysis.output.files import check_paths
from analysis.panels.style import style_in_use
from dynamics import sweeps
from dynamics.settings import SETTINGS_CLASSES, import_external_systems
from sims import command_line
from sims.command_line.sweep_options import (
    check_sweep_system,
    design_from_options,
    design_from_script,
    script_sweep_options,
    sweep_command_options,
)

if TYPE_CHECKING:
    import xarray as xr

Options: Any = sweep_command_options(SETTINGS_CLASSES)


def main(options: Any) -> None:
    """Compute the missing points; combine all of them, print a row for each and draw
    them."""
    ensembles = options.system.ensembles
    check_paths(ensembles)
    design = design_from_options(options.system)
    files = list(dict.fromkeys(point.path for point in design.points))
    out = command_line.sweep_path(design, files, ensembles.out)
    computed = sweeps.compute_missing_points(
        design, ensembles.scheduler, part=ensembles.part
    )
    if ensembles.part is not None and (missing := sweeps.missing_points(design)):
        print_part(ensembles, files, computed, len(missing))
    else:
        print_sweep(sweeps.combine_points(design), ensembles, files, computed, out)


def sweep_script(script: Any, options: Any) -> None:
    """Train the missing runs of a training script; combine all of them, print a row for
    each and draw them."""
    trainings = options.trainings
    check_paths(trainings)
    design = design_from_script(script, options)
    files = [run.path for run in design.runs]
    out = command_line.sweep_path(design, files, trainings.out)
    computed = sweeps.compute_missing_runs(
        design, trainings.scheduler, part=trainings.part
    )
    if trainings.part is not None and (missing := sweeps.missing_runs(design)):
        print_part(trainings, files, computed, len(missing))
    else:
        print_sweep(sweeps.combine_runs(design), trainings, files, computed, out)


def print_part(
    options: Any, files: Sequence[Path], computed: int, missing: int
) -> None:
    """Print what a part of a sweep has computed, and what is missing."""
    folder = files[0].parent
    print(
        f"points      part {options.part} of {len(files)} in {folder} ({computed}"
        " computed)",
        file=options.log,
    )
    print(
        f"sweep       not combined yet, files of {missing} of {len(files)} points do not"
        " exist; the command that finds all files combines them",
        file=options.log,
    )


def print_sweep(
    result: "xr.Dataset", options: Any, files: Sequence[Path], computed: int, out: Path
) -> None:
    """Write the combined result with the structures of its runs, print its table and
    draw it."""
    folder = files[0].parent
    result = structures.add_structures(result, folder)
    replaced = command_line.replaced_steps(out, result)
    output.write_result(result, out)
    axes = json.loads(result.attrs["swept"])
    rows = command_line.sweep_rows(result)
    counts = f"({computed} computed, {len(files) - computed} found)"
    print(f"points      {len(rows)} in {folder} {counts}", file=options.log)
    print(f"sweep       {out}{replaced}", file=options.log)
    if result.attrs.get("system") == "particles":
        command_line.print_points_with_large_steps(files, options.log)
    table = output.make_table(rows)
    columns = command_line.sweep_table_columns(result, table)
    if axes:
        with style_in_use(options.style, options.column):
            shown = command_line.sweep_figure_columns(table, columns, len(axes) == 2)
            system = result.attrs.get("system", "")
            figure = plots.plot_sweep(table, axes, shown, system)
            plots.save_figure(figure, options.picture_path(out))
        print(f"picture     {options.picture_path(out)}", file=options.log)
    printed = slice(command_line.MAX_PRINTED_POINTS)
    output.output_table(table, columns, options.csv, printed)
    left_out = len(table) - len(table[printed])
    if left_out:
        print(
            f"and {left_out} more points; --csv FILE.csv writes all", file=options.log
        )
    if "imperfections" in table:
        print("imperfections: mean of the runs that are not circles", file=options.log)


def run_sweep(words: Sequence[str]) -> None:
    """Run the command of these words, whose options depend on its first one: a system,
    or a training script."""
    command = main
    with exit_on_settings_error():
        import_external_systems()
        if words and words[0].endswith(".py"):
            script = sweeps.load_script(words[0])
            command = functools.partial(sweep_script, script)
            options = script_sweep_options(script)
        else:
            check_sweep_system(words)
            options = sweep_command_options(SETTINGS_CLASSES)
    run_command(command, options, "sims.sweep")


if __name__ == "__main__":
    run_sweep(sys.argv[1:])
