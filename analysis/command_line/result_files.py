"""Analyses as records, the command that a record makes, and what the commands that are
no records share with it: reading of trajectories, and output of results and
pictures."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import lazy_loader as lazy
import tyro

import dynamics
from analysis import output, plots
from analysis.command_line.options import PictureOptions
from analysis.command_line.parsing import run_command
from analysis.output.result_origin import origin_of_result
from analysis.output.tables import Column
from dynamics import trajectory as trajectory_format
from dynamics.errors import RecordingError, ReportedError, TrajectoryError
from dynamics.settings import SettingsError
from dynamics.settings_text import describe_settings
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    pd = lazy.load("pandas")

PRINTED_ROWS = 40
"""Rows of a long table on the terminal; the CSV has all."""


@dataclasses.dataclass(frozen=True)
class TrajectoryOptions(PictureOptions):
    """Options of a command that reads a trajectory and writes a result and a
    picture."""

    trajectory: tyro.conf.Positional[Path]
    """Trajectory file; its runs may still be in progress. A pattern in quotes, such as
    "seed*.nc", opens several files with the same settings as one ensemble."""
    out: Path | None = None
    """NetCDF file for the result; the picture is saved beside it. Default:
    TRAJECTORY-COMMAND.nc in the folder of the trajectory."""

    selection = Selection()


@dataclasses.dataclass(frozen=True)
class AnalysisOptions(TrajectoryOptions):
    """Measure one or several trajectories."""

    others: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Further trajectories. The table has the rows of all, and each has its own result
    and picture."""
    selection: Selection = Selection()


@dataclasses.dataclass(frozen=True)
class ModelOptions(AnalysisOptions):
    """Measure trajectories, with the functions of a model from outside."""

    model: Path | None = None
    """Model file of a model from outside: a Python file, which is executed. Default:
    the model file that sims.collect --model stored in the trajectory."""
    trust_model: bool = False
    """Run the model file that is stored in the trajectory, even if it never ran on this
    computer."""


@dataclasses.dataclass(frozen=True)
class MeasuredTrajectory:
    """A trajectory and the result of its analysis."""

    options: Any
    """Options of the command."""
    path: Path
    trajectory: xr.Dataset
    """The trajectory with all frames of the selected runs."""
    selected: xr.Dataset
    """The selected frames of these runs."""
    result: xr.Dataset
    others: tuple[MeasuredTrajectory, ...] = ()
    """Further trajectories, of an analysis that combines or compares trajectories."""

    @property
    def together(self) -> tuple[MeasuredTrajectory, ...]:
        """This trajectory and the others."""
        return (self, *self.others)


def settings_in_words(trajectory: xr.Dataset) -> str:
    """The main settings of a trajectory and up to two others, for titles and legends."""
    return describe_settings(dynamics.read_settings(trajectory), 2)


FigureSource: TypeAlias = "Figure | Callable[[], Figure | None] | None"
"""A figure, or a function that draws it after the result has been written."""


