"""Trajectories of scalars alone, from the CSV files that TensorBoard and Weights & Biases
(wandb) export, and tables of scalars for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import lazy_loader as lazy
import numpy as np
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.folders import expand_home, read_plain_file
from dynamics.number_tables import comma_hint, read_rows
from dynamics.recording.imported_trajectory import imported_trajectory
from dynamics.recording.metrics import (
    METRICS,
    is_fraction,
    metric_arrays,
    shared_splits,
)
from dynamics.recording.quantities import LEARNING_RATE, check_name
from dynamics.settings import RecordedSettings, SettingsError
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import RESERVED_NAMES, VARIABLES

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy.load("pandas")

STEP_COLUMNS = ("trainer/global_step", "global_step", "_step", "step", "iteration")
"""Names of the column of steps, in lower case; the first one is preferred."""

SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
    "eval": "test",
}
"""Words in the names of scalars, and the splits that they stand for."""

METRIC_WORDS = {"loss": "loss", "accuracy": "accuracy", "acc": "accuracy"}
"""Words in the names of scalars, and the variables of splits that they stand for."""

MISSING = {"", "na", "n/a", "#n/a", "<na>", "null", "none"}
"""Cells without a value, in lower case. NaN is a value."""

LEFT_OUT = "left out"
"""Words that the command prints beside a column that it does not use."""

NO_SCALARS = {
    *RESERVED_NAMES,
    *(
        name
        for name, spec in VARIABLES.items()
        if spec.dims != ("run", "step") and name not in METRICS
    ),
}
"""Names that a scalar cannot have as a variable of a trajectory: reserved names, and
names of variables that are arrays in each frame."""


def collect_scalars(
    paths: Sequence[str | Path],
    seed: int | None = None,
    columns: Sequence[str] = (),
    step_from: str | None = None,
    log: Callable[[str], Any] = lambda line: None,
) -> xr.Dataset:
    """A trajectory of scalars from CSV files of TensorBoard or wandb.

    A file has a header, a column of steps and a column for each scalar; commas,
    semicolons, tabs or blanks separate its cells. In a chart that wandb exports, columns
    are named ``RUN - SCALAR``, and the trajectory has several runs; in a table of
    `scalar_table` runs have seeds. A file of TensorBoard has one scalar, the column
    ``Value``, and its name ends with that of the scalar: ``...tag-SCALAR.csv``. A scalar
    whose name consists of ``loss`` or ``accuracy`` and a split, such as ``eval/loss`` or
    ``train_accuracy``, is the loss or accuracy of this split: train, validation (``val``,
    ``valid``, ``dev``) or test (``eval``); without a split, of train.

    Columns of epochs and times, those whose names begin with ``_`` or end with
    ``__MIN`` or ``__MAX``, and those without any number are left out. A column of numbers
    in which one cell is none is refused. NaN and infinite values that a file spells out
    are values; those that float32 cannot represent become infinite. Empty cells and the
    words NA, N/A, null and None are missing: a step at which a scalar of a run is
    missing is left out.

    Parameters
    ----------
    paths : sequence of str or Path
        Files of the same runs, each with some of the scalars.
    seed : int, optional
        Seed of the first run in the trajectory; others follow it. Default: the seeds in
        the column ``seed``, or from 0.
    columns : sequence of str
        Rules ``NAME=VARIABLE:SPLIT``, ``NAME=VARIABLE``, or ``NAME=`` to leave a column
        out.
    step_from : str, optional
        The column of steps. Default: the only one with a usual name.
    log : callable, optional
        Called with a line of text for each column: its name, its variable and split, or
        why it is left out; for values that are not finite, and for steps that are
        left out.

    Returns
    -------
    xarray.Dataset
        For `save_trajectory`: scalars (run, step), dimensionless, at the steps at which
        all scalars of all runs were logged.

    Raises
    ------
    SettingsError
        If two columns stand for the same variable, or columns of steps differ.
    TrajectoryError
        If a file is no such table, a cell is no number, an accuracy is no fraction from 0
        to 1, or there is no common step.

    Examples
    --------
    >>> from pathlib import Path
    >>> from dynamics import collect_scalars
    >>> size = Path("log.csv").write_text("Step,train/loss,eval/loss\\n0,2.0,2.1\\n10,1.0,1.5\\n")
    >>> collect_scalars(["log.csv"])["loss"].sel(split="test").values.tolist()
    [[2.0999999046325684, 1.5]]
    """
    source = ", ".join(map(str, paths))
    rules = _rules(columns)
    logs = [_read_log(expand_home(path), step_from, rules) for path in paths]
    reasons: dict[str, str] = {}
    for one in logs:
        for scalar, reason in one.columns.items():
            reasons[scalar] = reason and reasons.get(scalar, reason)
    meanings = _meanings(reasons, rules, log)
    parts = [
        part.assign(file=file)
        for file, one in enumerate(logs)
        for scalar, part in one.parts
        if scalar in meanings and len(part)
    ]
    if not parts:
        raise TrajectoryError(f"{source}: no column of numbers is used")
    values = pd.concat(parts, ignore_index=True)
    repeated = values.duplicated(["run", "scalar", "step"])
    if repeated.any():
        first = values[repeated].iloc[0]
        raise TrajectoryError(
            f"{source}: two values of {first.scalar} at step {first.step}"
        )
    _check_accuracies(values, meanings, logs)
    _log_not_finite(values, log)
    runs = values["run"].unique()
    seeds = (0 if seed is None else seed) + np.arange(len(runs))
    if len({one.has_seeds for one in logs}) > 1:
        raise TrajectoryError(f"{source}: only some of them have a column seed")
    if logs[0].has_seeds and seed is None:
        seeds = runs
    series = dict(iter(values.groupby(["scalar", "run"], sort=False)))
    keys = [(scalar, run) for scalar in meanings for run in runs]
    if not series.keys() >= {*keys}:
        raise TrajectoryError(f"{source}: no step at which all scalars were logged")
    table = pd.concat(
        [series[key].set_index("step")["value"] for key in keys], axis=1, join="inner"
    ).sort_index()
    _log_missing(logs, table.index.to_numpy(), log)
    if table.empty:
        raise TrajectoryError(f"{source}: no step at which all scalars were logged")
    by_variable: dict[str, dict[str, np.ndarray]] = {}
    numbers = table.to_numpy().reshape(len(table), len(meanings), -1)  # (.., run)
    for place, (variable, split) in enumerate(meanings.values()):
        by_variable.setdefault(variable, {})[split or "train"] = numbers[:, place]
    arrays = metric_arrays(by_variable)
    frames = {
        int(step): {name: array[place] for name, array in arrays.items()}
        for place, step in enumerate(table.index)
    }
    dims: dict[str, tuple[str, ...]] = {
        name: ("split",) if array.ndim > 2 else () for name, array in arrays.items()
    }
    splits = shared_splits({name: list(parts) for name, parts in by_variable.items()})
    settings = RecordedSettings(model="scalars", recorded=", ".join(arrays))
    coords = {"split": np.array(splits)}
    return imported_trajectory(frames, dims, coords, settings, seeds, "scalars", {})


# ------------------------------------------------------------------------------ reading


class _Log(NamedTuple):
    """The content of a file."""

    path: Path
    parts: list[tuple[str, pd.DataFrame]]
    """The scalar of each column, and its values that are not missing: run, scalar,
    step, value and line."""
    columns: dict[str, str]
    """The scalars, and why each is left out; empty for those with values."""
    steps: np.ndarray
    """The steps of all rows."""
    without_step: int
    """The number of rows without a step."""
    has_seeds: bool


def _read_log(path: Path, step_from: str | None, rules: Mapping[str, str]) -> _Log:
    """Read a file; the rules of the user say which columns are left out. Raises
    TrajectoryError, SettingsError."""
    header, lines, cells = _read_cells(path)
    names = [name for name in header if name]
    lower = {name.lower(): name for name in names}
    steps = [name for word in STEP_COLUMNS for name in names if name.lower() == word]
    if step_from is not None:
        if step_from not in names:
            allowed = f"a column of {path}: {', '.join(names)}"
            raise SettingsError("step_from", step_from, allowed)
        steps = [step_from, *(name for name in steps if name != step_from)]
    if not steps:
        raise TrajectoryError(
            f"{path}: found the columns {', '.join(names)}, expected one that is"
            " named Step; --step-from names another one"
        )
    several = [list(map(_whole_number, cells[name])) for name in steps]
    if step_from is None and any(other != several[0] for other in several[1:]):
        allowed = f"one of {', '.join(steps)}, which differ in {path}"
        raise SettingsError("step_from", "none", allowed)
    step_of = _whole_numbers(path, steps[0], lines, cells[steps[0]])
    rows = [row for row, step in enumerate(step_of) if step is not None]
    numbers = np.array([step_of[row] for row in rows], np.int64)
    lines = lines[rows]
    seeds = None
    if "seed" in names:
        texts = [cells["seed"][row] for row in rows]
        seeds = _whole_numbers(path, "seed", lines, texts)
        if None in seeds:
            line = lines[seeds.index(None)]
            raise TrajectoryError(f"{path}: the row in line {line} has no seed")
    scalar_of = {name: name.rpartition(" - ") for name in names}
    if "wall time" in lower and "value" in lower:
        tag = re.sub(r".*tag[-_]", "", path.stem)
        scalar_of[lower["value"]] = "", "", tag
        del scalar_of[lower["wall time"]]
    parts = []
    reasons: dict[str, str] = {}
    for name, (run, _, scalar) in scalar_of.items():
        if name in (*steps, "seed"):
            continue
        if not _meaning(scalar, rules):
            reasons[scalar] = LEFT_OUT
            continue
        texts = [cells[name][row] for row in rows]
        values, missing, reason = _numbers(path, name, scalar, lines, texts)
        reasons[scalar] = reason and reasons.get(scalar, reason)
        columns = {"step": numbers, "value": values, "line": lines}
        table = pd.DataFrame(columns)
        table["run"] = run if seeds is None else np.array(seeds, np.int64)
        parts.append((scalar, table[~missing].assign(scalar=scalar)))
    if not {"", LEFT_OUT} & {*reasons.values()}:
        why = "".join(f"; {name}: {reason}" for name, reason in reasons.items())
        raise TrajectoryError(f"{path}: no column of numbers besides {steps[0]}{why}")
    without_step = len(step_of) - len(rows)
    return _Log(path, parts, reasons, numbers, without_step, seeds is not None)


def _read_cells(path: Path) -> tuple[list[str], np.ndarray, dict[str, list[str]]]:
    """The header of a file, the lines of its rows, and the cells of each column that
    has a name. Raises TrajectoryError."""
    try:
        table = read_rows(read_plain_file(path))
        if not table:
            raise ValueError("it is empty")
    except (ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise TrajectoryError(f"{path}: no CSV file ({reason})") from None
    (_, header), *rows = table
    for name in filter(None, header):
        if header.count(name) > 1:
            raise TrajectoryError(f"{path}: has two columns that are named {name}")
    for line, row in rows:
        if len(row) < len(header) or any(row[len(header) :]):
            raise TrajectoryError(
                f"{path}: line {line} has {len(row)} cells, the header {len(header)}"
            )
    lines = np.array([line for line, _ in rows], np.int64)
    cells = {name: [row[k] for _, row in rows] for k, name in enumerate(header) if name}
    return header, lines, cells


def _numbers(
    path: Path, name: str, scalar: str, lines: np.ndarray, cells: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, str]:
    """The values of a column (row,), which of them are missing, and why the column is
    left out, if it has no number. Raises TrajectoryError if only some cells are
    numbers."""
    missing = np.array([cell.lower() in MISSING for cell in cells], bool)
    values = np.full(len(cells), np.nan)
    wrong = []
    for row in np.flatnonzero(~missing).tolist():
        number = _number(cells[row])
        if number is None:
            wrong.append(row)
        else:
            values[row] = number
    if not wrong:
        return values, missing, "all cells are empty" if missing.all() else ""
    cell, line = cells[wrong[0]], lines[wrong[0]]
    hint = comma_hint(cell)
    if hint or len(wrong) < (~missing).sum():
        raise TrajectoryError(
            f"{path}: column {name}, line {line}: {cell[:40]!r} is no number{hint};"
            f" --column {scalar}= leaves the column out"
        )
    missing[:] = True
    return values, missing, f"no numbers, but {cell[:40]!r} in line {line}"


def _number(cell: str) -> float | None:
    """The number that a cell spells out; None if it is none."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _whole_number(cell: str) -> int | str | None:
    """A step or a seed: a whole number from 0; None if it is missing; the cell if it is
    something else."""
    if cell.isdecimal():
        number: float | None = int(cell)  # all of its digits
    else:
        number = _number(cell)
    if cell.lower() in MISSING or (number is not None and np.isnan(number)):
        return None
    is_whole = number is not None and 0 <= number < 2**62 and number % 1 == 0
    return int(number) if number is not None and is_whole else cell


