"""A table of measures (run, step): medians over runs with their 95% intervals."""

from collections.abc import Mapping

import pandas as pd
import xarray as xr

from analysis.linearization.curvature_table import (
    finite_values_at,
    intervals_at,
)
from analysis.linearization.curvature_table import median_columns as median_columns
from analysis.output.tables import make_table


def median_table(result: xr.Dataset, headings: Mapping[str, str]) -> pd.DataFrame:
    """A row for each step of a result: the number of runs with a loss, and medians over
    runs of the variables that headings names."""
    rows = []
    for index, step in enumerate(result["step"].values.tolist()):
        row = {"step": step, "runs": len(finite_values_at(result["loss"], index))}
        rows.append(row | intervals_at(result, index, headings))
    return make_table(rows)
