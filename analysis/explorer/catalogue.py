"""A catalogue of the runs of a trajectory: final loss and accuracy, structure, circuit,
and number of spikes.

Circuits and spikes are read from result files beside the trajectory (`python -m
analysis.circuits`, `analysis.events`). Results that were computed before the trajectory
was extended or recomputed are ignored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from analysis.panels.common_panels import RecordedRun
from analysis.statistics.run_success import evaluation_split, success_mask
from analysis.structures.circles_and_grids import (
    STRUCTURE_KINDS,
    count_imperfections,
    is_circle,
)
from analysis.transitions.loss_events import (
    default_scalar_name,
    event_table,
    trajectory_scalar,
)
from dynamics.errors import TrajectoryError
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.netcdf import NETCDF_LOCK
from dynamics.trajectory.schema import DIVERGED, RUNNING

RESULT_ANALYSES = ("circuits", "events")
"""Analyses whose results are read if their files are beside the trajectory."""

_UNFINISHED = {DIVERGED: "diverged", RUNNING: "running"}
"""Names of the statuses of runs that are not done."""


@dataclass(frozen=True)
class RunEntry:
    """Properties of a run; None if unknown."""

    place: int  # run index
    seed: int
    status: str  # done, running, diverged
    accuracy: float | None = None
    loss: float | None = None
    successful: bool | None = None  # final accuracy above .98
    structure: str | None = (
        None  # circle or no circle, if tokens are the numbers modulo N
    )
    imperfections: int | None = None
    circuit: str | None = None
    spikes: int | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds by which the run can be filtered."""
        return tuple(filter(None, (self.structure, self.circuit)))

    @property
    def words(self) -> str:
        """The run in one line."""
        accuracy = "" if self.accuracy is None else f"accuracy {self.accuracy:.3f}"
        state = "" if self.status == "done" else self.status
        return ", ".join(
            filter(None, (f"seed {self.seed}", accuracy, *self.kinds, state))
        )


def run_catalogue(trajectory: xr.Dataset, path: Path | None = None) -> list[RunEntry]:
    """The entries of all runs of a trajectory. path: its file; results are searched
    beside it."""
    last = trajectory.isel(step=-1)
    result: dict[str, Any] = {
        "seed": trajectory["seed"].values.tolist(),
        "status": [
            _UNFINISHED.get(int(value), "done") for value in trajectory["status"].values
        ],
        "accuracy": _scored(last, "accuracy"),
        "loss": _scored(last, "loss"),
        "successful": (
            success_mask(trajectory).tolist() if "accuracy" in trajectory else []
        ),
    }
    result["structure"], result["imperfections"] = _structures(trajectory)
    if path is not None:
        result["circuit"] = _beside(trajectory, path, "circuits", _circuits)
        result["spikes"] = _beside(trajectory, path, "events", _spikes)
    columns = {name: values for name, values in result.items() if values}
    return [
        RunEntry(place, **{name: values[place] for name, values in columns.items()})
        for place in range(trajectory.sizes["run"])
    ]


def _scored(last: xr.Dataset, name: str) -> list[float | None]:
    """A metric at the last step, on the evaluation split."""
    if name not in last:
        return []
    values = last[name].sel(split=evaluation_split(last)).values.astype(np.float64)
    return [float(value) if np.isfinite(value) else None for value in values]


def _structures(trajectory: xr.Dataset) -> tuple[list[str], list[int]]:
    """Circle or no circle, and grid imperfections, if tokens are the numbers modulo
    N."""
    if not RecordedRun(trajectory.isel(step=[0]), 0).has_residue_tokens:
        return [], []
    x = (
        trajectory["embedding"]
        .isel(step=-1)
        .transpose("run", "token", "axis")
        .values.astype(np.float64)
    )
    if not np.isfinite(x).all():
        return [], []
    return [
        STRUCTURE_KINDS[not circle] for circle in is_circle(x)
    ], count_imperfections(x).tolist()


# ------------------------------------------------------------------ results of analyses

_ResultReader = Callable[[xr.Dataset, xr.Dataset], list]
"""Function that reads one value per run from a result; empty if the result does not
match the trajectory."""


def stored_result_path(path: Path, analysis: str) -> Path:
    """Path of the result of an analysis of a trajectory."""
    return path.parent / f"{path.stem}-{analysis}.nc"


def _beside(
    trajectory: xr.Dataset, path: Path, analysis: str, read: _ResultReader
) -> list:
    """Values per run from a result beside the file; empty unless the result matches
    this file and its runs."""
    beside = stored_result_path(path, analysis)
    if not beside.is_file():
        return []
    try:
        with NETCDF_LOCK, xr.open_dataset(beside) as result:
            what = {"trajectory": path.name, "result_of": f"analysis.{analysis}"}
            same = all(result.attrs.get(name) == value for name, value in what.items())
            if not same or not np.array_equal(
                result["seed"].values, trajectory["seed"].values
            ):
                return []
            result.load()
        same = np.array_equal(
            result["successful"].values.astype(bool), success_mask(trajectory)
        )
        return read(trajectory, result) if same else []
    except (
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
        TrajectoryError,
    ):  # not a result of this package, or damaged
        return []