def _whole_numbers(
    path: Path, name: str, lines: np.ndarray, cells: Sequence[str]
) -> list[int | None]:
    """The numbers of a column of steps or seeds. Raises TrajectoryError."""
    numbers: list[int | None] = []
    for line, number in zip(lines, map(_whole_number, cells), strict=True):
        if isinstance(number, str):
            raise TrajectoryError(
                f"{path}: {name} is not a whole number from 0 in all rows: found"
                f" {number[:40]!r} in line {line}"
            )
        numbers.append(number)
    return numbers


def _check_accuracies(
    values: pd.DataFrame, meanings: Mapping[str, tuple[str, Any]], logs: Sequence[_Log]
) -> None:
    """Raise TrajectoryError if an accuracy is no fraction from 0 to 1."""
    names = [name for name, (variable, _) in meanings.items() if variable == "accuracy"]
    accuracies = values[values["scalar"].isin(names)]
    wrong = accuracies[~is_fraction(accuracies["value"].to_numpy())]
    if len(wrong):
        first = wrong.iloc[0]
        raise TrajectoryError(
            f"{logs[first.file].path}: column {first.scalar}, line {first.line}: found"
            f" an accuracy of {first.value:g}, allowed is a fraction from 0 to 1;"
            f" --column {first.scalar}=NAME gives it another name"
        )


