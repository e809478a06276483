"""Frames of the runs of a trajectory that have not diverged."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.reproduction.verification.experiment import Runner
from analysis.reproduction.verification.required_runs import RequiredRuns
from dynamics.tasks import all_pairs, training_pairs
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import read_settings

WEIGHTS = {
    "embedding": ("token", "axis"),
    "hidden_weight": ("hidden", "axis"),
    "hidden_bias": ("hidden",),
    "output_weight": ("class", "hidden"),
    "output_bias": ("class",),
}


def frame_values(trajectory: xr.Dataset, name: str, at: int) -> np.ndarray:
    """A weight or embedding of all runs in a recorded frame: (run, ...) float64."""
    return (
        trajectory[name]
        .isel(step=at)
        .transpose("run", *WEIGHTS[name])
        .values.astype(np.float64)
    )


def expand_to_runs(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Values of the runs that are kept, NaN of the others: kept (run,) bool ->
    (run,)."""
    result = np.full((len(kept), *np.shape(values)[1:]), np.nan)
    result[kept] = values
    return result


def measure_ensembles(
    runner: Runner,
    needs: Sequence[RequiredRuns],
    quantities: Mapping[str, str],
    measure_runs: Callable[[xr.Dataset], Mapping[str, np.ndarray]],
    dims: tuple[str, str],
) -> xr.Dataset:
    """Quantities of the runs of several ensembles, with dims for (ensemble, run); NaN
    for runs that diverged.

    quantities are names with descriptions. measure_runs is called with the runs of a
    trajectory that have not diverged, and returns values of these."""
    rows = []
    for need in tqdm(needs, unit="ensemble", disable=None, leave=False):
        trajectory = runner.ensemble(need)
        finite = not_diverged(trajectory)
        values = measure_runs(trajectory.isel(run=finite))
        rows.append({name: expand_to_runs(values[name], finite) for name in quantities})
    return xr.Dataset(
        {
            name: (
                dims,
                np.stack([row[name] for row in rows]),
                {"long_name": words, "units": "1"},
            )
            for name, words in quantities.items()
        }
    )


def training_pairs_of_runs(trajectory: xr.Dataset) -> np.ndarray:
    """The pairs of tokens that each network is trained on: (run, pair, 2)."""
    settings, seeds = read_settings(trajectory), trajectory["seed"].values
    n, count = settings.modulus, settings.train_pairs  # type: ignore[attr-defined]
    chosen = training_pairs(n, count, seeds)
    return np.broadcast_to(all_pairs(n), (*chosen.shape, 2))[chosen].reshape(
        len(seeds), count, 2
    )
