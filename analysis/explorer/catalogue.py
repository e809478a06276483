"""What is known of every run of a trajectory, to choose one by: its end, its structure, its circuit, its spikes.

Circuits and spikes are those of results that lie beside the file (`python -m analysis.circuits`, `analysis.events`), if
they are of the trajectory as it is now: a result of before it was extended or run again says nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from analysis.plots.scenes.common_panels import RecordedRun
from analysis.statistics.success import evaluation_split, success_mask
from analysis.structures.circles_and_grids import STRUCTURE_KINDS, count_imperfections, is_circle
from analysis.transitions.loss_events import default_scalar_name, event_table, trajectory_scalar
from dynamics.errors import TrajectoryError
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.netcdf import NETCDF_LOCK
from dynamics.trajectory.schema import DIVERGED, RUNNING

RESULT_ANALYSES = ("circuits", "events")
"""Analyses whose results are read where they lie beside a trajectory."""


@dataclass(frozen=True)
class RunEntry:
    """A run in words and numbers; None is not known."""

    place: int  # along `run`
    seed: int
    status: str  # done, running, diverged
    accuracy: float | None = None
    loss: float | None = None
    successful: bool | None = None  # whether it ended above .98
    structure: str | None = None  # circle or no circle, of embeddings of numbers modulo their number
    imperfections: int | None = None
    circuit: str | None = None
    spikes: int | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it can be looked for by."""
        return tuple(filter(None, (self.structure, self.circuit)))


def run_catalogue(trajectory: xr.Dataset, path: Path | None = None) -> list[RunEntry]:
    """Every run of a trajectory. path: its file, beside which results may lie."""
    last = trajectory.isel(step=-1)
    found: dict[str, Any] = {
        "seed": trajectory["seed"].values.tolist(),
        "status": [_status(each) for each in trajectory["status"].values],
        "accuracy": _scored(last, "accuracy"),
        "loss": _scored(last, "loss"),
        "successful": success_mask(trajectory).tolist() if "accuracy" in trajectory else [],
    }
    found["structure"], found["imperfections"] = _structures(trajectory)
    if path is not None:
        found["circuit"] = _beside(trajectory, path, "circuits", _circuits)
        found["spikes"] = _beside(trajectory, path, "events", _spikes)
    known = {name: values for name, values in found.items() if values}
    return [
        RunEntry(place, **{name: values[place] for name, values in known.items()})
        for place in range(trajectory.sizes["run"])
    ]


def _status(value: int) -> str:
    return {DIVERGED: "diverged", RUNNING: "running"}.get(int(value), "done")


def _scored(last: xr.Dataset, name: str) -> list[float | None]:
    """A metric at the end, of the split that judges."""
    if name not in last:
        return []
    values = last[name].sel(split=evaluation_split(last)).values.astype(np.float64)
    return [float(value) if np.isfinite(value) else None for value in values]


def _structures(trajectory: xr.Dataset) -> tuple[list[str], list[int]]:
    """Circle or none, and grid imperfections, where tokens are numbers modulo their number."""
    if not RecordedRun(trajectory.isel(step=[0]), 0).has_residue_tokens:
        return [], []
    x = trajectory["embedding"].isel(step=-1).transpose("run", "token", "axis").values.astype(np.float64)
    if not np.isfinite(x).all():
        return [], []
    return [STRUCTURE_KINDS[not circle] for circle in is_circle(x)], count_imperfections(x).tolist()


# ------------------------------------------------------------------------------------------ results beside

_ResultReader = Callable[[xr.Dataset, xr.Dataset], list]
"""What a result says of every run of a trajectory; nothing where it is not of the trajectory as it is now."""


def stored_result_path(path: Path, analysis: str) -> Path:
    """Where the result of an analysis of a trajectory lies."""
    return path.with_name(f"{path.stem}-{analysis}.nc")


def _beside(trajectory: xr.Dataset, path: Path, analysis: str, read: _ResultReader) -> list:
    """What a result that lies beside the file says of every run, if it is of this file and these runs."""
    beside = stored_result_path(path, analysis)
    if not beside.is_file():
        return []
    try:
        with NETCDF_LOCK, xr.open_dataset(beside) as result:
            what = {"trajectory": path.name, "result_of": f"analysis.{analysis}"}
            same = all(result.attrs.get(name) == value for name, value in what.items())
            if not same or not np.array_equal(result["seed"].values, trajectory["seed"].values):
                return []
            result.load()
        return read(trajectory, result) if _ended_so(trajectory, result) else []
    except (OSError, ValueError, KeyError, RuntimeError, TrajectoryError):  # not a result of ours, or damaged
        return []


