"""The command of an analysis: it reads trajectories, measures them, prints the table,
and writes the result, the picture and the CSV file."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import lazy_loader as lazy
import tyro

import dynamics
from analysis import output
from analysis.command_line.help_texts import option_kinds
from analysis.command_line.options import PictureOptions
from analysis.command_line.parsing import run_command
from analysis.command_line.result_files import (
    FigureError,
    open_input,
    result_attributes,
    write_result_and_picture,
)
from analysis.output.result_origin import origin_of_result
from analysis.output.tables import Column
from dynamics import trajectory as trajectory_format
from dynamics.errors import ReportedError, TrajectoryError
from dynamics.settings import SettingsError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from analysis.command_line.analysis import Analysis
else:
    np = lazy.load("numpy")
    pd = lazy.load("pandas")

_MESSAGES: ContextVar[TextIO | None] = ContextVar("messages", default=None)
"""Stream for the messages of the command that runs."""


def print_message(line: str) -> None:
    """Print a line at once, if a command runs."""
    stream = _MESSAGES.get()
    if stream is not None:
        print(line, file=stream, flush=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileArguments(PictureOptions):
    """The file that an analysis reads, and those that it writes."""

    trajectory: tyro.conf.Positional[Path]
    """Trajectory file; its runs may still be in progress. A pattern in quotes, such as
    "seed*.nc", opens several files with the same settings as one ensemble."""
    out: Path | None = None
    """NetCDF file for the result; the picture is saved beside it. Default:
    TRAJECTORY-COMMAND.nc in the folder of the trajectory."""

    def names_of_panels(self) -> Sequence[str] | None:
        analysis: Analysis = vars(self)["analysis"]
        return analysis.panel_names()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeveralFileArguments(FileArguments):
    """The files that an analysis of several trajectories reads and writes."""

    others: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Further trajectories. The table has the rows of all, and each has its own result
    and picture; or those of the first one are of all."""


def command_arguments(kind: Any) -> Any:
    """The dataclass of the arguments of a subclass of `Analysis`: the files, and in the
    field `analysis` its options."""
    text = "Options of the measure, which are its fields in Python."
    options = dataclasses.field(default_factory=kind, metadata={"help": text})
    files = FileArguments if kind.several == "one" else SeveralFileArguments
    arguments: Any = dataclasses.make_dataclass(
        kind.__name__,
        [("analysis", kind, options)],
        bases=(files,),
        frozen=True,
        kw_only=True,
    )
    arguments.__doc__ = kind.__doc__
    arguments.former_names = kind.former_names
    return arguments


def program_name(kind: type[Analysis]) -> str:
    """The module of an analysis, such as analysis.events, or the name of its file
    FILE.py, unless the class names another program."""
    if kind.program:
        return kind.program
    module = sys.modules[kind.__module__]
    specification = getattr(module, "__spec__", None)
    if specification is not None:
        return specification.name
    file = getattr(module, "__file__", None)
    return kind.name if file is None else Path(file).name


def run(kind: type[Analysis]) -> None:
    """Run the command of an analysis with the arguments of the command line. Raises
    TypeError for a class that is no dataclass."""
    if "__dataclass_fields__" not in vars(kind):
        words = "is no dataclass; put @dataclasses.dataclass(frozen=True) above it"
        raise TypeError(f"the analysis {kind.__name__} {words}")
    run_command(measure_files, command_arguments(kind), program_name(kind))


@dataclasses.dataclass(frozen=True)
class MeasuredFile:
    """A trajectory file and its result."""

    path: Path
    trajectory: xr.Dataset
    result: xr.Dataset


@dataclasses.dataclass(frozen=True)
class Report:
    """What is printed, drawn and written of one or several results."""

    table: pd.DataFrame
    columns: Sequence[Column]
    rows: Any
    """The printed rows, as a slice or a mask."""
    legend: str
    summary: str
    figure: Callable[[], Figure | None]
    result: xr.Dataset


def measure_files(arguments: Any) -> None:
    """Measure the trajectories; print the table, write the results, draw the
    pictures."""
    with _messages_to(arguments.log):
        _measure_files(arguments, arguments.analysis)


def _measure_files(arguments: Any, analysis: Analysis) -> None:
    paths = (arguments.trajectory, *getattr(arguments, "others", ()))
    trajectories, outs = _open_files(arguments, analysis, paths)
    measured: list[MeasuredFile] = []
    try:
        for item in _measure_each(arguments, analysis, paths, trajectories):
            measured.append(item)
            if analysis.is_interrupted(item.result):
                break
    except BaseException:
        if analysis.several == "separate":
            _write_results(arguments, measured, outs)
        raise
    try:
        reports = _make_reports(analysis, measured)
        _print_reports(reports, measured, arguments)
    except Exception as error:
        if not _is_mistaken_argument(error, arguments):
            _write_results(arguments, measured, outs)
        raise
    errors: list[ReportedError] = []
    for report, out in zip(reports, outs, strict=False):
        try:
            write_result_and_picture(arguments, report.result, report.figure, out)
        except FigureError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    if any(analysis.is_interrupted(item.result) for item in measured):
        raise KeyboardInterrupt


def _write_results(
    arguments: Any, measured: Sequence[MeasuredFile], outs: Sequence[Path]
) -> None:
    """Write the results without pictures."""
    for item, out in zip(measured, outs, strict=False):
        write_result_and_picture(arguments, item.result, None, out)