class Report(NamedTuple):
    """What is printed and drawn of a trajectory and its result."""

    table: pd.DataFrame
    columns: Sequence[Column]
    """The printed columns of the table."""
    legend: str = ""
    """Explanation under the table."""
    summary: str = ""
    """Text above the table."""
    figure: FigureSource = None
    """The figure, or a function that draws it. The result is written before the
    function is called, and an error in it does not lose the table."""
    rows: Any = slice(None)
    """The printed rows of the table: a slice or a mask."""
    result: xr.Dataset | None = None
    """Result that is written. Default: that of the trajectory."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """An analysis of trajectories, and its command.

    Parameters
    ----------
    name : str
        Name of the command; the result of RUN.nc is written to RUN-NAME.nc.
    measure : callable
        ``measure(trajectory, selection, **options)`` returns an `xarray.Dataset`. The
        options are the fields of `options` that are named like its further parameters.
        A parameter ``log`` is the stream for messages, ``progress`` a function that
        prints a line there at once, ``functions`` the functions of a model from outside
        (`ModelOptions`), and ``first`` the result of the first of several trajectories
        (None for the first itself).
    columns : sequence of Column
        Columns of the printed table, which has a row for each point of the result. The
        first 40 are printed; the CSV file has all, with all variables and coordinates.
    title : str
        Title of the result.
    legend : str
        Explanation under the table.
    plot : callable, optional
        ``plot(result, axes)`` draws the result into matplotlib's axes.
    report : callable, optional
        Function of a `MeasuredTrajectory` that returns a `Report`, instead of `columns`,
        `legend` and `plot`.
    options : type
        Dataclass of the command's options, derived from `AnalysisOptions`. Its
        docstring is the description in the help.
    diverged : str
        What is printed of runs that diverged, after their number.
    others : {"separate", "combined", "compared"}
        Whether each of several trajectories has its own report, or the first one has a
        report on all: with the result of all, or with its own result.
    files_first : bool
        Whether the files are written and named above the table.

    Examples
    --------
    >>> from analysis import Analysis
    >>> from analysis.output import Column
    >>> from dynamics import ParticleSettings, Selection, simulate
    >>> def measure(trajectory, selection):
    ...     return selection.apply(trajectory)[["update_norm"]].sum(["step", "layer"])
    >>> path_length = Analysis(
    ...     name="path_length",
    ...     measure=measure,
    ...     columns=[Column("length", "update_norm")],
    ... )
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=8, progress=False)
    >>> path_length.measure(trajectory, Selection(runs=2))["update_norm"].dims
    ('run',)
    """

    name: str
    measure: Callable[..., xr.Dataset]
    columns: Sequence[Column] = ()
    title: str = ""
    legend: str = ""
    plot: Callable[[xr.Dataset, Axes], object] | None = None
    report: Callable[[MeasuredTrajectory], Report] | None = None
    options: type = AnalysisOptions
    diverged: str = "diverged and have no values from then on"
    others: Literal["separate", "combined", "compared"] = "separate"
    files_first: bool = False

    def __post_init__(self) -> None:
        allowed = {field.name for field in dataclasses.fields(self.options)}
        allowed |= {"log", "progress", "first"}
        if {"model", "trust_model"} <= allowed:
            allowed.add("functions")
        for name in self._option_names():
            if name not in allowed:
                words = f"{self.name} with a parameter {name}"
                raise SettingsError("measure", words, "fields of the options")

    def _option_names(self) -> list[str]:
        """The parameters of `measure` after the trajectory and the selection."""
        return list(inspect.signature(self.measure).parameters)[2:]

    @property
    def program(self) -> str:
        """The module of `measure`, such as analysis.events, or the name of its file
        FILE.py; otherwise the name of the analysis."""
        module = getattr(self.measure, "__globals__", {})
        spec, file = module.get("__spec__"), module.get("__file__")
        if spec is not None:
            return spec.name
        return self.name if file is None else Path(file).name

    def run_command(self) -> None:
        """Run the command of this analysis with the arguments of the command line."""
        run_command(self.main, self.options, self.program)

    def main(self, options: Any) -> None:
        """Measure the trajectories; print the table, write the results, draw the
        figures."""
        paths = (options.trajectory, *getattr(options, "others", ()))
        trajectories, outs = self._open(options, paths)
        measurements = self._measure_all(options, paths, trajectories, outs)
        outs = outs[: len(measurements)]
        make_report = self.report or self._default_report
        try:
            reports = [make_report(item) for item in measurements]
        except Exception as error:
            names = {field.name for field in dataclasses.fields(self.options)}
            if getattr(error, "field", None) not in names:  # no mistaken argument
                self._write_results(measurements, outs)
            raise
        if not self.files_first:
            _print_reports(reports, measurements, options)
        errors = self._write(measurements, reports, outs)
        if self.files_first:
            _print_reports(reports, measurements, options)
        if errors:
            raise errors[0]
        if any(map(_is_interrupted, measurements)):
            raise KeyboardInterrupt

    def _open(
        self, options: Any, paths: Sequence[Path]
    ) -> tuple[list[xr.Dataset], list[Path]]:
        """The trajectories, and the paths for the results, which are checked before
        any is measured."""
        if len(paths) > 1 and self.others == "separate":
            if len(set(paths)) < len(paths):
                words = " ".join(map(str, paths))
                raise SettingsError("others", words, "each file once")
            if options.out is not None:
                allowed = "no value with several trajectories: each has its own result"
                raise SettingsError("out", options.out, allowed)
        if len(paths) > 1 and self.others == "combined" and options.out is None:
            out = output.combined_path(paths, self.name, ".nc")
            options = dataclasses.replace(options, out=out)
        trajectories: list[xr.Dataset] = []
        outs: list[Path] = []
        for path in paths:
            if outs and self.others != "separate":
                trajectories.append(dynamics.open_trajectory(path))
                continue
            file_options = dataclasses.replace(options, trajectory=path)
            trajectory, out = open_input(file_options, self.name, self.program)
            trajectories.append(trajectory)
            outs.append(out)
        return trajectories, outs

    def _measure_all(
        self,
        options: Any,
        paths: Sequence[Path],
        trajectories: Sequence[xr.Dataset],
        outs: Sequence[Path],
    ) -> list[MeasuredTrajectory]:
        """The measurements of all trajectories; one with the others if the analysis
        combines them.

        If SIGINT ends one early, those after it are left out. If an error ends one, the
        results of those before it are written."""
        measurements: list[MeasuredTrajectory] = []
        try:
            for measured in self._measure(options, paths, trajectories):
                measurements.append(measured)
                if _is_interrupted(measured):
                    break
        except BaseException:
            if self.others == "separate":
                self._write_results(measurements, outs)
            raise
        if self.others == "separate":
            return measurements
        first, *others = measurements
        return [dataclasses.replace(first, others=tuple(others))]

    def _measure(
        self, options: Any, paths: Sequence[Path], trajectories: Sequence[xr.Dataset]
    ) -> Iterator[MeasuredTrajectory]:
        """Measure one trajectory after the other."""
        selection: Selection = options.selection
        first: xr.Dataset | None = None
        names = self._option_names()
        values = {name: getattr(options, name, None) for name in names}
        given = {
            "log": options.log,
            "progress": partial(print, file=options.log, flush=True),
        }
        values |= {name: given[name] for name in names if name in given}
        for path, whole in zip(paths, trajectories, strict=True):
            trajectory, counts = trajectory_format.mask_not_finite(whole)
            for name, count in counts.items():
                what = f"{count} of {whole[name].size} values are not finite"
                print(f"{path.name}: {name}: {what}, left out", file=options.log)
            if "first" in names:
                values["first"] = first
            with _named_errors(path, len(trajectories) > 1):
                if "functions" in names:
                    model = options.model, options.trust_model
                    values["functions"] = dynamics.find_model(trajectory, *model)
                result = self.measure(trajectory, selection, **values)
            if not hasattr(result, "data_vars"):
                what = f"a function that returns {type(result).__name__}"
                raise SettingsError("measure", what, "one that returns a Dataset")
            runs, selected = (
                selection.select_runs(trajectory),
                selection.apply(trajectory),
            )
            diverged = dynamics.count_diverged(selected)
            if diverged and self.diverged:
                print(f"{path.name}: {diverged} runs {self.diverged}", file=options.log)
            first = result if first is None else first
            yield MeasuredTrajectory(options, path, runs, selected, result)

    def _default_report(self, measured: MeasuredTrajectory) -> Report:
        """A table with a row for each point of the result, and the plot."""
        result = measured.result
        dims = list(map(str, result.dims))
        dims.sort(key=lambda name: ("run", "step", name).index(name))
        points = result if dims else result.expand_dims("point")
        table = points.to_dataframe(dim_order=dims or ["point"])
        table = table.reset_index(drop=not dims)
        columns = self.columns or [Column(name, name) for name in table]
        for column in columns:
            if column.name and column.name not in table:
                raise SettingsError("columns", column.name, f"{', '.join(table)}")
        figure = None if self.plot is None else partial(self._draw, result)
        rows = slice(PRINTED_ROWS)
        return Report(table, columns, self.legend, figure=figure, rows=rows)

    def _draw(self, result: xr.Dataset) -> Figure:
        assert self.plot is not None
        figure, (axes,) = plots.new_panels([2])
        self.plot(result, axes)
        return figure

    def _write(
        self,
        measurements: Sequence[MeasuredTrajectory],
        reports: Sequence[Report],
        outs: Sequence[Path],
    ) -> list[ReportedError]:
        """Write the results and the pictures; return the errors of the pictures."""
        errors: list[ReportedError] = []
        for item, report, out in zip(measurements, reports, outs, strict=True):
            result = item.result if report.result is None else report.result
            try:
                self._write_result(item, result, report.figure, out)
            except FigureError as error:
                errors.append(error)
        return errors

    def _write_results(
        self, measurements: Sequence[MeasuredTrajectory], outs: Sequence[Path]
    ) -> None:
        """Write the results without pictures."""
        for item, out in zip(measurements, outs, strict=False):
            self._write_result(item, item.result, None, out)

    def _write_result(
        self,
        measured: MeasuredTrajectory,
        result: xr.Dataset,
        figure: FigureSource,
        out: Path,
    ) -> None:
        title = result.attrs.get("title", self.title)
        attributes = _result_attributes(measured.path, self.program)
        attributes |= origin_of_result(measured.trajectory)
        result = result.assign_attrs(title=title, **attributes)
        write_result_and_picture(measured.options, result, figure, out)


def _is_interrupted(measured: MeasuredTrajectory) -> bool:
    """Whether an interruption has ended the computation of a result early."""
    left = ("frames_left", "rows_left")
    return any(measured.result.attrs.get(name) for name in left)


def _print_reports(
    reports: Sequence[Report], measurements: Sequence[MeasuredTrajectory], options: Any
) -> None:
    """Print the summaries, one table and the legend; write the table as CSV."""
    for report in reports:
        if report.summary:
            print(report.summary, file=options.log)
    table, columns, legend, _, _, rows, _ = reports[0]
    if len(reports) > 1:
        names = [item.path.name for item in measurements]
        tables = [report.table for report in reports]
        table = pd.concat(tables, keys=names, names=["trajectory"])
        table = table.reset_index("trajectory")
        columns = [Column("trajectory", "trajectory"), *columns]
    output.output_table(table, columns, options.csv, rows)
    left_out = len(table) - len(table[rows])
    if left_out and not options.csv:
        print(f"and {left_out} more rows; --csv FILE.csv writes all", file=options.log)
    if legend:
        print(legend, file=options.log)


def open_input(
    options: TrajectoryOptions, name: str, program: str
) -> tuple[xr.Dataset, Path]:
    """The trajectory, and the path for the result, checked before any work is done.

    name, program: of the command. Raises TrajectoryError, SettingsError."""
    path = options.trajectory
    out = options.out or path.parent / f"{output.plain_stem(path)}-{name}.nc"
    out = output.check_result_path(out, _result_attributes(path, program))
    trajectory = dynamics.open_trajectory(path)
    sizes = f"{trajectory.sizes['run']} runs, {trajectory.sizes['step']} frames"
    print(
        f"trajectory  {path}  ({trajectory.attrs['system']}: {sizes})", file=options.log
    )
    return trajectory, out


class FigureError(RecordingError):
    """A figure could not be drawn. The result has been written."""


def write_result_and_picture(
    options: PictureOptions, result: xr.Dataset, figure: FigureSource, out: Path
) -> None:
    """Write the result to `out`, and the picture beside it. Raises RecordingError, and
    FigureError for an error in a function that draws the figure."""
    output.write_result(result, out)
    print(f"result      {out}", file=options.log)
    if callable(figure):
        try:
            figure = figure()
        except Exception as error:
            words = f"the figure of {out} could not be drawn"
            raise FigureError(f"{words}: {type(error).__name__}: {error}") from error
    if figure is not None:
        picture = options.picture_path(out)
        plots.save_figure(figure, picture)
        print(f"picture     {picture}", file=options.log)


def _result_attributes(path: Path, program: str) -> dict[str, str]:
    return {"result_of": program, "trajectory": path.name}


@contextmanager
def _named_errors(path: Path, several: bool) -> Iterator[None]:
    """Begin the message of a TrajectoryError with the file, if there are several."""
    try:
        yield
    except TrajectoryError as error:
        if not several or str(path) in str(error):
            raise
        raise TrajectoryError(f"{path}: {error}") from None