def _ended_so(trajectory: xr.Dataset, result: xr.Dataset) -> bool:
    """Whether the runs that have succeeded are the same."""
    return bool(np.array_equal(result["successful"].values.astype(bool), success_mask(trajectory)))


def _circuits(trajectory: xr.Dataset, result: xr.Dataset) -> list:
    """Labels of the last step."""
    return result["label"].values.astype(str).tolist() if result.attrs["step"] == int(trajectory["step"][-1]) else []


def _spikes(trajectory: xr.Dataset, result: xr.Dataset) -> list:
    """Counts of the loss (or force), of the split, by the rule, that pages show.

    A result does not tell all of these: the events of the run that has most of them are found again.
    """
    name = default_scalar_name(trajectory)
    if result.attrs["scalar"] != name or not np.array_equal(result["alive"].values, not_diverged(trajectory)):
        return []
    run = int(np.bincount(result["of_run"].values, minlength=trajectory.sizes["run"]).argmax())
    again, of = event_table(trajectory_scalar(trajectory.isel(run=[run]), name)), result["of_run"].values == run
    for column in ("kind", "begin", "end"):
        if not np.array_equal(again[column].values, result[f"event_{column}"].values[of]):
            return []
    return result["spikes"].values.astype(int).tolist()


# ---------------------------------------------------------------------------------------------- choosing

_RUN_FILTERS: dict[str, tuple[str, Callable[[RunEntry], bool]]] = {
    "all": ("all runs", lambda entry: True),
    "successful": ("above .98", lambda entry: entry.successful is True),
    "failed": ("not above .98", lambda entry: entry.successful is False),
    "diverged": ("diverged", lambda entry: entry.status == "diverged"),
}
"""How runs may end, in words, and which have."""
RUN_ORDERS = {
    "place": "by seed", "accuracy": "best first", "imperfections": "fewest imperfections", "spikes": "most spikes",
}  # fmt: skip


def run_endings(entries: Sequence[RunEntry]) -> dict[str, str]:
    """How some runs have ended, of `WANTED`, in words: all, and what tells some of them from others."""
    found = {name: words for name, (words, has) in _RUN_FILTERS.items() if any(map(has, entries))}
    return {"all": _RUN_FILTERS["all"][0], **found}


def filter_runs(
    entries: Sequence[RunEntry], wanted: str = "all", kind: str = "", order: str = "place"
) -> list[RunEntry]:
    """Those of a kind (structure or circuit; "" is any) that end as wanted (of `WANTED`), in an order (of `ORDERS`)."""
    _, has = _RUN_FILTERS[wanted]
    found = [entry for entry in entries if has(entry) and (not kind or kind in entry.kinds)]
    sign = 1 if order in ("place", "imperfections") else -1

    def key(entry: RunEntry) -> tuple[bool, float]:
        value = getattr(entry, order)
        return value is None, sign * (value or 0)

    return sorted(found, key=key)


def run_table_lines(entries: Sequence[RunEntry]) -> tuple[str, list[str]]:
    """A header and a line for each run, in columns of equal width, of what is known of any of them."""
    table: dict[str, list[str]] = {"seed": [str(entry.seed) for entry in entries]}
    for title, name, form in (("acc", "accuracy", ".3f"), ("loss", "loss", ".3g"), ("imperf", "imperfections", "d"),
                              ("spikes", "spikes", "d")):  # fmt: skip
        values = [getattr(entry, name) for entry in entries]
        if any(value is not None for value in values):
            table[title] = ["" if value is None else format(value, form) for value in values]
    words = [" ".join((*entry.kinds, *(() if entry.status == "done" else (entry.status,)))) for entry in entries]
    widths = {title: max(map(len, (title, *cells))) for title, cells in table.items()}
    lines = [" ".join(cells[k].rjust(widths[title]) for title, cells in table.items()) for k in range(len(entries))]
    header = " ".join(title.rjust(widths[title]) for title in table)
    return header, [f"{line} {word}".rstrip() for line, word in zip(lines, words, strict=True)]


def first_run_to_show(entries: Sequence[RunEntry]) -> int:
    """The place of a run worth seeing first: the first that has succeeded, else the first."""
    return next((entry.place for entry in entries if entry.successful), 0)
