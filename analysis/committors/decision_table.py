"""Table of the committors of runs."""

import numpy as np
import pandas as pd
import xarray as xr

from analysis.committors.decision import FIRM, explained_variance
from analysis.output.tables import Column, interval_columns, make_table

COMMITTOR_COLUMNS = (
    Column("run", "run"),
    Column("seed", "seed"),
    Column("outcome", "outcome"),
    Column("at first", "committor", digits=2, interval="bounds"),
    Column("decided at", "decision_step", digits=1, interval="bounds"),
    Column("duration", "decision_duration", digits=1),
    Column("basin at first", "firmness", digits=3),
)
"""Columns of `committor_table`."""


def committor_legend(result: xr.Dataset) -> str:
    """What the columns mean."""
    step = int(result["step"][0])
    size = float(result["displacement"][0])
    copies = ""
    if changes := result.attrs.get("changes"):
        copies += (
            f"\ncopies continue with {changes}; the outcome is that of the run itself"
        )
    if result.attrs.get("direction"):
        copies += "\ncopies are displaced along the fastest growing mode of their state"
    return f"""{copies}
outcome: whether the run itself has it ({result.attrs["outcome"]})
at first: fraction of the copies of the state at step {step}, displaced by {size:g} of
the spread, that have it, with exact 95% intervals
decided at: step from which on more than half of the copies end as the run does
duration: steps from .1 to .9 of them; a dash if they were never so few
basin: largest displacement up to which .9 do; inf beyond the sizes measured"""


def committor_table(result: xr.Dataset) -> pd.DataFrame:
    """A row for each run of the result of `committor`."""
    rows = []
    for run, seed in enumerate(result["seed"].values.tolist()):
        at = result.isel(run=run)
        first = at.isel(step=0, displacement=0)
        has_outcome = float(at["outcome"])
        row = {"run": run, "seed": seed, "firmness": float(first["firmness"])}
        row["outcome"] = {1.0: "yes", 0.0: "no"}.get(has_outcome, "diverged")
        for name in ("committor", "decision_step"):
            source = first if name == "committor" else at
            ends = (float(source[name + end]) for end in ("", "_low", "_high"))
            row |= interval_columns(name, tuple(ends))
        rows.append({**row, "decision_duration": float(at["decision_duration"])})
    return make_table(rows)


def describe_committors(result: xr.Dataset) -> str:
    """How many runs are decided at first, and how much their states explain."""
    p = result["committor"].isel(step=0, displacement=0)
    agreement = xr.where(result["outcome"] == 1, p, 1 - p).values
    measured = np.isfinite(p.values)
    explained = explained_variance(result)
    text = (
        f"at step {int(result['step'][0])} at least 90% of the copies end as the run"
        f" does in {int((agreement >= FIRM).sum())} of {int(measured.sum())} runs"
    )
    if np.isfinite(explained.value):
        text += f"; this state explains {explained.value:.2f}"
        if np.isfinite(explained.low):
            low, high = np.clip([explained.low, explained.high], 0, 1)
            text += f" [{low:.2f}, {high:.2f}]"
        text += " of the variance of the outcome"
    lost = int((result["outcome"].isnull()).sum())
    if lost:
        text += f"; {lost} runs have diverged and are left out"
    diverged = result.attrs["copies"] - result["trials"].where(result["trials"] > 0)
    if diverged.sum() > 0:
        text += f"; {int(diverged.sum())} copies have diverged and are left out"
    if without_growth := result.attrs.get("states_without_growth", 0):
        text += f"; {without_growth} states have no growing mode and are left out"
    return text