def _open_files(
    arguments: Any, analysis: Analysis, paths: Sequence[Path]
) -> tuple[list[xr.Dataset], list[Path]]:
    """The trajectories, and the paths for the results, which are checked before any is
    measured."""
    program = program_name(type(analysis))
    separate = analysis.several == "separate"
    if separate and len(set(paths)) < len(paths):
        words = " ".join(map(str, paths))
        raise SettingsError("others", words, "each file once")
    if separate and len(paths) > 1 and arguments.out is not None:
        allowed = "no value with several trajectories: each has its own result"
        raise SettingsError("out", arguments.out, allowed)
    most = analysis.most_files
    if most is not None and len(paths) > most:
        words = " ".join(map(str, paths[1:]))
        raise SettingsError("others", words, f"at most {most} trajectories in all")
    out = arguments.out
    if analysis.several == "combined" and len(paths) > 1 and out is None:
        out = output.combined_path(paths, analysis.name, ".nc")
    trajectories: list[xr.Dataset] = []
    outs: list[Path] = []
    for path in paths:
        if outs and not separate:
            trajectories.append(dynamics.open_trajectory(path))
            continue
        trajectory, file_out = open_input(
            path, analysis.name, program, arguments.log, out
        )
        trajectories.append(trajectory)
        outs.append(file_out)
    return trajectories, outs


def _measure_each(
    arguments: Any,
    analysis: Analysis,
    paths: Sequence[Path],
    trajectories: Sequence[xr.Dataset],
) -> Iterator[MeasuredFile]:
    """The trajectories with their results, each of which is measured when it is asked
    for."""
    applied = analysis
    for path, whole in zip(paths, trajectories, strict=True):
        trajectory, counts = trajectory_format.mask_not_finite(whole)
        for name, count in counts.items():
            what = f"{count} of {whole[name].size} values are not finite"
            print(f"{path.name}: {name}: {what}, left out", file=arguments.log)
        with _named_errors(path, len(trajectories) > 1):
            result = applied.measure(trajectory)
        if not hasattr(result, "data_vars"):
            what = f"a function that returns {type(result).__name__}"
            raise SettingsError("measure", what, "one that returns a Dataset")
        selected = analysis.selection.apply(trajectory)
        diverged = dynamics.count_diverged(selected)
        if diverged and analysis.diverged:
            print(
                f"{path.name}: {diverged} runs {analysis.diverged}", file=arguments.log
            )
        result = result.assign_attrs(_attributes(analysis, path, trajectory, result))
        if applied is analysis:
            applied = analysis.for_others(result)
        yield MeasuredFile(path, trajectory, result)


def _attributes(
    analysis: Analysis, path: Path, trajectory: xr.Dataset, result: xr.Dataset
) -> dict[str, str]:
    """Attributes of a result: its title, its trajectory, and the options of the
    analysis."""
    options = json.dumps(dataclasses.asdict(analysis), default=str)
    title = result.attrs.get("title", analysis.title)
    attributes = {"title": title, "options_json": options}
    attributes |= result_attributes(path, program_name(type(analysis)))
    return attributes | origin_of_result(trajectory)


def _make_reports(analysis: Analysis, measured: Sequence[MeasuredFile]) -> list[Report]:
    """A report on each trajectory, or one on all."""
    if analysis.several == "separate":
        return [_make_report(analysis, item.result, item) for item in measured]
    result = analysis.combine([item.result for item in measured])
    return [_make_report(analysis, result, measured[0])]


def _make_report(
    analysis: Analysis, result: xr.Dataset, measured: MeasuredFile
) -> Report:
    """The report on a result, which may be of several trajectories."""
    table = analysis.table(result)
    columns = analysis.printed_columns(result)
    columns = columns or [Column(name, name) for name in table]
    for column in columns:
        if column.name and column.name not in table:
            raise SettingsError("columns", column.name, ", ".join(table))
    return Report(
        table,
        columns,
        analysis.printed_rows(table),
        analysis.text_below(result),
        analysis.text_above(result, measured.trajectory),
        functools.partial(analysis.figure, result, measured.trajectory),
        result,
    )


def _print_reports(
    reports: Sequence[Report], measured: Sequence[MeasuredFile], arguments: Any
) -> None:
    """Print the summaries, one table and the legend; write the table as CSV."""
    for report in reports:
        if report.summary:
            print(report.summary, file=arguments.log)
    columns = reports[0].columns
    tables = [report.table for report in reports]
    is_printed = np.concatenate([_printed_rows(report) for report in reports])
    if len(reports) > 1:
        names = [item.path.name for item in measured]
        table = pd.concat(tables, keys=names, names=["trajectory"])
        table = table.reset_index("trajectory")
        columns = [Column("trajectory", "trajectory"), *columns]
    else:
        (table,) = tables
    output.output_table(table, columns, arguments.csv, is_printed)
    left_out = len(table) - int(is_printed.sum())
    if left_out and not arguments.csv:
        words = f"and {left_out} more rows; --csv FILE.csv writes all"
        print(words, file=arguments.log)
    if reports[0].legend:
        print(reports[0].legend, file=arguments.log)


def _printed_rows(report: Report) -> np.ndarray:
    """Which rows of the table of a report are printed, (row,) bool."""
    is_printed = np.zeros(len(report.table), bool)
    is_printed[report.rows] = True
    return is_printed


def _is_mistaken_argument(error: BaseException, arguments: Any) -> bool:
    """Whether the error is about an argument of the command."""
    named, positional = option_kinds(type(arguments))
    return getattr(error, "field", None) in (*named, *positional)


@contextmanager
def _messages_to(stream: TextIO) -> Iterator[None]:
    """Print the messages of analyses to a stream."""
    token = _MESSAGES.set(stream)
    try:
        yield
    finally:
        _MESSAGES.reset(token)


@contextmanager
def _named_errors(path: Path, several: bool) -> Iterator[None]:
    """Begin the message of a TrajectoryError with the file, if there are several."""
    try:
        yield
    except TrajectoryError as error:
        if not several or str(path) in str(error):
            raise
        raise TrajectoryError(f"{path}: {error}") from None
