"""Results of a sweep: the file of the combined results, and a table with the final metrics of each point."""

import itertools
import json
from pathlib import Path
from typing import Any

import xarray as xr

from analysis.output.results import check_result_path
from analysis.output.tables import Column, interval_columns
from analysis.statistics.intervals import mean_interval
from dynamics.run_checks import check_trajectory_path
from dynamics.settings import SettingsError
from dynamics.sweeps.design import SweepDesign
from dynamics.trajectory.schema import DIVERGED

MAX_PRINTED_POINTS = 40
"""Rows of the table on the terminal; the CSV file has all."""

_HEADINGS = {"accuracy": "accuracy %", "loss": "loss", "gradient_norm": "force"}


def sweep_path(design: SweepDesign, out: Path | None) -> Path:
    """The file for the combined results, by default beside the points. Raises SettingsError."""
    path = check_trajectory_path(out or design.points[0].path.parent / design.name)
    path = check_result_path(path, {"title": design.title})
    if any(path.absolute() == point.path.absolute() for point in design.points):
        raise SettingsError("out", path, "another file than those of the points")
    return path


def sweep_rows(result: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each point, the last axis fastest: means over the runs that have not diverged, with 95% intervals."""
    axes, (metric, parts) = json.loads(result.attrs["swept"]), _shown_metric(result)
    rows = []
    for values in itertools.product(*(result[axis].values.tolist() for axis in axes)):
        point = result.sel(dict(zip(axes, values, strict=True)))
        diverged = (point["status"] == DIVERGED).values
        last = point[f"final_{metric}"].transpose("run", ...).values[~diverged]
        row: dict[str, Any] = dict(zip(axes, values, strict=True))
        row["runs"] = len(diverged)
        for part, column in zip(parts, last.T, strict=True):
            row |= interval_columns(f"{part}_{metric}", mean_interval(column))
        rows.append({**row, "diverged": int(diverged.sum()), "file": str(point["file"].values)})
    return rows


def sweep_table_columns(result: xr.Dataset) -> list[Column]:
    """The columns of the table on the terminal."""
    axes, (metric, parts) = json.loads(result.attrs["swept"]), _shown_metric(result)
    scale, digits = (100, 1) if metric == "accuracy" else (1, 4)
    swept = [Column(axis.replace("_", " "), axis, text=str) for axis in axes]
    heading = _HEADINGS[metric]
    shown = [Column(f"{part} {heading}", f"{part}_{metric}", digits, "half-width", scale) for part in parts]
    return [*swept, Column("runs", "runs"), *shown, Column("diverged", "diverged"), Column("file", "file")]


def _shown_metric(result: xr.Dataset) -> tuple[str, list[str]]:
    """The metric that the table shows, and the splits or layers for which it has values."""
    metric = next(name for name in _HEADINGS if f"final_{name}" in result)
    dim = result[f"final_{metric}"].isel(run=0).dims[-1]
    return metric, [str(part) for part in result[dim].values]
