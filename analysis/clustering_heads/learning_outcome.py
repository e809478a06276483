"""How an ensemble of VC's network has learned: success rates and mean accuracies at the
end (VC section 3)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from analysis.output.tables import Column, interval_columns, make_table
from analysis.statistics.intervals import binomial_interval, mean_interval
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings, TransformerSettings
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import read_settings
from dynamics.trajectory.success import exceeds

SUCCESS_THRESHOLDS = (0.9, SUCCESS_ACCURACY, 1.0)
"""Test accuracies that VC counts as success, in its sections on sparsity, ablations and
transfer; 1 has to be reached, the others exceeded."""

_SPLITS = ("train", "test", "unseen")

_OUTCOME_COLUMNS = (
    Column("epochs", "epochs"),
    Column("runs", "runs"),
    Column("diverged", "diverged"),
    Column("test > .9 %", "above_0.9", digits=1, interval="bounds", scale=100),
    Column("test > .98 %", "above_0.98", digits=1, interval="bounds", scale=100),
    Column("test = 1 %", "above_1", digits=1, interval="bounds", scale=100),
    *(
        Column(f"{split} accuracy %", split, digits=1, interval="half-width", scale=100)
        for split in _SPLITS
    ),
)
LEARNING_COLUMNS = (Column("p", "vocab"), *_OUTCOME_COLUMNS)
OPERATION_COLUMNS = (
    Column("task", "task"),
    Column("n", "n"),
    Column("attention rate", "attention_rate"),
    *_OUTCOME_COLUMNS[:-1],
)
"""Columns of `learning_table` for the transformer, which has no split of unseen
data."""


def final_accuracies(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """Accuracy of each split at the end, (run,), of the runs that have not diverged."""
    last = trajectory.isel(step=-1, run=not_diverged(trajectory))
    return {
        str(split): last["accuracy"].sel(split=split).values
        for split in trajectory["split"].values
    }


def learning_table(trajectory: xr.Dataset) -> pd.DataFrame:
    """Success rates of all runs and mean accuracies of those that have not diverged, in
    one row."""
    settings = read_settings(trajectory)
    result = final_accuracies(trajectory)
    assert isinstance(settings, SparseSettings | TransformerSettings)
    runs = trajectory.sizes["run"]
    test = result.get("test", np.empty(0))
    described = (
        ("vocab",)
        if isinstance(settings, SparseSettings)
        else ("task", "n", "attention_rate")
    )
    row = {name: getattr(settings, name) for name in described}
    row |= {
        "epochs": float(trajectory["epoch"][-1]),
        "runs": runs,
        "diverged": runs - len(result["train"]),
    }
    for limit in SUCCESS_THRESHOLDS:
        count = int((test >= 1).sum() if limit == 1 else exceeds(test, limit).sum())
        row |= interval_columns(f"above_{limit:g}", binomial_interval(count, runs))
    for split in _SPLITS:
        row |= interval_columns(
            split, mean_interval(result.get(split, np.empty(0)), limits=(0, 1))
        )
    return make_table([row])