def _log_not_finite(values: pd.DataFrame, log: Callable[[str], Any]) -> None:
    """Say how many values of each scalar are not finite in float32."""
    numbers = values["value"].to_numpy()
    beyond = np.isfinite(numbers) & (np.abs(numbers) > np.finfo(np.float32).max)
    found = values[["scalar"]].assign(beyond=beyond)[beyond | ~np.isfinite(numbers)]
    for scalar, group in found.groupby("scalar", sort=False)["beyond"]:
        count = int(group.sum())
        larger = f", {count} of them as they are beyond 3.4e38" if count else ""
        log(f"not finite  {len(group)} values of {scalar}{larger}")


def _log_missing(
    logs: Sequence[_Log], used: np.ndarray, log: Callable[[str], Any]
) -> None:
    """Say which steps are left out, and how many rows have no step."""
    steps = np.unique(np.concatenate([one.steps for one in logs]))
    missing = np.setdiff1d(steps, used)
    if len(missing):
        some = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        log(
            f"left out    {len(missing)} of {len(steps)} steps, at which a scalar of a"
            f" run is missing: {some}"
        )
    for one in logs:
        if one.without_step:
            log(f"left out    {one.without_step} rows without a step in {one.path}")


# ----------------------------------------------------------------------------- meanings


def _rules(columns: Sequence[str]) -> dict[str, str]:
    """The rules of the user: the meaning of each scalar, empty if it is left out. Raises
    SettingsError."""
    rules = {}
    for rule in columns:
        name, equals, meaning = rule.rpartition("=")
        if not equals:
            raise SettingsError("column", rule, "NAME=VARIABLE:SPLIT")
        rules[name] = meaning
    return rules


