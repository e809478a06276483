"""An analysis of trajectories: a frozen dataclass whose fields are its options in
Python, on the command line and in the attributes of its results."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import dynamics
from analysis import output, plots
from analysis.command_line import analysis_command
from analysis.output.tables import Column
from dynamics import trajectory as trajectory_format
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRINTED_ROWS = 40
"""Rows of a long table on the terminal; the CSV has all."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """A measure of trajectories, with its table, its picture and its command.

    A subclass is a frozen dataclass that defines `measure`. Its fields are the options,
    each with a text below it, and its docstring is the help of the command. `main`
    makes the command: it opens one or several trajectories, measures each, prints the
    table, and writes the result, the picture and the CSV file.

    Parameters
    ----------
    selection : dynamics.Selection
        Runs and recorded frames that are measured.

    Attributes
    ----------
    name : str
        Name of the command; the result of RUN.nc is written to RUN-NAME.nc. Default:
        the name of the class in lower case, with underscores.
    program : str
        Program that the attribute `result_of` of a result names. Default: the module of
        the class, such as analysis.events, or its file.
    title : str
        Title of the result.
    columns : sequence of Column
        Printed columns of the table. Default: all. The CSV file has all columns.
    legend : str
        Explanation under the table.
    several : {"separate", "combined", "compared", "one"}
        What the command does with several trajectories. separate: one printed table
        with a column for the trajectory, and a result and a picture of each. combined:
        one result of all (`combine`), with one table and picture, in a file of its own.
        compared: the same in the file of the first trajectory. one: it takes only one.
    most_files : int or None
        Largest number of trajectories.
    diverged : str
        What is printed of runs that diverged, after their number.
    former_names : mapping of str to str
        Options of the command that had another name before, such as
        ``{"--steps": "--frames"}``.

    Examples
    --------
    >>> import dataclasses
    >>> from analysis import Analysis
    >>> from dynamics import ParticleSettings, Selection, simulate
    >>> @dataclasses.dataclass(frozen=True)
    ... class PathLength(Analysis):
    ...     '''Measure the distance that the tokens of each run move.'''
    ...     halved: bool = False
    ...     '''Whether half of the distance is measured.'''
    ...     def measure(self, trajectory):
    ...         moved = self.selection.apply(trajectory)[["update_norm"]]
    ...         return moved.sum(["step", "layer"]) / (1 + self.halved)
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=8, progress=False)
    >>> analysis = PathLength(selection=Selection(runs=2))
    >>> result = analysis.measure(trajectory)
    >>> analysis.table(result).columns.tolist()
    ['run', 'seed', 'update_norm']
    """

    selection: Selection = Selection()

    name: ClassVar[str] = ""
    program: ClassVar[str] = ""
    title: ClassVar[str] = ""
    columns: ClassVar[Sequence[Column]] = ()
    legend: ClassVar[str] = ""
    several: ClassVar[Literal["separate", "combined", "compared", "one"]] = "separate"
    most_files: ClassVar[int | None] = None
    diverged: ClassVar[str] = "diverged and have no values from then on"

    former_names: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields = {field.name for field in dataclasses.fields(Analysis)}
        attributes = inspect.get_annotations(Analysis).keys() - fields
        for name, kind in inspect.get_annotations(cls).items():
            if name in attributes and "ClassVar" not in str(kind):
                words = f"{cls.__name__}.{name} with a type would be an option"
                raise TypeError(f"{words}; write {name} = ... without one")
        if "measure" in vars(cls):
            cls.measure = _with_descriptions(cls.measure)  # type: ignore[method-assign, assignment]
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    # ------------------------------------------------------- what a subclass defines

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        """The result for the selected runs and frames of a trajectory, which is given
        whole. Its variables get the attributes `long_name`, `units` and `comment`, and
        a result with frames `unit_of_time` (epoch or step) and its number of steps,
        `unit`, as far as they have none."""
        raise NotImplementedError

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        """The table of a result. Default: a row for each point, with all variables and
        coordinates."""
        order = {"run": 0, "step": 1}
        dims = sorted(map(str, result.dims), key=lambda name: order.get(name, 2))
        points = result if dims else result.expand_dims("point")
        table = points.to_dataframe(dim_order=dims or ["point"])
        return table.reset_index(drop=not dims)

    def draw(self, result: xr.Dataset, axes: Axes) -> None:
        """Draw a result into the axes of one panel. Without this method and `figure`
        the command has no picture."""
        raise NotImplementedError

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure | None:
        """The picture of a result and of its trajectory, which is given whole; of a
        combined result it is the first. Default: a panel, into which `draw` draws."""
        if type(self).draw is Analysis.draw:
            return None
        figure, (axes,) = plots.new_panels([2])
        self.draw(result, axes)
        return figure

    def panel_names(self) -> Sequence[str] | None:
        """Names of all panels that the picture may have, by which --panels is checked
        before the measure. Default: None; the picture decides."""
        return None

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        """The printed columns of the table of a result. Default: `columns`."""
        return self.columns

    def printed_rows(self, table: pd.DataFrame) -> Any:
        """The printed rows of the table, as a slice or a mask. Default: the first
        40."""
        return slice(PRINTED_ROWS)

    def text_below(self, result: xr.Dataset) -> str:
        """The explanation under the table. Default: `legend`."""
        return self.legend

    def text_above(self, result: xr.Dataset, trajectory: xr.Dataset) -> str:
        """The text above the table. Default: none."""
        return ""

    def combine(self, results: Sequence[xr.Dataset]) -> xr.Dataset:
        """One result of those of several trajectories. Default: `output.join_results`,
        which `output.split_results` takes apart."""
        return output.join_results(results)

    def is_interrupted(self, result: xr.Dataset) -> bool:
        """Whether Ctrl-C has ended the measure early. Default: whether the attribute
        `frames_left` or `rows_left` of the result is a number above 0."""
        return any(result.attrs.get(name) for name in ("frames_left", "rows_left"))

    def for_others(self, result: xr.Dataset) -> Analysis:
        """The analysis of further trajectories, after the result of the first one."""
        return self

    # ------------------------------------------------------------------- the command

    def print_progress(self, line: str) -> None:
        """Print a line at once, if the analysis runs as a command."""
        analysis_command.print_message(line)

    @classmethod
    def main(cls) -> None:
        """Run the command of this analysis with the arguments of the command line."""
        analysis_command.run(cls)


def _with_descriptions(
    measure: Callable[[Any, xr.Dataset], xr.Dataset],
) -> Callable[[Any, xr.Dataset], xr.Dataset]:
    """A method `measure` whose result has a short name, units and a comment for each
    variable, and the trajectory's unit of time."""

    @functools.wraps(measure)
    def measure_and_describe(analysis: Any, trajectory: xr.Dataset) -> xr.Dataset:
        result = measure(analysis, trajectory)
        if not hasattr(result, "data_vars"):  # the command says what it must be
            return result
        if "step" in result.dims:
            word, unit = trajectory_format.time_unit(trajectory)
            times = {"unit_of_time": word, "unit": unit}
            result = result.assign_attrs(times | result.attrs)
        return trajectory_format.describe_variables(result.copy())

    return measure_and_describe


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelAnalysis(Analysis):
    """An analysis that needs the functions of a model from outside."""

    model: Path | None = None
    """Model file of a model from outside: a Python file, which is executed. Default:
    the model file that sims.collect --model stored in the trajectory."""
    trust_model: bool = False
    """Run the model file that is stored in the trajectory, even if it never ran on this
    computer."""

    def model_functions(self, trajectory: xr.Dataset) -> dynamics.ModelFile | None:
        """The functions of the model file; None for a trajectory of this package."""
        return dynamics.find_model(trajectory, self.model, self.trust_model)
