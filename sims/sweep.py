"""Grids of settings as ensembles, one a point: what is missing is computed, all of it combined in one file.

python -m sims.sweep modular --weight-decay 0.3 0.6 1.0 --lr 0.003 0.01
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import operator
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin, get_type_hints

import tyro

from analysis.command_line.help_texts import docstring_summary
from analysis.command_line.parsing import exit_on_settings_error, run_command
from analysis.output.files import check_csv
from dynamics.settings import SETTINGS_CLASSES, SYSTEM_MODULES_VARIABLE, SettingsError, import_external_systems
from dynamics.settings_checks import check_settings_class

if TYPE_CHECKING:
    import xarray as xr

    from analysis.output.tables import TableRow
    from dynamics.sweeps.design import SweepDesign

MAX_PRINTED_POINTS = 40
"""Lines of the table on the terminal."""


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """How many runs a point has, what is recorded of them, and where they are computed and kept."""

    runs: int = 100
    """Number of runs of each point; run r has seed SEED + r and depends on it alone."""
    seed: int = 0
    """Seed of the first run of each point."""
    every: int | None = None
    """Epochs between recorded frames, or steps for a system without epochs. None is the system's own."""
    record: Literal["all", "metrics"] = "metrics"
    """Record metrics alone, or embeddings and weights too, which take much room."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""
    folder: str = "runs"
    """Where the trajectory of each point is kept, as SYSTEM-HASH.nc; those that are there are not computed again."""
    out: Path | None = None
    """The combined results. None is FOLDER/sweep-SYSTEM-HASH.nc, the hash over all that defines the points."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""
    scheduler: str | None = None
    """Compute on the workers of a dask cluster, such as tcp://127.0.0.1:8786. None is this process."""


# --------------------------------------------------------------------------------- settings as options