def _meaning(scalar: str, rules: Mapping[str, str]) -> str:
    """The variable and the split of a scalar, such as loss:test: by the rules of the
    user, or by the words of its name. Empty if the scalar is left out."""
    if scalar in rules:
        return rules[scalar]
    is_other = scalar.startswith("_") or scalar.endswith(("__MIN", "__MAX"))
    return "" if is_other or scalar in RESERVED_NAMES else _usual_meaning(scalar)


def _meanings(
    reasons: Mapping[str, str], rules: Mapping[str, str], log: Callable[[str], Any]
) -> dict[str, tuple[str, str | None]]:
    """The variable and the split, if any, of each scalar that is used. `reasons` says
    why the others are left out. Raises SettingsError."""
    for name, meaning in rules.items():
        rule = f"{name}={meaning}"
        if name not in reasons:
            allowed = f"NAME=VARIABLE:SPLIT with a column of {', '.join(reasons)}"
            raise SettingsError("column", rule, allowed)
        if meaning and reasons[name]:
            found = f"{rule} ({reasons[name]})"
            raise SettingsError("column", found, "a column of numbers")
    meanings: dict[str, tuple[str, str | None]] = {}
    owners: dict[tuple[str, str | None], str] = {}
    log(f"{'column':30}  {'variable':20}  split")
    for scalar, reason in reasons.items():
        if reason:
            why = "" if reason == LEFT_OUT else f" ({reason})"
            log(f"{scalar:30}  {LEFT_OUT}{why}")
            continue
        variable, _, split = _meaning(scalar, rules).partition(":")
        if variable in METRICS:
            split = split or "train"
        log(f"{scalar:30}  {variable:20}  {split}")
        if variable in NO_SCALARS:
            allowed = f"--column {scalar}=VARIABLE with another name"
            raise SettingsError("column", f"{scalar} as {variable}", allowed)
        if variable not in (*METRICS, LEARNING_RATE):
            check_name("column", variable)
        if split:
            check_name("column", split)
        place = variable, split or None
        if place in owners:
            what = f"{owners[place]} and {scalar}, both {variable} {split}".rstrip()
            allowed = f"one of them; --column {scalar}={variable}:SPLIT decides"
            raise SettingsError("column", what, allowed)
        meanings[scalar] = place
        owners[place] = scalar
    return meanings


