"""What is known of every run of a trajectory, to choose one by: its end, its structure, its circuit, its spikes.

Circuits and spikes are those of results that lie beside the file (`python -m analysis.circuits`, `analysis.events`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dynamics.settings import SUCCESS
from dynamics.storage import LOCK
from dynamics.trajectory import DIVERGED, RUNNING, settings_of

SCORED = ("test", "validation", "unseen", "train")
"""Splits by which a run is judged, the first that there is."""


@dataclass(frozen=True)
class Entry:
    """A run in words and numbers; None is not known."""

    place: int  # along `run`
    seed: int
    status: str  # done, running, diverged
    accuracy: float | None = None
    loss: float | None = None
    structure: str | None = None  # circle or grid, of embeddings of numbers modulo their number
    imperfections: int | None = None
    circuit: str | None = None
    spikes: int | None = None

    @property
    def successful(self) -> bool | None:
        """Whether it ended above .98."""
        if self.accuracy is None:
            return None
        return self.status != "diverged" and self.accuracy > SUCCESS

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it can be looked for by."""
        return tuple(filter(None, (self.structure, self.circuit)))


def catalogue(trajectory: xr.Dataset, path: Path | None = None) -> list[Entry]:
    """Every run of a trajectory. path: its file, beside which results may lie."""
    last = trajectory.isel(step=-1)
    runs = trajectory.sizes["run"]
    found: dict[str, Any] = {
        "seed": trajectory["seed"].values.tolist(),
        "status": [_status(each) for each in trajectory["status"].values],
        "accuracy": _scored(last, "accuracy"),
        "loss": _scored(last, "loss"),
    }
    found["structure"], found["imperfections"] = _structures(last)
    found["circuit"] = _beside(trajectory, path, "circuits", lambda result: result["label"].values.astype(str).tolist())
    found["spikes"] = _beside(trajectory, path, "events", _spikes)
    known = {name: values for name, values in found.items() if values}
    rows: list[dict[str, Any]] = [{name: values[place] for name, values in known.items()} for place in range(runs)]
    return [Entry(place, **row) for place, row in enumerate(rows)]


def _status(value: int) -> str:
    return {DIVERGED: "diverged", RUNNING: "running"}.get(int(value), "done")


def _scored(last: xr.Dataset, name: str) -> list[float | None]:
    """A metric at the end, of the split that counts."""
    if name not in last:
        return []
    split = next(split for split in (*SCORED, str(last["split"].values[0])) if split in last["split"].values)
    values = last[name].sel(split=split).values.astype(np.float64)
    return [float(value) if np.isfinite(value) else None for value in values]


def _structures(last: xr.Dataset) -> tuple[list[str], list[int]]:
    """Circle or grid, and grid imperfections, where tokens are numbers modulo their number."""
    if "embedding" not in last or last.sizes["token"] != settings_of(last).modulus or "position" in last.dims:
        return [], []
    from analysis.structures import imperfections, is_circle

    x = last["embedding"].transpose("run", "token", "axis").values.astype(np.float64)
    if x.shape[1] < 2 or not np.isfinite(x).all():
        return [], []
    return ["circle" if circle else "grid" for circle in is_circle(x)], imperfections(x).tolist()


def _beside(trajectory: xr.Dataset, path: Path | None, analysis: str, read: Callable[[xr.Dataset], list]) -> list:
    """What a result that lies beside the file says of every run, if it is of this file and these runs."""
    beside = path.with_name(f"{path.stem}-{analysis}.nc") if path else None
    if path is None or beside is None or not beside.is_file():
        return []
    try:
        with LOCK, xr.open_dataset(beside) as result:
            what = {"trajectory": path.name, "result_of": f"analysis.{analysis}"}
            same = all(result.attrs.get(name) == value for name, value in what.items())
            if not same or not np.array_equal(result["seed"].values, trajectory["seed"].values):
                return []
            return read(result)
    except (OSError, ValueError, KeyError):  # not ours; then nothing is said
        return []


def _spikes(result: xr.Dataset) -> list[int]:
    return result["spikes"].values.astype(int).tolist()


# ---------------------------------------------------------------------------------------------- choosing

WANTED = {"all": "all runs", "successful": "above .98", "failed": "not above .98", "diverged": "diverged"}
ORDERS = {
    "place": "by seed", "accuracy": "best first", "imperfections": "fewest imperfections", "spikes": "most spikes",
}  # fmt: skip


def chosen(entries: Sequence[Entry], wanted: str = "all", kind: str = "", order: str = "place") -> list[Entry]:
    """Those of a kind (structure or circuit; "" is any) that end as wanted (of `WANTED`), in an order (of `ORDERS`)."""
    tests: dict[str, Callable[[Entry], bool]] = {
        "all": lambda entry: True,
        "successful": lambda entry: bool(entry.successful),
        "failed": lambda entry: not entry.successful,
        "diverged": lambda entry: entry.status == "diverged",
    }
    found = [entry for entry in entries if tests[wanted](entry) and (not kind or kind in entry.kinds)]
    sign = 1 if order in ("place", "imperfections") else -1

    def key(entry: Entry) -> tuple[bool, float]:
        value = getattr(entry, order)
        return value is None, sign * (value or 0)

    return sorted(found, key=key)


def columns(entries: Sequence[Entry]) -> tuple[str, list[str]]:
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


def first_to_show(entries: Sequence[Entry]) -> int:
    """The place of a run worth seeing first: the first that has succeeded, else the first."""
    return next((entry.place for entry in entries if entry.successful), 0)