def _circuits(trajectory: xr.Dataset, result: xr.Dataset) -> list:
    """Circuit labels at the last step."""
    return (
        result["label"].values.astype(str).tolist()
        if result.attrs["step"] == int(trajectory["step"][-1])
        else []
    )


def _spikes(trajectory: xr.Dataset, result: xr.Dataset) -> list:
    """Spike counts, if the result used the scalar, split and detection settings of the
    page.

    A result does not record all of these, so the events of the run that has most are
    detected again and compared."""
    name = default_scalar_name(trajectory)
    if result.attrs["scalar"] != name or not np.array_equal(
        result["alive"].values, not_diverged(trajectory)
    ):
        return []
    run = int(
        np.bincount(result["of_run"].values, minlength=trajectory.sizes["run"]).argmax()
    )
    again = event_table(trajectory_scalar(trajectory.isel(run=[run]), name))
    of = result["of_run"].values == run
    for column in ("kind", "begin", "end"):
        if not np.array_equal(
            again[column].values, result[f"event_{column}"].values[of]
        ):
            return []
    return result["spikes"].values.astype(int).tolist()


# -------------------------------------------------------------------- filters and order

_RUN_FILTERS: dict[str, tuple[str, str, Any]] = {
    "all": ("all runs", "", None),
    "successful": ("above .98", "successful", True),
    "failed": ("not above .98", "successful", False),
    "diverged": ("diverged", "status", "diverged"),
}
"""Filters by outcome: label, field of RunEntry (empty: all runs), and its value."""
RUN_ORDERS = {
    "place": "by seed",
    "accuracy": "best first",
    "imperfections": "fewest imperfections",
    "spikes": "most spikes",
}


def _ends(entry: RunEntry, ending: str) -> bool:
    """Whether a run has an outcome, a key of `_RUN_FILTERS`."""
    _, field, value = _RUN_FILTERS[ending]
    return not field or getattr(entry, field) == value


def run_endings(entries: Sequence[RunEntry]) -> dict[str, str]:
    """Outcomes that occur among the runs, with their labels."""
    result = {
        name: words
        for name, (words, *_) in _RUN_FILTERS.items()
        if any(_ends(entry, name) for entry in entries)
    }
    return {"all": _RUN_FILTERS["all"][0], **result}


def filter_runs(
    entries: Sequence[RunEntry],
    ending: str = "all",
    kind: str = "",
    order: str = "place",
) -> list[RunEntry]:
    """Runs of a kind ("" for any) and outcome (a key of `_RUN_FILTERS`), sorted by a
    key of `RUN_ORDERS`."""
    matching = [
        entry
        for entry in entries
        if _ends(entry, ending) and (not kind or kind in entry.kinds)
    ]
    sign = 1 if order in ("place", "imperfections") else -1

    def key(entry: RunEntry) -> tuple[bool, float]:
        value = getattr(entry, order)
        return value is None, sign * (value or 0)

    return sorted(matching, key=key)


def run_table_lines(entries: Sequence[RunEntry]) -> tuple[str, list[str]]:
    """A header and a line per run, in columns of equal width; columns without values
    are left out.

    The long heading of grid imperfections is above the others if there is room for it
    at its left. Of a diverged run, this is stated in place of its structure or circuit.
    """
    table: dict[str, list[str]] = {"seed": [str(entry.seed) for entry in entries]}
    for title, name, form in (
        ("acc", "accuracy", ".3f"),
        ("loss", "loss", ".2g"),
        ("imperfections", "imperfections", "d"),
        ("spikes", "spikes", "d"),
    ):
        values = [getattr(entry, name) for entry in entries]
        if any(value is not None for value in values):
            table[title] = [
                "" if value is None else format(value, form) for value in values
            ]
    upper = "imperfections" if "acc" in table else ""
    widths = {
        title: max(map(len, (*cells, "" if title == upper else title)))
        for title, cells in table.items()
    }
    words = [
        "diverged" if entry.status == "diverged" else " ".join(entry.kinds)
        for entry in entries
    ]
    last = "status"
    for name in ("circuit", "structure"):
        if any(getattr(entry, name) for entry in entries):
            last = name

    def line(cells: Sequence[str], word: str) -> str:
        padded = map(str.rjust, cells, widths.values())
        return " ".join([*padded, word]).rstrip()

    titles = ["" if title == upper else title for title in table]
    header = line(titles, last if any(words) else "")
    if upper in table:
        until = list(widths)[: list(widths).index(upper) + 1]
        header = f"{upper:>{sum(widths[title] + 1 for title in until) - 1}}\n{header}"
    return header, [
        line([cells[k] for cells in table.values()], word)
        for k, word in enumerate(words)
    ]


def first_run_to_show(entries: Sequence[RunEntry]) -> int:
    """Index of the run to show first: the first successful run, else the first run."""
    return next((entry.place for entry in entries if entry.successful), 0)