def _usual_meaning(scalar: str) -> str:
    """The variable and the split of a scalar by the words of its name, such as loss:test,
    or a variable of its name."""
    words = [word for word in re.split(r"[^a-z]+", scalar.lower()) if word]
    metrics = [METRIC_WORDS[word] for word in words if word in METRIC_WORDS]
    splits = [SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS]
    if len(metrics) == 1 and len(words) == 1 + len(splits) <= 2:
        return f"{metrics[0]}:{(splits or ['train'])[0]}"
    return re.sub(r"\W+", "_", scalar).strip("_")


def scalar_table(trajectory: xr.Dataset) -> pd.DataFrame:
    """The scalars of a trajectory as a table, for TensorBoard, wandb or a CSV file.

    Parameters
    ----------
    trajectory : xr.Dataset

    Returns
    -------
    DataFrame
        A row for each run and step: `seed`, `step`, and a column for each variable
        (run, step) and each split of a loss and an accuracy, such as ``loss/train``.
        Rows after a run has diverged are left out. NaN is a value: write a CSV file
        with ``table.to_csv(path, index=False, na_rep="NaN")``, as empty cells are
        missing values.

    Examples
    --------
    >>> from dynamics import ModularSettings, scalar_table, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=2, progress=False)
    >>> scalar_table(short).columns.tolist()[:4]
    ['seed', 'step', 'loss/train', 'loss/validation']
    """
    columns = {}
    for name, values in trajectory.data_vars.items():
        rest = set(values.dims) - {"run", "step"}
        if {"run", "step"} <= set(values.dims) and rest <= {"split"}:
            if rest:
                for split in values["split"].values:
                    columns[f"{name}/{split}"] = values.sel(split=split, drop=True)
            else:
                columns[str(name)] = values
    valid = valid_frames(trajectory).transpose("run", "step").values.ravel()
    table = xr.Dataset(columns)[list(columns)].transpose("run", "step").to_dataframe()
    table = table[valid].reset_index()
    return table[["seed", "step", *columns]]
