"""Trajectories of scalars alone, from the CSV files that TensorBoard and Weights & Biases
(wandb) export, and tables of scalars for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy
import numpy as np
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.provenance import identity_of
from dynamics.recording.metrics import metric_arrays, shared_splits
from dynamics.settings import RecordedSettings
from dynamics.trajectory.description import RunDescription, describe_origin, seeds_of
from dynamics.trajectory.diverged import mask_diverged

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy.load("pandas")

STEP_COLUMNS = ("trainer/global_step", "global_step", "_step", "step", "iteration")
"""Names of the column of steps, in lower case; the first one is preferred."""

SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "val": "test",
    "valid": "test",
    "validation": "test",
    "eval": "test",
}
"""Words in the names of scalars, and the splits that they stand for."""

METRIC_WORDS = {"loss": "loss", "accuracy": "accuracy", "acc": "accuracy"}
"""Words in the names of scalars, and the variables of splits that they stand for."""


def collect_scalars(paths: Sequence[str | Path], seed: int = 0) -> xr.Dataset:
    """A trajectory of scalars from CSV files of TensorBoard or wandb.

    A file has a column of steps and a column for each scalar. In a chart that wandb
    exports, columns are named ``RUN - SCALAR``, and the trajectory has several runs; in
    a table of `scalar_table` runs have seeds. A file of TensorBoard has one scalar, the column ``Value``, and its name ends with that
    of the scalar: ``...tag-SCALAR.csv``. A scalar whose name consists of ``loss`` or
    ``accuracy`` and a split, such as ``eval/loss`` or ``train_accuracy``, is the loss or
    accuracy of this split (train or test); without a split, of train.

    Parameters
    ----------
    paths : sequence of str or Path
        Files of the same runs, each with some of the scalars.
    seed : int
        Seed of the first run in the trajectory.

    Returns
    -------
    xarray.Dataset
        For `save_trajectory`: scalars (run, step), dimensionless, at the steps at which
        all scalars of all runs were logged.

    Raises
    ------
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
    values = pd.concat([_read_log(Path(path)) for path in paths])
    repeated = values.duplicated(["run", "scalar", "step"])
    if repeated.any():
        first = values[repeated].iloc[0]
        raise TrajectoryError(
            f"{source}: two values of {first.scalar} at step {first.step}"
        )
    table = values.pivot(index="step", columns=["scalar", "run"], values="value")
    scalars, runs = (values[name].unique() for name in ("scalar", "run"))
    table = table.reindex(columns=pd.MultiIndex.from_product([scalars, runs])).dropna()
    if table.empty:
        raise TrajectoryError(f"{source}: no step at which all scalars were logged")
    frames = {}
    for step, row in table.iterrows():
        by_run = row.to_numpy().reshape(len(scalars), -1).T
        metrics = [metric_arrays(_numbers_by_split(scalars, run)) for run in by_run]
        frames[int(step)] = {
            name: np.stack([values[name] for values in metrics]) for name in metrics[0]
        }
    first, steps = next(iter(frames.values())), list(frames)
    splits = shared_splits(_numbers_by_split(scalars, scalars))
    dims: dict[str, tuple[str, ...]] = {
        name: ("split",) if values.ndim > 1 else () for name, values in first.items()
    }
    settings = RecordedSettings(model="scalars", recorded=", ".join(first))
    every = int(np.gcd.reduce(np.diff(steps))) if len(steps) > 1 else 1
    identity = identity_of(settings, len(runs), seed, every)
    attrs = describe_origin(settings, identity, steps[-1], 1, 1) | {
        "derived": "scalars"
    }
    if steps[0] > 0:
        attrs |= {"branched_at": steps[0], "branch_of": "scalars"}
    coords = {"split": np.array(splits)}
    description = RunDescription(dims, {}, coords, seeds_of(identity), 1.0, 0, attrs)
    last_steps = np.full(len(runs), steps[-1])
    return description.dataset(frames, steps[-1], last_steps, done=True)


def _read_log(path: Path) -> pd.DataFrame:
    """The values of a file in a table with the columns run, scalar, step and value.
    Raises TrajectoryError."""
    try:
        table = pd.read_csv(path)
    except (ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TrajectoryError(f"{path}: no CSV file ({reason})") from None
    lower = {str(name).lower(): name for name in table.columns}
    steps = [lower[name] for name in STEP_COLUMNS if name in lower]
    if not steps:
        raise TrajectoryError(
            f"{path}: found the columns {', '.join(map(str, table.columns))}, expected"
            " one that is named Step"
        )
    if "wall time" in lower and "value" in lower:
        tag = re.sub(r".*tag[-_]", "", path.stem)
        table = table.rename(columns={lower["value"]: tag})
        table = table.drop(columns=lower["wall time"])
    numbers = table.dropna(subset=steps[:1]).select_dtypes("number")
    scalars = [
        name
        for name in map(str, numbers.columns)
        if name not in (*steps, "seed")
        and not name.startswith("_")
        and not name.endswith(("__MIN", "__MAX"))
    ]
    if steps[0] not in numbers or (numbers[steps[0]] % 1 != 0).any():
        raise TrajectoryError(f"{path}: {steps[0]} is not a whole number in all rows")
    if not scalars:
        raise TrajectoryError(f"{path}: no column of numbers besides {steps[0]}")
    if np.isinf(numbers[scalars].to_numpy()).any():
        raise TrajectoryError(f"{path}: a value is not finite")
    numbers = numbers.assign(step=numbers[steps[0]].astype(int))
    labels = [name for name in ("step", "seed") if name in numbers]
    long = numbers.melt(labels, scalars, "name", "value").dropna()
    names = long["name"].str.rpartition(" - ")
    runs = long["seed"] if "seed" in labels else names[0]
    return long.assign(run=runs, scalar=names[2])


def _numbers_by_split(scalars: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Values by the name of their variable and their split."""
    result: dict[str, dict[str, Any]] = {}
    for scalar, value in zip(scalars, values, strict=True):
        words = [word for word in re.split(r"[^a-z]+", scalar.lower()) if word]
        metrics = [METRIC_WORDS[word] for word in words if word in METRIC_WORDS]
        splits = [SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS]
        name, split = re.sub(r"\W+", "_", scalar).strip("_"), "train"
        if len(metrics) == 1 and len(words) == 1 + len(splits) <= 2:
            name, split = metrics[0], (splits or ["train"])[0]
        result.setdefault(name, {})[split] = value
    return result


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
