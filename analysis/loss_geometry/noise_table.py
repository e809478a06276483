"""Table of the noise of gradients."""

import pandas as pd
import xarray as xr

from analysis.linearization.curvature_table import (
    finite_values_at,
    median_interval,
    median_text,
)
from analysis.output.tables import Column, interval_columns, make_table

_MEDIANS = {
    "loss": "loss",
    "gradient_size": "gradient",
    "noise_trace": "trace of noise",
    "noise_scale": "noise scale",
    "noise_rank": "effective rank",
    "noise_along_hessian": "noise along Hessian",
    "gradient_along_hessian": "gradient along Hessian",
}
NOISE_COLUMNS = [
    Column("step", "step"),
    Column("runs", "runs"),
    *(Column(heading, text=median_text(name)) for name, heading in _MEDIANS.items()),
]
"""Columns of `noise_table`."""

NOISE_LEGEND = """
Medians of the runs, with 95% intervals of several. Noise scale: trace of the covariance
of the gradients of single examples over the squared norm of their mean; in mini-batches
of this size noise and gradient are equally large. Along Hessian: fraction in the space
of its {modes} leading eigenvectors."""


def noise_table(result: xr.Dataset) -> pd.DataFrame:
    """A row for each step of the result of `gradient_noise`: medians over runs."""
    rows = []
    for index, step in enumerate(result["step"].values.tolist()):
        row = {"step": step, "runs": len(finite_values_at(result["loss"], index))}
        for name in _MEDIANS:
            values = finite_values_at(result[name], index)
            row |= interval_columns(name, median_interval(values))
        rows.append(row)
    return make_table(rows)
