"""Results of a sweep: the file of the combined results, and a table with the final
metrics of each point."""

from __future__ import annotations

import itertools
import json
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from analysis.output.results import check_result_path
from analysis.output.tables import Column, interval_columns
from analysis.statistics.intervals import UNBOUNDED, mean_interval
from analysis.structures.circles_and_grids import summarise_counts
from analysis.structures.structure_tables import STRUCTURE_COLUMNS, summary_columns
from dynamics.settings import SettingsError
from dynamics.trajectory.netcdf import NETCDF_LOCK, check_trajectory_path
from dynamics.trajectory.schema import DIVERGED, STOPPED

if TYPE_CHECKING:
    import pandas as pd

    from dynamics.sweeps.design import SweepDesign
    from dynamics.sweeps.own_script import ScriptDesign

MAX_PRINTED_POINTS = 40
"""Rows of the table on the terminal; the CSV file has all."""

_FORCE = "gradient_norm"
_HELD_OUT = ("validation", "test")
"""What the columns of splits without training begin with."""
_HEADINGS = {"accuracy": "accuracy %", "loss": "loss", _FORCE: "force"}


def sweep_path(
    design: SweepDesign | ScriptDesign, files: Sequence[Path], out: Path | None
) -> Path:
    """The file for the combined results, by default beside the files of the sweep.
    Raises SettingsError."""
    path = check_trajectory_path(out or files[0].parent / design.name)
    path = check_result_path(path, {"title": design.title})
    if any(path.absolute() == file.absolute() for file in files):
        raise SettingsError("out", path, "another file than those of the points")
    return path


def replaced_steps(out: Path, result: xr.Dataset) -> str:
    """A remark if the file for the combined results has those of runs of other
    lengths, which the result replaces; otherwise empty. The trajectories stay."""
    if not out.exists():
        return ""
    with NETCDF_LOCK, xr.open_dataset(out) as former:
        before, after = (np.unique(item["steps"].values) for item in (former, result))
    if np.array_equal(before, after):
        return ""
    words = " and ".join(map(str, before.tolist()))
    return f"  (replaces the results after {words} steps; --out keeps both)"


def sweep_rows(result: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each point, the last axis fastest, with 95% intervals: means over the
    runs that have not diverged, and the structures in which they end, if the result has
    them."""
    axes = json.loads(result.attrs["swept"])
    metric, parts = _shown_metric(result)
    limits = (0.0, 1.0) if metric == "accuracy" else UNBOUNDED
    rows = []
    for values in itertools.product(*(result[axis].values.tolist() for axis in axes)):
        point = result.sel(dict(zip(axes, values, strict=True)))
        diverged = (point["status"] == DIVERGED).values
        last = point[f"final_{metric}"].transpose("run", ...).values[~diverged]
        row: dict[str, Any] = dict(zip(axes, values, strict=True))
        row |= {**_structures(point), "runs": len(diverged)}
        for part, column in zip(parts, last.T, strict=True):
            row |= interval_columns(
                f"{part}_{metric}", mean_interval(column, limits=limits)
            )
        row["diverged"] = int(diverged.sum())
        if (result["status"] == STOPPED).any():
            row["stopped"] = int((point["status"] == STOPPED).sum())
        rows.append({**row, "file": str(point["file"].values)})
    return rows


def _structures(point: xr.Dataset) -> dict[str, Any]:
    """Columns on the structures at the end of the runs of a point; none if the result
    has none."""
    if "circles" not in point or point["circles"].isnull().all():
        return {}
    circle = point["circles"].dropna("run").values == 1
    imperfections = point["imperfections"].dropna("run").values
    return summary_columns(summarise_counts(circle, imperfections))


def sweep_table_columns(result: xr.Dataset, names: Container[str]) -> list[Column]:
    """The columns of the table on the terminal. names: of all columns of the table."""
    axes = json.loads(result.attrs["swept"])
    metric, parts = _shown_metric(result)
    scale, digits = (100, 1) if metric == "accuracy" else (1, 4)
    swept = [Column(axis.replace("_", " "), axis, text=str) for axis in axes]
    heading = _HEADINGS[metric]
    measures = [
        Column(f"{part} {heading}", f"{part}_{metric}", digits, "half-width", scale)
        for part in parts
    ]
    structures = [column for column in STRUCTURE_COLUMNS if column.name in names]
    return [
        *swept,
        Column("runs", "runs"),
        *structures,
        *measures,
        Column("diverged", "diverged"),
        *([Column("stopped", "stopped")] if "stopped" in names else []),
        Column("file", "file"),
    ]


def sweep_figure_columns(
    table: pd.DataFrame, columns: Sequence[Column], with_map: bool
) -> list[Column]:
    """The columns of the table that the picture shows: structures, accuracies or
    losses, and forces only if there is nothing else.

    with_map: one of them alone, which is what a map of two settings shows: circles, or
    the accuracy of pairs that were not trained on if its range is larger; of losses that
    of these pairs."""
    measures = [column for column in columns if column.interval]
    shown = [column for column in measures if not column.name.endswith(_FORCE)]
    shown = shown or measures
    if not with_map:
        return shown
    held_out = [one for one in shown if one.name.startswith(_HELD_OUT)]
    if shown[0] not in STRUCTURE_COLUMNS:
        return (held_out or shown)[:1]
    accuracies = [one for one in held_out if one.name.endswith("accuracy")]
    ranges = [_printed_range(table, one) for one in (shown[0], *accuracies[:1])]
    return [(shown[0], *accuracies)[ranges.index(max(ranges))]]


def _printed_range(table: pd.DataFrame, column: Column) -> float:
    """The range of a column over the points, as printed; 0 without values."""
    values = table[column.name].astype(float)
    return column.scale * float(np.nan_to_num(values.max() - values.min()))


def _shown_metric(result: xr.Dataset) -> tuple[str, list[str]]:
    """The metric that the table shows, and the splits or layers for which it has
    values."""
    metric = next(name for name in _HEADINGS if f"final_{name}" in result)
    dim = result[f"final_{metric}"].isel(run=0).dims[-1]
    return metric, [str(part) for part in result[dim].values]