def field_descriptions(settings: type) -> dict[str, str]:
    """The text under each field of a settings class, and of those it inherits from, read from their source."""
    found = {}
    for each in reversed(settings.__mro__):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        except (OSError, TypeError, SyntaxError):  # built in, or made while a program runs
            continue
        assert isinstance(tree, ast.ClassDef)
        for field, text in itertools.pairwise(tree.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    found[name] = " ".join(words.split())
    return found


def is_swept(kind: object) -> bool:
    """Whether a setting of this type can have several values: numbers and words can, tuples of them stay options."""
    return kind in (int, float, bool, str) or get_origin(kind) is Literal


def sweep_options(settings: type) -> type:
    """The options of a system: each setting takes values, and there is its length and the amount."""
    unit, long = duration_option(settings)
    kinds, words, fields = get_type_hints(settings), field_descriptions(settings), []
    for field in dataclasses.fields(settings):
        kind, default = kinds[field.name], getattr(settings(), field.name)
        if is_swept(kind):
            kind, default = tuple[kind, ...], (default,)  # type: ignore[valid-type]
        described = Annotated[kind, tyro.conf.arg(help=words.get(field.name, ""))]  # type: ignore[valid-type]
        fields.append((field.name, described, dataclasses.field(default=default)))
    values = dataclasses.make_dataclass("Settings", fields, frozen=True)
    values.__doc__ = "A setting of several values is swept, one of a single value holds for all points."
    length = Annotated[int | None, tyro.conf.arg(help=f"{long} More than before go on with the runs.")]
    options = dataclasses.make_dataclass(
        settings.__name__,
        [
            ("settings", values, dataclasses.field(default_factory=values)),
            (unit, length, dataclasses.field(default=None)),
            ("amount", SweepOptions, dataclasses.field(default_factory=SweepOptions)),
        ],
        frozen=True,
        namespace={"of": settings},
    )
    options.__doc__ = docstring_summary(settings)
    return options


def duration_option(settings: type) -> tuple[str, str]:
    """The option for how long runs are, and its help. Raises SettingsError for a class that lacks a member."""
    check_settings_class(settings)
    plain = settings()
    if plain.epoch_steps:
        return "epochs", f"How long to train. None is {plain.default_steps // plain.epoch_steps}."
    return "steps", f"Number of steps. None is {plain.default_steps}."


def sweep_command_options(systems: Mapping[str, type]) -> Any:
    """The options of the command: a subcommand for each system, by the settings class that its name has."""
    each: Any = (Annotated[sweep_options(kind), tyro.conf.subcommand(name)] for name, kind in systems.items())
    one: Any = Annotated[functools.reduce(operator.or_, each), tyro.conf.OmitSubcommandPrefixes]
    options = dataclasses.make_dataclass("Options", [("system", one)], frozen=True)
    options.__doc__ = """Train, or run, an ensemble for every combination of the settings that are given several values,
    and combine how they went in one file and one table. What is there already is not computed again; SYSTEM --help
    shows the settings."""
    return options


Options: Any = sweep_command_options(SETTINGS_CLASSES)


def check_sweep_system(arguments: Sequence[str]) -> None:
    """Refuse a command line that names a system which is not known. Raises SettingsError."""
    name = next(iter(arguments), "-")
    if not name.startswith("-") and name not in SETTINGS_CLASSES:
        how = f"others where {SYSTEM_MODULES_VARIABLE} names the module that registers them, see docs/new-system.md"
        raise SettingsError("name of a system", name, f"one of {', '.join(SETTINGS_CLASSES)} ({how})")


# ------------------------------------------------------------------------------------------ the command


def main(options: Any) -> None:
    """Run, or find, all points; combine them and print a line for each."""
    amount = options.system.amount
    check_csv(amount)
    from analysis.output.results import check_result_path, write_result
    from dynamics.preparation import check_trajectory_path
    from dynamics.sweeps.run import combine_points, compute_missing_points

    grid = plan_from_options(options.system)
    folder = grid.points[0].path.parent
    out = check_result_path(check_trajectory_path(amount.out or folder / grid.name), {"title": grid.title})
    if any(out.absolute() == point.path.absolute() for point in grid.points):
        raise SettingsError("out", out, "another file than those of the points")
    computed = compute_missing_points(grid, amount.scheduler)
    result = combine_points(grid)
    write_result(result, out)
    say = sys.stderr if str(amount.csv) == "-" else sys.stdout
    files = len({point.path for point in grid.points})
    print(f"points      {len(grid.points)} in {folder} ({computed} computed, {files - computed} found)", file=say)
    print(f"sweep       {out}", file=say)
    _print_points(result, amount.csv)


def plan_from_options(chosen: Any) -> "SweepDesign":
    """The grid that the options ask for: fields of several values are its axes. Raises SettingsError."""
    from dynamics.sweeps.design import sweep_design

    values = {field.name: getattr(chosen.settings, field.name) for field in dataclasses.fields(chosen.settings)}
    kinds, first, axes = get_type_hints(chosen.of), {}, {}
    for name, given in values.items():
        if not is_swept(kinds[name]):
            first[name] = given
            continue
        if not given:
            raise SettingsError(name, "no value", "one or more values")
        first[name] = given[0]
        if len(given) > 1:
            axes[name] = given
    amount, unit = chosen.amount, duration_option(chosen.of)[0]
    return sweep_design(
        chosen.of(**first),
        axes,
        runs=amount.runs,
        seed=amount.seed,
        **{unit: getattr(chosen, unit)},
        every=amount.every,
        record=amount.record,
        device=amount.device,
        folder=amount.folder,
    )


# -------------------------------------------------------------------------------------------- the table


def _print_points(result: "xr.Dataset", csv: Path | None) -> None:
    """Print a line for each point and write the CSV; with the CSV on the terminal, that alone."""
    import json

    from analysis.output.tables import TextTable

    axes = json.loads(result.attrs["swept"])
    name = next(name for name in ("accuracy", "loss", "gradient_norm") if f"final_{name}" in result)
    kinds = [str(kind) for kind in result[f"final_{name}"].isel(run=0)[result[f"final_{name}"].dims[-1]].values]
    header = [
        *(axis.replace("_", " ") for axis in axes),
        "runs",
        *(f"{kind} {_METRIC_HEADINGS[name]}" for kind in kinds),
    ]
    columns = [*axes, "runs", *(f"{kind}_{name}{end}" for kind in kinds for end in ("", "_low", "_high"))]
    found = _point_rows(result, axes, name)
    if str(csv) != "-":
        texts = [row.text for row in found[:MAX_PRINTED_POINTS]]
        print("\n" + TextTable([*header, "diverged", "file"], texts, left=(len(header) + 1,)).text())
        if len(found) > MAX_PRINTED_POINTS:
            print(f"and {len(found) - MAX_PRINTED_POINTS} more points, left out here; --csv FILE.csv has all")
    if csv:
        TextTable([*columns, "diverged", "file"], [row.numbers for row in found]).write_csv(csv)


_METRIC_HEADINGS = {"accuracy": "accuracy %", "loss": "loss", "gradient_norm": "force"}
"""The heading of a metric's final mean over the runs that did not diverge, with its 95% interval."""


def _point_rows(result: "xr.Dataset", axes: list[str], name: str) -> "list[TableRow]":
    """A row for each point, the last axis fastest."""
    from analysis.output.tables import TableRow, format_number, format_plus_minus
    from analysis.statistics.intervals import Interval, mean_interval
    from dynamics.trajectory.schema import DIVERGED

    found = []
    for values in itertools.product(*(result[axis].values.tolist() for axis in axes)):
        point = result.sel(dict(zip(axes, values, strict=True)))
        diverged = (point["status"] == DIVERGED).values
        scale, digits = (100.0, 1) if name == "accuracy" else (1.0, 4)
        last = point[f"final_{name}"].transpose("run", ...).values[~diverged]
        means = [mean_interval(column) for column in last.T]
        shown = [format_plus_minus(Interval(*(scale * part for part in mean)), digits) for mean in means]
        words, runs, file = [str(value) for value in values], str(len(diverged)), str(point["file"].values)
        text = [*words, runs, *shown, str(int(diverged.sum())), file]
        numbers = [*words, runs, *(format_number(part) for mean in means for part in mean), text[-2], file]
        found.append(TableRow(text, numbers))
    return found


if __name__ == "__main__":
    with exit_on_settings_error():
        import_external_systems()
        check_sweep_system(sys.argv[1:])
        chosen = sweep_command_options(SETTINGS_CLASSES)
    run_command(main, chosen, "sims.sweep")
