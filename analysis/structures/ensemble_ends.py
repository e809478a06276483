"""The last frames of ensembles of any size.

An ensemble that is too large for one trajectory is simulated in portions of its runs.
Only their last frames are stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
import xarray as xr

from analysis.output.results import labelled, write_result
from dynamics.branching import final_embedding
from dynamics.ensemble import Ensemble
from dynamics.errors import Interrupted, TrajectoryError
from dynamics.settings import Settings
from dynamics.trajectory.diverged import count_diverged
from dynamics.trajectory.netcdf import NETCDF_LOCK, READ_ERRORS
from dynamics.trajectory.reader import run_indices
from dynamics.trajectory.schema import read_settings

PORTION = 5_000
"""Largest number of runs that are simulated together and stored as a trajectory."""


class EnsembleEnds(NamedTuple):
    """Where the runs of an ensemble end that have not diverged."""

    settings: Settings
    steps: int
    embedding: np.ndarray
    """(run, token, axis)"""
    accuracy: np.ndarray
    """Accuracy on the validation split (run,); NaN without one"""
    diverged: int
    """Number of runs that have diverged"""


def ends_of_trajectory(trajectory: xr.Dataset) -> EnsembleEnds:
    """The last frames of a trajectory."""
    ends = final_embedding(trajectory)
    return EnsembleEnds(
        read_settings(trajectory),
        int(trajectory["step"][-1]),
        ends.values,
        end_accuracy(trajectory, ends["seed"].values),
        count_diverged(trajectory),
    )


def end_accuracy(trajectory: xr.Dataset, seeds: np.ndarray) -> np.ndarray:
    """Validation accuracy at the last step of the runs with these seeds, (run,); NaN
    without a validation split."""
    if "split" not in trajectory or "validation" not in trajectory["split"].values:
        return np.full(len(seeds), np.nan)
    last = (
        trajectory["accuracy"]
        .sel(split="validation")
        .isel(step=-1, run=run_indices(trajectory, seeds))
    )
    return last.values.astype(np.float64)


def simulate_ends(ensemble: Ensemble, label: str, log: TextIO) -> EnsembleEnds:
    """The last frames of an ensemble.

    Its trajectory is simulated, or found in runs/. An ensemble of more than `PORTION`
    runs has no trajectory: the last frames of each portion are stored in runs/, or found
    there, so that an interrupted computation continues with its portion. The name of
    each file is printed to `log` after a label. Raises what `simulate` raises."""
    if ensemble.runs <= PORTION:
        ends = ends_of_trajectory(ensemble.simulate(ensemble.path))
        print(f"{label}: {ensemble.path}{left_out(ends.diverged)}", file=log)
        return ends
    portions = []
    count = 0
    for portion in _portions(ensemble.resolved()):
        path, ends = _portion_ends(portion)
        portions.append(ends)
        count += portion.runs
        progress = f"{count} of {ensemble.runs} runs"
        print(f"{label}: {path}{left_out(ends.diverged)}, {progress}", file=log)
    return portions[0]._replace(
        embedding=np.concatenate([ends.embedding for ends in portions]),
        accuracy=np.concatenate([ends.accuracy for ends in portions]),
        diverged=sum(ends.diverged for ends in portions),
    )


def left_out(diverged: int) -> str:
    """Words for a number of runs that have diverged; empty for none."""
    return f", {diverged} runs diverged and left out" if diverged else ""


def _portions(ensemble: Ensemble) -> Iterator[Ensemble]:
    """An ensemble in portions, of which only the first and the last frame are
    recorded."""
    every = max(1, ensemble.schedule.steps)
    for begin in range(0, ensemble.runs, PORTION):
        yield dataclasses.replace(
            ensemble,
            runs=min(PORTION, ensemble.runs - begin),
            seed=ensemble.seed + begin,
            every=every,
        )


def _portion_ends(portion: Ensemble) -> tuple[Path, EnsembleEnds]:
    """The file of the last frames of a portion, and these."""
    steps = portion.schedule.steps
    identity = {"result_of": "analysis.paper", "portion": f"{portion.path}, {steps}"}
    path = portion.path.with_name(f"ends-{portion.path.stem}-{steps}.nc")
    if not path.exists():
        try:
            ends = ends_of_trajectory(portion.simulate())
        except Interrupted as error:  # the portions before are stored
            raise Interrupted(error.signum, path, error.step, error.steps) from error
        write_result(_dataset(ends).assign_attrs(identity), path)
    try:
        with NETCDF_LOCK, xr.open_dataset(path) as stored:
            if not identity.items() <= stored.attrs.items():
                raise TrajectoryError(f"{path}: is of something else; remove it")
            return path, EnsembleEnds(
                portion.settings,
                steps,
                stored["embedding"].values,
                stored["accuracy"].values,
                int(stored["diverged"]),
            )
    except READ_ERRORS as error:
        raise TrajectoryError(f"{path}: is damaged; remove it") from error


def _dataset(ends: EnsembleEnds) -> xr.Dataset:
    variables = labelled(
        ("run", "token", "axis"), embedding=(ends.embedding, "embedding")
    )
    variables |= labelled("run", accuracy=(ends.accuracy, "validation accuracy"))
    variables |= labelled((), diverged=(ends.diverged, "runs that diverged"))
    return xr.Dataset(variables)
