"""A catalogue of the runs of a trajectory: final loss and accuracy, structure, circuit,
and number of spikes, and results of analyses beside it.

Circuits and spikes are read from result files beside the trajectory (`python -m
analysis.circuits`, `analysis.events`). Results that were computed before the trajectory
was extended or recomputed are ignored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from analysis.output import plain_stem
from analysis.output.result_origin import is_result_of
from analysis.panels.common_panels import RecordedRun
from analysis.statistics.run_success import evaluation_split, success_mask
from analysis.structures.circles_and_grids import (
    count_imperfections,
    is_circle,
    structure_kind,
)
from analysis.transitions.loss_events import (
    default_scalar_name,
    event_table,
    trajectory_scalar,
)
from dynamics.errors import TrajectoryError
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.netcdf import NETCDF_LOCK, READ_ERRORS
from dynamics.trajectory.schema import DIVERGED, RUNNING, STOPPED

RESULT_ANALYSES = ("circuits", "events", "fate")
"""Analyses whose results are read if their files are beside the trajectory."""

_UNFINISHED = {DIVERGED: "diverged", RUNNING: "running", STOPPED: "stopped"}
"""Names of the statuses of runs that are not done."""


@dataclass(frozen=True)
class RunEntry:
    """Properties of a run; None if unknown."""

    run: int
    """Index along `run`"""
    seed: int
    status: str
    """done, running, diverged or stopped"""
    accuracy: float | None = None
    loss: float | None = None
    successful: bool | None = None
    """Whether the run has not diverged and its final accuracy is above .98"""
    structure: str | None = None
    """Circle or no circle, if tokens are the numbers modulo N"""
    imperfections: int | None = None
    circuit: str | None = None
    spikes: int | None = None

    @property
    def groups(self) -> list[str]:
        """Groups of runs to which the run belongs, such as those that end as circles."""
        status = None if self.status == "done" else self.status
        success = None
        if self.successful is not None:
            above = "above" if self.successful else "up to"
            success = f"accuracy {above} .98"
        names = (status, success, self.structure, self.circuit)
        return [name for name in names if name]

    @property
    def text(self) -> str:
        """The run in one line."""
        return ", ".join((f"seed {self.seed}", *self.groups))


def run_catalogue(trajectory: xr.Dataset, path: Path | None = None) -> list[RunEntry]:
    """The entries of all runs of a trajectory. path: its file; results are searched
    beside it."""
    last = trajectory.isel(step=-1)
    columns: dict[str, Any] = {
        "seed": trajectory["seed"].values.tolist(),
        "status": [
            _UNFINISHED.get(int(value), "done") for value in trajectory["status"].values
        ],
        "accuracy": _last_metric(last, "accuracy"),
        "loss": _last_metric(last, "loss"),
        **_structures(trajectory),
    }
    if "accuracy" in trajectory:
        columns["successful"] = success_mask(trajectory).tolist()
    if path is not None:
        columns["circuit"] = _values_from_result(
            trajectory, path, "circuits", _circuits
        )
        columns["spikes"] = _values_from_result(trajectory, path, "events", _spikes)
    known = {name: values for name, values in columns.items() if values is not None}
    return [
        RunEntry(run, **{name: values[run] for name, values in known.items()})
        for run in range(trajectory.sizes["run"])
    ]


def _last_metric(last: xr.Dataset, name: str) -> list[float | None] | None:
    """A metric by run at the last step, on the evaluation split; None without it."""
    if name not in last:
        return None
    values = last[name].sel(split=evaluation_split(last)).values.astype(np.float64)
    return [float(value) if np.isfinite(value) else None for value in values]


def _structures(trajectory: xr.Dataset) -> dict[str, list]:
    """`structure` and `imperfections` by run, if tokens are the numbers modulo N and
    embeddings finite."""
    if not RecordedRun(trajectory.isel(step=[0]), 0).has_residue_tokens:
        return {}
    x = (
        trajectory["embedding"]
        .isel(step=-1)
        .transpose("run", "token", "axis")
        .values.astype(np.float64)
    )
    if not np.isfinite(x).all():
        return {}
    return {
        "structure": [structure_kind(circle) for circle in is_circle(x)],
        "imperfections": count_imperfections(x).tolist(),
    }


# ------------------------------------------------------------------ results of analyses


def stored_result_path(path: Path, analysis: str) -> Path:
    """Path of the result of an analysis of a trajectory."""
    return path.parent / f"{plain_stem(path)}-{analysis}.nc"


def read_result(trajectory: xr.Dataset, path: Path, analysis: str) -> xr.Dataset | None:
    """The result of an analysis beside the trajectory of a path; None if there is none
    of this trajectory."""
    beside = stored_result_path(path, analysis)
    if not beside.is_file():
        return None
    try:
        with NETCDF_LOCK, xr.open_dataset(beside) as result:
            stored = result.load()
    except READ_ERRORS:
        return None
    is_of_analysis = stored.attrs.get("result_of") == f"analysis.{analysis}"
    return (
        stored
        if is_of_analysis and is_result_of(stored, trajectory, path.name)
        else None
    )


def _values_from_result(
    trajectory: xr.Dataset,
    path: Path,
    analysis: str,
    read: Callable[[xr.Dataset, xr.Dataset], list | None],
) -> list | None:
    """Values by run that the function `read` takes from the result of an analysis beside
    the file; None unless the result is of this file and its runs."""
    result = read_result(trajectory, path, analysis)
    if result is None:
        return None
    own = {"seed": trajectory["seed"].values, "successful": success_mask(trajectory)}
    try:
        same = all(np.array_equal(result[name], own[name]) for name in own)
        return read(trajectory, result) if same else None
    except (ValueError, KeyError, TrajectoryError):  # of other variables
        return None


def _circuits(trajectory: xr.Dataset, result: xr.Dataset) -> list | None:
    """Circuit labels, if the result is of the last step."""
    if result.attrs["step"] != int(trajectory["step"][-1]):
        return None
    return result["label"].values.astype(str).tolist()


def _spikes(trajectory: xr.Dataset, result: xr.Dataset) -> list | None:
    """Spike counts, if the result used the scalar, split and detection settings of the
    page.

    A result does not record all of these, so the events of the run that has most are
    detected again and compared."""
    name = default_scalar_name(trajectory)
    if result.attrs["scalar"] != name or not np.array_equal(
        result["alive"].values, not_diverged(trajectory)
    ):
        return None
    of_run = result["of_run"].values
    run = int(np.bincount(of_run, minlength=trajectory.sizes["run"]).argmax())
    again = event_table(trajectory_scalar(trajectory.isel(run=[run]), name))
    same = all(
        np.array_equal(again[column], result[f"event_{column}"][of_run == run])
        for column in ("kind", "begin", "end")
    )
    return result["spikes"].values.astype(int).tolist() if same else None


# ---------------------------------------------------------------------- order and table


class RunOrder(NamedTuple):
    """An order of runs by a field of `RunEntry`."""

    label: str
    largest_first: bool


RUN_ORDERS = {
    "run": RunOrder("as in the file", largest_first=False),
    "accuracy": RunOrder("best first", largest_first=True),
    "imperfections": RunOrder("fewest imperfections", largest_first=False),
    "spikes": RunOrder("most spikes", largest_first=True),
}


def sort_runs(entries: Sequence[RunEntry], field: str = "run") -> list[RunEntry]:
    """Runs in the order of a field of `RUN_ORDERS`; those without a value come last."""
    known = [entry for entry in entries if getattr(entry, field) is not None]
    unknown = [entry for entry in entries if getattr(entry, field) is None]
    known.sort(key=attrgetter(field), reverse=RUN_ORDERS[field].largest_first)
    return known + unknown


_COLUMNS = (
    ("seed", "seed", "d"),
    ("acc", "accuracy", ".3f"),
    ("loss", "loss", "#.2g"),
    ("imp", "imperfections", "d"),
    ("spikes", "spikes", "d"),
)
"""Columns of the table of runs: heading, field of `RunEntry`, format."""


def run_table_lines(entries: Sequence[RunEntry]) -> list[str]:
    """A header and a line per run, in columns of equal width; columns without values
    are left out. The last one has the status of a run that is running or diverged, or
    its structure or circuit."""
    columns = []
    for title, name, form in _COLUMNS:
        values = [getattr(entry, name) for entry in entries]
        if any(value is not None for value in values):
            texts = [
                "" if value is None else format(value, form).removesuffix(".")
                for value in values
            ]
            width = max(map(len, [title, *texts]))
            columns.append([text.rjust(width) for text in [title, *texts]])
    ends = []
    for entry in entries:
        kinds = filter(None, (entry.structure, entry.circuit))
        has_end = entry.status in ("done", "stopped")
        ends.append(" ".join(kinds) if has_end else entry.status)
    columns.append(["end" if any(ends) else "", *ends])
    return [" ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def first_run(entries: Sequence[RunEntry]) -> int:
    """Index of the run to show first: the first successful run, else the first run."""
    return next((entry.run for entry in entries if entry.successful), 0)
