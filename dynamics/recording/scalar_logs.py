"""Trajectories of scalars alone, from the CSV files that TensorBoard and Weights & Biases
(wandb) export, and tables of scalars for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy
import numpy as np
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.folders import expand_home
from dynamics.recording.imported_trajectory import imported_trajectory
from dynamics.recording.metrics import METRICS, metric_arrays, shared_splits
from dynamics.settings import RecordedSettings, SettingsError
from dynamics.trajectory.diverged import mask_diverged
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
    seed: int = 0,
    columns: Sequence[str] = (),
    step_from: str | None = None,
    log: Callable[[str], Any] = lambda line: None,
) -> xr.Dataset:
    """A trajectory of scalars from CSV files of TensorBoard or wandb.

    A file has a column of steps and a column for each scalar. In a chart that wandb
    exports, columns are named ``RUN - SCALAR``, and the trajectory has several runs; in
    a table of `scalar_table` runs have seeds. A file of TensorBoard has one scalar, the
    column ``Value``, and its name ends with that of the scalar: ``...tag-SCALAR.csv``.
    A scalar whose name consists of ``loss`` or ``accuracy`` and a split, such as
    ``eval/loss`` or ``train_accuracy``, is the loss or accuracy of this split: train,
    validation (``val``, ``valid``, ``dev``) or test (``eval``); without a split, of
    train. Columns of epochs and times, those whose names begin with ``_`` and those without
    numbers are left out.

    Parameters
    ----------
    paths : sequence of str or Path
        Files of the same runs, each with some of the scalars.
    seed : int
        Seed of the first run in the trajectory.
    columns : sequence of str
        Rules ``NAME=VARIABLE:SPLIT``, ``NAME=VARIABLE``, or ``NAME=`` to leave a column
        out.
    step_from : str, optional
        The column of steps. Default: the only one with a usual name.
    log : callable, optional
        Called with a line of text for each column: its name, its variable and split.

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
        If a file is no such table, a value is not finite, or there is no common step.

    Examples
    --------
    >>> from pathlib import Path
    >>> from dynamics import collect_scalars
    >>> size = Path("log.csv").write_text("Step,train/loss,eval/loss\\n0,2.0,2.1\\n10,1.0,1.5\\n")
    >>> collect_scalars(["log.csv"])["loss"].sel(split="test").values.tolist()
    [[2.0999999046325684, 1.5]]
    """
    source = ", ".join(map(str, paths))
    values = pd.concat([_read_log(expand_home(path), step_from) for path in paths])
    meanings = _meanings(values["scalar"].unique(), columns, log)
    values = values[values["scalar"].isin(meanings)]
    if values.empty:
        raise TrajectoryError(f"{source}: no column of numbers is used")
    repeated = values.duplicated(["run", "scalar", "step"])
    if repeated.any():
        first = values[repeated].iloc[0]
        raise TrajectoryError(
            f"{source}: two values of {first.scalar} at step {first.step}"
        )
    table = values.pivot(index="step", columns=["scalar", "run"], values="value")
    runs = values["run"].unique()
    columns_of_all = pd.MultiIndex.from_product([meanings, runs])
    table = table.reindex(columns=columns_of_all).dropna()
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
    return imported_trajectory(
        frames, dims, coords, settings, len(runs), seed, "scalars", {}
    )


def _read_log(path: Path, step_from: str | None) -> pd.DataFrame:
    """The values of a file in a table with the columns run, scalar, step and value.
    Raises TrajectoryError, SettingsError."""
    try:
        table = pd.read_csv(path)
        header = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].dropna()
    except (ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TrajectoryError(f"{path}: no CSV file ({reason})") from None
    if header.duplicated().any():
        name = header[header.duplicated()].iloc[0]
        raise TrajectoryError(f"{path}: has two columns that are named {name}")
    table.columns = table.columns.map(str)
    lower = {name.lower(): name for name in table.columns}
    steps = [lower[name] for name in STEP_COLUMNS if name in lower]
    if step_from is not None:
        if step_from not in table:
            allowed = f"a column of {path}: {', '.join(table.columns)}"
            raise SettingsError("step_from", step_from, allowed)
        steps = [step_from, *(name for name in steps if name != step_from)]
    elif any(not table[name].equals(table[steps[0]]) for name in steps[1:]):
        allowed = f"one of {', '.join(steps)}, which differ in {path}"
        raise SettingsError("step_from", "none", allowed)
    if not steps:
        raise TrajectoryError(
            f"{path}: found the columns {', '.join(table.columns)}, expected one that is"
            " named Step; --step-from names another one"
        )
    if "wall time" in lower and "value" in lower:
        tag = re.sub(r".*tag[-_]", "", path.stem)
        table = table.rename(columns={lower["value"]: tag})
        table = table.drop(columns=lower["wall time"])
    numbers = table.dropna(subset=steps[:1]).select_dtypes("number")
    scalars = [
        name
        for name in numbers.columns
        if name not in (*steps, "seed")
        and not name.startswith("_")
        and not name.endswith(("__MIN", "__MAX"))
    ]
    if steps[0] not in numbers or not _is_step(numbers[steps[0]]).all():
        raise TrajectoryError(
            f"{path}: {steps[0]} is not a whole number from 0 in all rows"
        )
    if not scalars:
        raise TrajectoryError(f"{path}: no column of numbers besides {steps[0]}")
    if np.isinf(numbers[scalars].to_numpy()).any():
        raise TrajectoryError(f"{path}: a value is not finite")
    numbers = numbers.assign(step=numbers[steps[0]].astype(int))
    labels = [name for name in ("step", "seed") if name in numbers]
    columns = [
        numbers[labels].assign(name=name, value=numbers[name]) for name in scalars
    ]
    long = pd.concat(columns).dropna()
    names = long["name"].str.rpartition(" - ")
    runs = long["seed"] if "seed" in labels else names[0]
    return long.assign(run=runs, scalar=names[2])


def _is_step(values: pd.Series) -> pd.Series:
    """Which values are whole numbers from 0."""
    return (values % 1 == 0) & (values >= 0) & (values < 2**62)


def _meanings(
    scalars: Sequence[str], rules: Sequence[str], log: Callable[[str], Any]
) -> dict[str, tuple[str, str | None]]:
    """The variable and the split, if any, of each scalar that is used: by the rules of
    the user, or by the words of its name. Raises SettingsError."""
    given = {}
    for rule in rules:
        name, equals, meaning = rule.rpartition("=")
        if not equals or name not in scalars:
            allowed = f"NAME=VARIABLE:SPLIT with a column of {', '.join(scalars)}"
            raise SettingsError("column", rule, allowed)
        given[name] = meaning
    meanings: dict[str, tuple[str, str | None]] = {}
    owners: dict[tuple[str, str | None], str] = {}
    log(f"{'column':30}  {'variable':20}  split")
    for scalar in scalars:
        usual = "" if scalar in RESERVED_NAMES else _usual_meaning(scalar)
        variable, _, split = given.get(scalar, usual).partition(":")
        if variable in METRICS:
            split = split or "train"
        log(f"{scalar:30}  {variable or 'left out':20}  {split}")
        if not variable:
            continue
        if variable in NO_SCALARS:
            allowed = f"--column {scalar}=VARIABLE with another name"
            raise SettingsError("column", f"{scalar} as {variable}", allowed)
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
        Rows after a run has diverged are left out.

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
            values = mask_diverged(values, trajectory)
            if rest:
                for split in values["split"].values:
                    columns[f"{name}/{split}"] = values.sel(split=split, drop=True)
            else:
                columns[str(name)] = values
    table = xr.Dataset(columns)[list(columns)].transpose("run", "step").to_dataframe()
    table = table.reset_index()[["seed", "step", *columns]]
    return table.dropna(how="all", subset=list(columns)).reset_index(drop=True)
