"""A table of measures (run, step): medians over runs with their 95% intervals."""

from collections.abc import Mapping

import pandas as pd
import xarray as xr

from analysis.linearization.curvature_table import (
    finite_values_at,
    median_interval,
    median_text,
)
from analysis.output.tables import Column, interval_columns, make_table


def median_table(result: xr.Dataset, headings: Mapping[str, str]) -> pd.DataFrame:
    """A row for each step of a result: the number of runs with a loss, and medians over
    runs of the variables that headings names."""
    rows = []
    for index, step in enumerate(result["step"].values.tolist()):
        row = {"step": step, "runs": len(finite_values_at(result["loss"], index))}
        for name in headings:
            values = finite_values_at(result[name], index)
            row |= interval_columns(name, median_interval(values))
        rows.append(row)
    return make_table(rows)


def median_columns(headings: Mapping[str, str]) -> list[Column]:
    """The printed columns of `median_table`."""
    medians = [
        Column(heading, text=median_text(name)) for name, heading in headings.items()
    ]
    return [Column("step", "step"), Column("runs", "runs"), *medians]
